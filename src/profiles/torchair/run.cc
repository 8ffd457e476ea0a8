#include "profiles/torchair/run.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/atomic_file.h"
#include "core/paths.h"
#include "format/csv.h"
#include "profiles/output_files.h"
#include "profiles/row_verdict.h"
#include "profiles/torchair/compare.h"
#include "profiles/torchair/match.h"
#include "profiles/torchair/tree.h"
#include "profiles/verdict_screen.h"

namespace vernier::torchair {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kMostRowsOfACsv = 1'000'000;

// One rank of both sides; without a number where the layout has none.
struct RankJob {
  std::optional<std::uint64_t> rank;
  std::string target, golden;  // folders
};

// One report: a graph and the groups of tokens that belong to it.
struct GraphJob {
  std::optional<std::uint64_t> rank;
  GraphFile graph;
  bool is_only_graph = true;
  const TokenGroup* target = nullptr;
  const TokenGroup* golden = nullptr;
};

std::string ListOf(const std::map<std::uint64_t, TokenFiles>& tokens) {
  std::string text;
  for (const auto& [token, files] : tokens) text += (text.empty() ? "" : ", ") + std::to_string(token);
  return text;
}

// All tokens of one graph, as long as its pairs are worked on.
struct GraphTokens {
  std::map<std::uint64_t, GeToken> target, golden_ge;
  std::map<std::uint64_t, FxToken> golden_fx;
  Matching matching;

  bool any_shrunk() const {
    return std::any_of(matching.pairs.begin(), matching.pairs.end(),
                       [](const TensorPair& pair) { return pair.target.shrunk() || pair.golden.shrunk(); });
  }
};

class TorchairRun {
 public:
  TorchairRun(const Settings& settings, const CompareHooks& hooks)
      : settings_(settings),
        hooks_(hooks),
        warn_([this](const std::string& line) { Log(LogLevel::kWarning, line); }),
        target_(settings.target),
        golden_(settings.golden) {}

  Result<CompareOutcome> Go() {
    golden_is_ge_ = !GraphFiles(golden_, std::nullopt).empty();
    if (GraphFiles(target_, std::nullopt).empty()) {
      return Error{ErrorCode::kNotADump, settings_.target,
                   "Can not get ge graph, Please check whether the input path contains graph."};
    }
    if (settings_.digests && !golden_is_ge_) {
      return Error{ErrorCode::kBadArgument, "--md5",
                   settings_.golden + " is an FX dump, whose bytes never equal those of a GE dump"};
    }
    Log(LogLevel::kInfo, golden_is_ge_ ? "Comparing GE with GE" : "Comparing GE with FX");
    VN_ASSIGN_OR_RETURN(const std::vector<RankJob> jobs, RankJobs());
    if (!settings_.output_folder.empty()) {
      VN_ASSIGN_OR_RETURN(ResultStamp stamp, ResultStamp::Reserve(settings_.output_folder, /*utc=*/true));
      stamp_.emplace(std::move(stamp));
    }
    std::optional<Error> failure;
    for (const RankJob& job : jobs) {
      Result<Done> compared = CompareRank(job);
      if (compared) continue;
      if (compared.error().code == ErrorCode::kCancelled || jobs.size() == 1) return compared.error();
      Log(LogLevel::kError, fmt::format("rank {}: {}", *job.rank, compared.error().Message()));
      failure = std::move(compared).error();
      ++outcome_.num_skipped_ranks;
    }
    if (failure && (settings_.as_msprobe || outcome_.ranks.empty())) return *failure;
    outcome_.verdict = VerdictOf(outcome_);
    outcome_.status = StatusOf(outcome_, settings_.strict);
    if (stamp_)
      VN_RETURN_IF_ERROR(WriteSummary(settings_.output_folder, stamp_->text(), "torchair", outcome_));
    return std::move(outcome_);
  }

 private:
  void Log(LogLevel level, std::string_view line) const {
    if (hooks_.on_log) hooks_.on_log(level, line);
  }

  Result<std::vector<RankJob>> RankJobs() {
    const std::map<std::uint64_t, std::string> target = RankFolders(target_), golden = RankFolders(golden_);
    std::vector<RankJob> jobs;
    if (target.empty()) {
      if (settings_.rank)
        Log(LogLevel::kWarning, "The target has no rank folders, --rank is without effect.");
      if (golden.size() > 1) {
        return Error{ErrorCode::kNoPair, settings_.golden,
                     fmt::format("{} ranks, and the target has no rank folders", golden.size())};
      }
      jobs.push_back(
          {std::nullopt, target_.root(), golden.empty() ? golden_.root() : golden.begin()->second});
      return jobs;
    }
    if (settings_.rank && !target.contains(*settings_.rank))
      return Error{ErrorCode::kNotFound, settings_.target,
                   fmt::format("no folder of rank {}", *settings_.rank)};
    for (const auto& [rank, folder] : target) {
      if (settings_.rank && rank != *settings_.rank) continue;
      if (const auto row = golden.find(rank); row != golden.end()) {
        jobs.push_back({rank, folder, row->second});
      } else if (golden.empty() && (target.size() == 1 || settings_.rank)) {
        jobs.push_back({rank, folder, golden_.root()});  // as the documents of 7.1.0 show it
      } else {
        missing_ranks_.push_back({true, std::nullopt, "", folder, Reason::kRankMissing});
      }
    }
    if (jobs.empty()) {
      return Error{ErrorCode::kNoPair, settings_.golden, "No common rank data in golden_path and my_path."};
    }
    for (const auto& [rank, folder] : golden) {
      if (!target.contains(rank))
        missing_ranks_.push_back({false, std::nullopt, "", folder, Reason::kRankMissing});
    }
    for (const Unmatched& missing : missing_ranks_)
      Log(LogLevel::kWarning, missing.path + ": the other side has no such rank");
    return jobs;
  }

  Result<Done> CompareRank(const RankJob& rank) {
    const std::vector<GraphFile> graphs = GraphFiles(target_, rank.rank);
    if (graphs.empty()) {
      return Error{ErrorCode::kNotADump, rank.target,
                   "Can not get ge graph, Please check whether the input path contains graph."};
    }
    const std::vector<TokenGroup> target = GeGroups(target_, rank.target);
    const std::vector<TokenGroup> golden =
        golden_is_ge_ ? GeGroups(golden_, rank.golden) : FxGroups(golden_, rank.golden, warn_);
    VN_RETURN_IF_ERROR(CheckFiles(target, rank.target, "ge"));
    VN_RETURN_IF_ERROR(CheckFiles(golden, rank.golden, golden_is_ge_ ? "ge" : "fx"));
    std::vector<GraphJob> jobs;
    for (std::size_t i = 0; i < graphs.size(); ++i) {
      GraphJob job{rank.rank, graphs[i], graphs.size() == 1, i < target.size() ? &target[i] : nullptr,
                   GoldenGroup(golden, graphs, i)};
      if (job.target != nullptr && job.golden != nullptr) {
        jobs.push_back(job);
        continue;
      }
      Log(LogLevel::kWarning, fmt::format("{}: {} has no dump of this graph", graphs[i].path,
                                          job.target == nullptr ? rank.target : rank.golden));
      missing_ranks_.push_back({job.target != nullptr, std::nullopt, fmt::format("graph {}", graphs[i].id),
                                graphs[i].path, Reason::kNoPartner});
    }
    if (jobs.empty()) return Error{ErrorCode::kNoPair, rank.golden, "no graph has dump data on both sides"};
    for (const GraphJob& job : jobs) VN_RETURN_IF_ERROR(CompareGraph(job, rank));
    return Done{};
  }

  static Result<Done> CheckFiles(const std::vector<TokenGroup>& groups, const std::string& folder,
                                 std::string_view kind) {
    const bool any = std::any_of(groups.begin(), groups.end(), [](const TokenGroup& group) {
      return std::any_of(group.tokens.begin(), group.tokens.end(),
                         [](const auto& token) { return !token.second.files.empty(); });
    });
    if (any) return Done{};
    return Error{ErrorCode::kNotADump, folder,
                 fmt::format("Cannot get {} dump data, because the gathered_files_list is empty.", kind)};
  }

  // By the number of the graph where the golden side shows it, else by position.
  static const TokenGroup* GoldenGroup(const std::vector<TokenGroup>& golden,
                                       const std::vector<GraphFile>& graphs, std::size_t position) {
    const auto with_id = [&](std::uint64_t id) {
      return std::find_if(golden.begin(), golden.end(),
                          [id](const TokenGroup& group) { return group.id == id; });
    };
    const bool by_id = std::any_of(graphs.begin(), graphs.end(),
                                   [&](const GraphFile& graph) { return with_id(graph.id) != golden.end(); });
    if (by_id) {
      const auto row = with_id(graphs[position].id);
      return row == golden.end() ? nullptr : &*row;
    }
    return position < golden.size() ? &golden[position] : nullptr;
  }

  void MatchTokens(const GraphJob& job, const Graph& graph, GraphTokens& tokens) {
    Log(LogLevel::kInfo, fmt::format("My token ids: {}; golden token ids: {}", ListOf(job.target->tokens),
                                     ListOf(job.golden->tokens)));
    Matching& matching = tokens.matching;
    matching.unmatched = std::exchange(missing_ranks_, {});
    for (const auto& [token, files] : job.target->tokens) {
      const auto golden = job.golden->tokens.find(token);
      if (golden == job.golden->tokens.end()) {
        Log(LogLevel::kWarning, fmt::format("My token_id {} not found in golden dump data", token));
        matching.unmatched.push_back({true, token, "", files.folders.front(), Reason::kTokenMissing});
        continue;
      }
      Log(LogLevel::kInfo, fmt::format("Comparing token_id: {}", token));
      GeToken& target = tokens.target[token] = ReadGeToken(files, warn_);
      ReadHeaders(target, settings_.num_threads);
      if (golden_is_ge_) {
        GeToken& other = tokens.golden_ge[token] = ReadGeToken(golden->second, warn_);
        ReadHeaders(other, settings_.num_threads);
        MatchGeWithGe(token, graph, target, other, warn_, matching);
      } else {
        const FxToken& other = tokens.golden_fx[token] = ReadFxToken(golden->second);
        MatchGeWithFx(token, graph, target, other, warn_, matching);
      }
    }
    for (const auto& [token, files] : job.golden->tokens) {
      if (!job.target->tokens.contains(token))
        matching.unmatched.push_back({false, token, "", files.folders.front(), Reason::kTokenMissing});
    }
  }

  Result<Done> CompareGraph(const GraphJob& job, const RankJob& rank) {
    VN_ASSIGN_OR_RETURN(const Graph graph, Graph::Read(job.graph.path));
    GraphTokens tokens;
    MatchTokens(job, graph, tokens);
    GraphOptions options;
    options.mode = settings_.digests ? Mode::kDigest : tokens.any_shrunk() ? Mode::kShrunk : Mode::kReal;
    options.highlight = settings_.highlight;
    options.rank = rank.rank ? std::to_string(*rank.rank) : "";
    options.num_threads = settings_.num_threads;
    VN_ASSIGN_OR_RETURN(ResultReports reports,
                        CreateReports(job, options.mode, tokens.matching.pairs.size()));
    VN_ASSIGN_OR_RETURN(GraphCounts counts, ComparePairs(tokens.matching, options, hooks_, reports));
    Count(job, rank, tokens, counts);
    reports.SetFrontPage(SummaryOf(job, options.mode, tokens, counts, /*colour=*/false));
    VN_ASSIGN_OR_RETURN(const std::vector<KeptRow> shown, reports.Finish());
    for (const fs::path& path : reports.paths()) {
      if (IsStandardOutput(path.string())) continue;
      Log(LogLevel::kInfo, fmt::format("Saved comparing results: {}", path.string()));
      outcome_.written.push_back(path.string());
    }
    VN_RETURN_IF_ERROR(WriteUnmatched(job, tokens.matching));
    if (!hooks_.screen.quiet)
      outcome_.text +=
          TableOf(options.mode, shown) + SummaryOf(job, options.mode, tokens, counts, hooks_.screen.colour);
    outcome_.ranks.push_back(std::move(counts.outcome));
    return Done{};
  }

  std::string StemOf(const GraphJob& job) const {
    std::string stem = "msprobe_cmp_report";
    if (job.rank) stem += fmt::format("_rank{}", *job.rank);
    if (!job.is_only_graph) stem += fmt::format("_graph{}", job.graph.id);
    return stem + "_" + stamp_->text();
  }

  Result<ResultReports> CreateReports(const GraphJob& job, Mode mode, std::size_t num_pairs) {
    ResultReports::Options options;
    for (const Column& column : ColumnsOf(mode))
      options.columns.push_back({std::string(column.key), column.good});
    if (stamp_) {
      options.files.push_back(
          {settings_.output_folder / fmt::format("{}.{}", StemOf(job), Name(settings_.format)),
           settings_.format});
    }
    if (!settings_.outputs.empty()) {
      if (num_files_++ > 0) {
        return Error{ErrorCode::kBadArgument, settings_.outputs[0].path.string(),
                     "several ranks or graphs cannot go into one file; give a folder"};
      }
      options.files.insert(options.files.end(), settings_.outputs.begin(), settings_.outputs.end());
    }
    options.select = settings_.select;
    options.report.style.max_rows_of_a_csv = kMostRowsOfACsv;
    options.report.num_rows = num_pairs;
    options.num_threads = settings_.num_threads;
    return ResultReports::Create(std::move(options));
  }

  // Beside every report in a folder, also when there is nothing to list.
  Result<Done> WriteUnmatched(const GraphJob& job, const Matching& matching) {
    if (!stamp_) return Done{};
    const fs::path path = settings_.output_folder / (StemOf(job) + "_unmatched.csv");
    std::string text = "side,rank,graph,token_id,name,path,reason\n";
    for (const Unmatched& item : matching.unmatched) {
      text += item.in_target ? "target," : "golden,";
      text += (job.rank && item.reason != Reason::kRankMissing ? std::to_string(*job.rank) : "") + ",";
      text += (item.reason != Reason::kRankMissing ? std::to_string(job.graph.id) : "") + ",";
      text += (item.token ? std::to_string(*item.token) : "") + ",";
      AppendCsvText(SpreadsheetSafe(item.name), text);
      text += ',';
      AppendCsvText(SpreadsheetSafe(item.path), text);
      text += fmt::format(",{}\n", Name(item.reason));
    }
    VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
    VN_RETURN_IF_ERROR(file.Write(text));
    VN_RETURN_IF_ERROR(file.Commit());
    outcome_.written.push_back(path.string());
    return Done{};
  }

  void Count(const GraphJob& job, const RankJob& rank, const GraphTokens& tokens, GraphCounts& counts) {
    RankOutcome& outcome = counts.outcome;
    outcome.rank = rank.rank ? std::to_string(*rank.rank) : "";
    if (!job.is_only_graph) outcome.rank += fmt::format("{}graph{}", rank.rank ? "/" : "", job.graph.id);
    outcome.target = rank.target;
    outcome.golden = rank.golden;
    std::uint64_t alone_target = 0;
    for (const Unmatched& item : tokens.matching.unmatched)
      (item.in_target ? alone_target : outcome.num_only_golden) += 1;
    outcome.num_target = outcome.num_matched + alone_target;
    outcome.num_golden = outcome.num_matched + outcome.num_only_golden;
    outcome.num_matched_by.emplace_back(golden_is_ge_ ? "operator name" : "FX node", outcome.num_matched);
    JudgeRows({counts.num_same, /*fuses=*/true}, settings_.rules, outcome);
  }

  static std::string SummaryOf(const GraphJob& job, Mode mode, const GraphTokens& tokens,
                               const GraphCounts& counts, bool colour);
  std::string TableOf(Mode mode, const std::vector<KeptRow>& shown) const;

  const Settings& settings_;
  const CompareHooks& hooks_;
  const Warn warn_;
  const Tree target_, golden_;
  bool golden_is_ge_ = false;
  std::vector<Unmatched> missing_ranks_;  // and graphs: they go into the next file
  std::optional<ResultStamp> stamp_;
  int num_files_ = 0;
  CompareOutcome outcome_;
};

// The rows that were asked for with --top.
std::string TorchairRun::TableOf(Mode mode, const std::vector<KeptRow>& shown) const {
  constexpr std::string_view kShown[] = {"Result", "API Name",       "my_shape",
                                         "Cosine", "MaxRelativeErr", "Err_message"};
  using enum TableColumn::Cut;
  if (shown.empty()) return "";
  std::vector<TableColumn> columns;
  std::vector<std::size_t> places;
  const std::span<const Column> all = ColumnsOf(mode);
  for (const std::string_view key : kShown) {
    const auto row =
        std::find_if(all.begin(), all.end(), [&](const Column& known) { return known.key == key; });
    if (row == all.end()) continue;
    columns.push_back({std::string(key), key == "API Name" ? kMiddle : key == "Err_message" ? kEnd : kNever});
    places.push_back(static_cast<std::size_t>(row - all.begin()));
  }
  RowBlock rows(columns.size());
  for (const KeptRow& row : shown) {
    for (const std::size_t place : places) rows.cells.push_back(row.kept.cells()[place]);
    rows.colours.push_back(ColourOf(row.status));
  }
  return RenderTable(columns, rows, {hooks_.screen.width, hooks_.screen.colour, {}}) + "\n";
}

// One line of counts, what was left out, and the first failure.
std::string TorchairRun::SummaryOf(const GraphJob& job, Mode mode, const GraphTokens& tokens,
                                   const GraphCounts& counts, bool colour) {
  const RankOutcome& outcome = counts.outcome;
  std::string where;
  if (job.rank) where += fmt::format("rank {}, ", *job.rank);
  if (!job.is_only_graph) where += fmt::format("graph {}, ", job.graph.id);
  const std::uint64_t num_rows = outcome.num_passed + outcome.num_failed + outcome.num_errors;
  std::string text = fmt::format("{}{}: {} rows, {} pass, {} fail", where, Name(mode), num_rows,
                                 outcome.num_passed, outcome.num_failed);
  if (outcome.num_errors > 0) text += fmt::format(", {} could not be read", outcome.num_errors);
  std::uint64_t in_target = 0;
  for (const Unmatched& item : tokens.matching.unmatched) in_target += item.in_target;
  text += fmt::format("; without a partner: {} in target, {} in golden\n", in_target,
                      tokens.matching.unmatched.size() - in_target);
  if (counts.num_counts_differ + counts.num_one_sided_int8 > 0) {
    text += fmt::format(
        "  left out: {} pairs with different numbers of elements, {} with int8 on one side only\n",
        counts.num_counts_differ, counts.num_one_sided_int8);
  }
  text += VerdictLines(outcome, colour);
  if (!counts.first_failure.empty()) text += fmt::format("  first failure: {}\n", counts.first_failure);
  return text;
}

}  // namespace

Result<CompareOutcome> Run(const Settings& settings, const CompareHooks& hooks) {
  for (const std::string& path : {settings.target, settings.golden}) {
    if (!Exists(path)) return MissingPath(path);
    if (!IsFolder(path)) return Error{ErrorCode::kNotADump, path, "a dump of graph mode is a folder"};
  }
  std::error_code ignored;
  if (fs::equivalent(settings.target, settings.golden, ignored)) {
    return Error{ErrorCode::kBadArgument, settings.golden,
                 "target and golden are the same folder; the two dumps need different ones"};
  }
  return TorchairRun(settings, hooks).Go();
}

}  // namespace vernier::torchair

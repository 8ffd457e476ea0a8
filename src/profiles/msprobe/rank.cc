#include "profiles/msprobe/rank.h"

#include <algorithm>

#include <fmt/format.h>
#include <sys/types.h>

#include "core/atomic_file.h"
#include "core/json_writer.h"
#include "core/threads.h"
#include "profiles/msprobe/columns.h"
#include "profiles/msprobe/context.h"
#include "profiles/msprobe/rank_verdict.h"
#include "profiles/msprobe/run.h"
#include "profiles/msprobe/table_builder.h"
#include "profiles/verdict_screen.h"
#include "read/name_mapping.h"

namespace vernier::msprobe {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBatchRows = 512;
constexpr mode_t kFileMode = 0640;

RowMatchOptions MatchOptionsOf(const RankJob& job, const Settings& settings, const Mappings& mappings) {
  const Profile& profile = ProfileOf(settings.generation);
  RowMatchOptions match;
  match.rule = mappings.data                            ? PairRule::kDataMapping
               : settings.match == MatchMode::kFuzzy    ? PairRule::kFuzzy
               : settings.match == MatchMode::kPosition ? PairRule::kPosition
               : mappings.cell                          ? PairRule::kCellMapping
                                                        : PairRule::kExact;
  match.shape_is_part_of_the_key = profile.shape_is_part_of_the_key && match.rule != PairRule::kDataMapping;
  match.renumber_backward =
      profile.renumber_backward && job.kind == DumpKind::kDump && match.rule != PairRule::kFuzzy;
  match.data_mapping = mappings.data ? &*mappings.data : nullptr;
  match.cell_mapping = match.rule == PairRule::kCellMapping ? &*mappings.cell : nullptr;
  match.renames = &settings.renames;
  return match;
}

void WarnOfUnknownNames(const DataMapping& mapping, const DumpPair& dumps, Log& log) {
  const auto names = [](const Dump& dump) {
    std::unordered_set<std::string> all;
    for (std::size_t row = 0; row < dump.rows().size(); ++row) all.insert(dump.NameOf(row));
    return all;
  };
  NameMapping sorted(mapping.begin(), mapping.end());
  std::sort(sorted.begin(), sorted.end());
  const std::string warning = UnknownNames(sorted, names(dumps.npu), names(dumps.bench));
  if (!warning.empty()) log.Warning(warning);
}

// The good end of the numbers of a column.
Good GoodOf(std::string_view heading) {
  const auto has = [&](std::string_view part) { return heading.find(part) != std::string_view::npos; };
  if (has("Cosine") || has("Ratio")) return Good::kLarge;
  return has("Err") || has("diff") || has("Dist") ? Good::kSmall : Good::kNeither;
}

// What happens to finished rows, in table order.
class RowConsumer {
 public:
  RowConsumer(const TableBuilder& builder, const Settings& settings, const Rules& rules, RankVerdict& verdict,
              RankResult& result, Log& log)
      : builder_(builder),
        settings_(settings),
        rules_(rules),
        result_(result),
        log_(log),
        verdict_(verdict),
        advisor_(rules) {}

  Result<Done> Open() {
    const bool as_table = !settings_.diff_analyze;
    const bool as_json = settings_.Writes(ReportFormat::kJson) || settings_.Writes(ReportFormat::kJsonl);
    columns_ = ColumnsOf(settings_.generation, builder_.mode(), as_table && builder_.with_stack(),
                         as_table && as_json, builder_.with_estimates());
    for (const Column& column : columns_) headings_.emplace_back(column.heading);
    return settings_.diff_analyze ? OpenAnalysis() : OpenReports();
  }

  std::size_t num_columns() const { return columns_.size(); }

  // On any thread.
  Result<Done> Render(Batch& batch) const {
    for (const ResultRow& row : batch.rows) batch.facts.push_back(FactsOf(builder_.mode(), row, batch.arena));
    if (analysis_) return Done{};
    batch.results.first_row = batch.first_row;
    for (const ResultRow& row : batch.rows) {
      for (const Column& column : columns_) {
        const Cell cell = column.cell(row, batch.results.arena);
        if (IsForbidden(cell)) VN_RETURN_IF_ERROR(Refuse(cell, batch));
        batch.results.rows.cells.push_back(cell);
      }
      batch.results.rows.colours.push_back(settings_.highlight ? row.colour : ColourOf(row.status()));
      batch.results.statuses.push_back(row.status());
      batch.results.severities.push_back(batch.facts[batch.results.severities.size()].error);
    }
    return reports_->Render(batch.results);
  }

  // In table order.
  Result<Done> Take(Batch& batch) {
    const std::span<const ResultRow> rows = batch.rows;
    for (std::size_t i = 0; i < rows.size(); ++i) verdict_.See(batch.first_row + i, rows[i], batch.facts[i]);
    for (std::size_t first = 0; first < rows.size();) {
      std::size_t last = first + 1;
      while (last < rows.size() && rows[last].record == rows[first].record) ++last;
      const auto record = rows.subspan(first, last - first);
      if (analysis_) VN_RETURN_IF_ERROR(Analyze(record));
      first = last;
    }
    if (analysis_) return Done{};
    for (const ResultRow& row : rows) See(row);
    for (const std::string& complaint : batch.complaints) {
      if (complaint != last_complaint_) log_.Error(last_complaint_ = complaint);
    }
    if (settings_.hooks.on_rows)
      settings_.hooks.on_rows(builder_.job().label, headings_, batch.results.rows, batch.results.statuses);
    return reports_->Take(batch.results);
  }

  // `describe` adds to the outcome what the rows do not tell.
  Result<Done> Finish(const std::function<void(RankOutcome&)>& describe) {
    verdict_.Conclude(result_.outcome, result_.trace);
    describe(result_.outcome);
    const bool missing = result_.outcome.culprit && result_.outcome.culprit->reason == "missing";
    AddContext(missing ? builder_.job().bench_json : builder_.job().npu_json, result_.outcome);
    if (analysis_) {
      VN_RETURN_IF_ERROR(analysis_->Write(num_analyzed_ == 0 ? "{}" : "\n}"));
      return analysis_->Commit();
    }
    reports_->SetFrontPage(RankScreen(result_.outcome));
    VN_ASSIGN_OR_RETURN(result_.shown, reports_->Finish());
    result_.columns = headings_;
    result_.written = reports_->paths();
    if (settings_.generation == Generation::kClassic && !settings_.output_path.empty()) {
      for (const fs::path& path : result_.written) RestrictMode(path, kFileMode);
      if (settings_.advise) return WriteAdvice();
    }
    return Done{};
  }

 private:
  fs::path ResultPath(std::string_view ending) const {
    const RankJob& job = builder_.job();
    const std::string prefix = job.kind == DumpKind::kDump ? "compare_result" : "debug_compare_result";
    return job.output / fmt::format("{}{}_{}.{}", prefix, job.suffix(), settings_.timestamp, ending);
  }

  Result<Done> OpenAnalysis() {
    const fs::path path = ResultPath("json");
    VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
    analysis_.emplace(std::move(file));
    result_.analyzed.emplace();
    result_.written.push_back(path);
    return Done{};
  }

  Result<Done> OpenReports() {
    ResultReports::Options options;
    // A file of the user's choice looks like ours; those of the result folder like msprobe's.
    for (OutputFile file : settings_.outputs) {
      file.style = TableStyle();
      file.style->marks_formulas = false;
      options.files.push_back(std::move(file));
    }
    if (!settings_.output_path.empty())
      options.files.push_back({ResultPath(vernier::Name(settings_.format)), settings_.format});
    for (const Column& column : columns_)
      options.columns.push_back({std::string(column.heading), GoodOf(column.heading)});
    options.select = settings_.select;
    options.report.style = StyleOf(settings_.highlight);
    options.report.num_rows = builder_.num_rows();
    options.num_threads = builder_.job().num_threads;
    VN_ASSIGN_OR_RETURN(ResultReports reports, ResultReports::Create(std::move(options)));
    reports_.emplace(std::move(reports));
    return Done{};
  }

  // A text that a spreadsheet might run ends the job, as it does in the reference; with colours it is written
  // and complained about. Formats that no spreadsheet opens do not mind.
  Result<Done> Refuse(const Cell& cell, Batch& batch) const {
    for (const fs::path& path : reports_->paths()) {
      const fs::path ending = path.extension();
      if (ending != ".csv" && ending != ".xlsx") continue;
      std::string text = fmt::format("Malicious value [{}] not allowed to be written into the {}: {}.",
                                     cell.text, ending == ".csv" ? "csv" : "excel", path.string());
      if (!settings_.highlight || ending == ".csv")
        return Error{ErrorCode::kBadArgument, "", std::move(text)};
      batch.complaints.push_back(std::move(text));
    }
    return Done{};
  }

  void See(const ResultRow& row) {
    if (settings_.generation != Generation::kClassic) return;
    advisor_.See(row);
    if (builder_.mode() != Mode::kReal) return;
    if (row.judged == Judged::kShapesDiffer) {
      log_.Warning(
          fmt::format("The tensor name matches but the shape or dtype does not match: {}", row.npu_name));
    }
    if (row.judged == Judged::kNoNumbers && !warned_) {
      warned_ = true;
      log_.Warning("Cosine or MaxAbsErr can not get float value.");
    }
  }

  Result<Done> WriteAdvice() {
    const fs::path path =
        builder_.job().output / fmt::format("advisor{}_{}.txt", builder_.job().suffix(), settings_.timestamp);
    if (advisor_.found()) {
      log_.Warning(
          fmt::format("Find {} accuracy not reached, the line is {}", advisor_.name(), advisor_.line()));
    } else {
      log_.Info("All data from api input/output accuracy reached");
    }
    log_.Info("The summary of the expert advice is as follows: ");
    VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
    for (const std::string& line : advisor_.Lines()) {
      log_.Info(line);
      VN_RETURN_IF_ERROR(file.Write(line + '\n'));
    }
    VN_RETURN_IF_ERROR(file.Commit());
    RestrictMode(path, kFileMode);
    log_.Info(fmt::format("The advisor summary is saved in: {}", path.string()));
    result_.written.push_back(path);
    return Done{};
  }

  // -da: one object for each record, in Python's layout of four blanks.
  Result<Done> Analyze(std::span<const ResultRow> record) {
    const std::string_view name = record[0].api;
    if (std::count(name.begin(), name.end(), '.') < 3) return Done{};
    AnalyzedOp op = AnalyzeRecord(builder_.mode(), rules_, record);
    if (builder_.with_stack()) op.stack = builder_.dumps().stack->Lines(name);
    std::string json = num_analyzed_++ == 0 ? "{\n    " : ",\n    ";
    AppendJsonString(name, json, JsonText::kUtf8);
    json += fmt::format(": {{\n        \"is_same\": {},\n        \"op_items\": [", op.is_same);
    for (std::size_t i = 0; i < record.size(); ++i) {
      json += i == 0 ? "\n            " : ",\n            ";
      AppendAnalyzedRow(record[i], op, json);
    }
    json += "\n        ]\n    }";
    result_.analyzed->ops.push_back(std::move(op));
    return analysis_->Write(json);
  }

  void AppendAnalyzedRow(const ResultRow& row, const AnalyzedOp& op, std::string& json) const {
    constexpr std::string_view kSeparator = ",\n                ";
    TextArena arena;
    std::vector<Cell> cells;
    for (const Column& column : columns_) cells.push_back(column.cell(row, arena));
    AppendJsonRow(headings_, cells, JsonFloat::kBareWords, 16, json);
    const bool has_no_message = settings_.generation == Generation::kCurrent && builder_.mode() == Mode::kMd5;
    if (has_no_message) json.replace(json.rfind("\"\""), 2, "NaN");  // an empty column of the reference
    if (builder_.with_stack()) {
      json += kSeparator;
      json += "\"NPU_Stack_Info\": ";
      AppendStack(row, op, json);
    }
    const std::pair<std::string_view, std::string_view> members[] = {
        {"state", msprobe::Name(row.state)},  {"api_origin_name", row.api},
        {"NPU P2POp op", row.npu.p2p_op},     {"Bench P2POp op", row.bench.p2p_op},
        {"NPU P2POp peer", row.npu.p2p_peer}, {"Bench P2POp peer", row.bench.p2p_peer}};
    for (const auto& [key, value] : members) {
      json += kSeparator;
      AppendJsonString(key, json, JsonText::kUtf8);
      json += ": ";
      AppendJsonString(value, json, JsonText::kUtf8);
    }
    json += "\n            }";
  }

  static void AppendStack(const ResultRow& row, const AnalyzedOp& op, std::string& json) {
    if (row.stack == "N/A") return AppendJsonString(row.stack, json, JsonText::kUtf8);
    json += '[';
    for (std::size_t i = 0; i < op.stack.size(); ++i) {
      json += i == 0 ? "\n                    " : ",\n                    ";
      AppendJsonString(op.stack[i], json, JsonText::kUtf8);
    }
    json += "\n                ]";
  }

  const TableBuilder& builder_;
  const Settings& settings_;
  const Rules& rules_;
  RankResult& result_;
  Log& log_;
  std::vector<Column> columns_;
  std::vector<std::string> headings_;
  std::optional<ResultReports> reports_;
  std::optional<AtomicFile> analysis_;
  std::size_t num_analyzed_ = 0;
  std::string last_complaint_;
  RankVerdict& verdict_;
  Advisor advisor_;
  bool warned_ = false;
};

// A batch on its way from the threads that make it to the one that takes it.
struct Product {
  std::size_t number = 0;
  std::unique_ptr<Batch> batch;
  Result<Done> done{Done{}};
};

const Error kInterrupted{ErrorCode::kCancelled, "", "interrupted"};

Result<Done> CompareRecorded(const TableBuilder& builder, const Settings& settings, RowConsumer& consumer) {
  const std::vector<std::size_t> boundaries = builder.Boundaries(kBatchRows);
  Result<Done> taken = Done{};
  const auto build = [&](Product& product) {
    product.batch = std::make_unique<Batch>(consumer.num_columns());
    builder.Build(boundaries[product.number], boundaries[product.number + 1], *product.batch);
    product.done = consumer.Render(*product.batch);
  };
  const auto take = [&](Product&& product) {
    const std::size_t i = product.number;
    taken = product.done ? consumer.Take(*product.batch) : product.done;
    if (taken && settings.hooks.stop.stop_requested()) taken = kInterrupted;
    // One batch late: a batch begins on the page its predecessor ended on.
    if (i > 0) builder.Release(boundaries[i - 1], boundaries[i]);
    if (settings.hooks.on_progress) settings.hooks.on_progress({boundaries[i + 1], builder.num_rows(), 0, 0});
    return taken.has_value();
  };
  OrderedQueue<Product> queue(builder.job().num_threads, build, take);
  for (std::size_t i = 0; i + 1 < boundaries.size(); ++i) {
    if (!queue.Push({i, nullptr})) break;
  }
  queue.Finish();
  return taken;
}

void LogRow(const ResultRow& row, RealState state, std::string_view message, Log& log) {
  if (state < RealState::kReadFailed) return log.Info(message);
  log.Info(fmt::format("start compare: {}", row.npu_name));
  log.Info(
      fmt::format("[{}] Compare result: cosine {}, euc_dist {}, max_abs_err {}, max_relative_err {}, "
                  "one_thousand_err_ratio {}, five_thousand_err_ratio {}, {}",
                  row.npu_name, CellText(row.metrics[kCosine]), CellText(row.metrics[kEucDist]),
                  CellText(row.metrics[kMaxAbsErr]), CellText(row.metrics[kMaxRelativeErr]),
                  CellText(row.metrics[kOneThousandth]), CellText(row.metrics[kFiveThousandths]), message));
}

Result<Done> CompareReal(const TableBuilder& builder, const Settings& settings, RowConsumer& consumer,
                         Log& log) {
  const RealLoader loader(builder);
  for (const std::string& warning : loader.warnings()) log.Warning(warning);
  std::vector<RealOutcome> outcomes(builder.num_rows());
  const std::vector<std::size_t> boundaries = builder.Boundaries(kBatchRows);
  std::size_t next_boundary = 1;
  Result<Done> taken = Done{};
  std::stop_source stop;  // of the measuring, when it is asked for or a report cannot be written
  const std::stop_callback forward(settings.hooks.stop, [&] { stop.request_stop(); });
  OrderedQueue<Product> queue(
      builder.job().num_threads,
      [&](Product& product) {
        builder.Judge(product.batch->rows);
        product.done = consumer.Render(*product.batch);
      },
      [&](Product&& product) {
        taken = product.done ? consumer.Take(*product.batch) : product.done;
        if (!taken) stop.request_stop();
        return taken.has_value();
      });
  const auto new_batch = [&] { return std::make_unique<Batch>(consumer.num_columns()); };
  std::unique_ptr<Batch> batch = new_batch();
  const auto sink = [&](std::size_t index, const Result<PairMeasures>& measures) {
    if (!measures && measures.error().code == ErrorCode::kCancelled) return;
    RealOutcome& outcome = outcomes[index];
    const bool was_loaded = outcome.state == RealState::kScalar || outcome.state == RealState::kTensor;
    if (was_loaded && !measures) outcome.state = RealState::kReadFailed;  // the file changed under us
    const PairMeasures* kept = was_loaded && measures ? &batch->measures.emplace_back(*measures) : nullptr;
    if (batch->rows.empty()) batch->first_row = index;
    ResultRow& row = batch->rows.emplace_back();
    if (outcome.read) {
      row = std::move(outcome.read->row);
      batch->row_arenas.push_back(std::move(outcome.read->arena));
      outcome.read.reset();
    } else {
      row = builder.Read(index, batch->arena);
    }
    builder.FillReal(outcome, kept, row);
    if (settings.log_rows) LogRow(row, outcome.state, row.message, log);
    if (index + 1 != boundaries[next_boundary]) return;
    ++next_boundary;
    queue.Push({0, std::exchange(batch, new_batch())});
  };
  MeasureOptions options;
  options.groups = Group::kDiff | Group::kStats | Group::kRelative;
  // The one output that keeps everything measured.
  if (settings.Writes(ReportFormat::kJsonl)) options.groups = options.groups | Group::kDetails;
  options.relative = builder.profile().relative;
  options.real_part_only = true;
  options.num_threads = builder.job().num_threads;
  BatchHooks hooks;
  hooks.stop = stop.get_token();
  if (settings.hooks.on_progress) {
    hooks.on_progress = [&](const MeasureProgress& done) {
      settings.hooks.on_progress({done.items_done, builder.num_rows(), done.bytes_done, 0});
    };
  }
  MeasurePairs(
      builder.num_rows(), [&](std::size_t index) { return loader.Load(index, outcomes[index]); }, options,
      sink, hooks);
  queue.Finish();
  if (settings.hooks.stop.stop_requested()) return kInterrupted;
  return taken;
}

// What the verdict pairs differently from the table.
Result<Done> SeeRest(const TableBuilder& table, const Settings& settings, const Rules& rules,
                     RankVerdict& verdict) {
  const std::vector<RowPair> pairs = verdict.Rest();
  if (pairs.empty()) return Done{};
  RowMatchOptions as_given;
  as_given.rule = PairRule::kDataMapping;  // shapes and dtypes part nothing
  const TableBuilder builder(table.dumps(), table.job(), settings, as_given, rules, pairs);
  const auto see = [&](std::size_t i, RealOutcome* outcome, const PairMeasures* measures) {
    TextArena arena;
    ResultRow row = builder.Read(i, arena);
    if (outcome != nullptr) row.measures = measures;
    verdict.SeeRest(pairs[i], FactsOf(builder.mode(), row, arena));
  };
  if (builder.mode() != Mode::kReal) {
    for (std::size_t i = 0; i < pairs.size(); ++i) see(i, nullptr, nullptr);
    return Done{};
  }
  const RealLoader loader(builder);
  std::vector<RealOutcome> outcomes(pairs.size());
  MeasureOptions options;
  options.groups = Group::kDiff | Group::kStats;
  options.num_threads = builder.job().num_threads;
  BatchHooks hooks;
  hooks.stop = settings.hooks.stop;
  MeasurePairs(
      pairs.size(), [&](std::size_t i) { return loader.Load(i, outcomes[i]); }, options,
      [&](std::size_t i, const Result<PairMeasures>& measures) {
        see(i, &outcomes[i], measures ? &*measures : nullptr);
      },
      hooks);
  if (settings.hooks.stop.stop_requested()) return kInterrupted;
  return Done{};
}

std::uint64_t CountUnused(const std::vector<RowPair>& pairs, std::size_t num_bench_rows) {
  std::vector<bool> used(num_bench_rows);
  for (const RowPair& pair : pairs) {
    if (pair.bench != kNoRow) used[pair.bench] = true;
  }
  return static_cast<std::uint64_t>(std::count(used.begin(), used.end(), false));
}

void LogMatching(const RankOutcome& outcome, PairRule rule, Log& log) {
  log.Info(fmt::format(
      "{}{} of {} NPU rows matched by {} ({:.1f} %), {} did not; {} of {} bench rows have no partner.",
      outcome.rank.empty() ? "" : outcome.rank + ": ", outcome.num_matched, outcome.num_target,
      msprobe::Name(rule), outcome.coverage() * 100, outcome.num_only_target(), outcome.num_only_golden,
      outcome.num_golden));
}

}  // namespace

Outcome<RankResult> CompareRank(const RankJob& job, const Settings& settings, const Mappings& mappings,
                                const Rules& rules, Log& log) {
  VN_ASSIGN_OR_RETURN(const DumpPair dumps, OpenDumps(job, settings, log));
  RankResult result;
  const RowMatchOptions match = MatchOptionsOf(job, settings, mappings);
  const auto describe = [&](std::uint64_t num_only_golden, RankOutcome& outcome) {
    outcome.rank = job.label;
    outcome.target = job.npu_json;
    outcome.golden = job.bench_json;
    outcome.num_golden = dumps.bench.rows().size();
    outcome.num_only_golden = num_only_golden;
    outcome.num_matched_by.emplace_back(msprobe::Name(match.rule), outcome.num_matched);
    outcome.torn = dumps.npu.torn() || dumps.bench.torn();
  };
  const bool classic = settings.generation == Generation::kClassic;
  if (dumps.npu.rows().empty() || (!classic && dumps.bench.rows().empty())) {
    log.Warning(classic ? "Can`t match any op. No compare result file generated."
                        : "No valid data found. No compare result file generated. Please check input json.");
    result.outcome.mode = msprobe::Name(Mode::kStatistics);
    describe(dumps.bench.rows().size(), result.outcome);
    return result;
  }
  if (match.rule == PairRule::kPosition) {
    const Result<Done> equal = CheckEqualCounts(dumps.npu.rows().size(), dumps.bench.rows().size(), "rows");
    if (!equal) return RunFailure(log, equal.error().Message());
  }
  if (match.data_mapping != nullptr) WarnOfUnknownNames(*match.data_mapping, dumps, log);
  Settings adjusted = settings;
  std::vector<RowPair> pairs = MatchRows(dumps.npu, dumps.bench, match);
  const std::uint64_t num_only_golden = CountUnused(pairs, dumps.bench.rows().size());
  const TableBuilder builder(dumps, job, adjusted, match, rules, std::move(pairs));
  dumps.npu.ReleasePages(0, dumps.npu.rows().size());
  dumps.bench.ReleasePages(0, dumps.bench.rows().size());
  if (settings.highlight && builder.num_rows() > kMaxSheetRows) {
    log.Warning(fmt::format("{} rows do not fit one sheet: the result is written without colour marks.",
                            builder.num_rows()));
    adjusted.highlight = false;
  }
  RankVerdict verdict(builder, settings, match, rules);
  RowConsumer consumer(builder, adjusted, rules, verdict, result, log);
  const auto run = [&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(consumer.Open());
    VN_RETURN_IF_ERROR(builder.mode() == Mode::kReal ? CompareReal(builder, adjusted, consumer, log)
                                                     : CompareRecorded(builder, adjusted, consumer));
    VN_RETURN_IF_ERROR(SeeRest(builder, adjusted, rules, verdict));
    return consumer.Finish([&](RankOutcome& outcome) { describe(num_only_golden, outcome); });
  };
  if (const Result<Done> done = run(); !done) {
    if (done.error().code == ErrorCode::kCancelled) return done.error();
    return RunFailure(log, done.error().where.empty() ? done.error().detail : done.error().Message());
  }
  LogMatching(result.outcome, match.rule, log);
  return result;
}

}  // namespace vernier::msprobe

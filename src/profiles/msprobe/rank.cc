#include "profiles/msprobe/rank.h"

#include <algorithm>

#include <fmt/format.h>
#include <sys/stat.h>

#include "core/atomic_file.h"
#include "profiles/msprobe/ordered_work.h"
#include "profiles/msprobe/table.h"
#include "profiles/msprobe/table_builder.h"

namespace vernier::msprobe {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBatchRows = 512;
constexpr mode_t kFileMode = 0640;

MatchOptions MatchOptionsOf(const RankJob& job, const Settings& settings, const Mappings& mappings) {
  const Profile& profile = ProfileOf(settings.generation);
  MatchOptions match;
  match.rule = mappings.data    ? PairRule::kDataMapping
               : settings.fuzzy ? PairRule::kFuzzy
               : mappings.cell  ? PairRule::kCellMapping
                                : PairRule::kExact;
  match.shape_is_part_of_the_key = profile.shape_is_part_of_the_key && match.rule != PairRule::kDataMapping;
  match.renumber_backward =
      profile.renumber_backward && job.kind == DumpKind::kDump && match.rule != PairRule::kFuzzy;
  match.data_mapping = mappings.data ? &*mappings.data : nullptr;
  match.cell_mapping = match.rule == PairRule::kCellMapping ? &*mappings.cell : nullptr;
  return match;
}

std::string_view Extension(ReportFormat format) {
  static constexpr std::string_view kExtensions[] = {".csv", ".xlsx", ".json", ".jsonl"};
  return kExtensions[static_cast<std::size_t>(format)];
}

// What happens to finished rows, in table order.
class RowConsumer {
 public:
  RowConsumer(const TableBuilder& builder, const Settings& settings, const Rules& rules, RankOutcome& outcome,
              Log& log)
      : builder_(builder),
        settings_(settings),
        rules_(rules),
        outcome_(outcome),
        log_(log),
        summary_(builder.mode(), rules),
        advisor_(rules) {}

  Result<Done> Open() {
    const RankJob& job = builder_.job();
    TableOptions options;
    options.format = settings_.format;
    options.generation = settings_.generation;
    options.mode = builder_.mode();
    options.with_stack = builder_.with_stack();
    options.num_rows = builder_.num_rows();
    options.coloured = settings_.highlight;
    const std::string prefix = job.kind == DumpKind::kDump ? "compare_result" : "debug_compare_result";
    fs::path path = job.output / fmt::format("{}{}_{}", prefix, job.suffix(), settings_.timestamp);
    path += settings_.diff_analyze ? ".json" : Extension(settings_.format);
    if (fs::exists(path)) {
      log_.Warning(fmt::format("{} will be deleted.", path.string()));
      std::error_code ignored;
      fs::remove(path, ignored);
    }
    if (settings_.diff_analyze) {
      columns_ = ColumnsOf(settings_.generation, builder_.mode(), false);
      VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
      analysis_.emplace(std::move(file));
      outcome_.analyzed.emplace();
      outcome_.written.push_back(path);
      return Done{};
    }
    VN_ASSIGN_OR_RETURN(table_, TableFile::Create(path, options));
    outcome_.written = table_->paths();
    return Done{};
  }

  // On any thread.
  Result<Rendered> Render(const Batch& batch) const {
    return table_ ? table_->Render(batch.first_row, batch.rows) : Result<Rendered>(Rendered());
  }

  // In table order.
  Result<Done> Take(const Batch& batch, const Rendered& rendered) {
    const std::span<const ResultRow> rows = batch.rows;
    for (std::size_t first = 0; first < rows.size();) {
      std::size_t last = first + 1;
      while (last < rows.size() && rows[last].record == rows[first].record) ++last;
      const auto record = rows.subspan(first, last - first);
      summary_.See(batch.first_row + first, record);
      if (analysis_) VN_RETURN_IF_ERROR(Analyze(record));
      first = last;
    }
    for (const ResultRow& row : rows) See(row);
    for (const RenderedPiece& piece : rendered) {
      for (const std::string& complaint : piece.complaints) {
        if (complaint != last_complaint_) log_.Error(last_complaint_ = complaint);
      }
    }
    return table_ ? table_->Append(rendered) : Result<Done>(Done{});
  }

  Result<Done> Finish() {
    outcome_.summary = summary_.Take();
    if (analysis_) {
      VN_RETURN_IF_ERROR(analysis_->Write(num_analyzed_ == 0 ? "{}" : "\n}"));
      return analysis_->Commit();
    }
    VN_RETURN_IF_ERROR(table_->Finish());
    if (settings_.generation == Generation::kClassic) {
      for (const fs::path& path : outcome_.written) chmod(path.c_str(), kFileMode);
      if (settings_.advise) return WriteAdvice();
    }
    return Done{};
  }

 private:
  void See(const ResultRow& row) {
    if (settings_.generation != Generation::kClassic || analysis_) return;
    advisor_.See(builder_.mode(), row);
    if (builder_.mode() != Mode::kReal) return;
    if (row.result == "Unmatched") {
      log_.Warning(
          fmt::format("The tensor name matches but the shape or dtype does not match: {}", row.npu_name));
    }
    if (row.result == "None" && !warned_) {
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
    chmod(path.c_str(), kFileMode);
    log_.Info(fmt::format("The advisor summary is saved in: {}", path.string()));
    outcome_.written.push_back(path);
    return Done{};
  }

  // -da: one object for each record, in Python's layout of four blanks.
  Result<Done> Analyze(std::span<const ResultRow> record) {
    const std::string_view name = record[0].api;
    if (std::count(name.begin(), name.end(), '.') < 3) return Done{};
    AnalyzedOp op = AnalyzeRecord(builder_.mode(), rules_, record);
    if (builder_.with_stack()) op.stack = builder_.dumps().stack->Lines(name);
    std::string json = num_analyzed_++ == 0 ? "{\n    " : ",\n    ";
    AppendJsonText(name, json);
    json += fmt::format(": {{\n        \"is_same\": {},\n        \"op_items\": [", op.is_same);
    for (std::size_t i = 0; i < record.size(); ++i) {
      json += i == 0 ? "\n            " : ",\n            ";
      AppendAnalyzedRow(record[i], op, json);
    }
    json += "\n        ]\n    }";
    outcome_.analyzed->ops.push_back(std::move(op));
    return analysis_->Write(json);
  }

  void AppendAnalyzedRow(const ResultRow& row, const AnalyzedOp& op, std::string& json) const {
    constexpr std::string_view kSeparator = ",\n                ";
    AppendJsonRow(columns_, row, true, 16, json);
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
      AppendJsonText(key, json);
      json += ": ";
      AppendJsonText(value, json);
    }
    json += "\n            }";
  }

  static void AppendStack(const ResultRow& row, const AnalyzedOp& op, std::string& json) {
    if (row.stack == "N/A") return AppendJsonText(row.stack, json);
    json += '[';
    for (std::size_t i = 0; i < op.stack.size(); ++i) {
      json += i == 0 ? "\n                    " : ",\n                    ";
      AppendJsonText(op.stack[i], json);
    }
    json += "\n                ]";
  }

  const TableBuilder& builder_;
  const Settings& settings_;
  const Rules& rules_;
  RankOutcome& outcome_;
  Log& log_;
  std::string last_complaint_;
  std::unique_ptr<TableFile> table_;
  std::optional<AtomicFile> analysis_;
  std::vector<Column> columns_;
  std::size_t num_analyzed_ = 0;
  SummaryBuilder summary_;
  Advisor advisor_;
  bool warned_ = false;
};

Result<Done> CompareRecorded(const TableBuilder& builder, const Settings& settings, RowConsumer& consumer) {
  struct Product {
    std::unique_ptr<Batch> batch;
    Result<Rendered> rendered{Rendered()};
  };
  const std::vector<std::size_t> boundaries = builder.Boundaries(kBatchRows);
  std::optional<Error> failure;
  RunOrdered(
      boundaries.size() - 1, builder.job().num_threads,
      [&](std::size_t i) {
        Product product{std::make_unique<Batch>()};
        builder.Build(boundaries[i], boundaries[i + 1], *product.batch);
        product.rendered = consumer.Render(*product.batch);
        return product;
      },
      [&](std::size_t i, Product&& product) {
        if (!product.rendered) {
          failure = product.rendered.error();
        } else if (const Result<Done> taken = consumer.Take(*product.batch, *product.rendered); !taken) {
          failure = taken.error();
        } else if (settings.stop.stop_requested()) {
          failure = Error{ErrorCode::kCancelled, "", "interrupted"};
        }
        // One batch late: a batch begins on the page its predecessor ended on.
        if (i > 0) builder.Release(boundaries[i - 1], boundaries[i]);
        if (settings.on_progress) settings.on_progress(boundaries[i + 1], builder.num_rows(), 0);
        return !failure;
      });
  if (failure) return *failure;
  return Done{};
}

std::string ValueText(const Value& value) {
  std::string text;
  AppendText(value, text);
  return text;
}

void LogRow(const ResultRow& row, RealState state, std::string_view message, Log& log) {
  if (state < RealState::kReadFailed) return log.Info(message);
  log.Info(fmt::format("start compare: {}", row.npu_name));
  log.Info(
      fmt::format("[{}] Compare result: cosine {}, euc_dist {}, max_abs_err {}, max_relative_err {}, "
                  "one_thousand_err_ratio {}, five_thousand_err_ratio {}, {}",
                  row.npu_name, ValueText(row.metrics[kCosine]), ValueText(row.metrics[kEucDist]),
                  ValueText(row.metrics[kMaxAbsErr]), ValueText(row.metrics[kMaxRelativeErr]),
                  ValueText(row.metrics[kOneThousandth]), ValueText(row.metrics[kFiveThousandths]), message));
}

Result<Done> CompareReal(const TableBuilder& builder, const Settings& settings, RowConsumer& consumer,
                         Log& log) {
  const RealLoader loader(builder);
  for (const std::string& warning : loader.warnings()) log.Warning(warning);
  std::vector<RealOutcome> outcomes(builder.num_rows());
  const std::vector<std::size_t> boundaries = builder.Boundaries(kBatchRows);
  std::size_t next_boundary = 1;
  std::optional<Error> failure;
  auto batch = std::make_unique<Batch>();
  const auto finish_batch = [&] {
    builder.Judge(batch->rows);
    const Result<Rendered> rendered = consumer.Render(*batch);
    const Result<Done> taken = rendered ? consumer.Take(*batch, *rendered) : Result<Done>(rendered.error());
    if (!taken) failure = taken.error();
    batch = std::make_unique<Batch>();
  };
  const auto sink = [&](std::size_t index, const Result<PairMeasures>& measures) {
    if (failure) return;
    if (!measures && measures.error().code == ErrorCode::kCancelled) {
      failure = measures.error();
      return;
    }
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
    if (index + 1 == boundaries[next_boundary]) {
      ++next_boundary;
      finish_batch();
    }
  };
  MeasureOptions options;
  options.groups = Group::kDiff | Group::kStats | Group::kRelative;
  // The one output that keeps everything measured.
  if (settings.format == ReportFormat::kJsonl) options.groups = options.groups | Group::kDetails;
  options.relative = builder.profile().relative;
  options.real_part_only = true;
  options.num_threads = builder.job().num_threads;
  std::stop_source stop_writing;
  BatchHooks hooks;
  hooks.stop = settings.stop;
  if (settings.on_progress) {
    hooks.on_progress = [&](const MeasureProgress& done) {
      settings.on_progress(done.items_done, builder.num_rows(), done.bytes_done);
    };
  }
  MeasurePairs(
      builder.num_rows(), [&](std::size_t index) { return loader.Load(index, outcomes[index]); }, options,
      sink, hooks);
  if (!failure && settings.stop.stop_requested()) failure = Error{ErrorCode::kCancelled, "", "interrupted"};
  if (failure) return *failure;
  return Done{};
}

std::uint64_t CountUnused(const std::vector<RowPair>& pairs, std::size_t num_bench_rows) {
  std::vector<bool> used(num_bench_rows);
  for (const RowPair& pair : pairs) {
    if (pair.bench != kNoRow) used[pair.bench] = true;
  }
  return static_cast<std::uint64_t>(std::count(used.begin(), used.end(), false));
}

void LogMatching(const RankSummary& summary, Log& log) {
  log.Info(fmt::format(
      "{}{} of {} NPU rows matched by {} ({:.1f} %), {} did not; {} of {} bench rows have no partner.",
      summary.rank.empty() ? "" : summary.rank + ": ", summary.num_matched, summary.num_rows,
      msprobe::Name(summary.rule), summary.coverage() * 100, summary.num_rows - summary.num_matched,
      summary.num_bench_unmatched, summary.num_bench_rows));
}

}  // namespace

Result<RankOutcome> CompareRank(const RankJob& job, const Settings& settings, const Mappings& mappings,
                                const Rules& rules, Log& log) {
  VN_ASSIGN_OR_RETURN(const DumpPair dumps, OpenDumps(job, settings, log));
  RankOutcome outcome;
  const bool torn = dumps.npu.torn() || dumps.bench.torn();
  const bool classic = settings.generation == Generation::kClassic;
  if (dumps.npu.rows().empty() || (!classic && dumps.bench.rows().empty())) {
    log.Warning(classic ? "Can`t match any op. No compare result file generated."
                        : "No valid data found. No compare result file generated. Please check input json.");
    outcome.summary.rank = job.rank;
    outcome.summary.num_bench_rows = outcome.summary.num_bench_unmatched = dumps.bench.rows().size();
    outcome.summary.torn = torn;
    return outcome;
  }
  const MatchOptions match = MatchOptionsOf(job, settings, mappings);
  Settings adjusted = settings;
  std::vector<RowPair> pairs = MatchRows(dumps.npu, dumps.bench, match);
  const std::uint64_t num_bench_unmatched = CountUnused(pairs, dumps.bench.rows().size());
  const TableBuilder builder(dumps, job, adjusted, match, rules, std::move(pairs));
  dumps.npu.ReleasePages(0, dumps.npu.rows().size());
  dumps.bench.ReleasePages(0, dumps.bench.rows().size());
  if (settings.highlight && builder.num_rows() > kMaxSheetRows) {
    log.Warning(fmt::format("{} rows do not fit one sheet: the result is written without colour marks.",
                            builder.num_rows()));
    adjusted.highlight = false;
  }
  RowConsumer consumer(builder, adjusted, rules, outcome, log);
  const auto run = [&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(consumer.Open());
    VN_RETURN_IF_ERROR(builder.mode() == Mode::kReal ? CompareReal(builder, adjusted, consumer, log)
                                                     : CompareRecorded(builder, adjusted, consumer));
    return consumer.Finish();
  };
  if (const Result<Done> done = run(); !done) {
    if (done.error().code == ErrorCode::kCancelled) return done.error();
    return RunFailure(log, done.error().where.empty() ? done.error().detail : done.error().Message());
  }
  outcome.summary.rank = job.rank;
  outcome.summary.rule = match.rule;
  outcome.summary.num_bench_rows = dumps.bench.rows().size();
  outcome.summary.num_bench_unmatched = num_bench_unmatched;
  outcome.summary.torn = torn;
  LogMatching(outcome.summary, log);
  return outcome;
}

}  // namespace vernier::msprobe

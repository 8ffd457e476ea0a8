#include "profiles/msprobe/run.h"
#include "profiles/msprobe/context.h"

#include <chrono>
#include <ctime>

#include <fmt/format.h>

#include "core/atomic_file.h"
#include "core/json_cursor.h"
#include "core/mapped_file.h"
#include "profiles/msprobe/context.h"
#include "profiles/msprobe/ordered_work.h"
#include "profiles/msprobe/rank.h"
#include "profiles/msprobe/tree.h"

namespace vernier::msprobe {
namespace {

namespace fs = std::filesystem;

class Run {
 public:
  Run(Settings settings, const LogSink& sink, Rules rules, Mappings mappings)
      : settings_(std::move(settings)),
        sink_(sink),
        log_(sink),
        rules_(std::move(rules)),
        mappings_(std::move(mappings)) {}

  Result<RunOutcome> Go() {
    EnterDumpFolders();
    const bool npu_is_folder = fs::is_directory(settings_.npu_path);
    if (npu_is_folder != fs::is_directory(settings_.bench_path)) {
      return RunFailure(log_, settings_.generation == Generation::kClassic
                                  ? "The npu_path and bench_path need to be of the same type."
                                  : "The target_path and golden_path need to be of the same type.");
    }
    VN_RETURN_IF_ERROR(!npu_is_folder ? CompareFiles()
                       : IsMixed(settings_.npu_path, settings_.bench_path)
                           ? CompareMixed()
                           : CompareStep(settings_.npu_path, settings_.bench_path, settings_.output_path));
    return std::move(outcome_);
  }

 private:
  // A folder that holds a dump itself, as rank0 does, stands for that dump.
  void EnterDumpFolders() {
    for (const char* file : {"dump.json", "debug.json"}) {
      if (!fs::exists(settings_.npu_path / file) || !fs::exists(settings_.bench_path / file)) continue;
      settings_.npu_path /= file;
      settings_.bench_path /= file;
      return;
    }
  }

  Result<Done> CompareFiles() {
    if (settings_.generation == Generation::kClassic && !settings_.stack_path) {
      log_.Warning(
          "Missing stack_path in the configuration file. Automatically detecting stack.json to determine "
          "whether "
          "to display NPU_Stack_Info.");
    }
    const std::string npu = settings_.npu_path.filename().string(),
                      bench = settings_.bench_path.filename().string();
    if (npu != bench || (npu != "dump.json" && npu != "debug.json")) {
      return PreparationFailure(
          log_,
          settings_.generation == Generation::kClassic
              ? "Please check the json path is valid and ensure that neither npu_path nor bench_path is None."
              : fmt::format(
                    "npu_path and bench_path must both end with dump.json or debug.json. npu_path: {}, "
                    "bench_path: {}",
                    settings_.npu_path.string(), settings_.bench_path.string()));
    }
    const DumpKind kind = npu == "dump.json" ? DumpKind::kDump : DumpKind::kDebug;
    RankJob job{settings_.npu_path,
                settings_.bench_path,
                kind,
                "",
                settings_.output_path,
                NumThreads(settings_.num_threads)};
    // The reference ignores -da for two files; we make the table and the analysis.
    Settings plain = settings_;
    plain.diff_analyze = false;
    VN_ASSIGN_OR_RETURN(RankOutcome outcome, CompareRank(job, plain, mappings_, rules_, log_));
    Keep(std::move(outcome), job);
    if (settings_.diff_analyze) {
      LogBuffer unheard;
      Log quiet(unheard.sink());
      VN_ASSIGN_OR_RETURN(RankOutcome analysis, CompareRank(job, settings_, mappings_, rules_, quiet));
      for (const fs::path& path : analysis.written) outcome_.written.push_back(path);
      std::vector<AnalyzedRank> ranks;
      if (analysis.analyzed) ranks.push_back(std::move(*analysis.analyzed));
      VN_RETURN_IF_ERROR(Analyze(ranks, settings_.output_path));
    }
    LogEnd();
    return Done{};
  }

  Result<Done> CompareMixed() {
    for (const MixedStep& step :
         MixedSteps(settings_.npu_path, settings_.bench_path, settings_.output_path)) {
      VN_RETURN_IF_ERROR(CreateOutputFolder(step.output, ProfileOf(settings_.generation).strict_paths, log_));
      VN_RETURN_IF_ERROR(CompareStep(step.npu, step.bench, step.output));
    }
    return Done{};
  }

  Result<Done> CompareStep(const fs::path& npu, const fs::path& bench, const fs::path& output) {
    VN_ASSIGN_OR_RETURN(StepPlan plan, PlanStep(npu, bench, output, settings_.generation, log_));
    outcome_.num_skipped_ranks += plan.num_incomplete;
    if (plan.jobs.empty()) return Done{};
    const int threads = NumThreads(settings_.num_threads);
    // Real data keeps all cores busy rank by rank; recorded values are spread rank-wise.
    const bool one_by_one = plan.real_data && !settings_.diff_analyze;
    const int workers = one_by_one ? 1 : std::min<int>(threads, static_cast<int>(plan.jobs.size()));
    for (RankJob& job : plan.jobs) job.num_threads = std::max(1, threads / workers);
    std::string prefix;
    if (!plan.real_data) {
      for (const std::string& name : plan.rank_names) prefix += (prefix.empty() ? "[" : " ") + name;
      prefix += ']';
    }
    const Settings per_rank = SettingsForRank(workers);
    std::vector<AnalyzedRank> analyzed;
    std::optional<Error> failure;
    struct Product {
      std::unique_ptr<LogBuffer> lines;
      Result<RankOutcome> outcome{RankOutcome()};
    };
    RunOrdered(
        plan.jobs.size(), workers,
        [&](std::size_t i) {
          Product product{std::make_unique<LogBuffer>()};
          Log log(workers > 1 ? product.lines->sink() : sink_, prefix);
          product.outcome = CompareRank(plan.jobs[i], per_rank, mappings_, rules_, log);
          if (!product.outcome) TellSkipped(product.outcome.error(), plan.jobs[i].rank, log);
          return product;
        },
        [&](std::size_t i, Product&& product) {
          product.lines->Flush(sink_);
          if (workers > 1 && settings_.on_progress) settings_.on_progress(i + 1, plan.jobs.size(), 0);
          if (product.outcome) {
            if (product.outcome->analyzed) {
              product.outcome->analyzed->rank = std::max(0, RankNumber(plan.jobs[i].rank));
              if (plan.jobs[i].kind == DumpKind::kDump)
                analyzed.push_back(std::move(*product.outcome->analyzed));
            }
            Keep(std::move(*product.outcome), plan.jobs[i]);
          } else if (product.outcome.error().code == ErrorCode::kBadArgument) {
            ++outcome_.num_skipped_ranks;
          } else {
            failure = product.outcome.error();
          }
          return !failure;
        });
    if (failure) return *failure;
    if (settings_.diff_analyze) VN_RETURN_IF_ERROR(Analyze(analyzed, output));
    LogEnd();
    return Done{};
  }

  // Ranks that are compared at the same time are counted instead of rows.
  Settings SettingsForRank(int workers) const {
    Settings settings = settings_;
    if (workers > 1) settings.on_progress = nullptr;
    return settings;
  }

  static void TellSkipped(const Error& error, const std::string& rank, Log& log) {
    if (error.code != ErrorCode::kBadArgument) return;
    const bool task = error.detail.starts_with("Task for"), data = error.detail.starts_with("Missing 'data'");
    if (task || data) {
      log.Error(fmt::format("Invalid or missing '{}' in dump.json. Skipping {} comparison.",
                            task ? "task" : "data", rank));
    }
  }

  Result<Done> Analyze(const std::vector<AnalyzedRank>& ranks, const fs::path& output) {
    const std::vector<FirstDifference> found = FindFirstDifference(ranks);
    if (found.empty()) {
      log_.Info("Cannot find any diff node, no need to generate analyze file.");
      return Done{};
    }
    for (const FirstDifference& difference : found) {
      outcome_.first_differences.push_back(fmt::format("rank_{}: {}", difference.rank, difference.op->name));
    }
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    const fs::path path = output / fmt::format("diff_analyze_{}.json", nanoseconds);
    VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
    VN_RETURN_IF_ERROR(file.Write(DiffAnalyzeJson(found)));
    VN_RETURN_IF_ERROR(file.Commit());
    outcome_.written.push_back(path);
    log_.Info(fmt::format("The analyze result is saved in: {}", path.string()));
    return Done{};
  }

  void Keep(RankOutcome&& outcome, const RankJob& job) {
    AddContext(job.npu_json, outcome.summary);
    outcome_.ranks.push_back(std::move(outcome.summary));
    for (fs::path& path : outcome.written) outcome_.written.push_back(std::move(path));
  }

  void LogEnd() {
    constexpr std::size_t kWidth = 84;
    const std::string stars(kWidth, '*');
    log_.Info(stars);
    log_.Info(fmt::format("*{:^{}}*", "msprobe compare ends successfully.", kWidth - 2));
    log_.Info(stars);
  }

  Settings settings_;
  const LogSink& sink_;
  Log log_;
  Rules rules_;
  Mappings mappings_;
  RunOutcome outcome_;
};

Result<Rules> ReadRules(const Settings& settings, Log& log) {
  if (settings.rules_path.empty()) return Rules::Make(settings.generation);
  const Result<FileRef> file = MappedFile::Open(settings.rules_path);
  if (!file) return RunFailure(log, file.error().Message());
  Result<Rules> rules = Rules::Make(settings.generation, TextOf(*file), settings.rules_path);
  if (!rules) return RunFailure(log, rules.error().Message());
  return rules;
}

}  // namespace

std::string TimestampNow() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[16];
  std::strftime(text, sizeof text, "%Y%m%d%H%M%S", &local);
  return text;
}

Result<RunOutcome> RunCompare(Settings settings, const LogSink& sink) {
  Log log(sink);
  for (const fs::path& path : {settings.npu_path, settings.bench_path}) {
    if (!fs::exists(path)) return RunFailure(log, "path does not exist, please check!");
  }
  if (settings.timestamp.empty()) settings.timestamp = TimestampNow();
  VN_ASSIGN_OR_RETURN(Rules rules, ReadRules(settings, log));
  VN_ASSIGN_OR_RETURN(Mappings mappings, ReadMappings(settings, log));
  VN_RETURN_IF_ERROR(
      CreateOutputFolder(settings.output_path, ProfileOf(settings.generation).strict_paths, log));
  VN_ASSIGN_OR_RETURN(RunOutcome outcome, Run(settings, sink, std::move(rules), std::move(mappings)).Go());
  if (settings.write_summary && !outcome.ranks.empty()) {
    const fs::path path = settings.output_path / "summary.json";
    VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
    VN_RETURN_IF_ERROR(file.Write(VerdictJson(outcome, settings)));
    VN_RETURN_IF_ERROR(file.Commit());
    outcome.written.push_back(path);
  }
  return outcome;
}

}  // namespace vernier::msprobe

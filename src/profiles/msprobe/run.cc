#include "profiles/msprobe/run.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "core/atomic_file.h"
#include "core/json_cursor.h"
#include "core/mapped_file.h"
#include "core/paths.h"
#include "core/text.h"
#include "core/threads.h"
#include "profiles/msprobe/rank.h"
#include "profiles/msprobe/tree.h"
#include "profiles/output_files.h"
#include "profiles/verdict_screen.h"

namespace vernier::msprobe {
namespace {

namespace fs = std::filesystem;

// An exception of the standard library ends the rank that met it, not the process.
template <class Compare>
Outcome<RankResult> Guarded(Log& log, const Compare& compare) {
  try {
    return compare();
  } catch (const std::bad_alloc&) {
    return RankFailure(log, "not enough memory");
  } catch (const std::exception& exception) {
    return RankFailure(log, exception.what());
  }
}

Outcome<Done> WriteFile(const fs::path& path, std::string_view text, CompareOutcome& outcome) {
  VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  VN_RETURN_IF_ERROR(file.Write(text));
  VN_RETURN_IF_ERROR(file.Commit());
  outcome.written.push_back(path);
  return Done{};
}

// Which step a rank belongs to: "step3/" of "step3/rank0".
std::string_view StepOf(const RankOutcome& rank) {
  return std::string_view(rank.rank).substr(0, rank.rank.rfind('/') + 1);
}

constexpr std::size_t kFewestPairs = 20;  // that each of many ranks lists

class Run {
 public:
  Run(const Settings& settings, Rules rules, Mappings mappings, CompareOutcome& outcome)
      : settings_(settings),
        log_(settings.hooks.on_log),
        rules_(std::move(rules)),
        mappings_(std::move(mappings)),
        outcome_(outcome) {}

  Outcome<Done> Go() {
    VN_RETURN_IF_ERROR(CompareAll());
    FindVictims();
    FindWhatHappenedBetweenSteps();
    return Done{};
  }

 private:
  Outcome<Done> CompareAll() {
    EnterDumpFolders();
    const bool npu_is_folder = IsFolder(settings_.npu_path);
    if (npu_is_folder != IsFolder(settings_.bench_path)) {
      if (!settings_.as_msprobe) {
        const auto says = [](const fs::path& path, bool is_folder) {
          return path.string() + (is_folder ? " is a folder" : " is a file");
        };
        return RunFailure(log_, says(settings_.npu_path, npu_is_folder) + ", but " +
                                    says(settings_.bench_path, !npu_is_folder));
      }
      return RunFailure(log_, settings_.generation == Generation::kClassic
                                  ? "The npu_path and bench_path need to be of the same type."
                                  : "The target_path and golden_path need to be of the same type.");
    }
    if (!npu_is_folder) return CompareFiles();
    std::vector<std::string> lone;
    const std::vector<StepPair> steps = StepsUnder(settings_.npu_path, settings_.bench_path,
                                                   settings_.output_path, settings_.as_msprobe, lone);
    TellLone(lone, "step", steps.size());
    const bool hold_ranks = HoldsRanks(settings_.npu_path) && HoldsRanks(settings_.bench_path);
    if (steps.empty() && !lone.empty() && !hold_ranks) return Done{};
    if (steps.empty())
      return CompareStep({settings_.npu_path, settings_.bench_path, settings_.output_path, ""});
    for (const StepPair& step : steps) {
      if (!step.output.empty())
        VN_RETURN_IF_ERROR(
            CreateOutputFolder(step.output, ProfileOf(settings_.generation).strict_paths, log_));
      VN_RETURN_IF_ERROR(CompareStep(step));
    }
    return Done{};
  }

  void TellLone(const std::vector<std::string>& lone, std::string_view what, std::size_t num_paired) {
    if (lone.empty()) return;
    constexpr std::size_t kMostNamed = 3;
    std::string names;
    for (std::size_t i = 0; i < std::min(lone.size(), kMostNamed); ++i)
      names += (i == 0 ? "" : ", ") + lone[i];
    if (lone.size() > kMostNamed) names += ", …";
    outcome_.doubts.push_back(
        fmt::format("{} on one side only, not compared: {}", Plural(lone.size(), what), names));
    outcome_.incomplete |=
        static_cast<double>(lone.size()) >
        rules_.Threshold("unmatched_share") * static_cast<double>(lone.size() + num_paired);
  }

  // A folder that holds a dump itself, as rank0 does, stands for that dump.
  void EnterDumpFolders() {
    for (const char* file : {"dump.json", "debug.json"}) {
      const auto entered = [&](const fs::path& path) {
        return !settings_.as_msprobe && path.filename() == file ? path : path / file;
      };
      const fs::path npu = entered(settings_.npu_path), bench = entered(settings_.bench_path);
      if (!Exists(npu) || !Exists(bench)) continue;
      settings_.npu_path = npu;
      settings_.bench_path = bench;
      return;
    }
  }

  Outcome<Done> CompareFiles() {
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
    const RankJob job{settings_.npu_path,
                      settings_.bench_path,
                      kind,
                      "",
                      "",
                      settings_.output_path,
                      NumThreads(settings_.num_threads)};
    // The reference ignores -da for two files; we make the table and the analysis.
    Settings plain = settings_;
    plain.diff_analyze = false;
    VN_ASSIGN_OR_RETURN(RankResult result,
                        Guarded(log_, [&] { return CompareRank(job, plain, mappings_, rules_, log_); }));
    Keep(std::move(result));
    if (settings_.diff_analyze) {
      Log only_errors([&](LogLevel level, std::string_view text) {
        if (level == LogLevel::kError) log_.Error(text);
      });
      VN_ASSIGN_OR_RETURN(RankResult analysis, Guarded(only_errors, [&] {
                            return CompareRank(job, settings_, mappings_, rules_, only_errors);
                          }));
      for (const fs::path& path : analysis.written) outcome_.written.push_back(path);
      std::vector<AnalyzedRank> ranks;
      if (analysis.analyzed) ranks.push_back(std::move(*analysis.analyzed));
      VN_RETURN_IF_ERROR(Analyze(ranks, settings_.output_path));
    }
    LogEnd();
    return Done{};
  }

  Outcome<Done> CompareStep(const StepPair& step) {
    VN_ASSIGN_OR_RETURN(StepPlan plan, PlanStep(step, settings_.generation, settings_.as_msprobe, log_));
    TellLone(plan.lone, "rank", plan.jobs.size());
    outcome_.num_skipped_ranks += plan.num_incomplete;
    if (plan.jobs.empty()) return Done{};
    if (plan.jobs.size() > 1 && !settings_.outputs.empty()) {
      return RunFailure(log_, fmt::format("{}: several ranks cannot go into one file, please give a folder",
                                          settings_.outputs[0].path.string()));
    }
    const int threads = NumThreads(settings_.num_threads);
    // Real data keeps all cores busy rank by rank; recorded values are spread rank-wise.
    const bool one_by_one = plan.real_data && !settings_.diff_analyze;
    const int workers = one_by_one ? 1 : std::min<int>(threads, static_cast<int>(plan.jobs.size()));
    for (RankJob& job : plan.jobs) {
      job.num_threads = std::max(1, threads / workers);
      job.most_pairs = std::max(kFewestPairs, job.most_pairs / plan.jobs.size());
      const auto first =
          std::find_if(outcome_.ranks.begin(), outcome_.ranks.end(), [&](const RankOutcome& rank) {
            return std::string_view(rank.rank).substr(StepOf(rank).size()) == job.rank;
          });
      job.follows_noise = first != outcome_.ranks.end() && first->verdict == RunVerdict::kNoise &&
                          first->worst_error > 0 && first->num_alone == 0;
    }
    std::string prefix;
    if (!plan.real_data && settings_.as_msprobe) {  // as that tool heads its lines
      for (const std::string& name : plan.rank_names) prefix += (prefix.empty() ? "[" : " ") + name;
      prefix += ']';
    }
    Settings per_rank = settings_;
    if (workers > 1) per_rank.hooks.on_progress = nullptr;  // ranks are counted instead of rows
    struct Product {
      std::size_t number = 0;
      LogBuffer lines = {};
      Outcome<RankResult> result = RankResult();
    };
    std::vector<AnalyzedRank> analyzed;
    std::optional<Failure> failure;
    OrderedQueue<Product> queue(
        workers,
        [&](Product& product) {
          const std::string& rank = plan.jobs[product.number].rank;
          const bool is_one_of_many = plan.jobs.size() > 1 && !settings_.as_msprobe;
          Log log(workers > 1 ? product.lines.sink() : settings_.hooks.on_log,
                  is_one_of_many ? fmt::format("[{}] ", rank) : prefix);
          product.result = Guarded(
              log, [&] { return CompareRank(plan.jobs[product.number], per_rank, mappings_, rules_, log); });
        },
        [&](Product&& product) {
          const RankJob& job = plan.jobs[product.number];
          product.lines.Flush(settings_.hooks.on_log);
          if (workers > 1 && settings_.hooks.on_progress)
            settings_.hooks.on_progress({product.number + 1, plan.jobs.size(), 0, 0});
          if (!product.result) {
            // A recording that cannot be read costs its rank; being stopped, or a full disk, ends everything.
            const bool ends_all =
                settings_.as_msprobe || plan.jobs.size() == 1 || !product.result.error().told;
            if (ends_all && product.result.error().ends == Failure::Ends::kRun)
              failure = product.result.error();
            outcome_.num_skipped_ranks += !failure;
            return !failure;
          }
          if (product.result->analyzed && job.kind == DumpKind::kDump) {
            product.result->analyzed->rank = std::max(0, RankNumber(job.rank));
            analyzed.push_back(std::move(*product.result->analyzed));
          }
          Keep(*std::move(product.result));
          return true;
        });
    for (std::size_t i = 0; i < plan.jobs.size() && queue.Push({i}); ++i) {
    }
    queue.Finish();
    if (failure) return *failure;
    if (settings_.diff_analyze) VN_RETURN_IF_ERROR(Analyze(analyzed, step.output));
    LogEnd();
    return Done{};
  }

  Outcome<Done> Analyze(const std::vector<AnalyzedRank>& ranks, const fs::path& output) {
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
    VN_RETURN_IF_ERROR(WriteFile(path, DiffAnalyzeJson(found), outcome_));
    log_.Info(fmt::format("The analyze result is saved in: {}", path.string()));
    return Done{};
  }

  // Of the ranks that went wrong, those that a collective or an earlier step made go wrong.
  void FindVictims() {
    std::vector<RankOutcome>& ranks = outcome_.ranks;
    std::string earlier;  // a culprit of a step before
    for (std::size_t first = 0; first < ranks.size();) {
      std::size_t last = first + 1;
      while (last < ranks.size() && StepOf(ranks[last]) == StepOf(ranks[first])) ++last;
      const auto causes = FindCauses(std::span(traces_).subspan(first, last - first));
      std::string here;
      for (std::size_t i = first; i < last; ++i) {
        if (!ranks[i].culprit) continue;
        if (!earlier.empty()) {
          ranks[i].victim_of = earlier;
        } else if (const auto cause = causes[i - first]) {
          ranks[i].victim_of = ranks[first + *cause].rank;
        } else if (here.empty()) {
          here = ranks[i].rank;
        }
      }
      if (earlier.empty()) earlier = here;
      first = last;
    }
  }

  // What follows a step that could not be compared, or that made other weights, may come of that.
  static std::string WhyAfter(const RankOutcome& before) {
    if (before.verdict == RunVerdict::kUnknown)
      return fmt::format("{} before it could not be compared: this may follow from it", before.rank);
    if (!before.culprit && before.num_alone_behind_backward > 0)
      return fmt::format("{} has other calls behind the backward pass: look at the optimizer", before.rank);
    return {};
  }

  // Where nothing differs in a step, no rounding explains that the weights of the next one differ.
  void FindWhatHappenedBetweenSteps() {
    std::map<std::string_view, const RankOutcome*> before;  // of each rank, the step before
    for (RankOutcome& rank : outcome_.ranks) {
      const std::string_view name = std::string_view(rank.rank).substr(StepOf(rank).size());
      const auto [found, is_first] = before.try_emplace(name, &rank);
      const RankOutcome* const last = std::exchange(found->second, &rank);
      const bool by_weight = rank.culprit && rank.culprit->reason == "input" &&
                             std::any_of(rank.outside.begin(), rank.outside.end(),
                                         [](const Outside& outside) { return outside.what == "weight"; });
      if (!is_first && by_weight) {
        if (std::string why = WhyAfter(*last); !why.empty())
          rank.doubts.insert(rank.doubts.begin(), std::move(why));
      }
      if (is_first || rank.verdict != RunVerdict::kNoise || last->verdict != RunVerdict::kIdentical) continue;
      const bool drifted = std::any_of(rank.outside.begin(), rank.outside.end(), [&](const Outside& outside) {
        return outside.what == "weight" && outside.error > rules_.Threshold("alarm");
      });
      if (!drifted) continue;
      rank.verdict = RunVerdict::kDiverged;
      rank.doubts.insert(
          rank.doubts.begin(),
          fmt::format("nothing differs in {}, and weights differ here: look at what the optimizer did",
                      last->rank));
    }
  }

  void Keep(RankResult&& result) {
    outcome_.ranks.push_back(std::move(result.outcome));
    traces_.push_back(std::move(result.trace));
    for (const fs::path& path : result.written) outcome_.written.push_back(path);
    outcome_.text += ShownRowsText(result, settings_.hooks.screen);
  }

  void LogEnd() {
    constexpr std::size_t kWidth = 84;
    const std::string stars(kWidth, '*');
    log_.Info(stars);
    log_.Info(fmt::format("*{:^{}}*", "msprobe compare ends successfully.", kWidth - 2));
    log_.Info(stars);
  }

  Settings settings_;
  Log log_;
  const Rules rules_;
  const Mappings mappings_;
  CompareOutcome& outcome_;
  std::vector<RankTrace> traces_;  // of outcome_.ranks
};

Outcome<Rules> ReadRules(const Settings& settings, Log& log) {
  if (settings.rules_path.empty()) return RulesOf(settings.generation).value();
  const Result<FileRef> file = MappedFile::Open(settings.rules_path);
  if (!file) return RunFailure(log, file.error().Message());
  Result<Rules> rules = RulesOf(settings.generation, TextOf(*file), settings.rules_path);
  if (!rules) return RunFailure(log, rules.error().Message());
  return *std::move(rules);
}

Outcome<CompareOutcome> Compare(Settings settings) {
  const auto start = std::chrono::steady_clock::now();
  Log log(settings.hooks.on_log);
  for (const fs::path& path : {settings.npu_path, settings.bench_path}) {
    if (Exists(path)) continue;
    return RunFailure(log, settings.as_msprobe
                               ? fmt::format("path does not exist, please check! ({})", path.string())
                               : MissingPath(path).Message());
  }
  if (settings.diff_analyze && settings.output_path.empty()) settings.output_path = ".";
  VN_ASSIGN_OR_RETURN(Rules rules, ReadRules(settings, log));
  VN_ASSIGN_OR_RETURN(Mappings mappings, ReadMappings(settings, log));
  const bool has_folder = !settings.output_path.empty();
  if (has_folder) {
    VN_RETURN_IF_ERROR(
        CreateOutputFolder(settings.output_path, ProfileOf(settings.generation).strict_paths, log));
  }
  std::optional<ResultStamp> stamp;
  if (has_folder && settings.timestamp.empty()) {
    Result<ResultStamp> reserved = ResultStamp::Reserve(settings.output_path);
    if (!reserved) return RunFailure(log, reserved.error().Message());
    stamp.emplace(*std::move(reserved));
    settings.timestamp = stamp->text();
  }
  CompareOutcome outcome;
  VN_RETURN_IF_ERROR(Run(settings, std::move(rules), std::move(mappings), outcome).Go());
  outcome.verdict = VerdictOf(outcome);
  outcome.status = StatusOf(outcome, settings.strict);
  VN_RETURN_IF_ERROR(FindNext(settings.output_path, settings.timestamp, outcome));
  if (!settings.hooks.screen.quiet) {
    const CompareHooks::Screen& screen = settings.hooks.screen;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    outcome.text += VerdictScreen(outcome, screen.colour, screen.width > 0 ? seconds.count() : -1);
  }
  if (has_folder && !outcome.ranks.empty()) {
    VN_RETURN_IF_ERROR(
        WriteSummary(settings.output_path, settings.timestamp, ProfileOf(settings.generation).name, outcome));
  }
  return outcome;
}

}  // namespace

Result<CompareOutcome> RunCompare(Settings settings) {
  if (!settings.hooks.on_log) settings.hooks.on_log = [](LogLevel, std::string_view) {};
  const LogSink log = settings.hooks.on_log;
  Outcome<CompareOutcome> outcome = Compare(std::move(settings));
  if (!outcome) {
    Failure failure = std::move(outcome).error();
    if (!failure.told && failure.error.code != ErrorCode::kCancelled)
      log(LogLevel::kError, failure.error.Message());
    return std::move(failure.error);
  }
  return *std::move(outcome);
}

}  // namespace vernier::msprobe

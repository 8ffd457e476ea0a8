#include "profiles/msprobe/tree.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "core/json_cursor.h"
#include "core/mapped_file.h"
#include "core/paths.h"
#include "core/text.h"

namespace vernier::msprobe {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRank = "rank", kProc = "proc", kStep = "step";
constexpr std::string_view kMixedFolders[] = {"graph", "pynative"};

// PREFIX0, PREFIX12, but not PREFIX01.
bool IsNumbered(std::string_view prefix, std::string_view name) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return IsDigits(name) && (name == "0" || name[0] != '0');
}

bool IsRankName(std::string_view name) { return name == kRank || IsNumbered(kRank, name); }

void SortByNumber(std::vector<std::string>& names) {
  std::stable_sort(names.begin(), names.end(),
                   [](const std::string& a, const std::string& b) { return RankNumber(a) < RankNumber(b); });
}

Outcome<std::vector<std::string>> RankNames(const fs::path& folder, const Profile& profile, Log& log) {
  std::vector<std::string> ranks;
  for (const std::string& name : NamesIn(folder)) {
    if (IsRankName(name)) {
      ranks.push_back(name);
    } else if (profile.strict_folders) {
      return RunFailure(
          log, fmt::format("dump_dir contains '{}'. Expected 'rank'. This name is not in the format of dump "
                           "output. Please check and delete irrelevant files in {} and try again.",
                           name, folder.string()));
    }
  }
  SortByNumber(ranks);
  return ranks;
}

Outcome<std::vector<std::string>> ProcNames(const fs::path& folder, Log& log) {
  std::vector<std::string> names;
  for (const std::string& name : NamesIn(folder)) {
    if (name.starts_with(kProc) && IsDigits(std::string_view(name).substr(kProc.size())))
      names.push_back(name);
  }
  if (names.size() == 1) return names;
  return RunFailure(
      log, fmt::format("No or multiple proc directories were found in the <{}>. Expected exactly one.",
                       folder.string()));
}

struct Head {
  std::optional<std::string> task, level;
};

// The members that say what a dump is stand before its data; reading stops there. Nothing: no JSON object.
std::optional<Head> ReadHead(const fs::path& path) {
  const Result<FileRef> file = MappedFile::Open(path);
  if (!file) return std::nullopt;
  JsonCursor cursor(TextOf(*file));
  Head head;
  std::string buffer;
  cursor.ForEachMember([&](std::string_view key, bool) {
    if (cursor.Peek() == JsonKind::kString && (key == "task" || key == "level")) {
      (key == "task" ? head.task : head.level) = cursor.TakeString(buffer);
    } else {
      cursor.Skip();
    }
    if (head.task && head.level) cursor.Stop();
  });
  if (!cursor.ok() && cursor.error() != JsonError::kStopped) return std::nullopt;
  return head;
}

// Adds the job when both files are there; tells which are not.
void AddJob(const fs::path& npu, const fs::path& bench, DumpKind kind, const std::string& rank,
            const StepPair& step, StepPlan& plan, Log& log) {
  const std::string file = kind == DumpKind::kDump ? "dump.json" : "debug.json";
  bool complete = true;
  for (const fs::path& folder : {npu, bench}) {
    if (Exists(folder / file)) continue;
    complete = false;
    log.Say(kind == DumpKind::kDump ? LogLevel::kError : LogLevel::kWarning,
            fmt::format("{} is not found in dump dir {}.", file, folder.string()));
  }
  if (!complete) return;
  plan.jobs.push_back({npu / file, bench / file, kind, rank, step.label + rank, step.output, 1});
  if (plan.rank_names.empty() || plan.rank_names.back() != rank) plan.rank_names.push_back(rank);
}

bool MayHoldRecordings(const std::string& name) {
  return IsRankName(name) || IsNumbered(kProc, name) || IsNumbered(kStep, name) ||
         std::find(std::begin(kMixedFolders), std::end(kMixedFolders), name) != std::end(kMixedFolders);
}

void AddRecordings(const fs::path& path, int depth, std::vector<fs::path>& found,
                   std::vector<fs::path>* damaged) {
  constexpr int kDeepest = 4;  // graph/step0/rank0/dump.json; links may lead in circles
  if (!IsFolder(path)) {
    const std::optional<Head> head = path.extension() == ".json" ? ReadHead(path) : std::nullopt;
    if (head && (head->task || head->level)) found.push_back(path);
    if (!head && damaged != nullptr && Exists(path)) damaged->push_back(path);
    return;
  }
  if (depth == kDeepest) return;
  for (const char* file : {"dump.json", "debug.json"}) AddRecordings(path / file, depth + 1, found, damaged);
  std::vector<std::string> names = NamesIn(path);
  std::erase_if(names, [](const std::string& name) { return !MayHoldRecordings(name); });
  SortByNumber(names);
  for (const std::string& name : names) AddRecordings(path / name, depth + 1, found, damaged);
}

}  // namespace

int RankNumber(std::string_view name) {
  int number = -1;
  const std::size_t digits = name.find_first_of("0123456789");
  if (digits != std::string_view::npos)
    std::from_chars(name.data() + digits, name.data() + name.size(), number);
  return number;
}

namespace {

// Ranks of both sides in the order of their numbers; those that one side has alone are told.
Outcome<std::vector<std::pair<std::string, std::string>>> PairRanks(const StepPair& step,
                                                                    const Profile& profile, Log& log,
                                                                    std::vector<std::string>& lone) {
  std::vector<std::string> names[2];
  const fs::path folders[2] = {step.npu, step.bench};
  for (int side = 0; side < 2; ++side) {
    VN_ASSIGN_OR_RETURN(names[side], RankNames(folders[side], profile, log));
    if (names[side].empty() && !profile.strict_folders) {
      VN_ASSIGN_OR_RETURN(names[side], ProcNames(folders[side], log));
    }
  }
  std::vector<std::pair<std::string, std::string>> pairs;
  if (names[0].size() == 1 && names[1].size() == 1) {
    const std::string &one = names[0][0], &other = names[1][0];
    if (one != other && IsNumbered(kRank, one) && IsNumbered(kRank, other)) {
      log.Say(LogLevel::kWarning,
              fmt::format("{}{} of the target is compared with {} of the golden: neither has another rank.",
                          step.label, one, other));
    }
    return {{{one, other}}};
  }
  const auto is_before = [](const std::string& one, const std::string& other) {
    const int a = RankNumber(one), b = RankNumber(other);
    return a != b ? a < b : a < 0 && one < other;  // without a number, or one too large, by the name
  };
  for (std::vector<std::string>& some : names) std::stable_sort(some.begin(), some.end(), is_before);
  for (std::size_t a = 0, b = 0; a < names[0].size() || b < names[1].size();) {
    if (b == names[1].size() || (a < names[0].size() && is_before(names[0][a], names[1][b]))) {
      lone.push_back(step.label + names[0][a++] + " (target only)");
    } else if (a == names[0].size() || is_before(names[1][b], names[0][a])) {
      lone.push_back(step.label + names[1][b++] + " (golden only)");
    } else {
      pairs.emplace_back(names[0][a++], names[1][b++]);
    }
  }
  return pairs;
}

// As the reference does: in the order of their numbers, which must be equally many.
Outcome<std::vector<std::pair<std::string, std::string>>> PairRanksByOrder(const StepPair& step,
                                                                           const Profile& profile, Log& log) {
  VN_ASSIGN_OR_RETURN(std::vector<std::string> npu_ranks, RankNames(step.npu, profile, log));
  VN_ASSIGN_OR_RETURN(std::vector<std::string> bench_ranks, RankNames(step.bench, profile, log));
  if (npu_ranks.empty() && !profile.strict_folders) {
    VN_ASSIGN_OR_RETURN(npu_ranks, ProcNames(step.npu, log));
    VN_ASSIGN_OR_RETURN(bench_ranks, ProcNames(step.bench, log));
  }
  if (npu_ranks.size() != bench_ranks.size()) {
    return RunFailure(
        log,
        "The number of ranks in the two runs are different. Unable to match the ranks. Please use another "
        "folder to compare or use compare() api and manually match the ranks.");
  }
  std::vector<std::pair<std::string, std::string>> pairs;
  for (std::size_t i = 0; i < npu_ranks.size(); ++i) pairs.emplace_back(npu_ranks[i], bench_ranks[i]);
  return pairs;
}

}  // namespace

Outcome<StepPlan> PlanStep(const StepPair& step, Generation generation, bool as_msprobe, Log& log) {
  const Profile& profile = ProfileOf(generation);
  StepPlan plan;
  VN_ASSIGN_OR_RETURN(const auto ranks, as_msprobe ? PairRanksByOrder(step, profile, log)
                                                   : PairRanks(step, profile, log, plan.lone));
  if (ranks.empty()) return plan;
  std::optional<Head> head;
  for (const auto& [npu, bench] : ranks) {
    const fs::path first = step.npu / npu;
    const fs::path json = Exists(first / "dump.json") ? first / "dump.json" : first / "debug.json";
    if (!Exists(json) && as_msprobe) return plan;
    head = ReadHead(json);
    if (head) break;
    if (as_msprobe || ranks.size() == 1) {
      if (!Exists(json)) return plan;
      return RunFailure(log, fmt::format("load json file \"{}\" failed.", json.filename().string()));
    }
  }
  if (!head) return RunFailure(log, fmt::format("no rank of {} can be read.", step.npu.string()));
  plan.real_data = head->task == "tensor";
  for (const auto& [npu, bench] : ranks) {
    const fs::path a = step.npu / npu, b = step.bench / bench;
    const std::size_t num_before = plan.jobs.size();
    const bool only_debug = !profile.compares_dump_and_debug && head->level == "debug";
    if (!only_debug) AddJob(a, b, DumpKind::kDump, npu, step, plan, log);
    if (only_debug || profile.compares_dump_and_debug) AddJob(a, b, DumpKind::kDebug, npu, step, plan, log);
    if (plan.jobs.size() == num_before) ++plan.num_incomplete;
  }
  return plan;
}

std::vector<StepPair> StepsUnder(const fs::path& npu, const fs::path& bench, const fs::path& output,
                                 bool as_msprobe, std::vector<std::string>& lone) {
  std::vector<StepPair> steps;
  const auto below = [&](const fs::path& name) { return output.empty() ? fs::path() : output / name; };
  const auto tell_lone = [&](const std::string& name, bool in_target) {
    if (!as_msprobe) lone.push_back(name + (in_target ? " (target only)" : " (golden only)"));
  };
  for (const std::string_view folder : kMixedFolders) {
    const fs::path ours = npu / folder, theirs = bench / folder;
    if (IsFolder(ours) != IsFolder(theirs)) tell_lone(std::string(folder), IsFolder(ours));
    if (!IsFolder(ours) || !IsFolder(theirs)) continue;
    const auto labelled = [&](const std::string& step) { return (fs::path(folder) / step).generic_string(); };
    std::vector<std::string> names = NamesIn(ours);
    if (!as_msprobe) SortByNumber(names);
    for (const std::string& step : names) {
      if (!Exists(theirs / step)) {
        tell_lone(labelled(step), true);
        continue;
      }
      steps.push_back({ours / step, theirs / step, below(fs::path(folder) / step),
                       as_msprobe ? "" : labelled(step) + "/"});
    }
    for (const std::string& step : NamesIn(theirs)) {
      if (!Exists(ours / step)) tell_lone(labelled(step), false);
    }
  }
  if (!steps.empty() || as_msprobe) return steps;
  const auto steps_in = [](const fs::path& folder, const fs::path& other, bool shared) {
    std::vector<std::string> names = NamesIn(folder);
    std::erase_if(names, [&](const std::string& name) {
      return !IsNumbered(kStep, name) || !IsFolder(folder / name) || IsFolder(other / name) != shared;
    });
    SortByNumber(names);
    return names;
  };
  for (const std::string& name : steps_in(npu, bench, true))
    steps.push_back({npu / name, bench / name, below(name), name + "/"});
  for (const std::string& name : steps_in(npu, bench, false)) tell_lone(name, true);
  for (const std::string& name : steps_in(bench, npu, false)) tell_lone(name, false);
  return steps;
}

bool HoldsRanks(const fs::path& path) {
  const std::vector<std::string> names = NamesIn(path);
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return IsRankName(name) || IsNumbered(kProc, name); });
}

bool HoldsRecordings(const fs::path& path) { return !RecordingsUnder(path).empty(); }

std::vector<fs::path> RecordingsUnder(const fs::path& path, std::vector<fs::path>* damaged) {
  std::vector<fs::path> found;
  AddRecordings(path, 0, found, damaged);
  return found;
}

}  // namespace vernier::msprobe

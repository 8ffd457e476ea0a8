// Compares one NPU dump with one bench dump and writes the table.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "judge/ranks.h"
#include "profiles/msprobe/advisor.h"
#include "profiles/msprobe/first_difference.h"
#include "profiles/msprobe/settings.h"
#include "profiles/msprobe/stack.h"
#include "vernier/compare.h"

namespace vernier::msprobe {

struct RankJob {
  std::filesystem::path npu_json, bench_json;
  DumpKind kind = DumpKind::kDump;
  std::string rank;   // folder name of the NPU side; empty for a single rank
  std::string label;  // the same with its step, where there are several
  std::filesystem::path output;
  int num_threads = 1;
  bool follows_noise = false;     // this rank's first step differs by noise alone, so its weights may by now
  std::size_t most_pairs = 1000;  // of calls under different names that the outcome lists

  std::string suffix() const { return rank.empty() ? "" : "_" + rank; }
};

struct RankResult {
  RankOutcome outcome;
  std::vector<std::filesystem::path> written;
  std::vector<KeptRow> shown;            // for the screen, worst first
  std::vector<std::string> columns;      // of these
  std::optional<AnalyzedRank> analyzed;  // -da
  RankTrace trace;                       // where it met other ranks, and where it went wrong
};

// The two dumps of a job, read and found to fit together.
struct DumpPair {
  Dump npu, bench;
  Mode mode = Mode::kStatistics;
  std::optional<StackFile> stack;
  bool across_frameworks = false;
};
Outcome<DumpPair> OpenDumps(const RankJob& job, const Settings& settings, Log& log);

// Fails as told in log.h. No rows to compare is no failure: then nothing is written.
Outcome<RankResult> CompareRank(const RankJob& job, const Settings& settings, const Mappings& mappings,
                                const Rules& rules, Log& log);

}  // namespace vernier::msprobe

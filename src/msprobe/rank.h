// Compares one NPU dump with one bench dump and writes the table.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "judge/first_difference.h"
#include "judge/msprobe_advisor.h"
#include "judge/msprobe_summary.h"
#include "msprobe/settings.h"
#include "read/msprobe_stack.h"

namespace vernier::msprobe {

struct RankJob {
  std::filesystem::path npu_json, bench_json;
  DumpKind kind = DumpKind::kDump;
  std::string rank;  // folder name of the NPU side; empty for a single rank
  std::filesystem::path output;
  int num_threads = 1;

  std::string suffix() const { return rank.empty() ? "" : "_" + rank; }
};

struct RankOutcome {
  RankSummary summary;
  std::vector<std::filesystem::path> written;
  std::optional<AnalyzedRank> analyzed;  // -da
};

// The two dumps of a job, read and found to fit together.
struct DumpPair {
  Dump npu, bench;
  Mode mode = Mode::kStatistics;
  std::optional<StackFile> stack;
  bool across_frameworks = false;
};
Result<DumpPair> OpenDumps(const RankJob& job, const Settings& settings, Log& log);

// Fails as told in log.h. No rows to compare is no failure: then nothing is written.
Result<RankOutcome> CompareRank(const RankJob& job, const Settings& settings, const Mappings& mappings,
                                const Rules& rules, Log& log);

}  // namespace vernier::msprobe

// What lies under two dump directories: which ranks stand against which.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "profiles/msprobe/log.h"
#include "profiles/msprobe/rank.h"

namespace vernier::msprobe {

// Two step directories: the rank folders of both sides by number, paired by position. Jobs come rank by rank;
// a rank whose files are missing is told about and left out. Empty: nothing to compare, which is no failure.
struct StepPlan {
  std::vector<RankJob> jobs;
  bool real_data = false;               // by the first rank
  std::vector<std::string> rank_names;  // of the jobs, each once
  std::uint64_t num_incomplete = 0;     // ranks without a job: a file of theirs is missing
};
Result<StepPlan> PlanStep(const std::filesystem::path& npu, const std::filesystem::path& bench,
                          const std::filesystem::path& output, Generation generation, Log& log);

// Folders "graph" and "pynative" that both sides have: their common steps, each to be compared as a step
// directory.
struct MixedStep {
  std::filesystem::path npu, bench, output;
};
bool IsMixed(const std::filesystem::path& npu, const std::filesystem::path& bench);
std::vector<MixedStep> MixedSteps(const std::filesystem::path& npu, const std::filesystem::path& bench,
                                  const std::filesystem::path& output);

// The number in a rank's folder name; -1 without one.
int RankNumber(std::string_view name);

}  // namespace vernier::msprobe

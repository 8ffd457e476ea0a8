// What lies under two dump directories: which ranks stand against which.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "profiles/msprobe/log.h"
#include "profiles/msprobe/rank.h"

namespace vernier::msprobe {

// Several steps under two folders: those of the folders "graph" and "pynative" that both sides have, or the
// folders step0, step1, … of two whole dumps (not as msprobe). Each is to be compared as a step directory.
// `lone` gets those that one side has alone, in a few words each.
struct StepPair {
  std::filesystem::path npu, bench, output;
  std::string label;  // "step3/" of a whole dump
};
std::vector<StepPair> StepsUnder(const std::filesystem::path& npu, const std::filesystem::path& bench,
                                 const std::filesystem::path& output, bool as_msprobe,
                                 std::vector<std::string>& lone);

// Two step directories: the rank folders of both sides by number, paired by position. Jobs come rank by rank;
// a rank whose files are missing is told about and left out. Empty: nothing to compare, which is no failure.
struct StepPlan {
  std::vector<RankJob> jobs;
  bool real_data = false;               // by the first rank
  std::vector<std::string> rank_names;  // of the jobs, each once
  std::uint64_t num_incomplete = 0;     // ranks without a job: a file of theirs is missing
  std::vector<std::string> lone;        // ranks of one side alone
};
Outcome<StepPlan> PlanStep(const StepPair& step, Generation generation, bool as_msprobe, Log& log);

// Whether a path is, or holds, recordings of this family: told by what the files begin with.
bool HoldsRecordings(const std::filesystem::path& path);
// Folders of ranks, or of processes, directly in this one.
bool HoldsRanks(const std::filesystem::path& path);
// Their files, by step and rank. `damaged`: those that have the name of one, and cannot be read.
std::vector<std::filesystem::path> RecordingsUnder(const std::filesystem::path& path,
                                                   std::vector<std::filesystem::path>* damaged = nullptr);

// The number in a rank's folder name; -1 without one.
int RankNumber(std::string_view name);

}  // namespace vernier::msprobe

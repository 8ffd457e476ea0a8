// The family of recordings with a dump.json, ours and msprobe's: how a request for it is understood.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "profiles/msprobe/settings.h"
#include "vernier/compare.h"

namespace vernier::msprobe {

bool Recognises(const std::string& path);
// What the command and Python may say in CompareRequest::options.
std::span<const FamilyOption> Options();
std::vector<FamilyColumn> ColumnsHelp();

Result<Settings> SettingsOf(const CompareRequest& request, const CompareHooks& hooks);
Result<CompareOutcome> Compare(const CompareRequest& request, const CompareHooks& hooks);
// Single elements of what went wrong first in each rank, where they were asked for and the tensors are
// stored.
Result<Done> LookCloser(const CompareRequest& request, const CompareHooks& hooks, CompareOutcome& outcome);
// The rows of all ranks and steps under a path: name, dtype, shape, recorded numbers, file.
Result<Listing> List(const std::string& path);
// One request for each rank that would be compared.
Result<std::vector<CompareRequest>> SplitByRank(const CompareRequest& request);

}  // namespace vernier::msprobe

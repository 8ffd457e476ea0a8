// The family of graph-mode dumps: GE dump trees, compared with FX trees or with each other.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "vernier/compare.h"

namespace vernier::torchair {

bool Recognises(const std::string& path);  // a GE dump
Result<CompareOutcome> Compare(const CompareRequest& request, const CompareHooks& hooks);
std::span<const FamilyOption> Options();
std::vector<FamilyColumn> ColumnsHelp();
Result<std::vector<CompareRequest>> SplitByRank(const CompareRequest& request);

}  // namespace vernier::torchair

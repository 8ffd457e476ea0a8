// The family of HDF5 recordings of module calls. Chosen by name: two HDF5 files are tensors otherwise.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "vernier/compare.h"

namespace vernier::xray {

std::vector<FamilyColumn> ColumnsHelp();
std::span<const FamilyOption> Options();
Result<CompareOutcome> Compare(const CompareRequest& request, const CompareHooks& hooks);

}  // namespace vernier::xray

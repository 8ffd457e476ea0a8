// A file that says which name of the golden stands against which name of the target.
#pragma once

#include <filesystem>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "vernier/result.h"

namespace vernier {

using NameMapping = std::vector<std::pair<std::string, std::string>>;  // target -> golden, in file order

// YAML: one object of names. kBadHeader: it cannot be read as YAML; kBadShape: it is something else.
Result<NameMapping> ReadNameMapping(const std::filesystem::path& path);

// A warning about names of the mapping that neither side has; empty: there are none. `target` and `golden`
// are the names of the two sides.
std::string UnknownNames(const NameMapping& mapping, const std::unordered_set<std::string>& target,
                         const std::unordered_set<std::string>& golden);

}  // namespace vernier

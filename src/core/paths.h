// Questions about paths that answer and never throw. A folder without permission, links in a circle and a
// name that is too long are all "no"; MissingPath() tells which.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "vernier/result.h"

namespace vernier {

bool Exists(const std::filesystem::path& path);
bool IsFolder(const std::filesystem::path& path);
bool IsLink(const std::filesystem::path& path);
// Sorted; empty when the folder cannot be read.
std::vector<std::string> NamesIn(const std::filesystem::path& folder);

// Why a path that should be there cannot be used: kNotFound with a guess at what was meant, or in the
// system's own words.
Error MissingPath(const std::filesystem::path& path);

}  // namespace vernier

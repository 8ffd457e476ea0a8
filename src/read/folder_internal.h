// The files under a folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "vernier/result.h"

namespace vernier {

struct FoundFile {
  std::string relative;          // to the folder; raw bytes, '/' between folders
  std::optional<Error> failure;  // set: a folder inside that could not be read
};

// Everything under `root` that is not a folder, sorted by the bytes of its relative path. Symbolic links are
// followed, but no folder is read twice: one that is reached both directly and through links is listed under
// its own name, so loops end and the result does not depend on the order that the file system gives. Fails
// when `root` itself cannot be read.
Result<std::vector<FoundFile>> WalkFolder(const std::filesystem::path& root);

}  // namespace vernier

#include "core/paths.h"

#include <algorithm>
#include <system_error>

#include "core/atomic_file.h"
#include "core/text.h"

namespace vernier {
namespace fs = std::filesystem;

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool IsFolder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool IsLink(const fs::path& path) {
  std::error_code ignored;
  return fs::is_symlink(path, ignored);
}

std::vector<std::string> NamesIn(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code problem;
  fs::directory_iterator entry(folder.empty() ? "." : folder, problem);
  for (; !problem && entry != fs::directory_iterator(); entry.increment(problem))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

Error MissingPath(const fs::path& path) {
  std::error_code problem;
  const fs::file_status status = fs::status(path, problem);
  if (status.type() != fs::file_type::not_found && problem) return ErrnoError(path.string(), problem.value());
  const fs::path plain = path.has_filename() ? path : path.parent_path();  // "dump/" is "dump"
  const std::vector<std::string> names = NamesIn(plain.parent_path());
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const std::string_view guess = DidYouMean(plain.filename().string(), candidates);
  return Error{ErrorCode::kNotFound, path.string(),
               guess.empty() ? "" : "did you mean " + (plain.parent_path() / guess).string() + "?"};
}

}  // namespace vernier

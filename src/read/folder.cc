#include "read/folder_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <utility>

#include "core/atomic_file.h"

namespace vernier {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using FolderHandle = std::unique_ptr<DIR, CloseFolder>;

enum class Kind { kFolder, kLinkToFolder, kOther };

// Asks the file system only when the directory entry does not say: a stat per file would double the time.
Kind KindOf(int folder_fd, const dirent& entry) {
  if (entry.d_type == DT_DIR) return Kind::kFolder;
  if (entry.d_type != DT_LNK && entry.d_type != DT_UNKNOWN) return Kind::kOther;
  struct stat status;
  if (fstatat(folder_fd, entry.d_name, &status, 0) != 0 || !S_ISDIR(status.st_mode)) return Kind::kOther;
  struct stat link;
  const bool is_link =
      fstatat(folder_fd, entry.d_name, &link, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(link.st_mode);
  return is_link ? Kind::kLinkToFolder : Kind::kFolder;
}

class Walk {
 public:
  explicit Walk(std::string root) : root_(std::move(root)) {}

  Result<std::vector<FoundFile>> Run() {
    VN_RETURN_IF_ERROR(ReadFolder(""));
    for (;;) {
      // Links wait until every folder that is really there has been read.
      std::vector<std::string>& next = folders_.empty() ? links_ : folders_;
      if (next.empty()) break;
      // The smallest first, so that of two links to one folder always the same is followed.
      if (&next == &links_) std::sort(next.begin(), next.end(), std::greater<>());
      const std::string relative = std::move(next.back());
      next.pop_back();
      if (auto read = ReadFolder(relative); !read) found_.push_back({relative, std::move(read).error()});
    }
    std::sort(found_.begin(), found_.end(),
              [](const FoundFile& a, const FoundFile& b) { return a.relative < b.relative; });
    return std::move(found_);
  }

 private:
  Result<Done> ReadFolder(const std::string& relative) {
    const std::string path = relative.empty() ? root_ : root_ + "/" + relative;
    const FolderHandle folder(opendir(path.c_str()));
    struct stat status;
    if (!folder || fstat(dirfd(folder.get()), &status) != 0) return ErrnoError(path, errno);
    if (!visited_.emplace(status.st_dev, status.st_ino).second) return Done{};
    for (;;) {
      errno = 0;
      const dirent* entry = readdir(folder.get());
      if (!entry && errno != 0) return ErrnoError(path, errno);
      if (!entry) return Done{};
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") Add(relative, name, KindOf(dirfd(folder.get()), *entry));
    }
  }

  void Add(const std::string& folder, std::string_view name, Kind kind) {
    std::string relative = folder;
    if (!folder.empty()) relative += '/';
    relative += name;
    if (kind == Kind::kOther) return found_.push_back({std::move(relative), std::nullopt});
    (kind == Kind::kFolder ? folders_ : links_).push_back(std::move(relative));
  }

  std::string root_;
  std::vector<std::string> folders_, links_;  // still to be read
  std::set<std::pair<dev_t, ino_t>> visited_;
  std::vector<FoundFile> found_;
};

}  // namespace

Result<std::vector<FoundFile>> WalkFolder(const std::filesystem::path& root) {
  return Walk(root.string()).Run();
}

}  // namespace vernier

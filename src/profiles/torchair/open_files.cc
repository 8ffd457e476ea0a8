#include "profiles/torchair/open_files.h"

#include <dirent.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace vernier::torchair {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using OpenFolder = std::unique_ptr<DIR, CloseFolder>;

}  // namespace

std::unordered_set<std::string> FilesOpenElsewhere() {
  std::unordered_set<std::string> files;
  const OpenFolder processes(opendir("/proc"));
  const std::string self = std::to_string(getpid());
  while (const dirent* process = processes ? readdir(processes.get()) : nullptr) {
    const std::string_view name = process->d_name;
    if (name.find_first_not_of("0123456789") != std::string_view::npos || name == self) continue;
    const std::string folder = "/proc/" + std::string(name) + "/fd";
    const OpenFolder descriptors(opendir(folder.c_str()));  // fails for processes of others
    while (const dirent* descriptor = descriptors ? readdir(descriptors.get()) : nullptr) {
      char target[PATH_MAX];
      const ssize_t length = readlink((folder + "/" + descriptor->d_name).c_str(), target, sizeof target);
      if (length > 0 && target[0] == '/') files.emplace(target, static_cast<std::size_t>(length));
    }
  }
  return files;
}

}  // namespace vernier::torchair

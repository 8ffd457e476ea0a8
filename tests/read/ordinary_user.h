// Tests of permissions, also where the tests run as root, who may read everything.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace vernier {

// While it lives, the process has the rights of a user who owns nothing. `folder` stays open to that user.
class AsOrdinaryUser {
 public:
  explicit AsOrdinaryUser(const std::filesystem::path& folder) {
    constexpr uid_t kNobody = 65534;
    chmod(folder.c_str(), 0755);
    was_root_ = geteuid() == 0 && seteuid(kNobody) == 0;
  }
  AsOrdinaryUser(const AsOrdinaryUser&) = delete;
  AsOrdinaryUser& operator=(const AsOrdinaryUser&) = delete;
  ~AsOrdinaryUser() {
    if (was_root_ && seteuid(0) != 0) std::abort();
  }

 private:
  bool was_root_ = false;
};

}  // namespace vernier

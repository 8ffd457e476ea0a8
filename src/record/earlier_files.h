// The tensor files of the folder recorded before the open one, known by what they hold: weights that did not
// change from one step to the next.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "vernier/tensor.h"

namespace vernier {

// Thread-safe.
class EarlierFiles {
 public:
  struct Key {
    Dtype dtype{};
    Shape shape;
    std::uint32_t crc32 = 0;
    std::uint64_t xor64 = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  // A folder is opened: what was added until now is earlier, and what was earlier is forgotten.
  void BeginFolder() {
    const std::scoped_lock lock(mutex_);
    earlier_ = std::exchange(current_, {});
  }
  void Add(Key key, std::filesystem::path path) {
    const std::scoped_lock lock(mutex_);
    current_.emplace(std::move(key), std::move(path));
  }
  // It may be gone by now, or hold something else.
  std::optional<std::filesystem::path> Find(const Key& key) const {
    const std::scoped_lock lock(mutex_);
    const auto found = earlier_.find(key);
    return found == earlier_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  mutable std::mutex mutex_;
  std::map<Key, std::filesystem::path> earlier_, current_;
};

}  // namespace vernier

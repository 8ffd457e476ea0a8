// Memory for copies of tensors on their way to the disk, bounded, and used again and again: fresh pages would
// cost as much as the copy.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace vernier {

// Thread-safe. Outlives its buffers.
class StagingPool {
 public:
  explicit StagingPool(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;
  ~StagingPool();

  // Goes back to the pool when the last owner lets go of it.
  using Buffer = std::shared_ptr<std::byte[]>;
  // Waits until the pool has room. More than the whole pool is given out alone, once everything else is back.
  // Null when the machine has no such memory.
  Buffer Take(std::uint64_t num_bytes);

  std::uint64_t used_bytes() const;  // in buffers that are out

 private:
  void Give(std::byte* memory, std::uint64_t capacity_bytes);
  std::byte* Reuse(std::uint64_t wanted, std::uint64_t& capacity_bytes);

  const std::uint64_t max_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable room_;
  std::uint64_t used_bytes_ = 0, free_bytes_ = 0;
  std::multimap<std::uint64_t, std::byte*> free_;  // by capacity
};

}  // namespace vernier

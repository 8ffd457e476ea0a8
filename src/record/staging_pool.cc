#include "record/staging_pool.h"

#include <sys/mman.h>

#include <bit>

namespace vernier {
namespace {

constexpr std::uint64_t kSmallestBytes = std::uint64_t{64} << 10;
constexpr std::uint64_t kHugePageBytes = std::uint64_t{2} << 20;

// A few sizes instead of any, so that buffers fit again: an eighth of the next power of two at a time.
std::uint64_t RoundUp(std::uint64_t num_bytes) {
  if (num_bytes <= kSmallestBytes) return kSmallestBytes;
  const std::uint64_t step = std::bit_ceil(num_bytes) / 8;
  return (num_bytes + step - 1) / step * step;
}

std::byte* Map(std::uint64_t num_bytes) {
  void* const memory = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  if (num_bytes >= kHugePageBytes) madvise(memory, num_bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

}  // namespace

StagingPool::~StagingPool() {
  for (const auto& [capacity_bytes, memory] : free_) munmap(memory, capacity_bytes);
}

std::uint64_t StagingPool::used_bytes() const {
  const std::scoped_lock lock(mutex_);
  return used_bytes_;
}

// A free buffer of about that size, or null. REQUIRES: mutex_ is held
std::byte* StagingPool::Reuse(std::uint64_t wanted, std::uint64_t& capacity_bytes) {
  const auto fits = free_.lower_bound(wanted);
  if (fits == free_.end() || fits->first > 2 * wanted) return nullptr;
  std::byte* const memory = fits->second;
  capacity_bytes = fits->first;
  free_bytes_ -= capacity_bytes;
  free_.erase(fits);
  return memory;
}

StagingPool::Buffer StagingPool::Take(std::uint64_t num_bytes) {
  std::uint64_t capacity_bytes = RoundUp(num_bytes);
  std::byte* memory = nullptr;
  {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return used_bytes_ == 0 || used_bytes_ + capacity_bytes <= max_bytes_; });
    memory = Reuse(capacity_bytes, capacity_bytes);
    // What lies idle counts as well: the bound is on memory, not on use.
    while (memory == nullptr && !free_.empty() && used_bytes_ + free_bytes_ + capacity_bytes > max_bytes_) {
      const auto smallest = free_.begin();
      munmap(smallest->second, smallest->first);
      free_bytes_ -= smallest->first;
      free_.erase(smallest);
    }
    used_bytes_ += capacity_bytes;
  }
  if (memory == nullptr) memory = Map(capacity_bytes);
  if (memory == nullptr) {
    Give(nullptr, capacity_bytes);
    return nullptr;
  }
  return Buffer(memory, [this, capacity_bytes](std::byte* given) { Give(given, capacity_bytes); });
}

void StagingPool::Give(std::byte* memory, std::uint64_t capacity_bytes) {
  {
    const std::scoped_lock lock(mutex_);
    used_bytes_ -= capacity_bytes;
    if (memory != nullptr && used_bytes_ + free_bytes_ + capacity_bytes <= max_bytes_) {
      free_.emplace(capacity_bytes, memory);
      free_bytes_ += capacity_bytes;
      memory = nullptr;
    }
  }
  if (memory != nullptr) munmap(memory, capacity_bytes);
  room_.notify_all();
}

}  // namespace vernier

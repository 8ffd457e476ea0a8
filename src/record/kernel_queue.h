// Launches that the program makes itself, of a kernel that it compiled: they are kept here until it takes
// them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "record/launcher.h"

namespace vernier {

class KernelQueue : public Launcher {
 public:
  static constexpr std::size_t kMaxJobs = 4;

  explicit KernelQueue(FoundRing ring);

  bool launches() const override { return false; }
  Result<FoundRing> Prepare(std::int64_t device) override;
  bool FitsIn(const cuda::Job& first, unsigned num_jobs, const cuda::Job& next) const override;
  Result<Launched> Launch(const DeviceStream& stream, Jobs& jobs, unsigned num_blocks) override;
  bool IsOnItsWay(std::uint64_t sequence) const override { return sequence <= taken_; }
  bool HasArrived(const cuda::Found& found, std::uint64_t sequence) const override;
  bool HasSketch(const std::uint64_t* words, std::uint64_t sequence) const override;
  StreamState Ask(const DeviceStream& stream) override;

  // Of the calling thread: only the one whose call it is launches before its program goes on.
  bool has_queued() const { return by_thread_.contains(std::this_thread::get_id()); }
  // What this thread queued since its last call, and is launched by the caller now: as VnRecorderTakeLaunches
  // lays it out.
  std::vector<std::int64_t> Take();

 private:
  const FoundRing ring_;
  struct Queued {
    std::vector<std::int64_t> words;
    std::uint64_t first = 0;  // job
  };
  std::unordered_map<std::thread::id, Queued> by_thread_;
  std::uint64_t last_queued_ = 0;
  std::atomic<std::uint64_t> taken_{0};                                 // up to this job
  mutable std::atomic<std::chrono::steady_clock::duration> last_sign_;  // of life, from the device
};

// The tables of CRC-32 that the kernel reads: uint32 step[8][16], word[8][16], place[256], power[4][256],
// where the first two have the product of every half byte with a constant.
std::span<const std::uint32_t> TablesByHalfBytes();

}  // namespace vernier

// How kernels that measure get onto the streams of devices.
#pragma once

#include <cstdint>
#include <string>

#include "record/cuda_shared.h"
#include "vernier/result.h"

namespace vernier {

// A stream of a device, as the program that is recorded numbers them.
struct DeviceStream {
  std::int64_t device = 0, stream = 0;
  friend bool operator==(const DeviceStream&, const DeviceStream&) = default;
};

// Memory of the host, kPlaces long, that kernels write to.
struct FoundRing {
  static constexpr std::uint64_t kPlaces = 1 << 13;
  cuda::Found* found = nullptr;
  unsigned long long on_device = 0;  // its address there
  // kSketchWords words for each place: 64 doubles, the number of elements that counted as 0, and a check.
  // Null where no sketches are asked for.
  const std::uint64_t* sketches = nullptr;
  unsigned long long sketches_on_device = 0;
};

class Launcher {
 public:
  using Jobs = cuda::Launch<cuda::kMaxJobs>;
  enum class Launched { kDone, kCapturing };

  Launcher() = default;
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  virtual ~Launcher() = default;

  // Whether Launch() does, or somebody else later.
  virtual bool launches() const = 0;
  // Makes the device ready, once; the ring is the same for all of them.
  virtual Result<FoundRing> Prepare(std::int64_t device) = 0;
  // Whether `next` may go into a launch that begins with `first` and has `num_jobs` already.
  virtual bool FitsIn(const cuda::Job& first, unsigned num_jobs, const cuda::Job& next) const = 0;
  // Onto the stream, behind what is there. Not while the stream is captured into a graph: then nothing runs
  // now, and the graph must not hold what is ours.
  virtual Result<Launched> Launch(const DeviceStream& stream, Jobs& jobs, unsigned num_blocks) = 0;
  // Whether what was launched as this one of all jobs is where somebody can wait for it.
  virtual bool IsOnItsWay(std::uint64_t sequence) const = 0;
  // Whether `found` is whole, and that of this job.
  virtual bool HasArrived(const cuda::Found& found, std::uint64_t sequence) const = 0;
  // The same of its sketch, once the other has.
  virtual bool HasSketch(const std::uint64_t* words, std::uint64_t sequence) const = 0;

  struct StreamState {
    bool is_busy = false;
    std::string failure;  // or nothing
  };
  // Any thread may ask. What has not arrived from a stream that is not busy never will.
  virtual StreamState Ask(const DeviceStream& stream) = 0;
};

}  // namespace vernier

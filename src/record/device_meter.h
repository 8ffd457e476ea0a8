// Measures tensors where they are, in the memory of devices. Kernels go onto the stream the program
// itself uses, so that they see each tensor as it is at that point; their numbers arrive in memory of the
// host later, in any order, and nothing here waits for them but WaitFor().
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "record/entry.h"
#include "record/launcher.h"
#include "record/tensor_words.h"

namespace vernier {

// A tensor of which something was found, and its rules.
struct FoundTensor {
  Dtype dtype{};
  bool is_scalar = false;
  std::uint64_t num_elements = 0, repeat = 1;
};
Measured MeasuredFrom(const cuda::Found& found, const FoundTensor& tensor, const RecorderOptions& options);

// Used by one thread at a time, but for WaitFor().
class DeviceMeter {
 public:
  // By the number of a dtype, a bit for each that can be measured here.
  static std::uint64_t SupportedDtypes();

  DeviceMeter(const RecorderOptions& options, std::unique_ptr<Launcher> launcher);
  DeviceMeter(const DeviceMeter&) = delete;
  DeviceMeter& operator=(const DeviceMeter&) = delete;
  ~DeviceMeter();

  // To be measured with the next Launch(). REQUIRES: tensor.readable(), on a device
  Result<std::shared_ptr<Slot>> Measure(const TensorWords& tensor, RecordTotals& totals);
  // Two checksums of its bytes in C order, launched at once; Take() gives them, null where they were lost.
  struct Checksums {
    std::shared_ptr<Slot> crc32, xor64;
    struct Values {
      std::uint32_t crc32;
      std::uint64_t xor64;
    };
    std::optional<Values> Take(DeviceMeter& meter) const;
  };
  Result<Checksums> MeasureChecksums(const TensorWords& tensor);
  // Before the program may change what was handed over.
  Result<Done> Launch();
  // Fills every slot up to the one with this Slot::sequence, which was launched. Numbers that cannot arrive
  // any more are null. Any thread may call this; until it has, a slot's numbers are nobody's to look at.
  void WaitFor(std::uint64_t sequence);
  // Whether Launch() itself puts kernels onto a stream.
  bool launches() const { return launcher_->launches(); }
  // These were launched and will never arrive. Any thread may call this.
  void Lose(std::uint64_t first, std::uint64_t count, Error why);
  // The first failure that cost numbers, told once.
  Result<Done> TakeFailure();

 private:
  // A tensor whose numbers are to come.
  struct Pending {
    std::shared_ptr<Slot> slot;
    FoundTensor tensor;
    DeviceStream where;
    bool lost = false;
    bool only_digest = false, is_crc32 = false;
    bool has_sketch = false;
  };

  Result<Done> AddJob(const TensorWords& tensor, const Walk& walk, const SummaryRequest& request,
                      const std::shared_ptr<Slot>& slot);
  void LoseLaunched();
  void Fill(std::uint64_t place);
  bool HasArrived(std::uint64_t sequence) const;
  // REQUIRES: mutex_ is held, for these
  std::uint64_t Poll();
  void LoseWhatCannotCome();
  void KeepFailure(Error failure);

  const RecorderOptions& options_;
  const std::unique_ptr<Launcher> launcher_;
  FoundRing ring_;
  std::uint64_t next_ = 1;  // sequence
  Launcher::Jobs launch_{};
  unsigned num_blocks_ = 0;  // of launch_
  DeviceStream launch_stream_;

  // Those who add and those who wait share these without a lock, which would make one wait for the other: a
  // place of the ring belongs to the one until it is launched, and to the other until it has arrived.
  std::vector<Pending> pending_;  // beside ring_
  std::atomic<std::uint64_t> launched_{0}, arrived_{0};
  std::mutex mutex_;  // of those who wait
  std::optional<Error> failure_;
};

}  // namespace vernier

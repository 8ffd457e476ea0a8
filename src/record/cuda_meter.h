// Measures tensors where they are, in the memory of NVIDIA's devices. Kernels go onto the stream the program
// itself uses, so that they see each tensor as it is at that point; their numbers arrive in memory of the
// host later, in any order, and nothing here waits for them but WaitFor().
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "record/cuda_driver.h"
#include "record/cuda_shared.h"
#include "record/entry.h"
#include "record/tensor_words.h"

namespace vernier {

// Used by one thread at a time, but for WaitFor().
class CudaMeter {
 public:
  // Fails when there is no driver, no compiler or no device. `compiler_path` may be empty.
  static Result<std::unique_ptr<CudaMeter>> Create(const RecorderOptions& options,
                                                   const std::string& compiler_path);
  // By the number of a dtype, a bit for each that can be measured here.
  static std::uint64_t SupportedDtypes();

  CudaMeter(const CudaMeter&) = delete;
  CudaMeter& operator=(const CudaMeter&) = delete;
  ~CudaMeter();

  // To be measured with the next Launch(). REQUIRES: tensor.readable(), on a device
  Result<std::shared_ptr<Slot>> Measure(const TensorWords& tensor, RecordTotals& totals);
  // Before the program may change what was handed over.
  Result<Done> Launch();
  // Fills every slot up to the one with this Slot::sequence, which was launched. Numbers that cannot arrive
  // any more are null. Any thread may call this; until it has, a slot's numbers are nobody's to look at.
  void WaitFor(std::uint64_t sequence);
  // The first failure that cost numbers, told once.
  Result<Done> TakeFailure();

 private:
  struct OnStream {
    cuda::DevicePointer parts = 0, counters = 0;
  };
  struct Device {
    cuda::Context context = nullptr;
    cuda::Module module = nullptr;
    cuda::Function measure = nullptr, measure_few = nullptr;
    cuda::DevicePointer tables = 0;
    std::map<std::int64_t, OnStream> streams;
  };
  // A tensor whose numbers are to come.
  struct Pending {
    std::shared_ptr<Slot> slot;
    Dtype dtype{};
    bool is_scalar = false, lost = false;
    std::uint64_t repeat = 1, num_elements = 0;
    cuda::Context context = nullptr;
    std::int64_t stream = 0;
  };

  CudaMeter(const cuda::Driver& driver, const RecorderOptions& options, std::string compiler_path);
  Result<Device*> DeviceFor(std::int64_t ordinal);
  Result<Done> Prepare(std::int64_t ordinal, Device& device);
  Result<OnStream*> StreamFor(Device& device, std::int64_t stream);
  Result<Done> AddJob(const TensorWords& tensor, const Walk& walk, const SummaryRequest& request,
                      const std::shared_ptr<Slot>& slot);
  Result<Done> LaunchOn(Device& device);
  void LoseLaunched();
  void Fill(Pending& pending, const cuda::Found& found);
  // REQUIRES: mutex_ is held, for these
  std::uint64_t Poll();
  void LoseWhatCannotCome();

  const cuda::Driver& driver_;
  const RecorderOptions& options_;
  const std::string compiler_path_;
  std::map<std::int64_t, Device> devices_;
  cuda::Found* found_ = nullptr;  // a ring that kernels write to
  cuda::DevicePointer found_on_device_ = 0;
  std::uint64_t next_ = 1;  // sequence
  cuda::Launch<cuda::kMaxJobs> launch_{};
  unsigned num_blocks_ = 0;  // of launch_
  Device* launch_device_ = nullptr;
  std::int64_t launch_stream_ = 0;

  // Those who add and those who wait share these without a lock, which would make one wait for the other: a
  // place of the ring belongs to the one until it is launched, and to the other until it has arrived.
  std::vector<Pending> pending_;  // beside found_
  std::atomic<std::uint64_t> launched_{0}, arrived_{0};
  std::mutex mutex_;  // of those who wait
  std::optional<Error> failure_;
};

}  // namespace vernier

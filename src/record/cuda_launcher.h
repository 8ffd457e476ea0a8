// Launches through NVIDIA's driver, without the program's help.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "record/cuda_driver.h"
#include "record/launcher.h"

namespace vernier {

class CudaLauncher : public Launcher {
 public:
  // Fails when there is no driver, no compiler or no device. `compiler_path` may be empty.
  static Result<std::unique_ptr<CudaLauncher>> Create(const std::string& compiler_path, bool with_sketches);
  ~CudaLauncher() override;

  bool launches() const override { return true; }
  Result<FoundRing> Prepare(std::int64_t device) override;
  bool FitsIn(const cuda::Job& first, unsigned num_jobs, const cuda::Job& next) const override;
  Result<Launched> Launch(const DeviceStream& stream, Jobs& jobs, unsigned num_blocks) override;
  bool IsOnItsWay(std::uint64_t) const override { return true; }
  bool HasArrived(const cuda::Found& found, std::uint64_t sequence) const override;
  bool HasSketch(const std::uint64_t*, std::uint64_t) const override { return true; }  // it comes before
  StreamState Ask(const DeviceStream& stream) override;

 private:
  struct OnStream {
    cuda::DevicePointer parts = 0, counters = 0, sketches = 0;
  };
  struct Device {
    cuda::Context context = nullptr;
    cuda::Module module = nullptr;
    cuda::Function measure = nullptr, measure_few = nullptr;
    cuda::DevicePointer tables = 0;
    std::map<std::int64_t, OnStream> streams;
  };

  CudaLauncher(const cuda::Driver& driver, std::string compiler_path, bool with_sketches);
  Result<Done> PrepareDevice(std::int64_t ordinal, Device& device);
  Result<OnStream*> StreamFor(Device& device, std::int64_t stream);

  const cuda::Driver& driver_;
  const std::string compiler_path_;
  const bool with_sketches_;
  std::map<std::int64_t, Device> devices_;  // its nodes stay where they are: Ask() comes from other threads
  FoundRing ring_;
};

}  // namespace vernier

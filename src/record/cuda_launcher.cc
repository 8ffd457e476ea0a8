#include "record/cuda_launcher.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace vernier {
namespace {

using cuda::kSuccess;

constexpr unsigned kPortable = 1, kMapped = 2;
constexpr int kMajorAttribute = 75, kMinorAttribute = 76;

// Makes the device's context the thread's for as long as it lives.
class Current {
 public:
  Current(const cuda::Driver& driver, cuda::Context context) : driver_(driver) {
    cuda::Context now = nullptr;
    pushed_ = driver.GetCurrentContext(&now) != kSuccess || now != context;
    if (pushed_) error_ = driver.PushContext(context);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current() {
    cuda::Context before = nullptr;
    if (pushed_ && error_ == kSuccess) (void)driver_.PopContext(&before);
  }
  int error() const { return error_; }

 private:
  const cuda::Driver& driver_;
  bool pushed_ = false;
  int error_ = kSuccess;
};

}  // namespace

Result<std::unique_ptr<CudaLauncher>> CudaLauncher::Create(const std::string& compiler_path,
                                                           bool with_sketches) {
  VN_ASSIGN_OR_RETURN(const cuda::Driver* const driver, cuda::Driver::Load());
  int count = 0;
  if (const int error = driver->DeviceGetCount(&count); error != kSuccess) {
    return driver->Failure("cuDeviceGetCount", error);
  }
  if (count == 0) return Error{ErrorCode::kUnsupported, "CUDA", "no device on this machine"};
  std::unique_ptr<CudaLauncher> launcher(new CudaLauncher(*driver, compiler_path, with_sketches));
  // The first one's kernel is compiled now, because later a failure would cost numbers.
  VN_RETURN_IF_ERROR(launcher->Prepare(0));
  return launcher;
}

CudaLauncher::CudaLauncher(const cuda::Driver& driver, std::string compiler_path, bool with_sketches)
    : driver_(driver), compiler_path_(std::move(compiler_path)), with_sketches_(with_sketches) {}

CudaLauncher::~CudaLauncher() {
  for (auto& [ordinal, device] : devices_) {
    if (device.context == nullptr) continue;
    {
      const Current current(driver_, device.context);
      for (const auto& [number, stream] : device.streams) (void)driver_.Free(stream.parts);
      if (device.tables != 0) (void)driver_.Free(device.tables);
      if (ring_.found != nullptr) (void)driver_.FreeHost(std::exchange(ring_.found, nullptr));
      if (device.module != nullptr) (void)driver_.UnloadModule(device.module);
    }
    (void)driver_.ReleaseContext(static_cast<int>(ordinal));
  }
}

#define VN_RETURN_IF_CUDA_FAILS(call, ...)                                      \
  do {                                                                          \
    if (const int vn_error = driver_.call(__VA_ARGS__); vn_error != kSuccess) { \
      return driver_.Failure(#call, vn_error);                                  \
    }                                                                           \
  } while (false)

Result<FoundRing> CudaLauncher::Prepare(std::int64_t ordinal) {
  Device& device = devices_[ordinal];
  if (device.measure == nullptr) VN_RETURN_IF_ERROR(PrepareDevice(ordinal, device));
  return ring_;
}

Result<Done> CudaLauncher::PrepareDevice(std::int64_t ordinal, Device& device) {
  int handle = 0, major = 0, minor = 0;
  VN_RETURN_IF_CUDA_FAILS(DeviceGet, &handle, static_cast<int>(ordinal));
  VN_RETURN_IF_CUDA_FAILS(DeviceGetAttribute, &major, kMajorAttribute, handle);
  VN_RETURN_IF_CUDA_FAILS(DeviceGetAttribute, &minor, kMinorAttribute, handle);
  VN_ASSIGN_OR_RETURN(const std::string* const code,
                      cuda::CompiledKernel(10 * major + minor, compiler_path_, with_sketches_));
  if (device.context == nullptr) VN_RETURN_IF_CUDA_FAILS(RetainContext, &device.context, handle);
  const Current current(driver_, device.context);
  if (current.error() != kSuccess) return driver_.Failure("PushContext", current.error());
  if (ring_.found == nullptr) {
    void* ring = nullptr;
    constexpr std::size_t kRingBytes = FoundRing::kPlaces * sizeof(cuda::Found);
    const std::size_t sketch_bytes =
        with_sketches_ ? FoundRing::kPlaces * cuda::kSketchWords * sizeof(std::uint64_t) : 0;
    VN_RETURN_IF_CUDA_FAILS(AllocateHost, &ring, kRingBytes + sketch_bytes, kPortable | kMapped);
    ring_.found = static_cast<cuda::Found*>(ring);
    std::fill_n(ring_.found, FoundRing::kPlaces, cuda::Found{});
    VN_RETURN_IF_CUDA_FAILS(HostPointerOnDevice, &ring_.on_device, ring, 0);
    if (with_sketches_) {
      ring_.sketches = reinterpret_cast<const std::uint64_t*>(ring_.found + FoundRing::kPlaces);
      ring_.sketches_on_device = ring_.on_device + kRingBytes;
    }
  }
  const cuda::CrcTables& tables = cuda::TablesForCrc();
  if (device.tables == 0) VN_RETURN_IF_CUDA_FAILS(Allocate, &device.tables, sizeof tables);
  VN_RETURN_IF_CUDA_FAILS(CopyToDevice, device.tables, &tables, sizeof tables);
  if (device.module == nullptr) VN_RETURN_IF_CUDA_FAILS(LoadModule, &device.module, code->c_str());
  VN_RETURN_IF_CUDA_FAILS(GetFunction, &device.measure_few, device.module, "VernierMeasureFew");
  VN_RETURN_IF_CUDA_FAILS(GetFunction, &device.measure, device.module, "VernierMeasure");
  return Done{};
}

// Launches on one stream follow each other, and can use the same memory.
Result<CudaLauncher::OnStream*> CudaLauncher::StreamFor(Device& device, std::int64_t stream) {
  const auto known = device.streams.find(stream);
  if (known != device.streams.end()) return &known->second;
  constexpr std::size_t kPartsBytes = sizeof(cuda::Found) * cuda::kMaxBlocks * cuda::kMaxJobs;
  constexpr std::size_t kCountersBytes = sizeof(unsigned) * cuda::kMaxJobs;
  constexpr std::size_t kSketchesBytes =
      sizeof(double) * cuda::kSketchWords * cuda::kMaxBlocks * cuda::kMaxJobs;
  OnStream made;
  VN_RETURN_IF_CUDA_FAILS(Allocate, &made.parts,
                          kPartsBytes + (with_sketches_ ? kSketchesBytes : 0) + kCountersBytes);
  made.sketches = made.parts + kPartsBytes;
  made.counters = made.sketches + (with_sketches_ ? kSketchesBytes : 0);
  VN_RETURN_IF_CUDA_FAILS(Set8, made.counters, 0, kCountersBytes);
  return &device.streams.emplace(stream, made).first->second;
}

bool CudaLauncher::FitsIn(const cuda::Job&, unsigned num_jobs, const cuda::Job&) const {
  return num_jobs < cuda::kMaxJobs;
}

Result<Launcher::Launched> CudaLauncher::Launch(const DeviceStream& where, Jobs& jobs, unsigned num_blocks) {
  Device& device = devices_[where.device];
  const Current current(driver_, device.context);
  if (current.error() != kSuccess) return driver_.Failure("PushContext", current.error());
  const auto stream = reinterpret_cast<cuda::Stream>(where.stream);
  int capturing = 0;
  VN_RETURN_IF_CUDA_FAILS(StreamIsCapturing, stream, &capturing);
  if (capturing != 0) return Launched::kCapturing;
  VN_ASSIGN_OR_RETURN(const OnStream* const memory, StreamFor(device, where.stream));
  jobs.memory = {memory->parts, memory->counters, device.tables, memory->sketches};
  // The same bytes, as far as the kernel for few reads them.
  const cuda::Function kernel = jobs.num_jobs <= cuda::kFewJobs ? device.measure_few : device.measure;
  void* arguments[] = {&jobs};
  const unsigned shared_bytes = with_sketches_ ? cuda::SketchBytes(jobs.jobs, jobs.num_jobs) : 0;
  VN_RETURN_IF_CUDA_FAILS(LaunchKernel, kernel, num_blocks, 1, 1, cuda::kNumThreads, 1, 1, shared_bytes,
                          stream, arguments, nullptr);
  return Launched::kDone;
}

bool CudaLauncher::HasArrived(const cuda::Found& found, std::uint64_t sequence) const {
  auto& arrived = const_cast<unsigned long long&>(found.sequence);
  return std::atomic_ref<unsigned long long>(arrived).load(std::memory_order_acquire) == sequence;
}

Launcher::StreamState CudaLauncher::Ask(const DeviceStream& where) {
  const Current current(driver_, devices_[where.device].context);
  const int status = driver_.QueryStream(reinterpret_cast<cuda::Stream>(where.stream));
  if (status == cuda::kNotReady) return {true, ""};
  return {false, status == kSuccess ? "" : driver_.Failure("QueryStream", status).detail};
}

}  // namespace vernier

#include "record/cuda_meter.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <thread>

namespace vernier {
namespace {

using cuda::kSuccess;

constexpr std::uint64_t kRingSize = 1 << 13;
constexpr std::uint64_t kVectorsPerThread = 4;  // fewer are not worth another block
constexpr std::uint64_t kLargeBytes = std::uint64_t{1} << 25;
constexpr unsigned kPortable = 1, kMapped = 2;
constexpr int kMajorAttribute = 75, kMinorAttribute = 76;
constexpr std::chrono::microseconds kLookAgain{20};
constexpr int kLooksBeforeAsking = 64;

// What the kernel takes an element for; bool has the values 0 and 1.
constexpr std::pair<Dtype, cuda::Kind> kKinds[] = {
    {Dtype::kF64, cuda::kF64},
    {Dtype::kF32, cuda::kF32},
    {Dtype::kF16, cuda::kF16},
    {Dtype::kBF16, cuda::kBF16},
    {Dtype::kI8, cuda::kI8},
    {Dtype::kI16, cuda::kI16},
    {Dtype::kI32, cuda::kI32},
    {Dtype::kI64, cuda::kI64},
    {Dtype::kU8, cuda::kU8},
    {Dtype::kU16, cuda::kU16},
    {Dtype::kU32, cuda::kU32},
    {Dtype::kU64, cuda::kU64},
    {Dtype::kBool, cuda::kU8},
    // These have no statistics, only digests.
    {Dtype::kF8E4M3FN, cuda::kU8},
    {Dtype::kF8E5M2, cuda::kU8},
    {Dtype::kF8E4M3FNUZ, cuda::kU8},
    {Dtype::kF8E5M2FNUZ, cuda::kU8},
};

const cuda::Kind* KindOf(Dtype dtype) {
  for (const auto& [ours, kind] : kKinds) {
    if (ours == dtype) return &kind;
  }
  return nullptr;
}

bool IsFloat(Dtype dtype) { return Class(dtype) == DtypeClass::kFloat; }

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

Summary SummaryOf(const cuda::Found& found, Dtype dtype, std::uint64_t num_elements, std::uint64_t repeat) {
  Summary summary;
  summary.num_elements = num_elements * repeat;
  summary.sum = found.sum * static_cast<double>(repeat);
  summary.sum_sq = found.sum_sq * static_cast<double>(repeat);
  if (IsFloat(dtype)) {
    summary.min = std::bit_cast<double>(found.low);
    summary.max = std::bit_cast<double>(found.high);
    // As on the host: where every element is a zero, the last one's sign counts.
    const double zero = summary.min == 0 && summary.max == 0 && found.last_is_negative != 0 ? -0.0 : 0.0;
    if (summary.min == 0) summary.min = zero;
    if (summary.max == 0) summary.max = zero;
  } else {
    const std::uint64_t turned = dtype == Dtype::kU64 ? std::uint64_t{1} << 63 : 0;
    summary.integer_min = static_cast<std::int64_t>(found.low ^ turned);
    summary.integer_max = static_cast<std::int64_t>(found.high ^ turned);
    if (turned != 0) {
      // The device summed numbers that were smaller by 2^63.
      const double shift = 9223372036854775808.0, count = static_cast<double>(summary.num_elements);
      summary.sum_sq += 2 * shift * summary.sum + shift * shift * count;
      summary.sum += shift * count;
    }
  }
  summary.xor64 = found.digest;
  summary.crc32 = cuda::CrcOfRest(cuda::TablesForCrc(), num_elements * ItemBytes(dtype),
                                  static_cast<unsigned>(found.digest));
  return summary;
}

unsigned LayoutOf(const Walk& walk, std::int64_t address, std::uint64_t item_bytes) {
  const auto is_whole = [](std::uint64_t num_bytes) { return num_bytes % cuda::kVectorBytes == 0; };
  if (!is_whole(static_cast<std::uint64_t>(address))) return cuda::kScattered;
  if (walk.contiguous()) return cuda::kOneRun;
  const auto axes = walk.axes();
  if (axes.back().stride != 1 || !is_whole(static_cast<std::uint64_t>(axes.back().size) * item_bytes)) {
    return cuda::kScattered;
  }
  const bool all = std::all_of(axes.begin(), axes.end() - 1, [&](const Walk::Axis& axis) {
    return is_whole(static_cast<std::uint64_t>(axis.stride) * item_bytes);
  });
  return all ? cuda::kRunsOfVectors : cuda::kScattered;
}

}  // namespace

std::uint64_t CudaMeter::SupportedDtypes() {
  std::uint64_t bits = 0;
  for (const auto& [dtype, kind] : kKinds) bits |= std::uint64_t{1} << static_cast<unsigned>(dtype);
  return bits;
}

Result<std::unique_ptr<CudaMeter>> CudaMeter::Create(const RecorderOptions& options,
                                                     const std::string& compiler_path) {
  VN_ASSIGN_OR_RETURN(const cuda::Driver* const driver, cuda::Driver::Load());
  int count = 0;
  if (const int error = driver->DeviceGetCount(&count); error != kSuccess) {
    return driver->Failure("cuDeviceGetCount", error);
  }
  if (count == 0) return Error{ErrorCode::kUnsupported, "CUDA", "no device on this machine"};
  std::unique_ptr<CudaMeter> meter(new CudaMeter(*driver, options, compiler_path));
  // The first one's kernel is compiled now, because later a failure would cost numbers.
  VN_RETURN_IF_ERROR(meter->DeviceFor(0));
  return meter;
}

CudaMeter::CudaMeter(const cuda::Driver& driver, const RecorderOptions& options, std::string compiler_path)
    : driver_(driver), options_(options), compiler_path_(std::move(compiler_path)), pending_(kRingSize) {}

CudaMeter::~CudaMeter() {
  WaitFor(launched_);
  for (auto& [ordinal, device] : devices_) {
    if (device.context == nullptr) continue;
    {
      const Current current(driver_, device.context);
      for (const auto& [number, stream] : device.streams) (void)driver_.Free(stream.parts);
      if (device.tables != 0) (void)driver_.Free(device.tables);
      if (found_ != nullptr) (void)driver_.FreeHost(std::exchange(found_, nullptr));
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

Result<CudaMeter::Device*> CudaMeter::DeviceFor(std::int64_t ordinal) {
  Device& device = devices_[ordinal];
  if (device.measure == nullptr) VN_RETURN_IF_ERROR(Prepare(ordinal, device));
  return &device;
}

Result<Done> CudaMeter::Prepare(std::int64_t ordinal, Device& device) {
  int handle = 0, major = 0, minor = 0;
  VN_RETURN_IF_CUDA_FAILS(DeviceGet, &handle, static_cast<int>(ordinal));
  VN_RETURN_IF_CUDA_FAILS(DeviceGetAttribute, &major, kMajorAttribute, handle);
  VN_RETURN_IF_CUDA_FAILS(DeviceGetAttribute, &minor, kMinorAttribute, handle);
  VN_ASSIGN_OR_RETURN(const std::string* const code,
                      cuda::CompiledKernel(10 * major + minor, compiler_path_));
  if (device.context == nullptr) VN_RETURN_IF_CUDA_FAILS(RetainContext, &device.context, handle);
  const Current current(driver_, device.context);
  if (current.error() != kSuccess) return driver_.Failure("PushContext", current.error());
  if (found_ == nullptr) {
    void* ring = nullptr;
    VN_RETURN_IF_CUDA_FAILS(AllocateHost, &ring, kRingSize * sizeof(cuda::Found), kPortable | kMapped);
    found_ = static_cast<cuda::Found*>(ring);
    std::fill_n(found_, kRingSize, cuda::Found{});
    VN_RETURN_IF_CUDA_FAILS(HostPointerOnDevice, &found_on_device_, ring, 0);
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
Result<CudaMeter::OnStream*> CudaMeter::StreamFor(Device& device, std::int64_t stream) {
  const auto known = device.streams.find(stream);
  if (known != device.streams.end()) return &known->second;
  constexpr std::size_t kPartsBytes = sizeof(cuda::Found) * cuda::kMaxBlocks * cuda::kMaxJobs;
  constexpr std::size_t kCountersBytes = sizeof(unsigned) * cuda::kMaxJobs;
  OnStream made;
  VN_RETURN_IF_CUDA_FAILS(Allocate, &made.parts, kPartsBytes + kCountersBytes);
  made.counters = made.parts + kPartsBytes;
  VN_RETURN_IF_CUDA_FAILS(Set8, made.counters, 0, kCountersBytes);
  return &device.streams.emplace(stream, made).first->second;
}

Result<std::shared_ptr<Slot>> CudaMeter::Measure(const TensorWords& tensor, RecordTotals& totals) {
  ++totals.num_tensors;
  const cuda::Kind* const kind = KindOf(*tensor.dtype);
  if (kind == nullptr || tensor.shape.size() > cuda::kMaxAxes) {
    return Error{ErrorCode::kUnsupported, "words", "a tensor that cannot be measured on its device"};
  }
  const SummaryRequest request = RequestFor(*tensor.dtype, options_.summary, options_.high_precision);
  const bool in_order = request.crc32 || request.xor64;
  const Walk walk = in_order ? Walk::InOrder(tensor.strided()) : Walk::ByMemory(tensor.strided());
  auto slot = std::make_shared<Slot>();
  if (request.statistics || in_order) {
    ++totals.num_measured;
    totals.bytes_measured += tensor.num_bytes();
    VN_RETURN_IF_ERROR(AddJob(tensor, walk, request, slot));
  } else {
    slot->measured = NothingMeasured();
    slot->has_numbers = slot->filled = true;
  }
  return slot;
}

Result<Done> CudaMeter::AddJob(const TensorWords& tensor, const Walk& walk, const SummaryRequest& request,
                               const std::shared_ptr<Slot>& slot) {
  VN_ASSIGN_OR_RETURN(Device* const device, DeviceFor(tensor.device));
  const bool elsewhere = device != launch_device_ || tensor.stream != launch_stream_;
  if (launch_.num_jobs == cuda::kMaxJobs || (launch_.num_jobs > 0 && elsewhere)) VN_RETURN_IF_ERROR(Launch());
  if (next_ > kRingSize) {
    const std::uint64_t before = next_ - kRingSize;  // in the same place
    if (before >= next_ - launch_.num_jobs) VN_RETURN_IF_ERROR(Launch());
    WaitFor(before);
  }
  launch_device_ = device;
  launch_stream_ = tensor.stream;
  const std::uint64_t sequence = next_++, item_bytes = ItemBytes(*tensor.dtype);
  cuda::Job& job = launch_.jobs[launch_.num_jobs++];
  job.data = static_cast<unsigned long long>(tensor.address);
  job.found = found_on_device_ + sequence % kRingSize * sizeof(cuda::Found);
  job.num_elements = walk.num_elements();
  job.sequence = sequence;
  job.kind = *KindOf(*tensor.dtype);
  job.item_bytes = static_cast<unsigned>(item_bytes);
  job.wanted = 0;
  if (request.statistics) job.wanted |= cuda::kStatistics;
  if (request.crc32) job.wanted |= cuda::kCrc32;
  if (request.xor64) job.wanted |= cuda::kXor64;
  job.layout = LayoutOf(walk, tensor.address, item_bytes);
  job.num_axes = 0;
  for (const Walk::Axis& axis : walk.axes()) job.axes[job.num_axes++] = {axis.size, axis.stride};

  const std::uint64_t per_vector = cuda::kVectorBytes / item_bytes;
  const std::uint64_t num_vectors = (job.num_elements + per_vector - 1) / per_vector;
  constexpr std::uint64_t kFewest = kVectorsPerThread * cuda::kNumThreads;
  const auto divide_up = [](std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; };
  // Joining blocks takes time too: all of them only where that is short beside the reading.
  const bool is_large = num_vectors * cuda::kVectorBytes > kLargeBytes;
  const std::uint64_t most = is_large ? cuda::kMaxBlocks : cuda::kMaxBlocks / 2;
  const std::uint64_t wanted = std::min(divide_up(num_vectors, kFewest), most);
  // Whole turns of all threads, as many as of loads that are under way at once.
  job.vectors_per_block = divide_up(divide_up(num_vectors, wanted), cuda::kNumThreads) * cuda::kNumThreads;
  job.num_blocks = static_cast<unsigned>(divide_up(num_vectors, job.vectors_per_block));
  job.first_block = num_blocks_;
  num_blocks_ += job.num_blocks;

  slot->sequence = sequence;
  pending_[sequence % kRingSize] = {.slot = slot,
                                    .dtype = *tensor.dtype,
                                    .is_scalar = tensor.shape.empty(),
                                    .repeat = walk.repeat(),
                                    .num_elements = walk.num_elements(),
                                    .context = device->context,
                                    .stream = tensor.stream};
  return Done{};
}

Result<Done> CudaMeter::Launch() {
  if (launch_.num_jobs == 0) return Done{};
  Result<Done> result = LaunchOn(*launch_device_);
  if (!result) LoseLaunched();
  launch_.num_jobs = 0;
  num_blocks_ = 0;
  launched_.store(next_ - 1, std::memory_order_release);
  return result;
}

Result<Done> CudaMeter::LaunchOn(Device& device) {
  const Current current(driver_, device.context);
  if (current.error() != kSuccess) return driver_.Failure("PushContext", current.error());
  const auto stream = reinterpret_cast<cuda::Stream>(launch_stream_);
  int capturing = 0;
  VN_RETURN_IF_CUDA_FAILS(StreamIsCapturing, stream, &capturing);
  if (capturing != 0) {
    LoseLaunched();  // nothing runs now, and the graph must not hold what is ours
    return Done{};
  }
  VN_ASSIGN_OR_RETURN(const OnStream* const memory, StreamFor(device, launch_stream_));
  launch_.memory = {memory->parts, memory->counters, device.tables};
  // The same bytes, as far as the kernel for few reads them.
  const cuda::Function kernel = launch_.num_jobs <= cuda::kFewJobs ? device.measure_few : device.measure;
  void* arguments[] = {&launch_};
  VN_RETURN_IF_CUDA_FAILS(LaunchKernel, kernel, num_blocks_, 1, 1, cuda::kNumThreads, 1, 1, 0, stream,
                          arguments, nullptr);
  return Done{};
}

void CudaMeter::LoseLaunched() {
  for (unsigned i = 0; i < launch_.num_jobs; ++i) pending_[launch_.jobs[i].sequence % kRingSize].lost = true;
}

void CudaMeter::Fill(Pending& pending, const cuda::Found& found) {
  Slot& slot = *pending.slot;
  slot.measured = NothingMeasured();
  if (!pending.lost) {
    const Summary summary = SummaryOf(found, pending.dtype, pending.num_elements, pending.repeat);
    slot.measured =
        ApplyRules(summary, pending.dtype, pending.is_scalar, options_.summary, options_.high_precision);
  }
  slot.has_numbers = slot.filled = true;
  pending.slot = nullptr;
}

std::uint64_t CudaMeter::Poll() {
  const std::uint64_t launched = launched_.load(std::memory_order_acquire);
  std::uint64_t arrived = arrived_.load(std::memory_order_relaxed);
  while (arrived < launched) {
    const std::uint64_t at = (arrived + 1) % kRingSize;
    const std::uint64_t sequence =
        std::atomic_ref<unsigned long long>(found_[at].sequence).load(std::memory_order_acquire);
    if (sequence != arrived + 1 && !pending_[at].lost) break;
    Fill(pending_[at], found_[at]);
    arrived_.store(++arrived, std::memory_order_release);
  }
  return arrived;
}

void CudaMeter::LoseWhatCannotCome() {
  const Pending& oldest = pending_[(arrived_ + 1) % kRingSize];
  const Current current(driver_, oldest.context);
  const int status = driver_.QueryStream(reinterpret_cast<cuda::Stream>(oldest.stream));
  const std::uint64_t before = arrived_;
  // With all that was on its stream done, what is not here now never will be.
  if (status == cuda::kNotReady || Poll() != before) return;
  if (status != kSuccess && !failure_) failure_ = driver_.Failure("QueryStream", status);
  const std::uint64_t last = status == kSuccess ? before + 1 : launched_.load();
  for (std::uint64_t i = before + 1; i <= last; ++i) pending_[i % kRingSize].lost = true;
}

void CudaMeter::WaitFor(std::uint64_t sequence) {
  if (arrived_.load(std::memory_order_acquire) >= sequence) return;
  for (int looks = 1;; ++looks) {
    {
      const std::scoped_lock lock(mutex_);
      if (Poll() >= sequence) return;
      if (looks % kLooksBeforeAsking == 0) LoseWhatCannotCome();
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

Result<Done> CudaMeter::TakeFailure() {
  const std::scoped_lock lock(mutex_);
  if (!failure_) return Done{};
  return *std::exchange(failure_, std::nullopt);
}

}  // namespace vernier

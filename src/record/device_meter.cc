#include "record/device_meter.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <thread>

namespace vernier {
namespace {

constexpr std::uint64_t kRingSize = FoundRing::kPlaces;
constexpr std::uint64_t kVectorsPerThread = 4;  // fewer are not worth another block
constexpr std::uint64_t kLargeBytes = std::uint64_t{1} << 25;
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

bool IsWhole(Dtype dtype) {
  return Class(dtype) != DtypeClass::kFloat && Class(dtype) != DtypeClass::kComplex;
}

Summary SummaryOf(const cuda::Found& found, const FoundTensor& tensor) {
  const auto& [dtype, is_scalar, num_elements, repeat] = tensor;
  Summary summary;
  summary.num_elements = num_elements * repeat;
  summary.sum = found.sum * static_cast<double>(repeat);
  summary.sum_sq = found.sum_sq * static_cast<double>(repeat);
  if (!IsWhole(dtype)) {
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

constexpr std::string_view kCaptured =
    "it is captured into a graph, where nothing runs yet: tensors of calls in it have no numbers";

cuda::Job JobFor(const TensorWords& tensor, const Walk& walk, const SummaryRequest& request) {
  const std::uint64_t item_bytes = ItemBytes(*tensor.dtype);
  cuda::Job job{};
  job.data = static_cast<unsigned long long>(tensor.address);
  job.num_elements = walk.num_elements();
  job.kind = *KindOf(*tensor.dtype);
  job.item_bytes = static_cast<unsigned>(item_bytes);
  if (request.statistics) job.wanted |= cuda::kStatistics;
  if (request.crc32) job.wanted |= cuda::kCrc32;
  if (request.xor64) job.wanted |= cuda::kXor64;
  if (request.sketch_sums != 0) job.wanted |= cuda::kSketch;
  job.layout = LayoutOf(walk, tensor.address, item_bytes);
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
  return job;
}

}  // namespace

Measured MeasuredFrom(const cuda::Found& found, const FoundTensor& tensor, const RecorderOptions& options) {
  return ApplyRules(SummaryOf(found, tensor), tensor.dtype, tensor.is_scalar, options.summary,
                    options.high_precision);
}

std::uint64_t DeviceMeter::SupportedDtypes() {
  std::uint64_t bits = 0;
  for (const auto& [dtype, kind] : kKinds) bits |= std::uint64_t{1} << static_cast<unsigned>(dtype);
  return bits;
}

DeviceMeter::DeviceMeter(const RecorderOptions& options, std::unique_ptr<Launcher> launcher)
    : options_(options), launcher_(std::move(launcher)), pending_(FoundRing::kPlaces) {}

DeviceMeter::~DeviceMeter() { WaitFor(launched_); }

Result<std::shared_ptr<Slot>> DeviceMeter::Measure(const TensorWords& tensor, RecordTotals& totals) {
  ++totals.num_tensors;
  const cuda::Kind* const kind = KindOf(*tensor.dtype);
  if (kind == nullptr || tensor.shape.size() > cuda::kMaxAxes) {
    return Error{ErrorCode::kUnsupported, "words", "a tensor that cannot be measured on its device"};
  }
  const SummaryRequest request =
      RequestFor(*tensor.dtype, options_.summary, options_.high_precision, options_.sketch_sums);
  const bool in_order = request.crc32 || request.xor64 || request.sketch_sums != 0;
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

Result<DeviceMeter::Checksums> DeviceMeter::MeasureChecksums(const TensorWords& tensor) {
  if (!tensor.readable() || KindOf(*tensor.dtype) == nullptr || tensor.shape.size() > cuda::kMaxAxes) {
    return Error{ErrorCode::kUnsupported, "words", "a tensor that cannot be measured on its device"};
  }
  const Walk walk = Walk::InOrder(tensor.strided());
  const Checksums checksums{std::make_shared<Slot>(), std::make_shared<Slot>()};
  for (const auto& slot : {checksums.crc32, checksums.xor64}) {
    SummaryRequest request;
    request.statistics = false;
    (slot == checksums.crc32 ? request.crc32 : request.xor64) = true;
    VN_RETURN_IF_ERROR(AddJob(tensor, walk, request, slot));
    Pending& pending = pending_[slot->sequence % kRingSize];
    pending.only_digest = true;
    pending.is_crc32 = request.crc32;
  }
  VN_RETURN_IF_ERROR(Launch());
  return checksums;
}

std::optional<DeviceMeter::Checksums::Values> DeviceMeter::Checksums::Take(DeviceMeter& meter) const {
  meter.WaitFor(xor64->sequence);
  if (!crc32->measured.has_digest || !xor64->measured.has_digest) return std::nullopt;
  return Values{static_cast<std::uint32_t>(crc32->measured.digest), xor64->measured.digest};
}

Result<Done> DeviceMeter::AddJob(const TensorWords& tensor, const Walk& walk, const SummaryRequest& request,
                                 const std::shared_ptr<Slot>& slot) {
  VN_ASSIGN_OR_RETURN(ring_, launcher_->Prepare(tensor.device));
  cuda::Job job = JobFor(tensor, walk, request);
  const DeviceStream where{tensor.device, tensor.stream};
  if (launch_.num_jobs > 0 &&
      (where != launch_stream_ || !launcher_->FitsIn(launch_.jobs[0], launch_.num_jobs, job))) {
    VN_RETURN_IF_ERROR(Launch());
  }
  if (next_ > kRingSize) {
    const std::uint64_t before = next_ - kRingSize;  // in the same place
    if (before >= next_ - launch_.num_jobs) VN_RETURN_IF_ERROR(Launch());
    if (!launcher_->IsOnItsWay(before)) {
      return Error{ErrorCode::kTooLarge, "one call", "more tensors than can be measured at once on a device"};
    }
    WaitFor(before);
  }
  launch_stream_ = where;
  const std::uint64_t sequence = next_++;
  job.found = ring_.on_device + sequence % kRingSize * sizeof(cuda::Found);
  job.sketch = ring_.sketches_on_device + sequence % kRingSize * cuda::kSketchWords * sizeof(std::uint64_t);
  job.sequence = sequence;
  job.first_block = num_blocks_;
  num_blocks_ += job.num_blocks;
  launch_.jobs[launch_.num_jobs++] = job;

  slot->sequence = sequence;
  pending_[sequence % kRingSize] = {
      .slot = slot,
      .tensor = {*tensor.dtype, tensor.shape.empty(), walk.num_elements(), walk.repeat()},
      .where = where,
      .has_sketch = request.sketch_sums != 0};
  return Done{};
}

Result<Done> DeviceMeter::Launch() {
  if (launch_.num_jobs == 0) return Done{};
  Result<Launcher::Launched> result = launcher_->Launch(launch_stream_, launch_, num_blocks_);
  const bool is_captured = result && *result == Launcher::Launched::kCapturing;
  if (!result || is_captured) LoseLaunched();
  launch_.num_jobs = 0;
  num_blocks_ = 0;
  launched_.store(next_ - 1, std::memory_order_release);
  if (is_captured) {
    const std::scoped_lock lock(mutex_);
    KeepFailure({ErrorCode::kUnsupported, "a stream", std::string(kCaptured)});
  }
  if (!result) return std::move(result).error();
  return Done{};
}

void DeviceMeter::LoseLaunched() {
  for (unsigned i = 0; i < launch_.num_jobs; ++i) pending_[launch_.jobs[i].sequence % kRingSize].lost = true;
}

void DeviceMeter::Fill(std::uint64_t place) {
  Pending& pending = pending_[place];
  const cuda::Found& found = ring_.found[place];
  Slot& slot = *pending.slot;
  slot.measured = NothingMeasured();
  if (!pending.lost && pending.only_digest) {
    const auto& [dtype, is_scalar, num_elements, repeat] = pending.tensor;
    slot.measured.has_digest = true;
    slot.measured.digest = pending.is_crc32
                               ? cuda::CrcOfRest(cuda::TablesForCrc(), num_elements * ItemBytes(dtype),
                                                 static_cast<unsigned>(found.digest))
                               : found.digest;
  } else if (!pending.lost) {
    slot.measured = MeasuredFrom(found, pending.tensor, options_);
    if (pending.has_sketch) {
      const std::span<const std::uint64_t, cuda::kSketchWords> words(
          ring_.sketches + place * cuda::kSketchWords, cuda::kSketchWords);
      slot.sketch = SketchFrom(words, pending.tensor.num_elements, options_.sketch_sums);
    }
  }
  slot.has_numbers = slot.filled = true;
  pending.slot = nullptr;
}

bool DeviceMeter::HasArrived(std::uint64_t sequence) const {
  const std::uint64_t at = sequence % kRingSize;
  return launcher_->HasArrived(ring_.found[at], sequence) &&
         (!pending_[at].has_sketch ||
          launcher_->HasSketch(ring_.sketches + at * cuda::kSketchWords, sequence));
}

std::uint64_t DeviceMeter::Poll() {
  const std::uint64_t launched = launched_.load(std::memory_order_acquire);
  std::uint64_t arrived = arrived_.load(std::memory_order_relaxed);
  while (arrived < launched) {
    const std::uint64_t at = (arrived + 1) % kRingSize;
    if (!pending_[at].lost && !HasArrived(arrived + 1)) break;
    Fill(at);
    arrived_.store(++arrived, std::memory_order_release);
  }
  return arrived;
}

void DeviceMeter::LoseWhatCannotCome() {
  const std::uint64_t before = arrived_;
  const Launcher::StreamState state = launcher_->Ask(pending_[(before + 1) % kRingSize].where);
  // With all that was on its stream done, what is not here now never will be.
  if (state.is_busy || Poll() != before) return;
  if (!state.failure.empty()) KeepFailure({ErrorCode::kUnsupported, "a device", state.failure});
  const std::uint64_t last = state.failure.empty() ? before + 1 : launched_.load();
  for (std::uint64_t i = before + 1; i <= last; ++i) pending_[i % kRingSize].lost = true;
}

void DeviceMeter::KeepFailure(Error failure) {
  if (!failure_) failure_ = std::move(failure);
}

void DeviceMeter::Lose(std::uint64_t first, std::uint64_t count, Error why) {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t end = std::min(first + count, launched_.load() + 1);
  for (std::uint64_t i = std::max(first, arrived_.load() + 1); i < end; ++i)
    pending_[i % kRingSize].lost = true;
  KeepFailure(std::move(why));
}

void DeviceMeter::WaitFor(std::uint64_t sequence) {
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

Result<Done> DeviceMeter::TakeFailure() {
  const std::scoped_lock lock(mutex_);
  if (!failure_) return Done{};
  return *std::exchange(failure_, std::nullopt);
}

}  // namespace vernier

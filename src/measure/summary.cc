#include "measure/summary.h"

#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

#include "measure/kernels_internal.h"
#include "measure/plain_kernels_internal.h"

namespace vernier {
namespace {

using internal::kBlockElements;
using internal::Range;
using internal::SumLanes;
using internal::SummaryKernels;
using internal::Work;
namespace plain = internal::plain;

// The unit of work of a thread. Fixed, because sums depend on where they are cut.
constexpr std::uint64_t kChunkElements = std::uint64_t{1} << 16;
static_assert(kChunkElements % kBlockElements == 0 && kBlockElements % internal::kNumSumLanes == 0);

// What the kernels see of a stored type: of complex numbers their magnitudes.
template <class T>
struct Seen {
  using type = T;
};
template <class Part>
struct Seen<std::complex<Part>> {
  using type = Part;
};
template <>
struct Seen<Bool> {
  using type = std::uint8_t;
};

template <class T>
struct Accumulator {
  using S = typename Seen<T>::type;
  Range<Work<S>> range;
  SumLanes lanes;
  bool empty = true;

  void Add(const std::byte* block, std::size_t n, bool sums, const SummaryKernels& kernels) {
    constexpr bool kIsComplex = std::is_same_v<T, std::complex<S>>;
    alignas(64) S magnitudes[kIsComplex ? kBlockElements : 1];
    const S* x = reinterpret_cast<const S*>(block);
    if constexpr (kIsComplex) {
      for (std::size_t i = 0; i < n; ++i) {
        const T value = plain::LoadAt<T>(block, i);
        magnitudes[i] = std::hypot(value.real(), value.imag());
      }
      x = magnitudes;
    }
    if (empty) range = plain::FirstRange(x);
    empty = false;
    std::get<internal::RangeKernel<S>>(kernels.range)(x, n, range);
    if (!sums) return;
    if constexpr (std::is_integral_v<S>) {
      plain::Sum(x, 0, n, lanes);
    } else {
      std::get<internal::SumKernel<S>>(kernels.sum)(x, n, lanes);
    }
  }
};

double Fold(const double* lanes) {
  double folded[internal::kNumSumLanes / 2];
  std::size_t num = internal::kNumSumLanes / 2;
  for (std::size_t i = 0; i < num; ++i) folded[i] = lanes[i] + lanes[i + num];
  for (num /= 2; num > 0; num /= 2) {
    for (std::size_t i = 0; i < num; ++i) folded[i] += folded[i + num];
  }
  return folded[0];
}

template <class T>
void Finish(const Accumulator<T>& accumulator, Summary& part) {
  if constexpr (std::is_floating_point_v<decltype(accumulator.range.min)>) {
    part.min = accumulator.range.min;
    part.max = accumulator.range.max;
  } else {
    part.integer_min = static_cast<std::int64_t>(+accumulator.range.min);
    part.integer_max = static_cast<std::int64_t>(+accumulator.range.max);
  }
  part.sum = Fold(accumulator.lanes.sum);
  part.sum_sq = Fold(accumulator.lanes.sum_sq);
}

bool Precedes(Dtype dtype, std::int64_t a, std::int64_t b) {
  return dtype == Dtype::kU64 ? static_cast<std::uint64_t>(a) < static_cast<std::uint64_t>(b) : a < b;
}

bool EndsWithMinusZero(const StridedTensor& tensor) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) last += (tensor.shape[i] - 1) * tensor.strides[i];
  // Little endian: the sign is in the last byte.
  const std::int64_t at = (last + 1) * static_cast<std::int64_t>(ItemBytes(tensor.dtype)) - 1;
  return (tensor.data[at] & std::byte{0x80}) != std::byte{0};
}

bool NeedsOrder(const SummaryRequest& request) {
  return request.crc32 || request.xor64 || request.copy != nullptr || request.sketch_sums != 0;
}

// Whether none of the elements that the accumulator has seen counts as 0 in a sketch.
template <class T>
bool AllCount(const Accumulator<T>& seen) {
  if constexpr (std::is_integral_v<typename Accumulator<T>::S>) {
    return true;
  } else {
    // Written so that NaN is a no. Infinities are beyond the range, but where the range is one of NaN.
    if (!(seen.range.min >= -kSketchLargest && seen.range.max <= kSketchLargest)) return false;
    double all = 0;
    for (const double sum_sq : seen.lanes.sum_sq) all += sum_sq;
    return all < std::numeric_limits<double>::infinity();
  }
}

}  // namespace

bool HasSummary(Dtype dtype) {
  return VisitDtype(dtype, [](auto type) { return !plain::kIsFloat8<typename decltype(type)::type>; });
}

SummaryTask::SummaryTask(const StridedTensor& tensor, const SummaryRequest& request)
    : tensor_(tensor),
      request_(request),
      item_bytes_(ItemBytes(tensor.dtype)),
      walk_(NeedsOrder(request) ? Walk::InOrder(tensor) : Walk::ByMemory(tensor)),
      num_chunks_(static_cast<std::size_t>((walk_.num_elements() + kChunkElements - 1) / kChunkElements)) {
  request_.statistics = request.statistics && HasSummary(tensor.dtype);
  if (num_chunks_ > 1) others_.resize(num_chunks_ - 1);
  if (request_.statistics && request_.sketch_sums != 0) {
    sketches_ = std::make_unique<SketchPart[]>(num_chunks_);
  }
}

// `first`: the block's first element in the tensor.
template <class T>
void SummaryTask::SketchBlock(const std::byte* block, std::size_t n, std::uint64_t first, bool all_count,
                              SketchPart& part) const {
  using S = typename Seen<T>::type;
  constexpr bool kIsComplex = std::is_same_v<T, std::complex<S>>, kIsInteger = std::is_integral_v<S>;
  using Summed = std::conditional_t<kIsInteger, double, S>;
  const auto value_at = [&](std::size_t i, [[maybe_unused]] std::size_t which) {
    if constexpr (kIsComplex) {
      return plain::LoadAt<S>(block, 2 * i + which);
    } else {
      return plain::ValueOf(plain::LoadAt<S>(block, i));
    }
  };
  for (std::size_t which = 0; which < (kIsComplex ? 2 : 1); ++which) {
    if (is_kept_whole()) {
      for (std::size_t i = 0; i < n; ++i) part.sums[which][i] = static_cast<double>(value_at(i, which));
      continue;
    }
    alignas(64) Summed widened[kIsComplex || kIsInteger ? kBlockElements : 1];
    const Summed* x = reinterpret_cast<const Summed*>(block);
    if constexpr (kIsComplex || kIsInteger) {
      for (std::size_t i = 0; i < n; ++i) widened[i] = static_cast<Summed>(value_at(i, which));
      x = widened;
    }
    const auto& kernels = internal::ActiveKernels().summary.sketch;
    const auto& table = all_count ? kernels.all_count : kernels.some_may_not;
    part.num_bad += std::get<internal::SketchKernel<Summed>>(table)(x, n, first, part.sums[which]);
  }
}

void SummaryTask::RunChunk(std::size_t chunk) {
  const std::uint64_t begin = chunk * kChunkElements;
  const std::uint64_t count = std::min(kChunkElements, walk_.num_elements() - begin);
  Summary& part = PartOf(chunk);
  part.num_elements = count;
  const SummaryKernels& summary = internal::ActiveKernels().summary;
  VisitDtype(tensor_.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    alignas(64) std::byte gathered[kBlockElements * sizeof(T)];
    constexpr bool kHasSummary = !plain::kIsFloat8<T>;
    Accumulator<std::conditional_t<kHasSummary, T, Bool>> accumulator;
    const bool sums = !std::is_integral_v<typename Seen<T>::type> || request_.sums_of_integers;
    for (std::uint64_t done = 0; done < count; done += kBlockElements) {
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(kBlockElements, count - done));
      const std::uint64_t at = begin + done;
      const std::byte* block = tensor_.data + at * sizeof(T);
      std::byte* const copy = request_.copy != nullptr ? request_.copy + at * sizeof(T) : nullptr;
      if (!walk_.contiguous() || copy != nullptr) {
        std::byte* const to = copy != nullptr ? copy : gathered;
        walk_.Gather(tensor_.data, sizeof(T), at, n, to);
        block = to;
      }
      if constexpr (kHasSummary) {
        if (request_.statistics) accumulator.Add(block, n, sums, summary);
        if (sketches_ != nullptr) SketchBlock<T>(block, n, at, AllCount(accumulator), sketches_[chunk]);
      }
      if (request_.crc32) part.crc32 = libdeflate_crc32(part.crc32, block, n * sizeof(T));
      if (request_.xor64) part.xor64 ^= summary.xor64(block, n * sizeof(T));
    }
    if constexpr (kHasSummary) {
      if (request_.statistics) vernier::Finish(accumulator, part);
    }
  });
}

Summary SummaryTask::Finish() const {
  Summary total = first_;
  for (const Summary& part : others_) {
    total.num_elements += part.num_elements;
    total.min = std::min(total.min, part.min);
    total.max = std::max(total.max, part.max);
    total.sum += part.sum;
    total.sum_sq += part.sum_sq;
    if (Precedes(tensor_.dtype, part.integer_min, total.integer_min)) total.integer_min = part.integer_min;
    if (Precedes(tensor_.dtype, total.integer_max, part.integer_max)) total.integer_max = part.integer_max;
    total.xor64 ^= part.xor64;
    if (request_.crc32) {
      const auto num_bytes = static_cast<z_off_t>(part.num_elements * item_bytes_);
      total.crc32 = static_cast<std::uint32_t>(crc32_combine(total.crc32, part.crc32, num_bytes));
    }
  }
  // Instruction sets do not order -0 and 0 alike. Where every element is a zero, the last one's sign counts.
  if (total.min == 0 || total.max == 0) {
    const bool minus = total.min == 0 && total.max == 0 && Class(tensor_.dtype) == DtypeClass::kFloat &&
                       EndsWithMinusZero(tensor_);
    if (total.min == 0) total.min = minus ? -0.0 : 0.0;
    if (total.max == 0) total.max = minus ? -0.0 : 0.0;
  }
  const std::uint64_t repeat = walk_.repeat();
  if (repeat > 1) {
    total.num_elements *= repeat;
    total.sum *= static_cast<double>(repeat);
    total.sum_sq *= static_cast<double>(repeat);
  }
  if (sketches_ != nullptr) total.sketch = FinishSketch();
  return total;
}

std::shared_ptr<const Sketch> SummaryTask::FinishSketch() const {
  Sketch all;
  all.whole = is_kept_whole();
  all.is_complex = Class(tensor_.dtype) == DtypeClass::kComplex;
  const std::size_t size = all.whole ? static_cast<std::size_t>(walk_.num_elements()) : kSketchSums;
  for (std::size_t which = 0; which < (all.is_complex ? 2u : 1u); ++which) {
    const double* const sums = sketches_[0].sums[which];
    all.numbers.insert(all.numbers.end(), sums, sums + size);
    for (std::size_t chunk = 1; chunk < num_chunks_; ++chunk) {
      for (std::size_t i = 0; i < size; ++i) all.numbers[which * size + i] += sketches_[chunk].sums[which][i];
    }
  }
  for (std::size_t chunk = 0; chunk < num_chunks_; ++chunk) all.num_bad += sketches_[chunk].num_bad;
  const bool folds = !all.whole && request_.sketch_sums < kSketchSums;
  return std::make_shared<const Sketch>(folds ? Folded(all, request_.sketch_sums) : std::move(all));
}

Summary Summarize(const StridedTensor& tensor, const SummaryRequest& request) {
  SummaryTask task(tensor, request);
  for (std::size_t chunk = 0; chunk < task.num_chunks(); ++chunk) task.RunChunk(chunk);
  return task.Finish();
}

}  // namespace vernier

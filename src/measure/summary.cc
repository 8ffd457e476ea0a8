#include "measure/summary.h"

#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <type_traits>

#include "measure/kernels_internal.h"
#include "measure/plain_kernels_internal.h"
#include "measure/summary_kernels_internal.h"

namespace vernier {
namespace {

using internal::kBlockElements;
using internal::Range;
using internal::SumLanes;
using internal::SummaryKernels;

// The unit of work of a thread. Fixed, because sums depend on where they are cut.
constexpr std::uint64_t kChunkElements = std::uint64_t{1} << 16;
static_assert(kChunkElements % kBlockElements == 0 && kBlockElements % internal::kNumSumLanes == 0);

template <class T>
inline constexpr bool kIsComplex =
    std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;
template <class T>
inline constexpr bool kIsFloat8 = std::is_same_v<T, Float8E4M3FN> || std::is_same_v<T, Float8E5M2> ||
                                  std::is_same_v<T, Float8E4M3FNUZ> || std::is_same_v<T, Float8E5M2FNUZ>;

// The type in which the extremes of a stored type are found.
template <class T>
struct WorkType {
  using type = T;
};
template <>
struct WorkType<Float16> {
  using type = float;
};
template <>
struct WorkType<BFloat16> {
  using type = float;
};
template <>
struct WorkType<std::complex<float>> {
  using type = float;
};
template <>
struct WorkType<std::complex<double>> {
  using type = double;
};
template <>
struct WorkType<Bool> {
  using type = std::uint8_t;
};
template <class T>
using Work = typename WorkType<T>::type;

// clang-format off
void Sum(const SummaryKernels& k, const float* x, std::size_t n, SumLanes& lanes) { k.sum_f32(x, n, lanes); }
void Sum(const SummaryKernels& k, const double* x, std::size_t n, SumLanes& lanes) { k.sum_f64(x, n, lanes); }
void Sum(const SummaryKernels& k, const Float16* x, std::size_t n, SumLanes& lanes) { k.sum_f16(x, n, lanes); }
void Sum(const SummaryKernels& k, const BFloat16* x, std::size_t n, SumLanes& lanes) { k.sum_bf16(x, n, lanes); }
// Integers have a sum only where precision was asked for.
template <class T>
void Sum(const SummaryKernels&, const T* x, std::size_t n, SumLanes& lanes) {
  for (std::size_t i = 0; i < n; ++i) {
    const auto value = static_cast<double>(internal::plain::LoadAt<T>(x, i));
    lanes.sum[i % internal::kNumSumLanes] += value;
    lanes.sum_sq[i % internal::kNumSumLanes] += value * value;
  }
}

void Find(const SummaryKernels& k, const float* x, std::size_t n, Range<float>& r) { k.range_f32(x, n, r); }
void Find(const SummaryKernels& k, const double* x, std::size_t n, Range<double>& r) { k.range_f64(x, n, r); }
void Find(const SummaryKernels& k, const Float16* x, std::size_t n, Range<float>& r) { k.range_f16(x, n, r); }
void Find(const SummaryKernels& k, const BFloat16* x, std::size_t n, Range<float>& r) { k.range_bf16(x, n, r); }
void Find(const SummaryKernels& k, const std::int8_t* x, std::size_t n, Range<std::int8_t>& r) { k.range_i8(x, n, r); }
void Find(const SummaryKernels& k, const std::uint8_t* x, std::size_t n, Range<std::uint8_t>& r) { k.range_u8(x, n, r); }
void Find(const SummaryKernels& k, const std::int16_t* x, std::size_t n, Range<std::int16_t>& r) { k.range_i16(x, n, r); }
void Find(const SummaryKernels& k, const std::uint16_t* x, std::size_t n, Range<std::uint16_t>& r) { k.range_u16(x, n, r); }
void Find(const SummaryKernels& k, const std::int32_t* x, std::size_t n, Range<std::int32_t>& r) { k.range_i32(x, n, r); }
void Find(const SummaryKernels& k, const std::uint32_t* x, std::size_t n, Range<std::uint32_t>& r) { k.range_u32(x, n, r); }
void Find(const SummaryKernels& k, const std::int64_t* x, std::size_t n, Range<std::int64_t>& r) { k.range_i64(x, n, r); }
void Find(const SummaryKernels& k, const std::uint64_t* x, std::size_t n, Range<std::uint64_t>& r) { k.range_u64(x, n, r); }
// clang-format on

// The first number of a block, to begin a range with.
template <class T>
Work<T> FirstOf(const std::byte* block) {
  if constexpr (std::is_same_v<T, Float16>) {
    return internal::plain::HalfToFloat(internal::plain::LoadAt<T>(block, 0).bits);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(internal::plain::LoadAt<T>(block, 0).bits) << 16);
  } else {
    return internal::plain::LoadAt<Work<T>>(block, 0);
  }
}

template <class T>
struct Accumulator {
  Range<Work<T>> range;
  SumLanes lanes;
  bool empty = true;

  void Add(const std::byte* block, std::size_t n, bool sums, const SummaryKernels& kernels) {
    if constexpr (kIsComplex<T>) {
      AddMagnitudes(block, n, kernels);
    } else {
      // What kernels load by value; the others are their own work type.
      using Stored = std::conditional_t<std::is_same_v<T, Bool>, std::uint8_t, T>;
      const auto* const x = reinterpret_cast<const Stored*>(block);
      if (empty) range.min = range.max = FirstOf<T>(block);
      empty = false;
      Find(kernels, x, n, range);
      if (sums) Sum(kernels, x, n, lanes);
    }
  }

 private:
  void AddMagnitudes(const std::byte* block, std::size_t n, const SummaryKernels& kernels) {
    alignas(64) Work<T> magnitudes[kBlockElements];
    for (std::size_t i = 0; i < n; ++i) {
      const T value = internal::plain::LoadAt<T>(block, i);
      magnitudes[i] = std::hypot(value.real(), value.imag());
    }
    if (empty) range.min = range.max = magnitudes[0];
    empty = false;
    Find(kernels, magnitudes, n, range);
    Sum(kernels, magnitudes, n, lanes);
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
  if constexpr (std::is_floating_point_v<Work<T>>) {
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
  return request.crc32 || request.xor64 || request.copy != nullptr;
}

}  // namespace

bool HasSummary(Dtype dtype) {
  return VisitDtype(dtype, [](auto type) { return !kIsFloat8<typename decltype(type)::type>; });
}

SummaryTask::SummaryTask(const StridedTensor& tensor, const SummaryRequest& request)
    : tensor_(tensor),
      request_(request),
      item_bytes_(ItemBytes(tensor.dtype)),
      walk_(NeedsOrder(request) ? Walk::InOrder(tensor) : Walk::ByMemory(tensor)),
      num_chunks_(static_cast<std::size_t>((walk_.num_elements() + kChunkElements - 1) / kChunkElements)) {
  request_.statistics = request.statistics && HasSummary(tensor.dtype);
  if (num_chunks_ > 1) others_.resize(num_chunks_ - 1);
}

void SummaryTask::RunChunk(std::size_t chunk) {
  const std::uint64_t begin = chunk * kChunkElements;
  const std::uint64_t count = std::min(kChunkElements, walk_.num_elements() - begin);
  Summary& part = PartOf(chunk);
  part.num_elements = count;
  const SummaryKernels& summary = internal::ActiveSummaryKernels();
  VisitDtype(tensor_.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    alignas(64) std::byte gathered[kBlockElements * sizeof(T)];
    constexpr bool kHasSummary = !kIsFloat8<T>;
    Accumulator<std::conditional_t<kHasSummary, T, Bool>> accumulator;
    const bool sums = std::is_floating_point_v<Work<T>> || request_.sums_of_integers;
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
  return total;
}

Summary Summarize(const StridedTensor& tensor, const SummaryRequest& request) {
  SummaryTask task(tensor, request);
  for (std::size_t chunk = 0; chunk < task.num_chunks(); ++chunk) task.RunChunk(chunk);
  return task.Finish();
}

}  // namespace vernier

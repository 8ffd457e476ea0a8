// The SIMD loops of summary.cc, compiled once for each instruction set by summary_kernels.cc.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "measure/plain_kernels_internal.h"
#include "measure/summary_kernels_internal.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::internal {
namespace HWY_NAMESPACE {
namespace summary {

namespace hn = hwy::HWY_NAMESPACE;

using D64 = hn::CappedTag<double, 8>;
using V64 = hn::Vec<D64>;

HWY_INLINE V64 LoadWide(D64 d, const double* from) { return hn::LoadU(d, from); }
HWY_INLINE V64 LoadWide(D64 d, const float* from) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D64>(), from));
}

template <class Half>  // hwy::float16_t or hwy::bfloat16_t
HWY_INLINE V64 LoadWide(D64 d, const Half* from) {
  return hn::PromoteTo(d, hn::PromoteTo(hn::Rebind<float, D64>(), hn::LoadU(hn::Rebind<Half, D64>(), from)));
}

// The square of a float is exact in double, so that fusing changes no bit; that of a double is not.
template <class T>
HWY_INLINE V64 AddSquare(V64 sum, V64 value, const T*) {
  if constexpr (sizeof(T) <= sizeof(float)) return hn::MulAdd(value, value, sum);
  return hn::Add(sum, hn::Mul(value, value));
}

// One element, for what is left behind the last vector.
template <class T>
HWY_INLINE T LoadOne(const T* x, std::size_t i) {
  return plain::LoadAt<T>(x, i);
}
HWY_INLINE float LoadOne(const hwy::float16_t* x, std::size_t i) {
  return plain::HalfToFloat(plain::LoadAt<std::uint16_t>(x, i));
}
HWY_INLINE float LoadOne(const hwy::bfloat16_t* x, std::size_t i) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(plain::LoadAt<std::uint16_t>(x, i)) << 16);
}

// Sends for what comes four pages later, a line of each page in turn: the machine then reads ahead in all
// four of them, which one after the other would leave its memory waiting.
template <class T>
HWY_INLINE void FetchAhead(const T* from) {
  constexpr std::size_t kLineBytes = 64, kPageBytes = 4096, kPages = 4, kGroupBytes = kPages * kPageBytes;
  for (std::size_t at = 0; at < kNumSumLanes * sizeof(T); at += kLineBytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(from) + at;
    const std::uintptr_t line = address % kGroupBytes / kLineBytes;
    const std::uintptr_t next = address - address % kGroupBytes + kGroupBytes;
    hwy::Prefetch(
        reinterpret_cast<const char*>(next + line % kPages * kPageBytes + line / kPages * kLineBytes));
  }
}

template <class T>
void Sum(const T* x, std::size_t n, SumLanes& lanes) {
  const D64 d;
  const std::size_t width = hn::Lanes(d), whole = n - n % kNumSumLanes;
  // Four registers of each sum at a time; narrow ones take several passes over the block, which is in the
  // cache by then.
  for (std::size_t lane = 0; lane < kNumSumLanes && whole > 0; lane += 4 * width) {
    double* const sum = lanes.sum + lane;
    double* const sum_sq = lanes.sum_sq + lane;
    V64 s0 = hn::Load(d, sum), s1 = hn::Load(d, sum + width), s2 = hn::Load(d, sum + 2 * width),
        s3 = hn::Load(d, sum + 3 * width);
    V64 q0 = hn::Load(d, sum_sq), q1 = hn::Load(d, sum_sq + width), q2 = hn::Load(d, sum_sq + 2 * width),
        q3 = hn::Load(d, sum_sq + 3 * width);
    for (std::size_t i = lane; i < whole; i += kNumSumLanes) {
      if (lane == 0) FetchAhead(x + i);  // past the end it does nothing
      const V64 v0 = LoadWide(d, x + i), v1 = LoadWide(d, x + i + width);
      const V64 v2 = LoadWide(d, x + i + 2 * width), v3 = LoadWide(d, x + i + 3 * width);
      s0 = hn::Add(s0, v0);
      s1 = hn::Add(s1, v1);
      s2 = hn::Add(s2, v2);
      s3 = hn::Add(s3, v3);
      q0 = AddSquare(q0, v0, x);
      q1 = AddSquare(q1, v1, x);
      q2 = AddSquare(q2, v2, x);
      q3 = AddSquare(q3, v3, x);
    }
    hn::Store(s0, d, sum);
    hn::Store(s1, d, sum + width);
    hn::Store(s2, d, sum + 2 * width);
    hn::Store(s3, d, sum + 3 * width);
    hn::Store(q0, d, sum_sq);
    hn::Store(q1, d, sum_sq + width);
    hn::Store(q2, d, sum_sq + 2 * width);
    hn::Store(q3, d, sum_sq + 3 * width);
  }
  for (std::size_t i = whole; i < n; ++i) {
    const double value = LoadOne(x, i);
    lanes.sum[i - whole] += value;
    lanes.sum_sq[i - whole] += value * value;
  }
}

template <class T>
struct WorkType {
  using type = T;
};
template <>
struct WorkType<hwy::float16_t> {
  using type = float;
};
template <>
struct WorkType<hwy::bfloat16_t> {
  using type = float;
};
template <class T>
using WorkOf = typename WorkType<T>::type;

template <class D, class T>
HWY_INLINE hn::Vec<D> LoadWork(D d, const T* from) {
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    return hn::LoadU(d, from);
  } else {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D>(), from));
  }
}

template <class T>
void FindRange(const T* x, std::size_t n, Range<WorkOf<T>>& range) {
  using W = WorkOf<T>;
  const hn::CappedTag<W, 64 / sizeof(W)> d;
  const std::size_t step = hn::Lanes(d);
  std::size_t i = 0;
  if (n >= step) {
    auto min = hn::Set(d, range.min), max = hn::Set(d, range.max), min2 = min, max2 = max;
    for (; i + 2 * step <= n; i += 2 * step) {
      const auto value = LoadWork(d, x + i), value2 = LoadWork(d, x + i + step);
      min = hn::Min(value, min);
      max = hn::Max(value, max);
      min2 = hn::Min(value2, min2);
      max2 = hn::Max(value2, max2);
    }
    if (i + step <= n) {
      const auto value = LoadWork(d, x + i);
      min = hn::Min(value, min);
      max = hn::Max(value, max);
      i += step;
    }
    HWY_ALIGN W mins[64 / sizeof(W)], maxs[64 / sizeof(W)];
    hn::Store(hn::Min(min, min2), d, mins);
    hn::Store(hn::Max(max, max2), d, maxs);
    for (std::size_t lane = 0; lane < step; ++lane) {
      range.min = mins[lane] < range.min ? mins[lane] : range.min;
      range.max = maxs[lane] > range.max ? maxs[lane] : range.max;
    }
  }
  for (; i < n; ++i) {
    const W value = LoadOne(x, i);
    range.min = value < range.min ? value : range.min;
    range.max = value > range.max ? value : range.max;
  }
}

std::uint64_t Xor64(const std::byte* bytes, std::size_t num_bytes) {
  const hn::CappedTag<std::uint64_t, 8> d;
  const std::size_t step = hn::Lanes(d) * sizeof(std::uint64_t);
  auto words = hn::Zero(d);
  std::size_t i = 0;
  for (; i + step <= num_bytes; i += step) {
    words = hn::Xor(words, hn::LoadU(d, reinterpret_cast<const std::uint64_t*>(bytes + i)));
  }
  HWY_ALIGN std::uint64_t lanes[8];
  hn::Store(words, d, lanes);
  std::uint64_t result = 0;
  for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) result ^= lanes[lane];
  for (; i < num_bytes; i += sizeof result) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i, num_bytes - i < sizeof word ? num_bytes - i : sizeof word);
    result ^= word;
  }
  return result;
}

}  // namespace summary

const SummaryKernels* SummaryTable() {
  static const SummaryKernels table = {
      hwy::TargetName(HWY_TARGET),
      summary::Sum<float>,
      summary::Sum<double>,
      [](const Float16* x, std::size_t n, SumLanes& lanes) {
        summary::Sum(reinterpret_cast<const hwy::float16_t*>(x), n, lanes);
      },
      [](const BFloat16* x, std::size_t n, SumLanes& lanes) {
        summary::Sum(reinterpret_cast<const hwy::bfloat16_t*>(x), n, lanes);
      },
      summary::FindRange<float>,
      summary::FindRange<double>,
      [](const Float16* x, std::size_t n, Range<float>& range) {
        summary::FindRange(reinterpret_cast<const hwy::float16_t*>(x), n, range);
      },
      [](const BFloat16* x, std::size_t n, Range<float>& range) {
        summary::FindRange(reinterpret_cast<const hwy::bfloat16_t*>(x), n, range);
      },
      summary::FindRange<std::int8_t>,
      summary::FindRange<std::uint8_t>,
      summary::FindRange<std::int16_t>,
      summary::FindRange<std::uint16_t>,
      summary::FindRange<std::int32_t>,
      summary::FindRange<std::uint32_t>,
      summary::FindRange<std::int64_t>,
      summary::FindRange<std::uint64_t>,
      summary::Xor64};
  return &table;
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::internal
HWY_AFTER_NAMESPACE();

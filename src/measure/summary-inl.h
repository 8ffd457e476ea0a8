// The SIMD loops of summary.cc, compiled once for each instruction set by kernels.cc, behind stored-inl.h.
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "measure/plain_kernels_internal.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::internal {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// sum + a * b. The product of two floats is exact in double, so that fusing changes no bit; that of two
// doubles is not.
template <class T>
HWY_INLINE V64 AddProduct(V64 sum, V64 a, V64 b) {
  if constexpr (sizeof(T) <= sizeof(float)) return hn::MulAdd(a, b, sum);
  return hn::Add(sum, hn::Mul(a, b));
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
      const V64 v0 = LoadAs(d, x + i), v1 = LoadAs(d, x + i + width);
      const V64 v2 = LoadAs(d, x + i + 2 * width), v3 = LoadAs(d, x + i + 3 * width);
      s0 = hn::Add(s0, v0);
      s1 = hn::Add(s1, v1);
      s2 = hn::Add(s2, v2);
      s3 = hn::Add(s3, v3);
      q0 = AddProduct<T>(q0, v0, v0);
      q1 = AddProduct<T>(q1, v1, v1);
      q2 = AddProduct<T>(q2, v2, v2);
      q3 = AddProduct<T>(q3, v3, v3);
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
  plain::Sum(x, whole, n, lanes);
}

template <class T>
void FindRange(const T* x, std::size_t n, Range<Work<T>>& range) {
  using W = Work<T>;
  const DWide<W> d;
  const std::size_t step = hn::Lanes(d);
  std::size_t i = 0;
  if (n >= step) {
    auto min = hn::Set(d, range.min), max = hn::Set(d, range.max), min2 = min, max2 = max;
    for (; i + 2 * step <= n; i += 2 * step) {
      const auto value = LoadAs(d, x + i), value2 = LoadAs(d, x + i + step);
      min = hn::Min(value, min);
      max = hn::Max(value, max);
      min2 = hn::Min(value2, min2);
      max2 = hn::Max(value2, max2);
    }
    if (i + step <= n) {
      const auto value = LoadAs(d, x + i);
      min = hn::Min(value, min);
      max = hn::Max(value, max);
      i += step;
    }
    HWY_ALIGN W mins[64 / sizeof(W)], maxs[64 / sizeof(W)];
    hn::Store(hn::Min(min, min2), d, mins);
    hn::Store(hn::Max(max, max2), d, maxs);
    for (std::size_t lane = 0; lane < step; ++lane) {
      plain::KeepMin(mins[lane], range.min);
      plain::KeepMax(maxs[lane], range.max);
    }
  }
  plain::FindRange(x, i, n, range);
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
  return result ^ plain::Xor64(bytes, i, num_bytes);
}

template <class... T>
constexpr SumTable<T...> AllSums(Types<T...>) {
  return {Sum<T>...};
}
template <class... T>
constexpr RangeTable<T...> AllRanges(Types<T...>) {
  return {FindRange<T>...};
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::internal
HWY_AFTER_NAMESPACE();

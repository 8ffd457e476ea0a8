// The SIMD loops, compiled once for each instruction set by kernels.cc. Two rules keep every set to the same
// bits: sums run in kNumLanes virtual lanes, in passes when a register has fewer; and no multiply-add is
// fused.
#include <cstddef>
#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "measure/kernels_internal.h"
#include "measure/plain_kernels_internal.h"
#include "measure/stored-inl.h"  // first: the others load with it
#include "measure/summary-inl.h"

#include "measure/divergence-inl.h"  // behind what it loads with
#include "measure/precheck-inl.h"
#include "measure/sketch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::internal {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Smallest and largest of a block. REQUIRES: n > 0
template <class T>
HWY_INLINE void Extremes(const T* x, std::size_t n, double& min, double& max) {
  Range<T> range = plain::FirstRange(x);
  FindRange(x, n, range);
  min = range.min;
  max = range.max;
}

template <unsigned kParts, class T>
void Pair(const T* t, const T* g, std::size_t n, const PairParameters& parameters, PairLanes& out) {
  constexpr bool kStats = (kParts & kPartStats) != 0, kRelative = (kParts & kPartRelative) != 0;
  constexpr bool kClose = (kParts & kPartClose) != 0, kErrors = (kParts & kPartErrors) != 0;
  const D64 d64;
  const std::size_t whole = WholeLanes(n);
  const V64 floor = hn::Set(d64, parameters.floor);
  const V64 rtol = hn::Set(d64, parameters.rtol), atol = hn::Set(d64, parameters.atol);
  const V64 above = hn::Set(d64, parameters.above);
  const NextBlock next = parameters.next;
  ForEachLaneGroup([&](std::size_t lane) HWY_ATTR {
    V64 dot = hn::Zero(d64), sq_t = dot, sq_g = dot, sq_d = dot, max_d = dot;
    V64 sum_t = dot, sum_g = dot, sum_relative = dot, max_relative = dot;
    V64 min_d = hn::Set(d64, std::numeric_limits<double>::infinity());
    std::uint64_t num_close = 0, num_above = 0;
    for (std::size_t i = lane; i < whole; i += kNumLanes) {
      // Memory works while we compute: what follows this block is fetched by the time it is asked for.
      hwy::Prefetch(next.target + i * next.target_item_bytes);
      hwy::Prefetch(next.golden + i * next.golden_item_bytes);
      const V64 a = LoadAs(d64, t + i), b = LoadAs(d64, g + i);
      const V64 d = hn::Sub(a, b), magnitude = hn::Abs(d);
      dot = AddProduct<T>(dot, a, b);
      sq_t = AddProduct<T>(sq_t, a, a);
      sq_g = AddProduct<T>(sq_g, b, b);
      sq_d = hn::Add(sq_d, hn::Mul(d, d));
      max_d = hn::Max(max_d, magnitude);
      if constexpr (kStats) {
        sum_t = hn::Add(sum_t, a);
        sum_g = hn::Add(sum_g, b);
      }
      if constexpr (kRelative) {
        const V64 relative = hn::Div(magnitude, hn::Max(hn::Abs(b), floor));
        sum_relative = hn::Add(sum_relative, relative);
        max_relative = hn::Max(max_relative, relative);
      }
      if constexpr (kClose) {
        num_close += hn::CountTrue(d64, hn::Le(magnitude, hn::Add(atol, hn::Mul(rtol, hn::Abs(b)))));
      }
      if constexpr (kErrors) {
        min_d = hn::Min(min_d, magnitude);
        num_above += hn::CountTrue(d64, hn::Gt(magnitude, above));
      }
    }
    hn::Store(dot, d64, out.dot.lane + lane);
    hn::Store(sq_t, d64, out.sq_t.lane + lane);
    hn::Store(sq_g, d64, out.sq_g.lane + lane);
    hn::Store(sq_d, d64, out.sq_d.lane + lane);
    hn::Store(max_d, d64, out.max_abs_d.lane + lane);
    hn::Store(sum_t, d64, out.sum_t.lane + lane);
    hn::Store(sum_g, d64, out.sum_g.lane + lane);
    hn::Store(sum_relative, d64, out.relative.sum.lane + lane);
    plain::KeepMax(hn::GetLane(hn::MaxOfLanes(d64, max_relative)), out.relative.max);
    out.num_close += num_close;
    if constexpr (kErrors) {
      plain::KeepMin(hn::GetLane(hn::MinOfLanes(d64, min_d)), out.min_abs_d);
      out.num_above += num_above;
    }
  });
  if constexpr (kStats) {
    Extremes(t, n, out.min_t, out.max_t);
    Extremes(g, n, out.min_g, out.max_g);
  }
  plain::Pair<kParts>(t, g, whole, n, parameters, out);
}

template <class T>
void Details(const T* t, const T* g, std::size_t n, double floor, DetailLanes& out) {
  const D64 d64;
  const std::size_t whole = WholeLanes(n);
  const V64 least = hn::Set(d64, floor), t1 = hn::Set(d64, 0.001), t5 = hn::Set(d64, 0.005);
  ForEachLaneGroup([&](std::size_t lane) HWY_ATTR {
    V64 abs_d = hn::Zero(d64), sum_d = abs_d;
    for (std::size_t i = lane; i < whole; i += kNumLanes) {
      const V64 a = LoadAs(d64, t + i), b = LoadAs(d64, g + i);
      const V64 d = hn::Sub(a, b), magnitude = hn::Abs(d);
      const V64 relative = hn::Div(magnitude, hn::Max(hn::Abs(b), least));
      abs_d = hn::Add(abs_d, magnitude);
      sum_d = hn::Add(sum_d, d);
      out.greater += hn::CountTrue(d64, hn::Gt(a, b));
      out.less += hn::CountTrue(d64, hn::Lt(a, b));
      out.num_below_1e3 += hn::CountTrue(d64, hn::Lt(relative, t1));
      out.num_below_5e3 += hn::CountTrue(d64, hn::Lt(relative, t5));
    }
    hn::Store(abs_d, d64, out.abs_d.lane + lane);
    hn::Store(sum_d, d64, out.d.lane + lane);
  });
  plain::Details(t, g, whole, n, floor, out);
}

template <class T>
void Stats(const T* x, std::size_t n, StatsLanes& out) {
  const D64 d64;
  const std::size_t whole = WholeLanes(n);
  ForEachLaneGroup([&](std::size_t lane) HWY_ATTR {
    V64 sum = hn::Zero(d64), sum_sq = sum;
    for (std::size_t i = lane; i < whole; i += kNumLanes) {
      const V64 value = LoadAs(d64, x + i);
      sum = hn::Add(sum, value);
      sum_sq = hn::Add(sum_sq, hn::Mul(value, value));
    }
    hn::Store(sum, d64, out.sum.lane + lane);
    hn::Store(sum_sq, d64, out.sum_sq.lane + lane);
  });
  Extremes(x, n, out.min, out.max);
  plain::Stats(x, whole, n, out);
}

template <class T>
void Centered(const T* x, std::size_t n, double mean, Lanes& out) {
  const D64 d64;
  const std::size_t whole = WholeLanes(n);
  const V64 vector_mean = hn::Set(d64, mean);
  ForEachLaneGroup([&](std::size_t lane) HWY_ATTR {
    V64 sum_sq = hn::Zero(d64);
    for (std::size_t i = lane; i < whole; i += kNumLanes) {
      const V64 value = hn::Sub(LoadAs(d64, x + i), vector_mean);
      sum_sq = hn::Add(sum_sq, hn::Mul(value, value));
    }
    hn::Store(sum_sq, d64, out.lane + lane);
  });
  plain::Centered(x, whole, n, mean, out);
}

template <class T>
void Zeros(const T* x, std::size_t n, double min_normal, ZeroCounts& out) {
  const DWide<T> d;
  const auto zero = hn::Zero(d), normal = hn::Set(d, static_cast<T>(min_normal));
  const std::size_t step = hn::Lanes(d);
  std::uint64_t num_zero = 0, num_below = 0;
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    const auto magnitude = hn::Abs(hn::LoadU(d, x + i));
    num_zero += hn::CountTrue(d, hn::Eq(magnitude, zero));
    num_below += hn::CountTrue(d, hn::Lt(magnitude, normal));
  }
  out.zero += num_zero;
  out.denormal += num_below - num_zero;
  plain::Zeros(x, i, n, min_normal, out);
}

template <class W, class T>  // W: the type it is computed in
void RelativeIn(const T* t, const T* g, std::size_t n, double epsilon, RelativeLanes& out) {
  const DWide<W> d;
  const auto eps = hn::Set(d, static_cast<W>(epsilon)), zero = hn::Zero(d);
  const auto t1 = hn::Set(d, static_cast<W>(0.001)), t5 = hn::Set(d, static_cast<W>(0.005));
  auto max = zero;
  std::uint64_t below_1e3 = 0, below_5e3 = 0;
  const std::size_t step = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    auto a = LoadAs(d, t + i), b = LoadAs(d, g + i);
    const auto is_zero = hn::Eq(b, zero);
    a = hn::IfThenElse(is_zero, hn::Add(a, eps), a);
    b = hn::IfThenElse(is_zero, hn::Add(b, eps), b);
    const auto relative = hn::Abs(hn::Div(hn::Sub(a, b), b));
    max = hn::Max(max, relative);
    below_1e3 += hn::CountTrue(d, hn::Lt(relative, t1));
    below_5e3 += hn::CountTrue(d, hn::Lt(relative, t5));
  }
  plain::KeepMax(hn::GetLane(hn::MaxOfLanes(d, max)), out.max);
  out.num_below_1e3 += below_1e3;
  out.num_below_5e3 += below_5e3;
  plain::RelativeIn<W>(t, g, i, n, epsilon, out);
}

template <class T>
void Thresholds(const T* t, const T* g, std::size_t n, const double* limits, std::uint64_t* above) {
  const D64 d64;
  const std::size_t step = hn::Lanes(d64);
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    const V64 d = hn::Abs(hn::Sub(LoadAs(d64, t + i), LoadAs(d64, g + i)));
    for (std::size_t k = 0; k < kNumAbsThresholds; ++k) {
      above[k] += hn::CountTrue(d64, hn::Gt(d, hn::Set(d64, limits[k])));
    }
  }
  plain::Thresholds(t, g, i, n, limits, above);
}

// The quotients are not rounded one by one: rounding keeps the order, so that it is enough to round the
// largest, and to compare the others with the smallest float that rounds to the threshold.
void RelativeHalf(const float* t, const float* g, std::size_t n, RelativeLanes& out) {
  const DF d;
  const VF t1 = hn::Set(d, plain::FirstRoundingTo(plain::RoundToHalf(0.001f)));
  const VF t5 = hn::Set(d, plain::FirstRoundingTo(plain::RoundToHalf(0.005f)));
  VF max = hn::Zero(d);
  auto any_nan = hn::IsNaN(max);  // none so far
  const std::size_t step = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    const VF a = hn::LoadU(d, t + i), b = hn::LoadU(d, g + i);
    const VF relative = hn::Abs(hn::Div(RoundToHalf(hn::Sub(a, b)), b));
    const auto nan = hn::IsNaN(relative);
    any_nan = hn::Or(any_nan, nan);
    // A NaN would stop Max from working, so it stands as zero there; no comparison counts it.
    max = hn::Max(max, hn::IfThenZeroElse(nan, relative));
    out.num_below_1e3 += hn::CountTrue(d, hn::Lt(relative, t1));
    out.num_below_5e3 += hn::CountTrue(d, hn::Lt(relative, t5));
  }
  plain::KeepMax(plain::RoundToHalf(hn::GetLane(hn::MaxOfLanes(d, max))), out.max);
  out.has_nan |= !hn::AllFalse(d, any_nan);
  plain::RelativeHalf(t, g, i, n, out);
}

template <class T>
constexpr TypedKernels<T> kTyped = {
    {Pair<0, T>, Pair<1, T>, Pair<2, T>, Pair<3, T>, Pair<4, T>, Pair<5, T>, Pair<6, T>, Pair<7, T>,
     Pair<8, T>, Pair<9, T>, Pair<10, T>, Pair<11, T>, Pair<12, T>, Pair<13, T>, Pair<14, T>, Pair<15, T>},
    Details<T>,
    Stats<T>,
    Centered<T>,
    Zeros<T>,
    RelativeIn<T, T>,
    RelativeOfGolden<T>,
    RelativeIn<double, T>,
    Thresholds<T>,
    {Precheck<0, T>, Precheck<1, T>, Precheck<2, T>, Precheck<3, T>, Precheck<4, T>, Precheck<5, T>,
     Precheck<6, T>, Precheck<7, T>}};

const Kernels* Table() {
  static const Kernels table = {
      hwy::TargetName(HWY_TARGET),
      kTyped<float>,
      kTyped<double>,
      Widen<Float16>,
      Widen<BFloat16>,
      Widen<float>,
      RelativeHalf,
      {Ulp<std::uint16_t>, MaxUlp<std::uint16_t>},
      {Ulp<std::uint32_t>, MaxUlp<std::uint32_t>},
      {AllSums(SummedTypes()), AllRanges(RangedTypes()), AllSketches(SummedTypes()), Xor64},
      Divergence};
  return &table;
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::internal
HWY_AFTER_NAMESPACE();

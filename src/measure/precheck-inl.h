// The loops of the pre-check standards; see kernels-inl.h for the rules they keep.
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "measure/plain_precheck_internal.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::internal {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// As doubles, for sums.
HWY_INLINE V64 AsDouble(D64, V64 v) { return v; }
HWY_INLINE V64 AsDouble(D64 d64, hn::Vec<hn::Rebind<float, D64>> v) { return hn::PromoteTo(d64, v); }

HWY_INLINE V64 RoundedToFloat(D64 d64, V64 v) {
  return hn::PromoteTo(d64, hn::DemoteTo(hn::Rebind<float, D64>(), v));
}

// 2^(mantissa_bits - exponent of g) for each g, the exponent not below min_exponent, and 0 for g = 0. Finite
// values of any stored type leave that a normal double.
HWY_INLINE V64 UlpScale(D64 d64, V64 g, int mantissa_bits, int min_exponent) {
  const hn::RebindToSigned<D64> di;
  constexpr std::int64_t kBias = 1023;
  const auto biased =
      hn::BitCast(di, hn::ShiftRight<52>(hn::BitCast(hn::RebindToUnsigned<D64>(), hn::Abs(g))));
  const auto exponent = hn::Max(hn::Sub(biased, hn::Set(di, kBias)), hn::Set(di, std::int64_t{min_exponent}));
  const auto of_zero = hn::RebindMask(di, hn::Eq(g, hn::Zero(d64)));
  const auto used = hn::IfThenElse(of_zero, hn::Zero(di), exponent);
  const auto scale = hn::Sub(hn::Set(di, std::int64_t{mantissa_bits} + kBias), used);
  return hn::BitCast(d64, hn::ShiftLeft<52>(scale));
}

// Which side is greater when the bench is rounded to half precision.
HWY_INLINE void CountAgainstHalves(const float* t, const float* g, std::size_t n, PrecheckLanes& out) {
  const DF d;
  const std::size_t step = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    const VF a = hn::LoadU(d, t + i), b = RoundToHalf(hn::LoadU(d, g + i));
    out.greater += hn::CountTrue(d, hn::Gt(a, b));
    out.less += hn::CountTrue(d, hn::Lt(a, b));
  }
  for (; i < n; ++i) {
    const float a = plain::LoadAt<float>(t, i), b = plain::RoundToHalf(plain::LoadAt<float>(g, i));
    out.greater += a > b;
    out.less += a < b;
  }
}

template <unsigned kParts, PrecheckRounding kRounding, class T>
HWY_INLINE void PrecheckRounded(const T* t, const T* g, std::size_t n, const PrecheckParameters& p,
                                PrecheckLanes& out) {
  constexpr bool kDuals = (kParts & kPrecheckDuals) != 0, kRanges = (kParts & kPrecheckRanges) != 0;
  constexpr bool kUlp = (kParts & kPrecheckUlp) != 0;
  const D64 d64;
  const hn::Rebind<T, D64> dt;
  using V = hn::Vec<decltype(dt)>;
  const V epsilon = hn::Set(dt, static_cast<T>(p.epsilon)),
          small = hn::Set(dt, static_cast<T>(p.small_value));
  const V small_atol = hn::Set(dt, static_cast<T>(p.small_atol)), rtol = hn::Set(dt, static_cast<T>(p.rtol));
  const V t2 = hn::Set(dt, static_cast<T>(0.01)), t3 = hn::Set(dt, static_cast<T>(0.001));
  const V t4 = hn::Set(dt, static_cast<T>(0.0001));
  const V64 ulp_limit = hn::Set(d64, p.ulp_limit);
  const std::size_t whole = n - n % kNumLanes;
  V max_d = hn::Zero(dt), max_t = max_d, max_g = max_d, max_relative = max_d;
  V64 max_ulp = hn::Zero(d64);
  std::uint64_t below_1e2 = 0, below_1e3 = 0, below_1e4 = 0, unequal = 0, num_small = 0, small_errors = 0;
  std::uint64_t normal_errors = 0, greater = 0, less = 0, ulp_above = 0;
  for (std::size_t lane = 0; lane < kNumLanes; lane += hn::Lanes(d64)) {
    V64 sum_sq = hn::Zero(d64), sum_relative = sum_sq, sum_ulp = sum_sq;
    for (std::size_t i = lane; i < whole; i += kNumLanes) {
      const V a = hn::LoadU(dt, t + i), b = hn::LoadU(dt, g + i), size = hn::Abs(b);
      const V diff = hn::Abs(hn::Sub(a, b));
      max_d = hn::Max(max_d, diff);
      max_t = hn::Max(max_t, hn::Abs(a));
      max_g = hn::Max(max_g, size);
      if constexpr (kDuals || kRanges) {
        const V relative = hn::Div(diff, hn::Add(size, epsilon));
        if constexpr (kDuals) {
          below_1e2 += hn::CountTrue(dt, hn::Lt(relative, t2));
          below_1e3 += hn::CountTrue(dt, hn::Lt(relative, t3));
          below_1e4 += hn::CountTrue(dt, hn::Lt(relative, t4));
          unequal += hn::CountTrue(dt, hn::Ne(a, b));
        }
        if constexpr (kRanges) {
          const auto is_small = hn::Le(size, small);
          const V normal_relative = hn::IfThenZeroElse(is_small, relative);
          const V64 normal_diff = AsDouble(d64, hn::IfThenZeroElse(is_small, diff));
          sum_sq = hn::Add(sum_sq, hn::Mul(normal_diff, normal_diff));
          sum_relative = hn::Add(sum_relative, AsDouble(d64, normal_relative));
          max_relative = hn::Max(max_relative, normal_relative);
          num_small += hn::CountTrue(dt, is_small);
          small_errors += hn::CountTrue(dt, hn::And(is_small, hn::Gt(diff, small_atol)));
          normal_errors += hn::CountTrue(dt, hn::Gt(normal_relative, rtol));
          if constexpr (kRounding != PrecheckRounding::kToHalf) {
            V lowered = b;
            if constexpr (kRounding == PrecheckRounding::kToFloat) lowered = RoundedToFloat(d64, b);
            greater += hn::CountTrue(dt, hn::Gt(a, lowered));
            less += hn::CountTrue(dt, hn::Lt(a, lowered));
          }
        }
      }
      if constexpr (kUlp) {
        const V64 scale = UlpScale(d64, AsDouble(d64, b), p.mantissa_bits, p.min_exponent);
        const V64 ulp = hn::Mul(AsDouble(d64, diff), scale);
        max_ulp = hn::Max(max_ulp, ulp);
        sum_ulp = hn::Add(sum_ulp, ulp);
        ulp_above += hn::CountTrue(d64, hn::Gt(ulp, ulp_limit));
      }
    }
    hn::Store(sum_sq, d64, out.sum_sq.lane + lane);
    hn::Store(sum_relative, d64, out.sum_relative.lane + lane);
    hn::Store(sum_ulp, d64, out.sum_ulp.lane + lane);
  }
  plain::KeepMax(hn::GetLane(hn::MaxOfLanes(dt, max_d)), out.max_abs_d);
  plain::KeepMax(hn::GetLane(hn::MaxOfLanes(dt, max_t)), out.max_abs_t);
  plain::KeepMax(hn::GetLane(hn::MaxOfLanes(dt, max_g)), out.max_abs_g);
  plain::KeepMax(hn::GetLane(hn::MaxOfLanes(dt, max_relative)), out.max_relative);
  plain::KeepMax(hn::GetLane(hn::MaxOfLanes(d64, max_ulp)), out.max_ulp);
  out.below_1e2 += below_1e2;
  out.below_1e3 += below_1e3;
  out.below_1e4 += below_1e4;
  out.unequal += unequal;
  out.small += num_small;
  out.small_errors += small_errors;
  out.normal_errors += normal_errors;
  out.greater += greater;
  out.less += less;
  out.ulp_above += ulp_above;
  if constexpr (kRanges && kRounding == PrecheckRounding::kToHalf && sizeof(T) == sizeof(float))
    CountAgainstHalves(t, g, whole, out);
  plain::Precheck<kParts>(t, g, whole, n, p, out);
}

template <unsigned kParts, class T>
void Precheck(const T* t, const T* g, std::size_t n, const PrecheckParameters& p, PrecheckLanes& out) {
  if (p.rounding == PrecheckRounding::kNone)
    return PrecheckRounded<kParts, PrecheckRounding::kNone>(t, g, n, p, out);
  if constexpr (sizeof(T) == sizeof(double)) {
    if (p.rounding == PrecheckRounding::kToFloat)
      return PrecheckRounded<kParts, PrecheckRounding::kToFloat>(t, g, n, p, out);
    plain::Precheck<kParts>(t, g, 0, n, p, out);  // halves against doubles: nobody computes that way
  } else {
    PrecheckRounded<kParts, PrecheckRounding::kToHalf>(t, g, n, p, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::internal
HWY_AFTER_NAMESPACE();

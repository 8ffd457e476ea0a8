// The pre-check standards, one element after the other: see plain_kernels_internal.h.
#pragma once

#include <algorithm>
#include <cmath>

#include "measure/plain_kernels_internal.h"

namespace vernier::internal::plain {

// |d| in units of g's last place. REQUIRES: both are finite
inline double FractionalUlp(double difference, double g, int mantissa_bits, int min_exponent) {
  const int exponent = g == 0 ? 0 : std::max(std::ilogb(g), min_exponent);
  return std::ldexp(difference, mantissa_bits - exponent);
}

template <class T>
T Rounded(T g, PrecheckRounding rounding) {
  if (rounding == PrecheckRounding::kNone) return g;
  const auto single = static_cast<float>(g);
  return static_cast<T>(rounding == PrecheckRounding::kToHalf ? RoundToHalf(single) : single);
}

// REQUIRES: every element is finite, also when it is rounded
template <unsigned kParts, class T>
void Precheck(const T* t, const T* g, std::size_t first, std::size_t n, const PrecheckParameters& p,
              PrecheckLanes& out) {
  const T epsilon = static_cast<T>(p.epsilon), small = static_cast<T>(p.small_value);
  const T small_atol = static_cast<T>(p.small_atol), rtol = static_cast<T>(p.rtol);
  for (std::size_t i = first; i < n; ++i) {
    const T d = LoadAt<T>(t, i), b = LoadAt<T>(g, i), diff = std::abs(d - b);
    KeepMax(diff, out.max_abs_d);
    KeepMax(std::abs(d), out.max_abs_t);
    KeepMax(std::abs(b), out.max_abs_g);
    if constexpr ((kParts & (kPrecheckDuals | kPrecheckRanges)) != 0) {
      const T relative = diff / (std::abs(b) + epsilon);
      if constexpr ((kParts & kPrecheckDuals) != 0) {
        out.below_1e2 += relative < static_cast<T>(0.01);
        out.below_1e3 += relative < static_cast<T>(0.001);
        out.below_1e4 += relative < static_cast<T>(0.0001);
        out.unequal += d != b;
      }
      if constexpr ((kParts & kPrecheckRanges) != 0) {
        const bool is_small = std::abs(b) <= small;
        const T lowered = Rounded(b, p.rounding), normal_diff = is_small ? T(0) : diff;
        const T normal_relative = is_small ? T(0) : relative;
        out.greater += d > lowered;
        out.less += d < lowered;
        out.small += is_small;
        out.small_errors += is_small && diff > small_atol;
        out.normal_errors += normal_relative > rtol;
        out.sum_sq.lane[i % kNumLanes] += static_cast<double>(normal_diff) * static_cast<double>(normal_diff);
        out.sum_relative.lane[i % kNumLanes] += static_cast<double>(normal_relative);
        KeepMax(normal_relative, out.max_relative);
      }
    }
    if constexpr ((kParts & kPrecheckUlp) != 0) {
      const double ulp = FractionalUlp(diff, b, p.mantissa_bits, p.min_exponent);
      KeepMax(ulp, out.max_ulp);
      out.sum_ulp.lane[i % kNumLanes] += ulp;
      out.ulp_above += ulp > p.ulp_limit;
    }
  }
}

}  // namespace vernier::internal::plain

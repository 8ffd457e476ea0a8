// The measures of the pre-check standards: blocks of finite values by the kernels, the others one by one.
#include <algorithm>
#include <cmath>
#include <limits>

#include "measure/accumulate_internal.h"
#include "measure/plain_precheck_internal.h"

namespace vernier::internal {
namespace {

bool IsFloat8(Dtype dtype) { return Class(dtype) == DtypeClass::kFloat && ItemBytes(dtype) == 1; }

PrecheckRounding RoundingOf(Dtype device, bool work_double) {
  if (device == Dtype::kF16) return PrecheckRounding::kToHalf;
  return work_double ? PrecheckRounding::kToFloat : PrecheckRounding::kNone;
}

double SpecialUlp(double diff, double g, const PrecheckOptions& options) {
  if (std::isnan(diff) || std::isnan(g) || std::isinf(g)) return std::numeric_limits<double>::quiet_NaN();
  return plain::FractionalUlp(diff, g, options.mantissa_bits, options.min_exponent);
}

double MaxOrNan(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : std::max(a, b);
}

// 8-bit floats have a tapered precision in the standard: fewer bits the further from one.
double TaperedUlp(double t, double g) {
  constexpr double kTiny = 0x1p-1000;
  const double log_g = std::max(std::log2(std::abs(g) + kTiny), -22.0), exponent = std::floor(log_g);
  const double reach = std::abs(exponent);
  const int bits = reach <= 3 ? 3 : reach <= 7 ? 2 : reach <= 15 ? 1 : 0;
  if (bits > 0) return std::abs(t - g) * std::exp2(bits - exponent);
  const double signed_t = (t >= 0 ? 1 : -1) * std::log2(std::abs(t) + kTiny);
  return std::abs(signed_t - (g >= 0 ? 1 : -1) * log_g);
}

bool SameSpecial(double t, double g, double lowered, const PrecheckOptions& options) {
  if (std::isnan(t) && std::isnan(lowered)) return true;
  const double limit = options.largest_finite;
  const double a = std::clamp(t, -limit, limit), b = std::clamp(lowered, -limit, limit),
               diff = std::abs(a - b);
  if (options.special_rule == PrecheckOptions::SpecialRule::kNearClipped)
    return diff <= options.rtol * std::abs(b);
  const double in_device = diff > limit ? std::numeric_limits<double>::infinity() : diff;
  return in_device / (std::abs(g) + options.epsilon) <= options.rtol;
}

// A block in which something is not finite, or becomes so when it is rounded.
template <class W>
void AddSpecialBlock(const W* t, const W* g, std::size_t n, const PrecheckOptions& options,
                     PrecheckMeasures& m) {
  const W epsilon = static_cast<W>(options.epsilon), small = static_cast<W>(options.small_value);
  const W small_atol = static_cast<W>(options.small_atol), rtol = static_cast<W>(options.rtol);
  const PrecheckRounding rounding = RoundingOf(options.device, sizeof(W) == sizeof(double));
  const bool tapered = IsFloat8(options.device);
  for (std::size_t i = 0; i < n; ++i) {
    const W d = plain::LoadAt<W>(t, i), b = plain::LoadAt<W>(g, i);
    const W diff = std::abs(d - b), relative = diff / (std::abs(b) + epsilon);
    m.num_unequal += d != b;
    m.num_below_1e2 += relative < static_cast<W>(0.01);
    m.num_below_1e3 += relative < static_cast<W>(0.001);
    m.num_below_1e4 += relative < static_cast<W>(0.0001);
    m.max_abs_diff = MaxOrNan(m.max_abs_diff, diff);
    m.max_abs_target = MaxOrNan(m.max_abs_target, std::abs(d));
    m.max_abs_golden = MaxOrNan(m.max_abs_golden, std::abs(b));
    if (options.ulp) {
      const double ulp = tapered ? TaperedUlp(d, b) : SpecialUlp(diff, b, options);
      m.max_ulp = MaxOrNan(m.max_ulp, ulp);
      m.sum_ulp += ulp;
      m.num_ulp_above += ulp > options.ulp_limit;
    }
    if (!options.ranges) continue;
    const W lowered = plain::Rounded(b, rounding);
    m.num_target_greater += d > lowered;
    m.num_target_less += d < lowered;
    if (!std::isfinite(d) || !std::isfinite(lowered)) {
      ++m.num_special;
      m.num_special_mismatches += !SameSpecial(d, b, lowered, options);
    } else if (std::abs(b) <= small) {
      ++m.num_small;
      m.num_small_errors += diff > small_atol;
    } else {
      ++m.num_normal;
      m.num_normal_errors += relative > rtol;
      m.normal_sum_sq_diff += static_cast<double>(diff) * static_cast<double>(diff);
      m.normal_sum_relative += relative;
      m.normal_max_relative = std::max<double>(m.normal_max_relative, relative);
    }
  }
}

void AddLanes(const PrecheckLanes& lanes, std::size_t n, bool ranges, PrecheckMeasures& m) {
  m.max_abs_diff = MaxOrNan(m.max_abs_diff, lanes.max_abs_d);
  m.max_abs_target = MaxOrNan(m.max_abs_target, lanes.max_abs_t);
  m.max_abs_golden = MaxOrNan(m.max_abs_golden, lanes.max_abs_g);
  m.num_below_1e2 += lanes.below_1e2;
  m.num_below_1e3 += lanes.below_1e3;
  m.num_below_1e4 += lanes.below_1e4;
  m.num_unequal += lanes.unequal;
  m.max_ulp = MaxOrNan(m.max_ulp, lanes.max_ulp);
  m.sum_ulp += lanes.sum_ulp.Sum();
  m.num_ulp_above += lanes.ulp_above;
  if (!ranges) return;
  m.num_small += lanes.small;
  m.num_small_errors += lanes.small_errors;
  m.num_normal += n - lanes.small;
  m.num_normal_errors += lanes.normal_errors;
  m.num_target_greater += lanes.greater;
  m.num_target_less += lanes.less;
  m.normal_sum_sq_diff += lanes.sum_sq.Sum();
  m.normal_sum_relative += lanes.sum_relative.Sum();
  m.normal_max_relative = std::max(m.normal_max_relative, lanes.max_relative);
}

}  // namespace

template <class W>
void AddPrecheckBlock(const W* t, const W* g, std::size_t n, bool is_finite, const TypedKernels<W>& kernels,
                      const PrecheckOptions& options, PrecheckMeasures& m) {
  if (!is_finite || (options.ulp && IsFloat8(options.device))) return AddSpecialBlock(t, g, n, options, m);
  PrecheckParameters parameters;
  parameters.epsilon = options.epsilon;
  parameters.small_value = options.small_value;
  parameters.small_atol = options.small_atol;
  parameters.rtol = options.rtol;
  parameters.rounding = RoundingOf(options.device, sizeof(W) == sizeof(double));
  parameters.mantissa_bits = options.mantissa_bits;
  parameters.min_exponent = options.min_exponent;
  parameters.ulp_limit = options.ulp_limit;
  const unsigned parts = (options.duals ? kPrecheckDuals : 0u) | (options.ranges ? kPrecheckRanges : 0u) |
                         (options.ulp ? kPrecheckUlp : 0u);
  PrecheckLanes lanes;
  kernels.precheck[parts](t, g, n, parameters, lanes);
  // What overflows when it is rounded is special.
  if (options.ranges && lanes.max_abs_g > options.largest_finite) return AddSpecialBlock(t, g, n, options, m);
  AddLanes(lanes, n, options.ranges, m);
}
template void AddPrecheckBlock(const float*, const float*, std::size_t, bool, const TypedKernels<float>&,
                               const PrecheckOptions&, PrecheckMeasures&);
template void AddPrecheckBlock(const double*, const double*, std::size_t, bool, const TypedKernels<double>&,
                               const PrecheckOptions&, PrecheckMeasures&);

void Merge(PrecheckMeasures& m, const PrecheckMeasures& next) {
  using M = PrecheckMeasures;
  AddMembers(m, next, &M::num_special, &M::num_special_mismatches, &M::num_small, &M::num_small_errors,
             &M::num_normal, &M::num_normal_errors, &M::num_below_1e2, &M::num_below_1e3, &M::num_below_1e4,
             &M::num_target_greater, &M::num_target_less, &M::normal_sum_sq_diff, &M::normal_sum_relative,
             &M::sum_ulp, &M::num_ulp_above, &M::num_unequal);
  m.normal_max_relative = std::max(m.normal_max_relative, next.normal_max_relative);
  m.max_ulp = MaxOrNan(m.max_ulp, next.max_ulp);
  m.max_abs_diff = MaxOrNan(m.max_abs_diff, next.max_abs_diff);
  m.max_abs_target = MaxOrNan(m.max_abs_target, next.max_abs_target);
  m.max_abs_golden = MaxOrNan(m.max_abs_golden, next.max_abs_golden);
}

}  // namespace vernier::internal

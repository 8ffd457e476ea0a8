// The measures of the pre-check standards. Plain loops: they run on single operators' outputs, not on whole
// dumps.
#include <algorithm>
#include <cmath>
#include <limits>

#include "measure/accumulate_internal.h"
#include "measure/plain_kernels_internal.h"

namespace vernier::internal {
namespace {

bool IsFloat8(Dtype dtype) { return Class(dtype) == DtypeClass::kFloat && ItemBytes(dtype) == 1; }

// The bench value in the device's dtype. bfloat16 devices are compared in float, so nothing is rounded there.
template <class W>
W Lowered(W g, Dtype device) {
  if (device == Dtype::kF16) return static_cast<W>(plain::RoundToHalf(static_cast<float>(g)));
  return static_cast<W>(static_cast<float>(g));
}

double FractionalUlp(double diff, double g, const PrecheckOptions& options) {
  if (std::isnan(diff) || std::isnan(g) || std::isinf(g)) return std::numeric_limits<double>::quiet_NaN();
  const int exponent = g == 0 ? 0 : std::max(std::ilogb(g), options.min_exponent);
  return std::ldexp(diff, options.mantissa_bits - exponent);
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
  const double signed_t = std::copysign(1.0, t) * std::log2(std::abs(t) + kTiny);
  return std::abs(signed_t - std::copysign(1.0, g) * log_g);
}

bool SameSpecial(double t, double lowered, const PrecheckOptions& options) {
  if (std::isnan(t) && std::isnan(lowered)) return true;
  const double limit = options.largest_finite;
  const double a = std::clamp(t, -limit, limit), b = std::clamp(lowered, -limit, limit);
  return std::abs(a - b) <= options.rtol * std::abs(b);
}

}  // namespace

template <class W>
void AddPrecheckBlock(const W* t, const W* g, std::size_t n, Dtype target_dtype,
                      const PrecheckOptions& options, PrecheckMeasures& m) {
  const W epsilon = static_cast<W>(options.epsilon), small = static_cast<W>(options.small_value);
  const W small_atol = static_cast<W>(options.small_atol), rtol = static_cast<W>(options.rtol);
  const bool tapered = IsFloat8(target_dtype);
  for (std::size_t i = 0; i < n; ++i) {
    const W d = plain::LoadAt<W>(t, i), b = plain::LoadAt<W>(g, i), lowered = Lowered(b, target_dtype);
    const W diff = std::abs(d - b), relative = diff / (std::abs(b) + epsilon);
    m.num_below_1e2 += relative < static_cast<W>(0.01);
    m.num_below_1e3 += relative < static_cast<W>(0.001);
    m.num_below_1e4 += relative < static_cast<W>(0.0001);
    m.num_target_greater += d > lowered;
    m.num_target_less += d < lowered;
    const double ulp = tapered ? TaperedUlp(d, b) : FractionalUlp(diff, b, options);
    m.max_ulp = MaxOrNan(m.max_ulp, ulp);
    m.sum_ulp += ulp;
    m.num_ulp_above += ulp > options.ulp_limit;
    if (!std::isfinite(d) || !std::isfinite(lowered)) {
      ++m.num_special;
      m.num_special_mismatches += !SameSpecial(d, lowered, options);
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
template void AddPrecheckBlock(const float*, const float*, std::size_t, Dtype, const PrecheckOptions&,
                               PrecheckMeasures&);
template void AddPrecheckBlock(const double*, const double*, std::size_t, Dtype, const PrecheckOptions&,
                               PrecheckMeasures&);

void Merge(PrecheckMeasures& m, const PrecheckMeasures& next) {
  using M = PrecheckMeasures;
  AddMembers(m, next, &M::num_special, &M::num_special_mismatches, &M::num_small, &M::num_small_errors,
             &M::num_normal, &M::num_normal_errors, &M::num_below_1e2, &M::num_below_1e3, &M::num_below_1e4,
             &M::num_target_greater, &M::num_target_less, &M::normal_sum_sq_diff, &M::normal_sum_relative,
             &M::sum_ulp, &M::num_ulp_above);
  m.normal_max_relative = std::max(m.normal_max_relative, next.normal_max_relative);
  m.max_ulp = MaxOrNan(m.max_ulp, next.max_ulp);
}

}  // namespace vernier::internal

namespace vernier {

PrecheckOptions ManualPrecheckOptions(Dtype device, Dtype bench) {
  PrecheckOptions options;
  options.epsilon = device == Dtype::kBF16 ? 0x1p-8
                    : bench == Dtype::kF64 ? 0x1p-52
                    : bench == Dtype::kF16 ? 0x1p-10
                                           : 0x1p-23;
  if (device == Dtype::kF16) {
    options.small_value = 0x1p-11;
    options.small_atol = 0x1p-16;
    options.rtol = 0x1p-10;
    options.largest_finite = 65504;
    options.mantissa_bits = 10;
    options.min_exponent = -14;
    options.ulp_limit = 1;
  } else if (device == Dtype::kBF16) {
    options.small_value = 0x1p-8;
    options.small_atol = 0x1p-16;
    options.rtol = 0x1p-8;
    options.largest_finite = 3.3895313892515355e38;
    options.mantissa_bits = 7;
    options.ulp_limit = 1;
  } else if (internal::IsFloat8(device)) {
    options.ulp_limit = 1;
  }
  return options;
}

}  // namespace vernier

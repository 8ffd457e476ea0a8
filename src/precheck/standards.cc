#include "precheck/standards.h"

#include <iterator>
#include <string>

namespace vernier::precheck {
namespace {

struct StandardList {
  std::string_view path;
  Standard standard;
};
// In the order in which they are searched.
constexpr StandardList kStandardLists[] = {
    {"lists.absolute_threshold", Standard::kAbsolute},
    {"lists.binary_consistency", Standard::kBinary},
    {"lists.ulp", Standard::kUlp},
    {"lists.dual_1000", Standard::kDual1000},
    {"lists.accumulative_error", Standard::kAccumulative},
};

// What a dtype itself fixes.
struct DtypeFacts {
  Dtype dtype;
  double largest_finite;
  int mantissa_bits, min_exponent;
};
constexpr DtypeFacts kDtypeFacts[] = {
    {Dtype::kF16, 65504, 10, -14},
    {Dtype::kBF16, 3.3895313892515355e38, 7, -126},
};

double EpsilonOf(Dtype device, Dtype bench) {
  if (device == Dtype::kBF16) return 0x1p-8;
  if (bench == Dtype::kF64) return 0x1p-52;
  return bench == Dtype::kF16 ? 0x1p-10 : 0x1p-23;
}

}  // namespace

bool IsFloat8(Dtype dtype) { return Class(dtype) == DtypeClass::kFloat && ItemBytes(dtype) == 1; }

bool HasStandards(Dtype dtype) {
  return dtype == Dtype::kF16 || dtype == Dtype::kBF16 || dtype == Dtype::kF32;
}

Standard StandardOf(const Rules& rules, Policy policy, std::string_view api, std::optional<Dtype> device,
                    bool has_float8_inputs) {
  if (device && IsFloat8(*device)) return Standard::kUlp;
  if (has_float8_inputs) return Standard::kAbsolute;
  if (!device || !HasStandards(*device)) return Standard::kBinary;
  if (policy == Policy::kBenchmarkFirst) return Standard::kBenchmark;
  if (policy == Policy::kManual && LevelOf(rules, api) > 0) return Standard::kBenchmark;
  for (const StandardList& list : kStandardLists) {
    if (rules.Lists(list.path, api)) return list.standard;
  }
  return Standard::kBenchmark;
}

int LevelOf(const Rules& rules, std::string_view api) {
  if (rules.Lists("levels.L1", api)) return 1;
  return rules.Lists("levels.L2", api) ? 2 : 0;
}

PrecheckOptions OptionsOf(const Rules& rules, Thresholds thresholds, Standard standard, Dtype device,
                          Dtype bench) {
  PrecheckOptions options;
  options.device = device;
  options.epsilon = EpsilonOf(device, bench);
  options.ulp_limit = rules.NumberFor("ulp_limit", device);
  if (thresholds == Thresholds::kPeer) options.special_rule = PrecheckOptions::SpecialRule::kRelativeToBench;
  for (const DtypeFacts& facts : kDtypeFacts) {
    if (facts.dtype != device) continue;
    options.largest_finite = facts.largest_finite;
    options.mantissa_bits = facts.mantissa_bits;
    options.min_exponent = facts.min_exponent;
  }
  if (standard == Standard::kAccumulative) {
    options.small_value = rules.Number("accumulative.small_value");
    options.small_atol = options.rtol = rules.NumberFor("accumulative", device);
    return options;
  }
  const std::string set(kThresholdNames[static_cast<std::size_t>(thresholds)]);
  const char* atol = standard == Standard::kAbsolute ? ".small_atol_absolute" : ".small_atol_benchmark";
  options.small_value = rules.NumberFor(set + ".small_value", device);
  options.small_atol = rules.NumberFor(set + atol, device);
  options.rtol = rules.NumberFor("rtol", device);
  return options;
}

}  // namespace vernier::precheck

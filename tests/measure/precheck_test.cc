// The pre-check standards on every instruction set, against the plain loops and by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "measure/kernels_internal.h"
#include "vernier/measure.h"

namespace vernier {
namespace {

using internal::AvailableTargets;
using internal::ForceTarget;

constexpr float kInf = std::numeric_limits<float>::infinity();

template <class T>
TensorView View(Dtype dtype, const std::vector<T>& values) {
  return BorrowTensor(dtype, {static_cast<std::int64_t>(values.size())}, values.data());
}

// The bits of everything that is measured, as one text to compare.
std::vector<std::uint64_t> Bits(const PrecheckMeasures& m) {
  std::vector<std::uint64_t> bits = {
      m.num_special,   m.num_special_mismatches, m.num_small,       m.num_small_errors,
      m.num_normal,    m.num_normal_errors,      m.num_below_1e2,   m.num_below_1e3,
      m.num_below_1e4, m.num_target_greater,     m.num_target_less, m.num_unequal,
      m.num_ulp_above};
  for (const double value : {m.normal_sum_sq_diff, m.normal_max_relative, m.normal_sum_relative,
                             m.max_abs_diff, m.max_abs_target, m.max_abs_golden, m.max_ulp, m.sum_ulp}) {
    std::memcpy(&bits.emplace_back(), &value, sizeof value);
  }
  return bits;
}

template <class B, class D>
void ExpectTheSameOnEveryTarget(Dtype bench_dtype, const std::vector<B>& bench, Dtype device_dtype,
                                const std::vector<D>& device, PrecheckOptions precheck) {
  MeasureOptions options;
  options.groups = Groups(Group::kPrecheck);
  for (unsigned parts = 0; parts < 8; ++parts) {
    precheck.device = device_dtype;
    precheck.duals = (parts & 1) != 0;
    precheck.ranges = (parts & 2) != 0;
    precheck.ulp = (parts & 4) != 0;
    options.precheck = precheck;
    ASSERT_TRUE(ForceTarget("PLAIN"));
    const auto plain =
        Bits(MeasurePair(View(device_dtype, device), View(bench_dtype, bench), options).value().precheck);
    for (const std::string_view target : AvailableTargets()) {
      ASSERT_TRUE(ForceTarget(target));
      SCOPED_TRACE(std::string(target) + " parts " + std::to_string(parts));
      EXPECT_EQ(
          Bits(MeasurePair(View(device_dtype, device), View(bench_dtype, bench), options).value().precheck),
          plain);
    }
  }
  ForceTarget("");
}

std::uint16_t HalfBits(float value) {  // of a small positive or negative number, rounded down
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const std::uint32_t exponent = (bits >> 23 & 0xff);
  return exponent < 113 ? 0
                        : static_cast<std::uint16_t>((bits >> 16 & 0x8000) | ((exponent - 112) << 10) |
                                                     (bits >> 13 & 0x3ff));
}

TEST(Precheck, EveryTargetGivesTheSameBits) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (const std::size_t n : {1u, 7u, 8u, 9u, 31u, 2048u, 5003u}) {
    std::vector<double> bench(n);
    std::vector<float> device(n), bench32(n);
    std::vector<std::uint16_t> half(n);
    for (std::size_t i = 0; i < n; ++i) {
      bench[i] = normal(random) * std::pow(10, static_cast<int>(i % 9) - 6);
      if (i % 11 == 3) bench[i] = 0;
      device[i] = static_cast<float>(bench[i] * (1 + 1e-6 * normal(random)));
      bench32[i] = static_cast<float>(bench[i]);
      half[i] = HalfBits(bench32[i]);
    }
    PrecheckOptions options;
    ExpectTheSameOnEveryTarget(Dtype::kF64, bench, Dtype::kF32, device, options);
    ExpectTheSameOnEveryTarget(Dtype::kF32, bench32, Dtype::kF32, device, options);
    options.mantissa_bits = 10;
    options.min_exponent = -14;
    options.largest_finite = 65504;
    ExpectTheSameOnEveryTarget(Dtype::kF32, bench32, Dtype::kF16, half, options);
    ExpectTheSameOnEveryTarget(Dtype::kF64, bench, Dtype::kF16, half, options);
    if (n > 20) {
      bench32[17] = 70000;  // infinite in half precision
      bench[5] = std::numeric_limits<double>::quiet_NaN();
      device[9] = kInf;
      ExpectTheSameOnEveryTarget(Dtype::kF32, bench32, Dtype::kF16, half, options);
      ExpectTheSameOnEveryTarget(Dtype::kF64, bench, Dtype::kF32, device, {});
    }
  }
}

TEST(Precheck, UnitsInTheLastPlaceAreFractionalAndFloored) {
  MeasureOptions options;
  options.groups = Groups(Group::kPrecheck);
  const std::vector<double> bench = {1, 0.5, 0, 0x1p-140};
  const std::vector<float> device = {1 + 0x1p-22f, 0.5f, 0x1p-20f, 0x1p-139f};
  const PrecheckMeasures m =
      MeasurePair(View(Dtype::kF32, device), View(Dtype::kF64, bench), options).value().precheck;
  // 2^-20 away from zero, whose exponent counts as 0, are 8; below 2^-126 the unit stays 2^-149.
  EXPECT_EQ(m.max_ulp, 512);
  EXPECT_EQ(m.sum_ulp, 2 + 0 + 8 + 512);
}

TEST(Precheck, BothRulesForInfinities) {
  MeasureOptions options;
  options.groups = Groups(Group::kPrecheck);
  const std::vector<double> bench = {INFINITY, INFINITY, -INFINITY, 1e39, NAN};
  const std::vector<float> device = {kInf, 1.0f, kInf, 3.4028234663852886e38f, NAN};
  const auto mismatches = [&](PrecheckOptions::SpecialRule rule) {
    options.precheck.special_rule = rule;
    const auto m = MeasurePair(View(Dtype::kF32, device), View(Dtype::kF64, bench), options).value().precheck;
    EXPECT_EQ(m.num_special, 5u);
    return m.num_special_mismatches;
  };
  EXPECT_EQ(mismatches(PrecheckOptions::SpecialRule::kNearClipped), 2u);
  EXPECT_EQ(mismatches(PrecheckOptions::SpecialRule::kRelativeToBench),
            1u);  // any number passes beside an infinity
}

}  // namespace
}  // namespace vernier

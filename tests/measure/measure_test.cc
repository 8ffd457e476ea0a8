// What the numbers mean: each against a loop written out here, and against values worked out by hand.
#include "vernier/measure.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "measure/kernels_internal.h"

namespace vernier {
namespace {

constexpr float kNan = NAN, kInf = HUGE_VALF;
constexpr Groups kEverything = Group::kDiff | Group::kStats | Group::kRelative | Group::kClose | Group::kUlp |
                               Group::kThresholds | Group::kPrecheck | Group::kDetails | Group::kErrors;

template <class T>
TensorView View(Dtype dtype, const std::vector<T>& values) {
  return BorrowTensor(dtype, {static_cast<std::int64_t>(values.size() * sizeof(T) / ItemBytes(dtype))},
                      values.data());
}

PairMeasures Pair(const std::vector<float>& target, const std::vector<float>& golden,
                  MeasureOptions options = {}) {
  options.groups = kEverything;
  return MeasurePair(View(Dtype::kF32, target), View(Dtype::kF32, golden), options).value();
}

TEST(MeasurePair, AgreesWithSimpleLoops) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const std::size_t n : {1u, 5u, 2048u, 2049u, 300'000u}) {
    std::vector<float> t(n), g(n);
    for (std::size_t i = 0; i < n; ++i) {
      g[i] = normal(random);
      t[i] = g[i] + 1e-4f * normal(random);
    }
    long double dot = 0, sq_diff = 0, abs_diff = 0, relative = 0, sum = 0;
    double max = 0, max_relative = 0;
    std::uint64_t worst = 0, close = 0, above = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double d = static_cast<double>(t[i]) - g[i],
                   r = std::abs(d) / std::max(std::abs(double{g[i]}), 1e-12);
      dot += double{t[i]} * g[i];
      sq_diff += d * d;
      abs_diff += std::abs(d);
      relative += r;
      sum += t[i];
      max_relative = std::max(max_relative, r);
      if (std::abs(d) > max) max = std::abs(d), worst = i;
      close += std::abs(d) <= 1e-5 + 1.3e-6 * std::abs(double{g[i]});
      above += std::abs(d) > 1e-4;
    }
    const PairMeasures m = Pair(t, g);
    EXPECT_EQ(m.num_elements, n);
    EXPECT_NEAR(m.dot, static_cast<double>(dot), 1e-12 * n);
    EXPECT_NEAR(m.sum_sq_diff, static_cast<double>(sq_diff), 1e-12 * static_cast<double>(sq_diff));
    EXPECT_NEAR(m.sum_abs_diff, static_cast<double>(abs_diff), 1e-12 * static_cast<double>(abs_diff));
    EXPECT_NEAR(m.sum_relative, static_cast<double>(relative), 1e-12 * static_cast<double>(relative));
    EXPECT_NEAR(m.target.finite_sum, static_cast<double>(sum), 1e-11 * n);
    EXPECT_EQ(m.max_abs_diff, max);
    EXPECT_EQ(m.max_abs_diff_index, worst);
    EXPECT_EQ(m.max_abs_diff_target, t[worst]);
    EXPECT_EQ(m.max_abs_diff_golden, g[worst]);
    EXPECT_EQ(m.max_relative, max_relative);
    EXPECT_EQ(m.num_close, close);
    EXPECT_EQ(m.num_abs_above[3], above);
  }
}

TEST(MeasurePair, LeavingOutTheDetailsChangesNothingElse) {
  std::vector<float> t(5000), g(5000);
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < t.size(); ++i) {
    g[i] = i % 701 == 0 ? kNan : normal(random);
    t[i] = i % 503 == 0 ? 0 : g[i] * (1 + 1e-5f * normal(random));
  }
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBF16, Dtype::kF64}) {
    MeasureOptions options;
    options.groups = Group::kDiff | Group::kRelative | Group::kClose | Group::kUlp;
    const PairMeasures less = *MeasurePair(View(dtype, t), View(dtype, g), options);
    options.groups = options.groups | Group::kDetails;
    const PairMeasures more = *MeasurePair(View(dtype, t), View(dtype, g), options);
    EXPECT_EQ(less.max_ulp, more.max_ulp);
    EXPECT_EQ(less.sum_relative, more.sum_relative);
    EXPECT_EQ(less.max_relative, more.max_relative);
    EXPECT_EQ(less.num_close, more.num_close);
    EXPECT_GT(more.num_target_greater + more.num_target_less, 0u);
    EXPECT_EQ(less.num_target_greater + less.num_target_less, 0u);
    EXPECT_EQ(less.sum_abs_diff, 0);
  }
}

TEST(MeasurePair, CountsSpecialValuesByKindAndLeavesThemOutOfTheSums) {
  const std::vector<float> t = {kNan, kInf, kInf, kNan, 1, kInf, 2, -kInf, 3};
  const std::vector<float> g = {kNan, kInf, -kInf, 1, kNan, 5, kInf, kNan, 2};
  const PairMeasures m = Pair(t, g);
  EXPECT_EQ(m.num_both_nan, 1u);
  EXPECT_EQ(m.num_both_same_inf, 1u);
  EXPECT_EQ(m.num_opposite_inf, 1u);
  EXPECT_EQ(m.num_nan_target_only, 1u);
  EXPECT_EQ(m.num_nan_golden_only, 2u);
  EXPECT_EQ(m.num_inf_target_only, 1u);
  EXPECT_EQ(m.num_inf_golden_only, 1u);
  EXPECT_EQ(m.num_special_mismatches(), 6u);
  EXPECT_EQ(m.first_special_mismatch, 2u);
  EXPECT_EQ(m.special_mismatch_golden, -kInf);
  EXPECT_EQ(m.max_abs_diff, 1.0);
  EXPECT_EQ(m.max_abs_diff_index, 8u);
  EXPECT_EQ(m.dot, 6.0);
  EXPECT_EQ(m.num_close, 2u);  // the two equal special values
  EXPECT_EQ(m.num_unequal(), 7u);
  EXPECT_EQ(m.target.num_finite(), 3u);
  EXPECT_EQ(m.target.finite_max, 3.0);
  EXPECT_EQ(m.golden.finite_min, 1.0);
}

TEST(MeasurePair, CosineOfZeroVectorsIsDefined) {
  EXPECT_EQ(Pair({0, 0}, {0, 0}).Cosine(), 1.0);
  EXPECT_EQ(Pair({0, 0}, {1, 0}).Cosine(), 0.0);
  EXPECT_EQ(Pair({1, 2}, {1, 2}).Cosine(), 1.0);
  EXPECT_EQ(Pair({1, 2}, {-1, -2}).Cosine(), -1.0);
}

TEST(MeasurePair, GivesTheWorstElementEvenWhenNothingDiffers) {
  const PairMeasures m = Pair({3, 4}, {3, 4});
  EXPECT_EQ(m.max_abs_diff, 0);
  EXPECT_EQ(m.max_abs_diff_index, 0u);
  EXPECT_EQ(m.max_abs_diff_target, 3);
}

TEST(MeasurePair, MeasuresUlpsInTheStoredType) {
  EXPECT_EQ(Pair({1.0f}, {std::nextafter(1.0f, 2.0f)}).max_ulp, 1u);
  EXPECT_EQ(Pair({-0.0f}, {0.0f}).max_ulp, 0u);
  EXPECT_EQ(Pair({std::bit_cast<float>(1u)}, {std::bit_cast<float>(0x80000001u)}).max_ulp, 2u);
  const std::vector<std::uint16_t> a = {0x3c00, 0x0001, 0x7c00}, b = {0x3c03, 0x8001, 0x7bff};
  MeasureOptions options;
  options.groups = kEverything;
  const PairMeasures half = MeasurePair(View(Dtype::kF16, a), View(Dtype::kF16, b), options).value();
  EXPECT_TRUE(half.has_ulp);
  EXPECT_EQ(half.max_ulp, 3u);  // the infinity is a special value, not a distance
  EXPECT_EQ(half.sum_ulp, 5.0);
  EXPECT_EQ(half.num_ulp_above, 2u);
  const PairMeasures brain = MeasurePair(View(Dtype::kBF16, a), View(Dtype::kBF16, b), options).value();
  EXPECT_EQ(brain.max_ulp, 3u);
  const std::vector<double> c = {1.0, -1.0}, d = {std::nextafter(1.0, 2.0), 1.0};
  const PairMeasures wide = MeasurePair(View(Dtype::kF64, c), View(Dtype::kF64, d), options).value();
  EXPECT_EQ(wide.max_ulp, 2 * 0x3ff0000000000000u);
  EXPECT_FALSE(MeasurePair(View(Dtype::kF64, c), View(Dtype::kF32, std::vector<float>{1, 2}), options)
                   .value()
                   .has_ulp);
}

TEST(MeasurePair, TellsApart64BitIntegersThatDoubleDoesNot) {
  const std::int64_t big = (std::int64_t{1} << 60);
  const std::vector<std::int64_t> t = {big + 1, 5, -7}, g = {big, 5, -7};
  MeasureOptions options;
  options.groups = kEverything;
  const PairMeasures m = MeasurePair(View(Dtype::kI64, t), View(Dtype::kI64, g), options).value();
  EXPECT_EQ(m.max_abs_diff, 1.0);
  EXPECT_EQ(m.max_abs_diff_index, 0u);
  EXPECT_EQ(m.num_unequal(), 1u);
  EXPECT_EQ(m.num_close, 2u);
}

TEST(MeasurePair, RelativeErrorsFollowTheDefinitionAskedFor) {
  MeasureOptions options;
  options.relative = Relative::kStoredType;
  const PairMeasures classic = Pair({1.0f, 0.0f, 2.001f}, {0.0f, 0.0f, 2.0f}, options);
  EXPECT_EQ(classic.max_relative, double{(1.0f + 0x1p-52f - 0x1p-52f) / 0x1p-52f});
  EXPECT_EQ(classic.num_relative_below_1e3, 2u);
  options.relative = Relative::kAtLeastFloat32;
  EXPECT_EQ(Pair({1.0f}, {0.0f}, options).max_relative, double{(1.0f + 0x1p-23f - 0x1p-23f) / 0x1p-23f});

  // Half precision: epsilon vanishes, 0/0 is NaN, x/0 infinite, and every step rounds.
  const std::vector<std::uint16_t> t = {0x0000, 0x3c01}, g = {0x0000, 0x3c00}, x = {0x3c00}, zero = {0x0000};
  options.groups = kEverything;
  options.relative = Relative::kStoredType;
  const PairMeasures half = MeasurePair(View(Dtype::kF16, t), View(Dtype::kF16, g), options).value();
  EXPECT_TRUE(half.relative_has_nan);
  EXPECT_EQ(half.max_relative, 0x1p-10);
  EXPECT_EQ(half.num_relative_below_1e3, 1u);
  EXPECT_EQ(MeasurePair(View(Dtype::kF16, x), View(Dtype::kF16, zero), options).value().max_relative, kInf);
  options.relative = Relative::kAtLeastFloat32;
  EXPECT_FALSE(MeasurePair(View(Dtype::kF16, t), View(Dtype::kF16, g), options).value().relative_has_nan);
}

TEST(MeasurePair, ComparesComplexNumbersByTheirParts) {
  const std::vector<float> t = {1, 2, 3, 4}, g = {1, 2, 3, 6};
  MeasureOptions options;
  options.groups = kEverything;
  const PairMeasures both = MeasurePair(View(Dtype::kC64, t), View(Dtype::kC64, g), options).value();
  EXPECT_EQ(both.max_abs_diff, 2.0);
  EXPECT_EQ(both.max_abs_diff_index, 1u);  // the element, not the part
  options.real_part_only = true;
  EXPECT_EQ(MeasurePair(View(Dtype::kC64, t), View(Dtype::kC64, g), options).value().max_abs_diff, 0.0);
  options.real_part_only = false;
  const std::vector<float> real = {1, 3};
  const PairMeasures mixed = MeasurePair(View(Dtype::kF32, real), View(Dtype::kC64, t), options).value();
  EXPECT_EQ(mixed.max_abs_diff, 4.0);
  EXPECT_EQ(mixed.num_elements, 4u);
}

TEST(MeasurePair, RefusesDifferentSizesAndTakesEmptyTensors) {
  const std::vector<float> two = {1, 2}, none;
  EXPECT_EQ(MeasurePair(View(Dtype::kF32, two), View(Dtype::kF32, none), {}).error().code,
            ErrorCode::kShapeMismatch);
  const PairMeasures empty = Pair(none, none);
  EXPECT_EQ(empty.num_elements, 0u);
  EXPECT_TRUE(std::isnan(empty.Rmse()));
}

TEST(MeasurePair, HugeDoublesAreNotSpecial) {
  const std::vector<double> t = {1e308, 1}, g = {1e308, 2};
  MeasureOptions options;
  options.groups = kEverything;
  const PairMeasures m = MeasurePair(View(Dtype::kF64, t), View(Dtype::kF64, g), options).value();
  EXPECT_EQ(m.num_special(), 0u);
  EXPECT_EQ(m.max_abs_diff, 1.0);
  EXPECT_EQ(m.target.Max(), 1e308);
  EXPECT_EQ(m.num_close, 1u);
}

TEST(MeasurePair, PrecheckSortsElementsIntoSpecialSmallAndNormal) {
  MeasureOptions options;
  options.precheck.device = Dtype::kF16;
  options.precheck.small_value = 0x1p-11;
  options.precheck.small_atol = 0x1p-16;
  options.precheck.rtol = 0x1p-10;
  options.precheck.largest_finite = 65504;
  options.precheck.mantissa_bits = 10;
  options.precheck.min_exponent = -14;
  options.precheck.ulp_limit = 1;
  options.groups = Groups(Group::kPrecheck);
  const std::vector<std::uint16_t> device = {0x3c00, 0x3c01, 0x0001, 0x7c00,
                                             0x7e00};  // 1, 1+2^-10, 2^-24, inf, nan
  const std::vector<float> bench = {1.0f, 1.0f, 0.0f, 70000.0f, kNan};
  const PrecheckMeasures m =
      MeasurePair(View(Dtype::kF16, device), View(Dtype::kF32, bench), options).value().precheck;
  EXPECT_EQ(m.num_special, 2u);  // 70000 is infinite in half precision
  EXPECT_EQ(m.num_special_mismatches, 0u);
  EXPECT_EQ(m.num_small, 1u);
  EXPECT_EQ(m.num_small_errors, 0u);  // 2^-24 is below 2^-16
  EXPECT_EQ(m.num_normal, 2u);
  EXPECT_EQ(m.num_normal_errors, 0u);  // 2^-10 / (1 + 2^-23) is just under rtol
  EXPECT_EQ(m.num_target_greater, 2u);
  EXPECT_TRUE(std::isnan(m.max_ulp));
  EXPECT_EQ(m.normal_sum_sq_diff, 0x1p-20);
}

TEST(MeasureTensor, GivesBothFlavoursOfExtremes) {
  const std::vector<float> values = {3, -1, kNan, kInf, 0, 1e-40f, -0.0f};
  const TensorStats s = MeasureTensor(View(Dtype::kF32, values), {}).value();
  EXPECT_EQ(s.num_nan, 1u);
  EXPECT_EQ(s.num_pos_inf, 1u);
  EXPECT_EQ(s.num_zero, 2u);
  EXPECT_EQ(s.num_denormal, 1u);
  EXPECT_EQ(s.finite_max, 3.0);
  EXPECT_EQ(s.finite_min, -1.0);
  EXPECT_TRUE(std::isnan(s.Max()));
  const TensorStats inf = MeasureTensor(View(Dtype::kF32, std::vector<float>{1, kInf}), {}).value();
  EXPECT_EQ(inf.Max(), kInf);
  EXPECT_EQ(inf.Min(), 1.0);
  EXPECT_EQ(inf.Mean(), kInf);
  EXPECT_EQ(inf.Norm(), kInf);
  EXPECT_TRUE(
      std::isnan(MeasureTensor(View(Dtype::kF32, std::vector<float>{kInf, -kInf}), {}).value().Mean()));
}

TEST(MeasureTensor, StandardDeviationKeepsItsDigitsFarFromZero) {
  std::vector<double> values(100'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1e9 + static_cast<double>(i % 2);
  const TensorStats s = MeasureTensor(View(Dtype::kF64, values), {}).value();
  EXPECT_NEAR(s.Std(), std::sqrt(0.25 * 100'000 / 99'999), 1e-12);
}

TEST(MeasureTensor, ChecksumIsOfTheRawBytes) {
  const std::string text = "123456789";
  StatsOptions options;
  options.crc32 = true;
  const std::vector<char> bytes(text.begin(), text.end());
  EXPECT_EQ(MeasureTensor(View(Dtype::kI8, bytes), options).value().crc32, 0xcbf43926u);
  std::vector<std::uint8_t> large(3'000'000);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::uint8_t>(i * 7);
  EXPECT_EQ(MeasureTensor(View(Dtype::kU8, large), options).value().crc32,
            Crc32({reinterpret_cast<const std::byte*>(large.data()), large.size()}));
}

TEST(DefaultTolerance, IsTorchsAndTheLargerOfTwo) {
  EXPECT_EQ(DefaultTolerance(Dtype::kF32, Dtype::kF32).rtol, 1.3e-6);
  EXPECT_EQ(DefaultTolerance(Dtype::kBF16, Dtype::kF32).rtol, 1.6e-2);
  EXPECT_EQ(DefaultTolerance(Dtype::kI32, Dtype::kI32).atol, 0);
}

}  // namespace
}  // namespace vernier

// Every instruction set of this machine against the plain loops: equal to the last bit, at every tail length,
// at addresses of every alignment.
#include "measure/kernels_internal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "measure/plain_kernels_internal.h"

namespace vernier::internal {
namespace {

constexpr std::size_t kLengths[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 1000, 2047, 2048};
constexpr std::size_t kSkipBytes[] = {0, 1, 4, 60};

// Bytes at an address that is `skip` past an aligned one.
template <class T>
class Misaligned {
 public:
  Misaligned(const std::vector<T>& values, std::size_t skip)
      : bytes_(values.size() * sizeof(T) + skip + 1), skip_(skip) {
    std::memcpy(bytes_.data() + skip, values.data(), values.size() * sizeof(T));
  }
  const T* get() const { return reinterpret_cast<const T*>(bytes_.data() + skip_); }

 private:
  std::vector<std::byte> bytes_;
  std::size_t skip_;
};

// Ordinary values, exact zeros, equal pairs, tiny and huge ones.
template <class T>
std::vector<T> Values(std::size_t n, unsigned seed, const std::vector<T>* near = nullptr) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const unsigned kind = random() % 16;
    const double noise = normal(random);
    if (near != nullptr && kind < 12) {
      values[i] = static_cast<T>((*near)[i] * (1 + noise * (kind < 6 ? 1e-7 : 1e-3)));
    } else if (kind == 12) {
      values[i] = 0;
    } else if (kind == 13) {
      values[i] = static_cast<T>(noise * 1e-40);
    } else if (kind == 14) {
      values[i] = static_cast<T>(noise * 1e37);
    } else {
      values[i] = static_cast<T>(noise);
    }
  }
  return values;
}

bool SameBits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool Same(const Lanes& a, const Lanes& b) {
  for (std::size_t i = 0; i < kNumLanes; ++i) {
    if (!SameBits(a.lane[i], b.lane[i])) return false;
  }
  return true;
}

void ExpectSame(const RelativeLanes& got, const RelativeLanes& want) {
  EXPECT_TRUE(Same(got.sum, want.sum));
  EXPECT_TRUE(SameBits(got.max, want.max)) << got.max << " " << want.max;
  EXPECT_EQ(got.has_nan, want.has_nan);
  EXPECT_EQ(got.num_below_1e3, want.num_below_1e3);
  EXPECT_EQ(got.num_below_5e3, want.num_below_5e3);
}

void ExpectSame(const PairLanes& got, const PairLanes& want, bool with_stats) {
  for (const auto lanes : {&PairLanes::dot, &PairLanes::sq_t, &PairLanes::sq_g, &PairLanes::sq_d,
                           &PairLanes::max_abs_d, &PairLanes::sum_t, &PairLanes::sum_g}) {
    EXPECT_TRUE(Same(got.*lanes, want.*lanes));
  }
  ExpectSame(got.relative, want.relative);
  EXPECT_EQ(got.num_close, want.num_close);
  EXPECT_EQ(got.min_abs_d, want.min_abs_d);
  EXPECT_EQ(got.num_above, want.num_above);
  if (!with_stats) return;
  EXPECT_EQ(got.min_t, want.min_t);
  EXPECT_EQ(got.max_t, want.max_t);
  EXPECT_EQ(got.min_g, want.min_g);
  EXPECT_EQ(got.max_g, want.max_g);
}

class EveryTarget : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(ForceTarget(GetParam()));
    ASSERT_EQ(ActiveKernels().name, GetParam());
  }
  void TearDown() override { ForceTarget(""); }
};

template <class T>
void CheckTyped(const TypedKernels<T>& fast, const TypedKernels<T>& plain_table) {
  for (const std::size_t n : kLengths) {
    for (const std::size_t skip : kSkipBytes) {
      SCOPED_TRACE(testing::Message() << "n " << n << " skip " << skip << " bytes " << sizeof(T));
      const std::vector<T> golden_values = Values<T>(n, 1), target_values = Values<T>(n, 2, &golden_values);
      const Misaligned<T> target(target_values, skip), golden(golden_values, skip);
      const T *t = target.get(), *g = golden.get();

      const PairParameters parameters = {1e-12, 1.3e-6, 1e-5, 1e-3, {}};
      for (unsigned parts = 0; parts < kNumPartSets; ++parts) {
        PairLanes got, want;
        fast.pair[parts](t, g, n, parameters, got);
        plain_table.pair[parts](t, g, n, parameters, want);
        ExpectSame(got, want, (parts & kPartStats) != 0);
      }

      DetailLanes details, details_plain;
      fast.details(t, g, n, 1e-12, details);
      plain_table.details(t, g, n, 1e-12, details_plain);
      EXPECT_TRUE(Same(details.abs_d, details_plain.abs_d) && Same(details.d, details_plain.d));
      EXPECT_EQ(details.greater, details_plain.greater);
      EXPECT_EQ(details.less, details_plain.less);
      EXPECT_EQ(details.num_below_1e3, details_plain.num_below_1e3);
      EXPECT_EQ(details.num_below_5e3, details_plain.num_below_5e3);

      StatsLanes stats, stats_plain;
      fast.stats(t, n, stats);
      plain_table.stats(t, n, stats_plain);
      EXPECT_TRUE(Same(stats.sum, stats_plain.sum) && Same(stats.sum_sq, stats_plain.sum_sq));
      EXPECT_EQ(stats.min, stats_plain.min);
      EXPECT_EQ(stats.max, stats_plain.max);

      Lanes centered, centered_plain;
      fast.centered(t, n, 0.25, centered);
      plain_table.centered(t, n, 0.25, centered_plain);
      EXPECT_TRUE(Same(centered, centered_plain));

      ZeroCounts zeros, zeros_plain;
      fast.zeros(t, n, 0x1p-126, zeros);
      plain_table.zeros(t, n, 0x1p-126, zeros_plain);
      EXPECT_EQ(zeros.zero, zeros_plain.zero);
      EXPECT_EQ(zeros.denormal, zeros_plain.denormal);

      RelativeLanes own, own_plain, wide, wide_plain;
      fast.relative_own(t, g, n, 0x1p-52, own);
      plain_table.relative_own(t, g, n, 0x1p-52, own_plain);
      ExpectSame(own, own_plain);
      fast.relative_double(t, g, n, 0x1p-52, wide);
      plain_table.relative_double(t, g, n, 0x1p-52, wide_plain);
      ExpectSame(wide, wide_plain);

      std::uint64_t above[kNumAbsThresholds] = {}, above_plain[kNumAbsThresholds] = {};
      const double limits[kNumAbsThresholds] = {1e-1, 1e-2, 1e-3, 1e-6, 1e-9, 1e-12};
      fast.thresholds(t, g, n, limits, above);
      plain_table.thresholds(t, g, n, limits, above_plain);
      for (std::size_t k = 0; k < kNumAbsThresholds; ++k) EXPECT_EQ(above[k], above_plain[k]);
    }
  }
}

TEST_P(EveryTarget, GivesThePlainLoopsBitsForFloat) { CheckTyped(ActiveKernels().f32, PlainKernels().f32); }
TEST_P(EveryTarget, GivesThePlainLoopsBitsForDouble) { CheckTyped(ActiveKernels().f64, PlainKernels().f64); }

TEST_P(EveryTarget, WidensEveryHalfAndBrainFloat) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (std::size_t first = 0; first < all.size(); first += kBlockElements) {
    float half[kBlockElements], half_plain[kBlockElements], brain[kBlockElements],
        brain_plain[kBlockElements];
    ActiveKernels().widen_f16(all.data() + first, kBlockElements, half);
    PlainKernels().widen_f16(all.data() + first, kBlockElements, half_plain);
    ActiveKernels().widen_bf16(all.data() + first, kBlockElements, brain);
    PlainKernels().widen_bf16(all.data() + first, kBlockElements, brain_plain);
    for (std::size_t i = 0; i < kBlockElements; ++i) {
      // NaN payloads may differ: nothing looks at them.
      ASSERT_TRUE(half[i] == half_plain[i] || (std::isnan(half[i]) && std::isnan(half_plain[i])))
          << first + i;
      ASSERT_EQ(std::signbit(half[i]), std::signbit(half_plain[i])) << first + i;
      ASSERT_TRUE(brain[i] == brain_plain[i] || (std::isnan(brain[i]) && std::isnan(brain_plain[i])))
          << first + i;
    }
  }
}

TEST_P(EveryTarget, DividesHalvesAsThePlainLoopDoes) {
  std::mt19937 random(7);
  for (const std::size_t n : kLengths) {
    std::vector<float> t(n), g(n);
    for (std::size_t i = 0; i < n; ++i) {
      const auto bits = static_cast<std::uint16_t>(random());
      g[i] = plain::HalfToFloat(static_cast<std::uint16_t>(bits & 0x7bff));
      t[i] = plain::HalfToFloat(static_cast<std::uint16_t>((bits + random() % 40) & 0x7bff));
      if (i % 50 == 3) g[i] = 0;
      if (i % 100 == 3) t[i] = 0;
    }
    RelativeLanes got, want;
    ActiveKernels().relative_half(t.data(), g.data(), n, got);
    PlainKernels().relative_half(t.data(), g.data(), n, want);
    ExpectSame(got, want);
  }
}

TEST_P(EveryTarget, CountsUnitsInTheLastPlaceAsThePlainLoopDoes) {
  std::mt19937 random(3);
  for (const std::size_t n : kLengths) {
    std::vector<std::uint32_t> t(n), g(n);
    for (std::size_t i = 0; i < n; ++i) {
      g[i] = static_cast<std::uint32_t>(random());
      t[i] = i % 3 ? g[i] + static_cast<std::uint32_t>(random() % 5) : static_cast<std::uint32_t>(random());
    }
    for (const std::uint64_t threshold : {std::uint64_t{0}, std::uint64_t{2}, ~std::uint64_t{0}}) {
      for (const auto kernels : {&Kernels::ulp16, &Kernels::ulp32}) {
        UlpCounts got, want;
        (ActiveKernels().*kernels).all(t.data(), g.data(), n, threshold, got);
        (PlainKernels().*kernels).all(t.data(), g.data(), n, threshold, want);
        EXPECT_EQ(got.max, want.max);
        EXPECT_EQ(got.sum, want.sum);
        EXPECT_EQ(got.above, want.above);
        EXPECT_EQ((ActiveKernels().*kernels).max(t.data(), g.data(), n), want.max);
        EXPECT_EQ((PlainKernels().*kernels).max(t.data(), g.data(), n), want.max);
      }
    }
  }
}

bool Same(const DivergenceLanes& a, const DivergenceLanes& b) {
  for (const auto lanes : {&DivergenceLanes::exp_t, &DivergenceLanes::exp_g, &DivergenceLanes::exp_diff,
                           &DivergenceLanes::abs, &DivergenceLanes::relative}) {
    if (!Same(a.*lanes, b.*lanes)) return false;
  }
  return a.max_abs == b.max_abs && a.max_relative == b.max_relative &&
         a.max_any_relative == b.max_any_relative;
}

TEST_P(EveryTarget, MeasuresDivergenceAsThePlainLoopDoes) {
  for (const std::size_t n : kLengths) {
    for (const std::size_t skip : kSkipBytes) {
      SCOPED_TRACE(testing::Message() << "n " << n << " skip " << skip);
      const std::vector<float> golden_values = Values<float>(n, 5);
      std::vector<float> far = Values<float>(n, 6, &golden_values), near = golden_values;
      for (std::size_t i = 0; i < n; ++i) near[i] += i % 3 == 0 ? 0x1p-8f : 0;
      const Misaligned<float> golden(golden_values, skip);
      for (std::vector<float>* values : {&far, &near}) {
        const Misaligned<float> target(*values, skip);
        DivergenceParameters parameters;
        parameters.max_t = *std::max_element(values->begin(), values->end());
        parameters.max_g = *std::max_element(golden_values.begin(), golden_values.end());
        parameters.near = values == &near;
        DivergenceLanes got, want;
        ActiveKernels().divergence(target.get(), golden.get(), n, parameters, got);
        PlainKernels().divergence(target.get(), golden.get(), n, parameters, want);
        EXPECT_TRUE(Same(got, want));
        RelativeLanes exact, exact_plain;
        ActiveKernels().f32.relative_of_golden(target.get(), golden.get(), n, exact);
        PlainKernels().f32.relative_of_golden(target.get(), golden.get(), n, exact_plain);
        ExpectSame(exact, exact_plain);
      }
    }
  }
}

TEST(ExpOfNegative, IsTheExponentialAsFarAsFloatsGo) {
  for (float x = 0; x >= -87; x -= 0.00731f) {
    const double want = std::exp(static_cast<double>(x));
    ASSERT_NEAR(plain::ExpOfNegative(x) / want, 1, 3e-7) << x;
    ASSERT_NEAR(plain::WeightOfNegative(x) / want, 1, 1e-5) << x;
    if (x > -5) {
      ASSERT_NEAR(plain::WeightOfNegative(x) / want, 1, 1e-6) << x;
    }
  }
  for (float x = -0x1p-5f; x <= 0x1p-5f; x += 0x1p-12f)
    ASSERT_NEAR(plain::ExpOfNearZero(x) / std::exp(static_cast<double>(x)), 1, 2e-7) << x;
  EXPECT_EQ(plain::ExpOfNegative(0), 1.0f);
  EXPECT_EQ(plain::ExpOfNegative(-88), 0.0f);
  EXPECT_EQ(plain::ExpOfNegative(-HUGE_VALF), 0.0f);
  EXPECT_EQ(plain::WeightOfNegative(-HUGE_VALF), 0.0f);
}

INSTANTIATE_TEST_SUITE_P(Targets, EveryTarget, testing::ValuesIn(AvailableTargets()),
                         [](const auto& test) { return std::string(test.param); });

TEST(RoundToHalf, AgreesWithTheNearestHalfEverywhere) {
  // Between neighbours: below the midpoint, at it (ties to even), above it.
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = plain::HalfToFloat(static_cast<std::uint16_t>(bits));
    const float high = plain::HalfToFloat(static_cast<std::uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(plain::RoundToHalf(low), low);
    ASSERT_EQ(plain::RoundToHalf(middle), bits % 2 == 0 ? low : high) << bits;
    ASSERT_EQ(plain::RoundToHalf(std::nextafter(middle, 0.0f)), low) << bits;
    ASSERT_EQ(plain::RoundToHalf(std::nextafter(middle, 1e9f)), high) << bits;
    ASSERT_EQ(plain::RoundToHalf(-middle), -plain::RoundToHalf(middle));
  }
  EXPECT_EQ(plain::RoundToHalf(65519.996f), 65504.0f);
  EXPECT_EQ(plain::RoundToHalf(65520.0f), HUGE_VALF);
  EXPECT_TRUE(std::isnan(plain::RoundToHalf(NAN)));
}

TEST(RoundToHalf, FirstRoundingToIsTheFirst) {
  for (std::uint32_t bits = 0x401; bits < 0x7c00; ++bits) {
    const float half = plain::HalfToFloat(static_cast<std::uint16_t>(bits));
    const float first = plain::FirstRoundingTo(half);
    ASSERT_EQ(plain::RoundToHalf(first), half) << bits;
    ASSERT_LT(plain::RoundToHalf(std::nextafter(first, 0.0f)), half) << bits;
  }
}

TEST(ForceTarget, RefusesWhatTheMachineDoesNotHave) {
  EXPECT_FALSE(ForceTarget("AVX9000"));
  EXPECT_EQ(AvailableTargets().back(), "PLAIN");
}

}  // namespace
}  // namespace vernier::internal

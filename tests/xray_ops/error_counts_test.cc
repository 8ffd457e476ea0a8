#include "xray_ops/error_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <random>

namespace vernier::xray_ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kNan = NAN, kInf = HUGE_VALF;

template <class T>
TensorView View(Dtype dtype, const std::vector<T>& values) {
  return BorrowTensor(dtype, {static_cast<std::int64_t>(values.size())}, values.data());
}

template <class T>
ErrorCounts Count(Dtype dtype, const std::vector<T>& cpu, const std::vector<T>& device,
                  int orders = kDefaultOrders) {
  const Result<ErrorCounts> counts = CountErrors(View(dtype, cpu), View(dtype, device), orders);
  EXPECT_TRUE(counts) << counts.error().Message();
  return *counts;
}

TEST(ErrorCounts, CountsElementsAboveEachOrder) {
  const ErrorCounts counts = Count<float>(Dtype::kF32, {-1, 0, 5, 5}, {-1, 0.25F, 5, 5.015625F});
  EXPECT_EQ(counts.max, 0.25);
  EXPECT_THAT(counts.above, ElementsAre(1U, 2U, 2U, 2U, 2U, 2U));
  EXPECT_EQ(counts.min_value.number, -1);
  EXPECT_EQ(counts.max_value.number, 5);
  EXPECT_FALSE(counts.passes);
  EXPECT_THAT(counts.message, HasSubstr("2 of 4 elements differ by more than rtol 1.3e-06, atol 1e-05"));
}

// The definition once more, one element at a time.
TEST(ErrorCounts, CountsAnyNumberOfOrders) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponent(-16, 1);
  std::vector<double> cpu, device;
  for (int i = 0; i < 5000; ++i) {
    cpu.push_back(exponent(random));
    device.push_back(cpu.back() + std::pow(10, exponent(random)));
  }
  for (const int orders : {1, 5, 6, 7, 12, 15, 30}) {
    std::vector<std::uint64_t> want(static_cast<std::size_t>(orders));
    for (std::size_t i = 0; i < cpu.size(); ++i) {
      for (std::size_t k = 0; k < want.size(); ++k)
        want[k] += std::abs(device[i] - cpu[i]) > std::stod("1e-" + std::to_string(k + 1));
    }
    EXPECT_EQ(Count(Dtype::kF64, cpu, device, orders).above, want) << orders;
  }
}

TEST(ErrorCounts, TakesSpecialValuesThatAgreeAsEqual) {
  const ErrorCounts same = Count<float>(Dtype::kF32, {kNan, kInf, -kInf, 1}, {kNan, kInf, -kInf, 1});
  EXPECT_TRUE(same.passes);
  EXPECT_EQ(same.max, 0);
  EXPECT_EQ(same.min_value.number, 1);
  const ErrorCounts other = Count<float>(Dtype::kF32, {1, 2, kInf, 4}, {1, kNan, -kInf, 4});
  EXPECT_FALSE(other.passes);
  EXPECT_EQ(other.max, HUGE_VAL);
  EXPECT_THAT(other.above, ElementsAre(2U, 2U, 2U, 2U, 2U, 2U));
  EXPECT_EQ(other.max_value.number, 4);
}

TEST(ErrorCounts, HoldsTheTolerancesOfTheDtypes) {
  EXPECT_TRUE(Count<float>(Dtype::kF32, {1000}, {1000 + 0x1p-10F}).passes);
  EXPECT_FALSE(Count<float>(Dtype::kF32, {1}, {1.00002F}).passes);
  EXPECT_TRUE(Count<double>(Dtype::kF64, {1}, {1 + 1.5e-7}).passes);
  EXPECT_FALSE(Count<double>(Dtype::kF64, {1}, {1 + 3e-7}).passes);
  EXPECT_TRUE(Count<std::uint16_t>(Dtype::kBF16, {0x3f80}, {0x3f82}).passes);   // 1 and 1.015625
  EXPECT_FALSE(Count<std::uint16_t>(Dtype::kBF16, {0x3f80}, {0x3f83}).passes);  // 1.0234375
  EXPECT_FALSE(Count<std::int32_t>(Dtype::kI32, {1}, {2}).passes);
  EXPECT_FALSE(Count<std::uint8_t>(Dtype::kBool, {1, 0}, {1, 1}).passes);
}

TEST(ErrorCounts, AllowsEightBitFloatsOneUnit) {
  for (const Dtype dtype : {Dtype::kF8E4M3FN, Dtype::kF8E5M2, Dtype::kF8E4M3FNUZ, Dtype::kF8E5M2FNUZ}) {
    EXPECT_TRUE(Count<std::uint8_t>(dtype, {0x38, 0x41}, {0x39, 0x40}).passes) << Name(dtype);
    EXPECT_FALSE(Count<std::uint8_t>(dtype, {0x38}, {0x3a}).passes) << Name(dtype);
  }
  EXPECT_FALSE(
      Count<std::uint8_t>(Dtype::kF8E5M2, {0x7b}, {0x7c}).passes);  // the largest number, and infinity
}

TEST(ErrorCounts, KeepsIntegersExact) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 53;
  const ErrorCounts counts =
      Count<std::int64_t>(Dtype::kI64, {kLarge, -kLarge - 1}, {kLarge + 1, -kLarge - 1});
  EXPECT_FALSE(counts.passes);
  EXPECT_EQ(counts.max, 1);
  EXPECT_THAT(counts.above, ElementsAre(1U, 1U, 1U, 1U, 1U, 1U));
  EXPECT_EQ(counts.min_value.integer, -kLarge - 1);
  EXPECT_EQ(CellText(Count<std::uint64_t>(Dtype::kU64, {~std::uint64_t{0}}, {~std::uint64_t{0}}).max_value),
            "18446744073709551615");
  EXPECT_EQ(CellText(Count<std::uint8_t>(Dtype::kBool, {1, 0}, {1, 0}).max_value), "1");
}

TEST(ErrorCounts, MeasuresComplexNumbersByModulus) {
  using C = std::complex<float>;
  const ErrorCounts counts = Count<C>(Dtype::kC64, {{3, 4}, {0, 1}}, {{3.03F, 4.04F}, {0, 1}});
  EXPECT_NEAR(*counts.max, 0.05, 1e-6);
  EXPECT_THAT(counts.above, ElementsAre(0U, 1U, 1U, 1U, 1U, 1U));
  EXPECT_EQ(counts.min_value.number, 1);
  EXPECT_EQ(counts.max_value.number, 5);
  EXPECT_FALSE(counts.passes);
  EXPECT_TRUE(Count<C>(Dtype::kC64, {{kNan, 1}}, {{kNan, 1}}).passes);
  const ErrorCounts broken = Count<C>(Dtype::kC64, {{kInf, 1}}, {{1, 1}}, 2);
  EXPECT_EQ(broken.max, HUGE_VAL);
  EXPECT_THAT(broken.above, ElementsAre(1U, 1U));
  EXPECT_FALSE(broken.passes);
  EXPECT_EQ(Count<C>(Dtype::kC64, {{kInf, 1}}, {{kInf, 2}}, 2).max, HUGE_VAL);
  using D = std::complex<double>;
  EXPECT_TRUE(Count<D>(Dtype::kC128, {{1, 1}}, {{1 + 1e-7, 1}}).passes);
}

TEST(ErrorCounts, CountsNothingWhenShapesOrDtypesDiffer) {
  const std::vector<float> two = {1, 2}, three = {1, 2, 3};
  const Result<ErrorCounts> shape = CountErrors(View(Dtype::kF32, two), View(Dtype::kF32, three), 6);
  ASSERT_TRUE(shape);
  EXPECT_FALSE(shape->passes);
  EXPECT_FALSE(shape->max);
  EXPECT_TRUE(shape->above.empty());
  EXPECT_EQ(shape->message, "shape [3] on the device, [2] on the CPU");
  EXPECT_EQ(shape->max_value.number, 2);
  const std::vector<double> wide = {1, 2};
  const Result<ErrorCounts> dtype = CountErrors(View(Dtype::kF32, two), View(Dtype::kF64, wide), 6);
  ASSERT_TRUE(dtype);
  EXPECT_FALSE(dtype->passes);
  EXPECT_EQ(dtype->message, "dtype float64 on the device, float32 on the CPU");
}

TEST(ErrorCounts, PassesEmptyTensors) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kI64, Dtype::kC64, Dtype::kBool}) {
    const TensorView empty = BorrowTensor(dtype, {0, 3}, nullptr);
    const Result<ErrorCounts> counts = CountErrors(empty, empty, 6);
    ASSERT_TRUE(counts);
    EXPECT_TRUE(counts->passes);
    EXPECT_EQ(counts->max, 0);
    EXPECT_EQ(counts->min_value.kind, Cell::Kind::kNone);
  }
}

TEST(ErrorCounts, RefusesOtherNumbersOfOrders) {
  const std::vector<float> one = {1};
  for (const int orders : {-1, 0, 31})
    EXPECT_FALSE(CountErrors(View(Dtype::kF32, one), View(Dtype::kF32, one), orders)) << orders;
}

}  // namespace
}  // namespace vernier::xray_ops

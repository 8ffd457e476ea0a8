// Which elements differ most, and where along the axes the error lies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "vernier/measure.h"

namespace vernier {
namespace {

using testing::ElementsAre;
using Kind = Concentration::Kind;

constexpr float kInf = std::numeric_limits<float>::infinity();

template <class T>
TensorView View(Dtype dtype, const std::vector<T>& values, Shape shape = {}) {
  if (shape.empty()) shape = {static_cast<std::int64_t>(values.size())};
  return BorrowTensor(dtype, std::move(shape), values.data());
}

template <class T>
ElementDifferences Compare(Dtype dtype, const std::vector<T>& target, const std::vector<T>& golden,
                           const Shape& shape = {}, std::size_t num_worst = 3) {
  ElementOptions options;
  options.num_worst = num_worst;
  return CompareElements(View(dtype, target, shape), View(dtype, golden, shape), options).value();
}

std::vector<std::uint64_t> IndexesOf(const ElementDifferences& found) {
  std::vector<std::uint64_t> indexes;
  for (const RankedElement& element : found.worst) indexes.push_back(element.index);
  return indexes;
}

// Ones on both sides; the target is off by one where `is_off` says so.
ElementDifferences OffWhere(const auto& is_off, const Shape& shape = {2, 3, 8}) {
  std::size_t count = 1;
  for (const std::int64_t dim : shape) count *= static_cast<std::size_t>(dim);
  std::vector<float> golden(count, 1), target = golden;
  for (std::size_t i = 0; i < count; ++i) target[i] += is_off(i) ? 1.0f : 0.0f;
  return Compare(Dtype::kF32, target, golden, shape);
}

TEST(CompareElements, RanksSpecialsFirstThenBySizeThenByIndex) {
  const std::vector<float> golden = {1, 2, 3, 4, NAN, kInf, kInf}, target = {1, 2.5f, 3.5f, 7, NAN, 5, kInf};
  const ElementDifferences found = Compare(Dtype::kF32, target, golden);
  EXPECT_THAT(IndexesOf(found), ElementsAre(5, 3, 1));
  EXPECT_EQ(found.num_numbers, 7u);
  EXPECT_EQ(found.num_different, 4u);
  EXPECT_EQ(found.worst[1].abs_diff, 3);
  EXPECT_FALSE(found.worst[0].ulp) << "infinity has no neighbours";
}

TEST(CompareElements, ALargeDifferenceDoesNotHideANan) {
  const double max = std::numeric_limits<double>::max();
  const std::vector<double> golden = {-max, 1}, target = {max, NAN};
  const ElementDifferences found = Compare(Dtype::kF64, target, golden);
  EXPECT_THAT(IndexesOf(found), ElementsAre(1, 0));
  EXPECT_TRUE(std::isnan(found.worst[0].abs_diff));
}

TEST(CompareElements, FindsNothingInEqualTensors) {
  const std::vector<float> values = {1, NAN, kInf, -0.0f}, same = {1, NAN, kInf, 0.0f};
  const ElementDifferences found = Compare(Dtype::kF32, values, same);
  EXPECT_TRUE(found.worst.empty());
  EXPECT_FALSE(found.concentration);
  EXPECT_EQ(Compare(Dtype::kF32, std::vector<float>{}, {}, {0}).num_numbers, 0u);
}

TEST(CompareElements, CountsUlpsOnTheStoredType) {
  const float one = 1, next = std::nextafterf(1, 2), denormal = std::numeric_limits<float>::denorm_min();
  const ElementDifferences floats =
      Compare(Dtype::kF32, std::vector<float>{next, denormal, -denormal}, {one, 0, denormal});
  EXPECT_THAT(IndexesOf(floats), ElementsAre(0, 2, 1));
  EXPECT_EQ(floats.worst[0].ulp, 1u);
  EXPECT_EQ(floats.worst[1].ulp, 2u);
  EXPECT_EQ(floats.worst[2].ulp, 1u);
  // bfloat16: 1, 1.0078125, and the number below 1, which is half a step nearer
  const std::vector<std::uint16_t> golden = {0x3f80, 0x3f80}, target = {0x3f81, 0x3f7f};
  const ElementDifferences halves = Compare(Dtype::kBF16, target, golden);
  EXPECT_EQ(halves.worst[0].ulp, 1u);
  EXPECT_EQ(halves.worst[1].ulp, 1u);
  const ElementDifferences doubles = Compare(Dtype::kF64, std::vector<double>{1e308}, {-1e308});
  EXPECT_EQ(doubles.worst[0].ulp, 2 * (0x7fe1ccf385ebc8a0u));
}

TEST(CompareElements, CountsUlpsOfTheCoarserTypeWhereTheyDiffer) {
  const std::vector<std::uint16_t> target = {0x3f81};  // 1.0078125 in bfloat16
  const std::vector<float> near = {1.0079f}, far = {1.0f};
  const auto ulp = [&](const std::vector<float>& golden) {
    return CompareElements(View(Dtype::kBF16, target), View(Dtype::kF32, golden), {}).value().worst[0].ulp;
  };
  EXPECT_EQ(ulp(near), 0u) << "rounded to bfloat16 it is the same";
  EXPECT_EQ(ulp(far), 1u);
}

TEST(CompareElements, TellsWideIntegersApartThatDoubleDoesNot) {
  const std::int64_t large = (std::int64_t{1} << 60) + 1;
  const ElementDifferences found =
      Compare(Dtype::kI64, std::vector<std::int64_t>{large, -5}, {large - 1, -5});
  EXPECT_EQ(found.num_different, 1u);
  EXPECT_EQ(found.worst[0].abs_diff, 1);
  EXPECT_EQ(found.worst[0].target_text, "1152921504606846977");
  EXPECT_EQ(found.worst[0].golden_text, "1152921504606846976");
  EXPECT_FALSE(found.worst[0].ulp);
}

TEST(CompareElements, NamesThePartOfAComplexNumber) {
  const std::vector<std::complex<float>> golden = {{1, 1}, {2, 2}, {3, 3}}, target = {{1, 1}, {2, 5}, {3, 3}};
  const ElementDifferences found = Compare(Dtype::kC64, target, golden);
  EXPECT_THAT(IndexesOf(found), ElementsAre(1));
  EXPECT_TRUE(found.worst[0].is_imaginary);
  EXPECT_EQ(found.concentration->kind, Kind::kOneElement);
}

TEST(CompareElements, FindsTheColumnTheRowAndTheSlice) {
  const Concentration column = *OffWhere([](std::size_t i) { return i % 8 == 6; }).concentration;
  EXPECT_EQ(column.kind, Kind::kRange);
  EXPECT_EQ(column.axis, 2u);
  EXPECT_EQ(column.first, 6u);
  EXPECT_EQ(column.last, 6u);
  EXPECT_EQ(column.share, 1);
  const Concentration row = *OffWhere([](std::size_t i) { return i / 24 == 1; }).concentration;
  EXPECT_EQ(row.axis, 0u);
  EXPECT_EQ(row.first, 1u);
  const Concentration slice = *OffWhere([](std::size_t i) { return i / 8 % 3 == 2; }).concentration;
  EXPECT_EQ(slice.axis, 1u);
  EXPECT_EQ(slice.first, 2u);
}

TEST(CompareElements, FindsAStretchOfAnAxis) {
  const Concentration head =
      *OffWhere([](std::size_t i) { return i % 64 >= 16 && i % 64 < 32; }, {4, 5, 64}).concentration;
  EXPECT_EQ(head.axis, 2u);
  EXPECT_EQ(head.first, 16u);
  EXPECT_EQ(head.last, 31u) << "nine tenths lie in 15 columns, but the sixteenth is no better";
  EXPECT_EQ(head.share, 1);
}

TEST(CompareElements, FindsThePositionThatHoldsTheLargerPart) {
  std::vector<float> golden(64, 0), target(64, 0.1f);
  for (std::size_t i = 0; i < 8; ++i) target[8 * i + 5] = 0.4f;
  const Concentration found = *Compare(Dtype::kF32, target, golden, {8, 8}).concentration;
  EXPECT_EQ(found.axis, 1u);
  EXPECT_EQ(found.first, 5u);
  EXPECT_NEAR(found.share, 16.0 / 23, 1e-6);
}

TEST(CompareElements, SaysWhenItIsEverywhereOrInOnePlace) {
  EXPECT_EQ(OffWhere([](std::size_t) { return true; }).concentration->kind, Kind::kSpread);
  EXPECT_EQ(OffWhere([](std::size_t i) { return i == 17; }).concentration->kind, Kind::kOneElement);
}

TEST(CompareElements, WeighsSpecialValuesByTheirNumber) {
  std::vector<float> golden(48, 1), target(48, 100);  // everything is off, and one column is NaN
  for (std::size_t i = 3; i < 48; i += 8) target[i] = NAN;
  const Concentration found = *Compare(Dtype::kF32, target, golden, {6, 8}).concentration;
  EXPECT_TRUE(found.of_specials);
  EXPECT_EQ(found.axis, 1u);
  EXPECT_EQ(found.first, 3u);
}

TEST(CompareElements, LooksAtLongAxesInRanges) {
  const std::size_t count = std::size_t{1} << 18;
  std::vector<float> golden(count, 0), target(count, 0);
  for (std::size_t i = 200'000; i < 200'100; ++i) target[i] = 1;
  const Concentration found = *Compare(Dtype::kF32, target, golden).concentration;
  EXPECT_EQ(found.kind, Kind::kRange);
  EXPECT_LE(found.last - found.first, 100u);
  EXPECT_GE(found.first, 200'000u);
  EXPECT_LT(found.last, 200'100u);
}

// Large enough for several chunks, with a share of equal ranks.
TEST(CompareElements, GivesTheSameOnAnyNumberOfThreads) {
  std::mt19937 random(1);
  std::vector<float> golden(9'000'000), target(golden.size());
  for (std::size_t i = 0; i < golden.size(); ++i) {
    golden[i] = static_cast<float>(random() % 1000) / 1000;
    target[i] = golden[i] + static_cast<float>(random() % 7) / 64;
  }
  const Shape shape = {90, 1000, 100};
  const auto run = [&](int num_threads) {
    ElementOptions options;
    options.num_worst = 50;
    options.num_threads = num_threads;
    return CompareElements(View(Dtype::kF32, target, shape), View(Dtype::kF32, golden, shape), options)
        .value();
  };
  const ElementDifferences one = run(1), four = run(4);
  EXPECT_EQ(IndexesOf(one), IndexesOf(four));
  EXPECT_EQ(one.num_different, four.num_different);
  EXPECT_EQ(one.concentration->share, four.concentration->share);
  EXPECT_EQ(one.concentration->kind, Kind::kSpread);
}

TEST(CompareElements, CanBeStopped) {
  const std::vector<float> golden(100, 1), target(100, 2);
  std::stop_source source;
  source.request_stop();
  ElementOptions options;
  options.stop = source.get_token();
  const auto found = CompareElements(View(Dtype::kF32, target), View(Dtype::kF32, golden), options);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace vernier

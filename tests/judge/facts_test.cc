#include "judge/facts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace vernier {
namespace {

Value Tensor(double max, double min, double mean, double norm) {
  Value value;
  value.kind = Value::Kind::kTensor;
  value.is_float = true;
  value.dtype = "torch.float32";
  value.shape = "[100]";
  value.num_elements = 100;
  value.max = max, value.min = min, value.mean = mean, value.norm = norm;
  return value;
}

Facts ByStatistics(const Value& target, const Value& golden) {
  return FactsOf(Role::kOutput, target, &golden, nullptr, nullptr, Compared::kStatistics);
}

TEST(FactsOf, StatisticsAreAsFarApartAsTheWorstOfThem) {
  const Value golden = Tensor(2, -1, 0.1, 10);
  EXPECT_EQ(ByStatistics(golden, golden).error, 0);
  EXPECT_FLOAT_EQ(ByStatistics(Tensor(2.2, -1, 0.1, 10), golden).error, 0.1F);
  EXPECT_FLOAT_EQ(ByStatistics(Tensor(2, -1, 0.1, 11), golden).error, 0.1F);
  // A mean against the root mean square: 10 / sqrt(100) = 1.
  EXPECT_FLOAT_EQ(ByStatistics(Tensor(2, -1, 0.3, 10), golden).error, 0.2F);
}

TEST(FactsOf, NoStatisticIsTakenForUnknownInProgramsThatFlushDenormals) {
  EXPECT_TRUE(std::isnormal(Value::kUnknown));
}

TEST(FactsOf, BooleansAreOneApart) {
  Value golden = Tensor(0, 0, Value::kUnknown, Value::kUnknown), target = golden;
  golden.dtype = target.dtype = "torch.bool";
  golden.is_float = target.is_float = false;
  EXPECT_EQ(ByStatistics(target, golden).error, 0);
  target.max = 1;
  EXPECT_EQ(ByStatistics(target, golden).error, 1);
}

TEST(FactsOf, NanOnBothSidesAgrees) {
  const Value nan = Tensor(NAN, NAN, NAN, NAN);
  EXPECT_EQ(ByStatistics(nan, nan).error, 0);
  const Facts facts = ByStatistics(nan, Tensor(1, 0, 0, 1));
  EXPECT_TRUE(std::isinf(facts.error));
}

TEST(FactsOf, InfinityOnBothSidesAgrees) {
  const Value mask = Tensor(0, -HUGE_VAL, -HUGE_VAL, HUGE_VAL);
  EXPECT_EQ(ByStatistics(mask, mask).error, 0);
}

TEST(FactsOf, InfinityOnOneSideIsAsFarApartAsCanBe) {
  const Value finite = Tensor(2, -1, 0.1, 10);
  const Value infinite = Tensor(HUGE_VAL, -1, HUGE_VAL, HUGE_VAL);
  const Value low = Tensor(-HUGE_VAL, -HUGE_VAL, -HUGE_VAL, HUGE_VAL);
  for (const auto& [target, golden] : {std::pair(finite, infinite), std::pair(infinite, finite),
                                       std::pair(low, infinite), std::pair(infinite, low)}) {
    const Facts facts = ByStatistics(target, golden);
    EXPECT_TRUE(std::isinf(facts.error));
    EXPECT_TRUE(std::isinf(facts.gap));
  }
}

TEST(FactsOf, BesideTheInfinitiesOfAMaskTheMaximumStillCounts) {
  const Value golden = Tensor(2, -HUGE_VAL, -HUGE_VAL, HUGE_VAL);
  EXPECT_FLOAT_EQ(ByStatistics(Tensor(3, -HUGE_VAL, -HUGE_VAL, HUGE_VAL), golden).error, 0.5F);
}

TEST(FactsOf, ANormThatOverflowedTellsNothingOfFiniteElements) {
  const Value golden = Tensor(60000, -1, 10, 70000), target = Tensor(60000, -1, HUGE_VAL, HUGE_VAL);
  EXPECT_EQ(ByStatistics(target, golden).error, 0);
}

TEST(FactsOf, AnotherDtypeIsNoOtherShape) {
  Value half = Tensor(1, 0, 0, 1);
  half.dtype = "torch.bfloat16", half.is_half = true;
  const Facts facts = ByStatistics(half, Tensor(1, 0, 0, 1));
  EXPECT_TRUE(facts.Has(Facts::kMixed));
  EXPECT_TRUE(facts.Has(Facts::kHalf));
  EXPECT_FALSE(facts.Has(Facts::kOtherShape));
}

TEST(FactsOf, PlainArgumentsDifferByTheirTexts) {
  Value a, b;
  a.kind = b.kind = Value::Kind::kPlain;
  a.text = "0.1", b.text = "1e-05";
  EXPECT_TRUE(FactsOf(Role::kInput, a, &b, nullptr, nullptr, Compared::kStatistics).Has(Facts::kDiffers));
  b.text = "0.1";
  EXPECT_FALSE(FactsOf(Role::kInput, a, &b, nullptr, nullptr, Compared::kStatistics).Has(Facts::kDiffers));
  a.text = "-3.4028234663852886e+38", b.text = "-1.7976931348623157e+308";  // the lowest of two dtypes
  EXPECT_FALSE(FactsOf(Role::kInput, a, &b, nullptr, nullptr, Compared::kStatistics).Has(Facts::kDiffers));
}

TEST(FactsOf, WhereATensorLiesIsNoArgument) {
  Value a, b;
  a.kind = b.kind = Value::Kind::kPlain;
  const auto differs = [&](const char* ours, const char* theirs) {
    a.text = ours, b.text = theirs;
    return FactsOf(Role::kInput, a, &b, nullptr, nullptr, Compared::kStatistics).Has(Facts::kDiffers);
  };
  EXPECT_FALSE(differs("cuda:0", "cpu"));
  EXPECT_FALSE(differs("npu:7", "cuda:0"));
  EXPECT_TRUE(differs("cuda:0", "mean"));
  EXPECT_TRUE(differs("sum", "mean"));
}

TEST(FactsOf, AnotherDtypeAmongTheArgumentsIsToldApart) {
  Value a, b;
  a.kind = b.kind = Value::Kind::kPlain;
  a.text = "torch.bfloat16", b.text = "torch.float32";
  Facts facts = FactsOf(Role::kInput, a, &b, nullptr, nullptr, Compared::kStatistics);
  EXPECT_TRUE(facts.Has(Facts::kOtherType));
  EXPECT_FALSE(facts.Has(Facts::kDiffers));
  b.text = "torch.channels_last";
  facts = FactsOf(Role::kInput, a, &b, nullptr, nullptr, Compared::kStatistics);
  EXPECT_FALSE(facts.Has(Facts::kOtherType));
  EXPECT_TRUE(facts.Has(Facts::kDiffers));
}

TEST(FactsOf, ChecksumsTellThatSomethingDiffersAndStatisticsHowMuch) {
  Value target = Tensor(2, -1, 0, 10), golden = target;
  target.checksum = "a", golden.checksum = "b";
  const Facts little = FactsOf(Role::kOutput, target, &golden, nullptr, nullptr, Compared::kChecksums);
  EXPECT_GT(little.error, 0);
  EXPECT_FALSE(little.Has(Facts::kWhole)) << "which of them differ is not known";
  EXPECT_LT(little.error, 1e-30);
  target.max = 3;
  EXPECT_FLOAT_EQ(FactsOf(Role::kOutput, target, &golden, nullptr, nullptr, Compared::kChecksums).error,
                  0.5F);
  target.checksum = "b";
  const Facts same = FactsOf(Role::kOutput, target, &golden, nullptr, nullptr, Compared::kChecksums);
  EXPECT_EQ(same.error, 0);
  EXPECT_TRUE(same.Has(Facts::kWhole));
}

TEST(FactsOf, TensorsAreMeasuredByTheNormOfTheirDifference) {
  PairMeasures m;
  m.sum_sq_diff = 4, m.sum_sq_golden = 100;
  const Value value = Tensor(1, 0, 0, 10);
  const Facts facts = FactsOf(Role::kOutput, value, &value, &m, nullptr, Compared::kTensors);
  EXPECT_FLOAT_EQ(facts.error, 0.2F);
  EXPECT_FLOAT_EQ(facts.gap, 2);
  EXPECT_FALSE(
      FactsOf(Role::kOutput, value, &value, nullptr, nullptr, Compared::kTensors).Has(Facts::kMeasured));
}

TEST(FactsOf, ASketchTellsTheSizeOfADifferenceThatStatisticsBarelyShow) {
  const Value target = Tensor(2, -1, 0, 10.001), golden = Tensor(2, -1, 0, 10);
  SketchEstimate estimate;
  estimate.error_norm = 3, estimate.relative_error = 0.3;
  const Facts facts = FactsOf(Role::kOutput, target, &golden, nullptr, &estimate, Compared::kStatistics);
  EXPECT_FLOAT_EQ(facts.error, 0.3F);
  EXPECT_FLOAT_EQ(facts.gap, 3);
}

TEST(FactsOf, AMaskMovesWhenItsValuesStandElsewhere) {
  PairMeasures m;
  m.sum_sq_diff = HUGE_VAL, m.sum_sq_golden = HUGE_VAL, m.max_abs_diff = 3.4e38;
  const Value mask = Tensor(0, -3.4e38, -HUGE_VAL, HUGE_VAL);
  EXPECT_TRUE(FactsOf(Role::kInput, mask, &mask, &m, nullptr, Compared::kTensors).Has(Facts::kMaskMoved));
  m.max_abs_diff = 1e-3;
  const Facts same = FactsOf(Role::kInput, mask, &mask, &m, nullptr, Compared::kTensors);
  EXPECT_TRUE(same.Has(Facts::kHuge));
  EXPECT_FALSE(same.Has(Facts::kMaskMoved));
}

TEST(FactsOf, ExtremesThatStayedMeanThatOnlySomeElementsDiffer) {
  const Value golden = Tensor(2, -1, 0.1, 10);
  EXPECT_TRUE(ByStatistics(Tensor(2, -1, 0.1, 11), golden).Has(Facts::kLocal));
  EXPECT_FALSE(ByStatistics(Tensor(2.1, -1, 0.1, 11), golden).Has(Facts::kLocal));
  EXPECT_FALSE(ByStatistics(Tensor(HUGE_VAL, -1, 0.1, 11), Tensor(HUGE_VAL, -1, 0.1, 10)).Has(Facts::kLocal));
}

TEST(FactsOf, AMeanIsKeptUpToRounding) {
  const Value golden = Tensor(2, -1, 0.1, 10);
  EXPECT_TRUE(ByStatistics(Tensor(3, -1, 0.1 * (1 + 1e-7), 11), golden).Has(Facts::kMeanKept));
  EXPECT_FALSE(ByStatistics(Tensor(3, -1, 0.1 * (1 + 1e-6), 11), golden).Has(Facts::kMeanKept));
  EXPECT_FALSE(ByStatistics(Tensor(3, -1, -HUGE_VAL, 11), Tensor(3, -1, -HUGE_VAL, 11)).Has(Facts::kMeanKept))
      << "what drowned in mask values says nothing";
}

TEST(FactsOf, EqualStatisticsWithAnotherChecksumAreTheSameValuesInOtherPlaces) {
  Value target = Tensor(2, -1, 0.1, 10), golden = target;
  target.checksum = "0badcafe", golden.checksum = "600dcafe";
  const auto by_checksum = [&] {
    return FactsOf(Role::kOutput, target, &golden, nullptr, nullptr, Compared::kChecksums);
  };
  EXPECT_TRUE(by_checksum().Has(Facts::kShuffled));
  EXPECT_EQ(by_checksum().loose, 0) << "in any order they are the same";
  EXPECT_GT(by_checksum().error, 0);
  target.norm = 11;
  EXPECT_FALSE(by_checksum().Has(Facts::kShuffled));
  EXPECT_FLOAT_EQ(by_checksum().loose, 0.1F);
  target = Tensor(2, -1, 0.1, 10), golden = target;
  target.checksum = "0badcafe", golden.checksum = "600dcafe";
  target.is_half = golden.is_half = true;
  EXPECT_FALSE(by_checksum().Has(Facts::kShuffled)) << "sums of 16 bits are rounded";
  target.is_half = golden.is_half = false;
  target.mean = target.norm = golden.mean = golden.norm = Value::kUnknown;
  EXPECT_FALSE(by_checksum().Has(Facts::kShuffled)) << "equal extremes are no proof";
  target = Tensor(0, -3e38, 0.1, 10), golden = target;
  target.checksum = "0badcafe", golden.checksum = "600dcafe";
  EXPECT_FALSE(by_checksum().Has(Facts::kShuffled)) << "masks drown the sums";
}

TEST(FactsOf, SumsThatAreInfiniteOnBothSidesTellNothingWhereOnlySumsAreKnown) {
  const Value masked = Tensor(2, -HUGE_VAL, -HUGE_VAL, HUGE_VAL), plain = Tensor(2, -1, 0.1, 10);
  EXPECT_TRUE(ByStatistics(masked, masked).Has(Facts::kDrowned));
  EXPECT_FALSE(ByStatistics(masked, plain).Has(Facts::kDrowned)) << "one side alone is a difference";
  EXPECT_FALSE(ByStatistics(plain, plain).Has(Facts::kDrowned));
  const PairMeasures measures;
  EXPECT_FALSE(
      FactsOf(Role::kInput, masked, &masked, &measures, nullptr, Compared::kTensors).Has(Facts::kDrowned));
}

TEST(FactsOf, WhereAChecksumIsMissingStatisticsTell) {
  Value target = Tensor(2, -1, 0.1, 11);
  const Value golden = Tensor(2, -1, 0.1, 10);
  for (const std::string_view checksum : {"", "0badcafe"}) {
    target.checksum = checksum;
    const Facts facts = FactsOf(Role::kOutput, target, &golden, nullptr, nullptr, Compared::kChecksums);
    EXPECT_FALSE(facts.Has(Facts::kChecked));
    EXPECT_FLOAT_EQ(facts.error, 0.1F);
  }
}

TEST(FactsOf, ChecksumsOfTwoKindsTellNothing) {
  Value crc = Tensor(Value::kUnknown, Value::kUnknown, Value::kUnknown, Value::kUnknown), exclusive_or = crc;
  crc.checksum = "acaa93e7";
  exclusive_or.checksum = "0x000000000000000c";
  const Facts facts = FactsOf(Role::kOutput, exclusive_or, &crc, nullptr, nullptr, Compared::kChecksums);
  EXPECT_FALSE(facts.Has(Facts::kMeasured));
}

TEST(FactsOf, NanHidesTheRestAlsoWhereAChecksumIsMissing) {
  const Value nan = Tensor(NAN, NAN, NAN, NAN);
  const Facts facts = FactsOf(Role::kOutput, nan, &nan, nullptr, nullptr, Compared::kChecksums);
  EXPECT_TRUE(facts.Has(Facts::kNan));
}

TEST(FactsOf, TheLowestNumberOfATypeIsAMaskValue) {
  constexpr double kLowest = std::numeric_limits<double>::lowest();
  const Facts facts = ByStatistics(Tensor(0, -1, Value::kUnknown, Value::kUnknown),
                                   Tensor(0, kLowest, Value::kUnknown, Value::kUnknown));
  EXPECT_TRUE(facts.Has(Facts::kHuge));
  EXPECT_GT(facts.error, 0);
}

TEST(FactsOf, ChecksumsOfDifferentDtypesAreNotCompared) {
  Value half = Tensor(2, -1, 0, 10), golden = half;
  half.dtype = "torch.bfloat16", half.is_half = true;
  half.checksum = "0badcafe", golden.checksum = "600dcafe";
  const Facts facts = FactsOf(Role::kOutput, half, &golden, nullptr, nullptr, Compared::kChecksums);
  EXPECT_FALSE(facts.Has(Facts::kChecked));
  EXPECT_EQ(facts.error, 0) << "by their statistics they are the same";
}

}  // namespace
}  // namespace vernier

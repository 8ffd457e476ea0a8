#include "precheck/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace vernier::precheck {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

template <class B, class D>
PairOfTensors Pair(Dtype bench_dtype, const std::vector<B>& bench, Dtype device_dtype,
                   const std::vector<D>& device) {
  PairOfTensors pair;
  pair.bench = BorrowTensor(bench_dtype, {static_cast<std::int64_t>(bench.size())}, bench.data());
  pair.device = BorrowTensor(device_dtype, {static_cast<std::int64_t>(device.size())}, device.data());
  pair.device_dtype = device_dtype;
  return pair;
}

double Number(const DetailsRow& row, Detail column) { return std::get<double>(row[column]); }
bool IsBlank(const DetailsRow& row, Detail column) { return row[column].index() == 0; }

TEST(JudgeTensors, StopsAtTheFirstGateThatDecides) {
  const std::vector<double> bench = {1, 2, 3, 4};
  const std::vector<float> near = {1, 2, 3, 4.0005f}, turned = {-1, 2, -3, 4}, off = {1, 2, 3, 4.1f};
  DetailsRow row = JudgeTensors({}, "softmax", Pair(Dtype::kF64, bench, Dtype::kF32, near)).value();
  EXPECT_EQ(row.status, Verdict::kPass);
  EXPECT_TRUE(IsBlank(row, Detail::kDual1000));
  row = JudgeTensors({}, "softmax", Pair(Dtype::kF64, bench, Dtype::kF32, turned)).value();
  EXPECT_EQ(row.status, Verdict::kError);
  EXPECT_TRUE(IsBlank(row, Detail::kMaxAbs));
  EXPECT_THAT(row.failed_by, HasSubstr("cosine"));
  EXPECT_THAT(row.message, Not(HasSubstr("rounding")));
  row = JudgeTensors({}, "softmax", Pair(Dtype::kF64, bench, Dtype::kF32, off)).value();
  EXPECT_EQ(row.status, Verdict::kError);
  EXPECT_EQ(Number(row, Detail::kDual1000), 0.75);
  EXPECT_EQ(Number(row, Detail::kDual10000), 0.75);  // filled although dual-1000 decided
  EXPECT_TRUE(IsBlank(row, Detail::kDual100));
  EXPECT_THAT(row.message, HasSubstr("dual-1000 not met: error"));
}

TEST(JudgeTensors, SaysWhereBothSidesMayBeRoundingOnly) {
  const std::vector<double> bench = {1e-9, -1e-9, 1e-9};
  const std::vector<float> device = {1e-9f, 1e-9f, 1e-9f};
  const DetailsRow row = JudgeTensors({}, "linear", Pair(Dtype::kF64, bench, Dtype::kF32, device)).value();
  EXPECT_EQ(row.status, Verdict::kError);
  EXPECT_THAT(row.message, HasSubstr("nothing but rounding"));
}

TEST(JudgeTensors, ComparesABfloat16DeviceInFloat32) {
  const std::vector<double> bench = {1 + 0x1p-40, 2};
  const std::vector<std::uint16_t> device = {0x3f80, 0x4000};
  const DetailsRow row = JudgeTensors({}, "relu", Pair(Dtype::kF64, bench, Dtype::kBF16, device)).value();
  EXPECT_EQ(Number(row, Detail::kBinary), 0);  // the bench's tail is beyond float32
  EXPECT_EQ(std::get<std::string>(row[Detail::kBenchDtype]), "torch.float64");
}

TEST(JudgeTensors, CosineOfHugeDoublesDoesNotOverflow) {
  const std::vector<double> bench = {1e200, -2e200}, device = {1e200, -2e200};
  const DetailsRow row = JudgeTensors({}, "softmax", Pair(Dtype::kF64, bench, Dtype::kF64, device)).value();
  EXPECT_NEAR(Number(row, Detail::kCosine), 1, 1e-15);
  EXPECT_EQ(row.status, Verdict::kPass);
  EXPECT_THAT(row.message, HasSubstr("no new-standard metrics"));
}

TEST(JudgeTensors, ANanOnOneSideIsNoPass) {
  const std::vector<double> bench = {1, 2, 3};
  const std::vector<float> device = {1, NAN, 3};
  const DetailsRow row = JudgeTensors({}, "softmax", Pair(Dtype::kF64, bench, Dtype::kF32, device)).value();
  EXPECT_EQ(row.status, Verdict::kError);
  EXPECT_TRUE(std::isnan(Number(row, Detail::kMaxAbs)));
}

TEST(JudgeTensors, WhatCannotBeComparedSaysWhy) {
  const std::vector<float> three = {1, 2, 3}, two = {1, 2}, none;
  const std::vector<std::int64_t> integers = {1, 2, 3};
  EXPECT_THAT(JudgeTensors({}, "add", Pair(Dtype::kF32, three, Dtype::kF32, two)).value().message,
              HasSubstr("shape: bench (3,), device (2,)"));
  EXPECT_THAT(JudgeTensors({}, "add", Pair(Dtype::kF32, three, Dtype::kI64, integers)).value().message,
              HasSubstr("dtype: bench torch.float32, device torch.int64"));
  EXPECT_EQ(JudgeTensors({}, "add", Pair(Dtype::kF32, none, Dtype::kF32, none)).value().status,
            Verdict::kSkip);
}

TEST(JudgeTensors, IntegersMustBeEqualUnlessQuantised) {
  const std::vector<std::int64_t> bench = {1, (std::int64_t{1} << 53) + 1},
                                  device = {1, std::int64_t{1} << 53};
  EXPECT_EQ(JudgeTensors({}, "add", Pair(Dtype::kI64, bench, Dtype::kI64, device)).value().status,
            Verdict::kError);
  JudgeSettings settings;
  settings.quantised = {"npu_dynamic_quant"};
  EXPECT_EQ(JudgeTensors(settings, "npu_dynamic_quant", Pair(Dtype::kI64, bench, Dtype::kI64, device))
                .value()
                .status,
            Verdict::kPass);
}

TEST(RollUp, AnErrorBeatsAWarningAndNothingButSkipIsSkip) {
  using enum Verdict;
  EXPECT_EQ(RollUp(std::vector{kError, kWarning}), kError);
  EXPECT_EQ(RollUp(std::vector{kPass, kSkip}), kPass);
  EXPECT_EQ(RollUp(std::vector{kSkip, kSkip}), kSkip);
  EXPECT_EQ(RollUp(std::vector<Verdict>{}), kNone);
}

TEST(CellTexts, HasTheDecimalsAskedForAndOneSpaceForNothing) {
  DetailsRow row = SkippedRow("why");
  row[Detail::kRmse] = 0.5;
  row[Detail::kMaxUlp] = NAN;
  const std::vector<std::string> cells = CellTexts(row, "n", 3);
  EXPECT_EQ(cells[At(Detail::kRmse)], "0.500");
  EXPECT_EQ(cells[At(Detail::kMaxUlp)], "nan");
  EXPECT_EQ(cells[At(Detail::kCosine)], " ");
  EXPECT_EQ(cells.front(), "n");
  EXPECT_EQ(cells.back(), "why");
}

}  // namespace
}  // namespace vernier::precheck

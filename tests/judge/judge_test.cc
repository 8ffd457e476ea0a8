#include "vernier/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace vernier {
namespace {

TensorInfo Info(Dtype dtype, Shape shape) {
  TensorInfo info;
  info.name = "t";
  info.dtype = dtype;
  info.num_elements = *NumElements(shape, dtype);
  info.shape = std::move(shape);
  return info;
}

Verdict JudgeFloats(const std::vector<float>& got, const std::vector<float>& want, Shape shape) {
  MeasureOptions options;
  options.groups = Group::kDiff | Group::kClose;
  const Result<PairMeasures> measures = MeasurePair(BorrowTensor(Dtype::kF32, shape, got.data()),
                                                    BorrowTensor(Dtype::kF32, shape, want.data()), options);
  EXPECT_TRUE(measures);
  const TensorInfo info = Info(Dtype::kF32, shape);
  return Judge({&info, &info, &*measures, nullptr}, {});
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

TEST(Judge, EqualTensorsPass) {
  const Verdict verdict = JudgeFloats({1, kNan, -kInf, 0}, {1, kNan, -kInf, -0.0f}, {4});
  EXPECT_EQ(verdict.status, Status::kPass);
  EXPECT_EQ(verdict.rule, "close");
  EXPECT_EQ(verdict.why, "");
}

TEST(Judge, DifferencesWithinTheDefaultsOfAssertClosePass) {
  EXPECT_EQ(JudgeFloats({1.000001f, 1e-5f}, {1, 0}, {2}).status, Status::kPass);
}

TEST(Judge, AnElementBeyondTheToleranceFailsWithItsNumbers) {
  const Verdict verdict = JudgeFloats({1, 2, 3, 0.5, 5, 6}, {1, 2, 3, 0.25, 5, 6}, {2, 3});
  EXPECT_EQ(verdict.status, Status::kFail);
  EXPECT_EQ(verdict.rule, "tolerance");
  EXPECT_EQ(
      verdict.why,
      "1 of 6 elements differs by more than rtol 1.3e-06, atol 1e-05; worst at [1, 0]: got 0.5, want 0.25");
}

TEST(Judge, NanOnOneSideFailsWithItsPlace) {
  const Verdict verdict = JudgeFloats({1, kNan, 3, kInf}, {1, 2, 9, -kInf}, {4});
  EXPECT_EQ(verdict.status, Status::kFail);
  EXPECT_EQ(verdict.rule, "nan_inf");
  EXPECT_EQ(verdict.why,
            "2 of 4 elements differ in NaN or infinity (1 NaN only in target, 1 infinite with opposite "
            "signs); worst at "
            "[1]: got nan, want 2");
}

TEST(Judge, EmptyTensorsPass) { EXPECT_EQ(JudgeFloats({}, {}, {0, 3}).status, Status::kPass); }

TEST(Judge, ShapesThatDifferFailWithAndWithoutMeasures) {
  const TensorInfo a = Info(Dtype::kF32, {2, 3}), b = Info(Dtype::kF32, {6});
  const Verdict verdict = Judge({&a, &b, nullptr, nullptr}, {});
  EXPECT_EQ(verdict.status, Status::kFail);
  EXPECT_EQ(verdict.rule, "shape");
  EXPECT_EQ(verdict.why, "shape [2, 3] against [6]");
  const Error error{ErrorCode::kShapeMismatch, "", ""};
  EXPECT_EQ(Judge({&a, &b, nullptr, &error}, {}).status, Status::kFail);
}

TEST(Judge, DtypesThatDifferPassWithANoteUnlessTheyAreChecked) {
  const TensorInfo a = Info(Dtype::kBF16, {1}), b = Info(Dtype::kF32, {1});
  PairMeasures equal;
  equal.num_elements = equal.num_close = 1;
  const Verdict verdict = Judge({&a, &b, &equal, nullptr}, {});
  EXPECT_EQ(verdict.status, Status::kPass);
  EXPECT_EQ(verdict.why, "dtype bfloat16 against float32");
  JudgeOptions strict;
  strict.check_dtype = true;
  EXPECT_EQ(Judge({&a, &b, &equal, nullptr}, strict).status, Status::kFail);
}

TEST(Judge, WhatCannotBeReadIsNotJudged) {
  const TensorInfo good = Info(Dtype::kF32, {1});
  TensorInfo bad = good;
  bad.damage = Error{ErrorCode::kTruncated, "x.npy", "3 bytes"};
  bad.shape = {7};
  const Verdict damaged = Judge({&good, &bad, nullptr, nullptr}, {});
  EXPECT_EQ(damaged.status, Status::kError);
  EXPECT_THAT(damaged.why, testing::HasSubstr("x.npy"));
  const Error error{ErrorCode::kFileChanged, "y.npy", ""};
  EXPECT_EQ(Judge({&good, &good, nullptr, &error}, {}).status, Status::kError);
}

TEST(IndexText, CountsInCOrder) {
  EXPECT_EQ(IndexText(0, {}), "[]");
  EXPECT_EQ(IndexText(23, {2, 3, 4}), "[1, 2, 3]");
  EXPECT_EQ(IndexText(5, {10}), "[5]");
}

}  // namespace
}  // namespace vernier

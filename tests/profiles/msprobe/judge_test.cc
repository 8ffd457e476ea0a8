#include <gtest/gtest.h>

#include <cmath>

#include "profiles/msprobe/advisor.h"
#include "profiles/msprobe/real.h"
#include "profiles/msprobe/statistics.h"
#include "profiles/msprobe/verdict.h"

namespace vernier::msprobe {
namespace {

Cell Num(double number) { return number; }

class MsprobeJudge : public testing::Test {
 protected:
  static ResultRow Matched(std::string_view name, PortState state, Cell npu, Cell bench) {
    ResultRow row;
    row.npu_name = row.bench_name = row.api = name;
    row.state = state;
    row.matched = row.grad_consistent = true;
    row.npu.dtype = row.bench.dtype = "torch.float32";
    row.npu.shape = row.bench.shape = "[2]";
    row.npu.requires_grad = row.bench.requires_grad = "False";
    row.npu.statistics.fill(npu);
    row.bench.statistics.fill(bench);
    return row;
  }

  std::pair<std::string, std::string> Compared(Generation generation, Cell npu, Cell bench) {
    ResultRow row = Matched("A.0.forward.output.0", PortState::kOutput, npu, bench);
    CompareStatistics(ProfileOf(generation), generation == Generation::kClassic ? classic_ : current_, row,
                      arena_);
    return {CellText(row.metrics[0]), CellText(row.metrics[kFirstRelativeErr])};
  }

  Rules classic_{*RulesOf(Generation::kClassic)}, current_{*RulesOf(Generation::kCurrent)};
  TextArena arena_;
};

using Pair = std::pair<std::string, std::string>;

TEST_F(MsprobeJudge, ClassicDifferencesFollowTheTable) {
  const auto of = [&](Cell npu, Cell bench) { return Compared(Generation::kClassic, npu, bench); };
  EXPECT_EQ(of(Num(3), Num(4)), (Pair{"-1.0", "25.0%"}));
  EXPECT_EQ(of(Num(3), Num(0)), (Pair{"3.0", "N/A"}));
  EXPECT_EQ(of(Cell("Nan"), Num(1)), (Pair{"Nan", "Nan"}));
  EXPECT_EQ(of(Num(HUGE_VAL), Num(1)), (Pair{"inf", "inf%"}));
  EXPECT_EQ(of(Cell("3"), Num(2)), (Pair{"1.0", "50.0%"}));
  EXPECT_EQ(of(Cell("True"), Cell("True")), (Pair{"N/A", "N/A"}));
}

TEST_F(MsprobeJudge, CurrentDifferencesFollowTheTable) {
  const auto of = [&](Cell npu, Cell bench) { return Compared(Generation::kCurrent, npu, bench); };
  const Cell inf = Num(HUGE_VAL), one = Num(1), three = Cell::Digits(3, "3");
  EXPECT_EQ(of(one, one), (Pair{"0", "0"}));
  EXPECT_EQ(of(three, Num(3)), (Pair{"0.0", "0.0%"}));
  EXPECT_EQ(of(one, Num(0)), (Pair{"1.0", "inf"}));
  EXPECT_EQ(of(Num(0), Num(-0.0)), (Pair{"0.0", "inf"}));
  EXPECT_EQ(of(one, inf), (Pair{"-inf", "-inf"}));
  EXPECT_EQ(of(inf, Cell("Nan")), (Pair{"Nan", "Nan"}));
  EXPECT_EQ(of(Cell("cpu"), Cell("npu:0")), (Pair{"N/A", "N/A"}));
  EXPECT_EQ(of(Cell("None"), one), (Pair{"Diff", "Diff"}));
  EXPECT_EQ(of(Cell("N/A"), one), (Pair{"N/A", "N/A"}));
}

TEST_F(MsprobeJudge, WarnsByTheLargerOfTheTwoValues) {
  ResultRow row = Matched("A.0.forward.output.0", PortState::kOutput, Num(1.9), Num(1));
  CompareStatistics(ProfileOf(Generation::kClassic), classic_, row, arena_);
  EXPECT_EQ(row.result, "");  // 0.9 / 1.9 is less than a half
  row = Matched("A.0.forward.output.0", PortState::kOutput, Num(1), Num(-1));
  row.grad_consistent = false;
  CompareStatistics(ProfileOf(Generation::kClassic), classic_, row, arena_);
  EXPECT_EQ(row.result, "Warning");
  EXPECT_EQ(row.message, "Need double check api accuracy. Requires_grad inconsistent. ");
}

PairMeasures Measures(std::initializer_list<double> npu, std::initializer_list<double> bench) {
  const std::vector<double> n(npu), b(bench);
  MeasureOptions options;
  options.groups = Group::kDiff | Group::kStats | Group::kRelative;
  options.relative = Relative::kStoredType;
  const Shape shape{static_cast<std::int64_t>(n.size())};
  return *MeasurePair(BorrowTensor(Dtype::kF64, shape, n.data()), BorrowTensor(Dtype::kF64, shape, b.data()),
                      options);
}

TEST_F(MsprobeJudge, RealMetricsOfTensors) {
  ResultRow row;
  std::string message;
  PairMeasures m = Measures({1, 2, 3}, {1, 2, 4});
  FillRealMetrics(RealState::kTensor, &m, Dtype::kF64, Dtype::kF64, row, message);
  EXPECT_NEAR(row.metrics[kCosine].number, 17 / std::sqrt(14.0 * 21.0), 1e-12);
  EXPECT_EQ(row.metrics[kEucDist].number, 1);
  EXPECT_EQ(row.metrics[kMaxAbsErr].number, 1);
  EXPECT_EQ(row.metrics[kMaxRelativeErr].number, 0.25);
  EXPECT_EQ(row.metrics[kOneThousandth].number, 0.666666666667);
  EXPECT_EQ(message, "");
  m = Measures({0, 0}, {1, 1});
  FillRealMetrics(RealState::kTensor, &m, Dtype::kF64, Dtype::kF32, row, message);
  EXPECT_TRUE(row.metrics[kCosine].Is("Nan"));
  EXPECT_EQ(message,
            "Dtype of NPU and bench tensor do not match.Cannot compare by Cosine Similarity, All the data is "
            "Zero in npu dump data.");
}

TEST_F(MsprobeJudge, SpecialValuesMustStandInTheSamePlaces) {
  ResultRow row;
  std::string message;
  PairMeasures m = Measures({HUGE_VAL, 1}, {-HUGE_VAL, 1});
  FillRealMetrics(RealState::kTensor, &m, Dtype::kF64, Dtype::kF64, row, message);
  EXPECT_EQ(row.metrics[kMaxAbsErr].number, 0);
  m = Measures({HUGE_VAL, 1}, {1, HUGE_VAL});
  FillRealMetrics(RealState::kTensor, &m, Dtype::kF64, Dtype::kF64, row, message);
  EXPECT_TRUE(row.metrics[kCosine].Is("N/A"));
  EXPECT_EQ(message, "The position of inf or nan in NPU and bench Tensor do not match.");
}

TEST_F(MsprobeJudge, AccuracyVerdictInItsOrder) {
  const auto verdict = [&](Cell cosine, Cell error) {
    ResultRow row;
    row.metrics[kCosine] = cosine;
    row.metrics[kMaxAbsErr] = error;
    FillAccuracy(classic_, row);
    return row.result;
  };
  EXPECT_EQ(verdict(Cell("shape unmatched"), Cell("shape unmatched")), "Unmatched");
  EXPECT_EQ(verdict(Cell("unsupported"), Num(0)), "None");
  EXPECT_EQ(verdict(Cell("N/A"), Cell("N/A")), "No");
  EXPECT_EQ(verdict(Num(0.98), Num(0.0011)), "No");
  EXPECT_EQ(verdict(Num(0.98), Num(0.001)), "Yes");
  EXPECT_EQ(verdict(Num(0.89), Num(0)), "No");
  EXPECT_EQ(verdict(Cell("Nan"), Num(1)), "Yes");
  EXPECT_EQ(verdict(Cell("Nan"), Num(1.1)), "No");
}

TEST_F(MsprobeJudge, RoundsAsPythonDoes) {
  EXPECT_EQ(RoundDecimals(0.1234567890125, 12), 0.123456789012);  // the double lies below the tie
  EXPECT_EQ(RoundDecimals(2.675, 2), 2.67);
  EXPECT_EQ(RoundDecimals(1e300, 12), 1e300);
  EXPECT_EQ(RoundDecimals(-HUGE_VAL, 12), -HUGE_VAL);
}

TEST_F(MsprobeJudge, MarksOutputsAgainstEveryInput) {
  std::vector<ResultRow> rows{Matched("A.0.forward.input.0", PortState::kInput, Num(1), Num(1)),
                              Matched("A.0.forward.input.1", PortState::kInput, Num(1), Num(1)),
                              Matched("A.0.forward.output.0", PortState::kOutput, Num(2), Num(1)),
                              Matched("A.0.forward.output.1", PortState::kOutput, Cell("Nan"), Num(1))};
  for (ResultRow& row : rows) CompareStatistics(ProfileOf(Generation::kClassic), classic_, row, arena_);
  rows[2].message.clear();
  MarkRecord(Mode::kStatistics, classic_, rows);
  EXPECT_EQ(rows[0].colour, RowColour::kNone);
  EXPECT_EQ(rows[2].colour, RowColour::kRed);
  EXPECT_EQ(rows[2].message, "maximum relative error exceeds 0.5\nmaximum relative error exceeds 0.5");
  EXPECT_EQ(rows[3].colour, RowColour::kRed);  // the guide: nan counts
}

TEST_F(MsprobeJudge, CurrentVerdictsAreTheWorstMessage) {
  std::vector<ResultRow> rows{Matched("F.relu.0.forward.input.0", PortState::kInput, Num(1), Num(1)),
                              Matched("F.relu.0.forward.output.0", PortState::kOutput, Num(2), Num(1))};
  rows[0].bench.shape = "[3]";
  const auto judge = [&] {
    for (ResultRow& row : rows) CompareStatistics(ProfileOf(Generation::kCurrent), current_, row, arena_);
    JudgeRecord(Mode::kStatistics, current_, rows);
  };
  judge();
  EXPECT_EQ(rows[0].message, R"(["error: The shape of NPU and Bench are inconsistent."])");
  EXPECT_EQ(rows[1].result, "error");
  EXPECT_EQ(
      rows[1].message,
      R"(["error: The NormRelativeErr of output is greater than 0.5.", "warning: The norm relative error of output is 10 times that of input."])");
  for (ResultRow& row : rows)
    row.npu_name =
        row.state == PortState::kInput ? "F.empty.0.forward.input.0" : "F.empty.0.forward.output.0";
  judge();
  EXPECT_EQ(rows[0].result, "pass");
  EXPECT_EQ(rows[1].message, "[]");
}

TEST_F(MsprobeJudge, AdvisesByTheNameOfTheFirstFailingRow) {
  const auto advice = [&](std::string_view name) {
    Advisor advisor(classic_);
    ResultRow fine, bad;
    bad.npu_name = name;
    bad.SetResult("Warning", Judged::kFail);
    advisor.See(fine);
    advisor.See(bad);
    return advisor.Lines();
  };
  EXPECT_EQ(advice("F.relu.0.forward.output.0")[0], "Line: 1");
  EXPECT_EQ(advice("F.relu.0.forward.output.0")[2],
            "Expert Advice: This is a forward API computation error. Check the computation implementation.");
  EXPECT_EQ(advice("F.conv2d.0.backward.output.0")[2].substr(0, 35), "Expert Advice: This torch api may b");
  EXPECT_EQ(Advisor(classic_).Lines()[1], "Suspect Nodes: NA");
}

TEST(MsprobeRules, ArePartlyReplacedByAFileOfTheUser) {
  const auto rules = RulesOf(Generation::kClassic, R"({"thresholds": {"warning_ratio": 0.25}})", "mine.json");
  ASSERT_TRUE(rules);
  EXPECT_EQ(rules->Threshold("warning_ratio"), 0.25);
  EXPECT_EQ(rules->Threshold("cosine_drop"), 0.1);
  const auto unknown = RulesOf(Generation::kClassic, R"({"thresholds": {"no_such": 1}})", "mine.json");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().Message().find("thresholds.no_such"), std::string::npos);
  EXPECT_FALSE(RulesOf(Generation::kCurrent, "{", "mine.json"));
}

TEST(MsprobeRules, RefuseWhatCannotBeMeant) {
  const auto mistake = [](std::string_view file) {
    const auto rules = RulesOf(Generation::kClassic, file, "mine.json");
    return rules ? "" : rules.error().Message();
  };
  EXPECT_NE(mistake(""), "");  // an empty file
  EXPECT_NE(mistake(R"({"thresholds": {"cosine_drop": NaN}})")
                .find("thresholds.cosine_drop: expected a finite number"),
            std::string::npos);
  EXPECT_NE(mistake(R"({"thresholds": {"cosine_drop": Infinity}})"), "");
  EXPECT_NE(mistake(R"({"thresholds": {"cosine_dro": 1}})")
                .find("unknown rule thresholds.cosine_dro; did you mean cosine_drop?"),
            std::string::npos);
  EXPECT_NE(mistake(R"({"threshold": 1})").find("unknown section threshold; did you mean thresholds?"),
            std::string::npos);
  EXPECT_NE(mistake(R"({"thresholds": {"cosine_drop": "0.1"}})"), "");
}

}  // namespace
}  // namespace vernier::msprobe

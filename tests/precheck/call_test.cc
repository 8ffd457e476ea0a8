#include "precheck/call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vernier::precheck {
namespace {

using ::testing::HasSubstr;

TEST(CallAnswer, SurvivesTheWayBetweenTwoProcesses) {
  CallAnswer answer;
  answer.forward = Verdict::kWarning;
  answer.backward = Verdict::kSkip;
  answer.message = "one\ntwo, \"three\"";
  answer.failed_by = "forward 0: cosine 0.5";
  answer.severity = 0.25;
  answer.shown = "\xC3\xA9";
  answer.rows = {std::vector<std::string>(kNumDetails, " "), std::vector<std::string>(kNumDetails, "x")};
  const CallAnswer copy = AnswerFromJson(ToJson(answer), "n").value();
  EXPECT_EQ(ToJson(copy), ToJson(answer));
  EXPECT_EQ(copy.shown, answer.shown);
  EXPECT_EQ(copy.rows, answer.rows);
}

TEST(CallAnswer, OfAnotherFormIsAnError) {
  EXPECT_FALSE(AnswerFromJson("", "n"));
  EXPECT_FALSE(AnswerFromJson(R"({"forward": "good"})", "n"));
  EXPECT_FALSE(AnswerFromJson(R"({"rows": [["too", "short"]]})", "n"));
  const CallAnswer skipped = AnswerFromJson(R"({"skipped": "why"})", "Torch.add.0").value();
  EXPECT_EQ(skipped.backward, Verdict::kSkip);
  EXPECT_EQ(skipped.rows[0].front(), "Torch.add.0.forward.output.0");
  EXPECT_EQ(AnswerFromJson(R"({"failed": "why"})", "n").value().backward, Verdict::kNone);
}

TEST(CheckedCall, ShowsInputsAndWorstElementsToAPersonWhoAsked) {
  CheckedCall call({}, 14, /*explains=*/true);
  call.Begin("Torch.add.0", "softmax");
  const std::vector<float> input = {-1, 5};
  ASSERT_TRUE(call.Input("input.0", BorrowTensor(Dtype::kF32, {2}, input.data())));
  const std::vector<double> bench = {1, 2, 3, 4};
  const std::vector<float> device = {1, 2.5f, 3, 4.25f};
  PairOfTensors pair;
  pair.bench = BorrowTensor(Dtype::kF64, {2, 2}, bench.data());
  pair.device = BorrowTensor(Dtype::kF32, {2, 2}, device.data());
  ASSERT_TRUE(call.Tensors(Direction::kForward, pair));
  const CallAnswer answer = call.Finish();
  EXPECT_EQ(answer.forward, Verdict::kError);
  EXPECT_THAT(answer.shown, HasSubstr("-1 ... 5"));
  const std::size_t worst = answer.shown.find("[0, 1]"), next = answer.shown.find("[1, 1]");
  EXPECT_LT(worst, next);
  EXPECT_THAT(answer.shown, HasSubstr("2.097e+06"));  // 0.5 in units of 2^-22
  EXPECT_THAT(answer.message, HasSubstr("forward 0: dual-1000 0.5"));
}

}  // namespace
}  // namespace vernier::precheck

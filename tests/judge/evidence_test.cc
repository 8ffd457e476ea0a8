#include "judge/evidence.h"

#include <gtest/gtest.h>

#include <cmath>

#include "pairing.h"

namespace vernier {
namespace {

Facts PlainOf(Role role) {
  Facts facts;
  facts.role = role;
  facts.flags = Facts::kPlain | Facts::kMatched | Facts::kDiffers;
  return facts;
}

class EvidenceTest : public Pairing {
 protected:
  void AddFirst(const Facts& facts) {
    facts_.insert(facts_.begin() + static_cast<std::ptrdiff_t>(first_[first_.size() - 2]), facts);
    first_.back() = facts_.size();
  }
  void AddLast(const Facts& facts) {
    facts_.push_back(facts);
    first_.back() = facts_.size();
  }
};

TEST_F(EvidenceTest, CallsOfWhichNothingIsKnownDoNotShowHowTheirClassComputes) {
  for (int i = 0; i < 5; ++i) {
    Add("masked_fill", 0, 0);
    Output().flags |= Facts::kHuge;
  }
  Same("linear", 20);
  Add("gelu", 0, 5e-5);
  Add("linear", 5e-5, 3e-4);
  EXPECT_FALSE(Find().culprit);
  Reset();
  Same("gelu", 5);
  Same("linear", 20);
  Add("gelu", 0, 5e-5);
  Add("linear", 5e-5, 3e-4);
  EXPECT_TRUE(Find().culprit) << "here five calls of the class are the same to the last bit";
}

TEST_F(EvidenceTest, AnArgumentThatMovesNothingLeavesTheAlarmWhereItIs) {
  Same("gelu", 6);
  Add("dropout", 0, 0);
  AddFirst(PlainOf(Role::kInput));
  Add("gelu", 0, 5e-6);
  EXPECT_FALSE(Find().culprit);
}

TEST_F(EvidenceTest, InNoiseAnArgumentMustShowBeyondIt) {
  const auto build = [&](double result) {
    Reset();
    for (int i = 0; i < 8; ++i) Add("gelu", 1e-6, 2e-6);
    Add("linear", 2e-6, 3e-4);
    Add("dropout", 1e-6, result);
    AddFirst(PlainOf(Role::kInput));
    return Find().culprit.has_value();
  };
  EXPECT_FALSE(build(2e-5)) << "as inplace=False that one side says and the other does not";
  EXPECT_TRUE(build(3e-3));
}

TEST_F(EvidenceTest, APlainResultThatDiffersIsNoArgument) {
  Same("gelu", 6);
  Add("clip_grad_norm_", 3e-5, kNone).is_in_place = true;
  AddLast(PlainOf(Role::kOutput));
  const Findings found = Find();
  EXPECT_FALSE(found.culprit);
  EXPECT_TRUE(found.any_difference);
}

TEST_F(EvidenceTest, AResultThatNoCallTakesHasNotFaded) {
  const auto build = [&](double next_given) {
    Reset();
    Same("linear", 8);
    Add("linear", 0.5, 0.4);
    Add("linear", 0.4, 0.4);
    Add("linear", next_given, 0);  // of the next sample, or of what came before
    Same("linear", 8);
    return Find();
  };
  const Findings own = build(0);
  ASSERT_TRUE(own.culprit) << "it is a result of the program";
  EXPECT_EQ(own.culprit->call, 8u);
  EXPECT_FALSE(build(0.4).culprit) << "it is gone behind a normalisation";
}

TEST_F(EvidenceTest, WhereOnlyStatisticsAreKnownNoiseMayGrowByMore) {
  const auto build = [&](double result, Facts::Flag how) {
    Reset();
    for (int i = 0; i < 8; ++i) Add("linear", 1e-3, 1e-3);
    Add("linear", 2e-3, result);
    Output().flags |= how;
    return Find().culprit.has_value();
  };
  EXPECT_TRUE(build(0.03, Facts::kWhole));
  EXPECT_FALSE(build(0.03, Facts::kMatched));
  EXPECT_TRUE(build(0.06, Facts::kMatched));
}

TEST_F(EvidenceTest, ASquareMakesTwiceAsMuchOfAnErrorAndMore) {
  for (int i = 0; i < 8; ++i) Add("linear", 1e-3, 1e-3);
  Add("grad", 1e-3, 1e-3);
  for (int i = 0; i < 4; ++i) Add("linear", 40, 40);
  Add("pow", 40, 40 * 40 + 2 * 40);
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_NE(found.culprit->call, 13u);
}

TEST_F(EvidenceTest, ShapesThatDependOnValuesDifferWhereTheValuesDo) {
  const auto build = [&](double error) {
    Reset();
    for (int i = 0; i < 8; ++i) Add("linear", 1e-4, 1e-4);
    Add("where", error, 0);
    Output().flags = Facts::kTensor | Facts::kMatched | Facts::kOtherShape;
    return Find().culprit.has_value();
  };
  EXPECT_TRUE(build(0));
  EXPECT_FALSE(build(2e-4));
}

TEST_F(EvidenceTest, ATensorThatOneSideAloneGivesIsAnArgument) {
  Same("linear", 6);
  Add("attention", 0, 0.3);
  Facts mask = Tensor(Role::kInput, 0);
  mask.flags = Facts::kTensor | Facts::kFloat | Facts::kDiffers;
  AddFirst(mask);
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 6u);
  EXPECT_EQ(found.culprit->reason, Reason::kArgument);
}

TEST_F(EvidenceTest, WeightsThatDriftedInStepsBeforeAreNoCause) {
  for (int i = 0; i < 8; ++i) {
    Add("linear", 1e-4, 1e-4);
    AddFirst(Tensor(Role::kParameter, 0.008, 3 + i));
  }
  EXPECT_TRUE(Find().culprit);
  follows_noise_ = true;
  EXPECT_FALSE(Find().culprit);
  AddFirst(Tensor(Role::kParameter, 0.9, 20));
  Output().error = 0.9F;
  EXPECT_TRUE(Find().culprit) << "no noise makes such a weight";
}

TEST_F(EvidenceTest, ASecondForwardPassIsNotWhatBecomesOfGradients) {
  const auto build = [&](bool has_backward) {
    Reset();
    Same("linear", 6);
    Add("linear", 1e-7, 1e-7, Pass::kBackward);
    Input().norm = Input().own_norm = Output().norm = Output().own_norm = 1e9F;  // the loss is scaled
    Add("linear", 6, 6).twin = "linear.6";
    Add("linear", 6, 6).twin = "linear.7";
    if (has_backward) Add("linear", 1e-7, 1e-7, Pass::kBackward).twin = "linear.6";
    return Find();
  };
  const Findings found = build(true);
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 7u);
  EXPECT_EQ(found.culprit->reason, Reason::kInput);
  EXPECT_FALSE(build(false).culprit) << "an optimizer's: a gradient of nothing";
}

TEST_F(EvidenceTest, WithoutPlacesASecondForwardPassMayLoseTheResult) {
  for (int i = 0; i < 6; ++i) Add("linear", 1e-4, 1e-4);
  for (int i = 0; i < 6; ++i) Add("linear", 1e-4, 1e-4, Pass::kBackward);
  for (double error = 1e-4; error < 3; error *= 3) Add("linear", error, 3 * error);
  Add("addcdiv_", 2, 9);  // an optimizer's
  Findings found = Find();
  EXPECT_LT(found.worst, 9);
  EXPECT_FALSE(found.culprit) << "it grows from call to call";
  EXPECT_GT(found.worst, 2);
}

TEST_F(EvidenceTest, AGradientThatIsNothingOnOneSideAloneIsJudged) {
  const auto build = [&](float own_norm) {
    Reset();
    Same("linear", 6);
    Add("weight", kNone, 1e-7, Pass::kGradient);
    Add("bias", kNone, HUGE_VAL, Pass::kGradient);
    Output().norm = 0;
    Output().own_norm = own_norm;
    return Find();
  };
  EXPECT_TRUE(build(70).culprit);
  EXPECT_FALSE(build(1e-3F).culprit) << "the noise of a coarser kernel";
}

TEST_F(EvidenceTest, AMaskWhoseEffectIsGoneToTheLastBitHidesNobody) {
  const auto build = [&](double behind) {
    Reset();
    Same("linear", 6);
    Add("add", 0, 1e-38);
    Facts mask = Tensor(Role::kInput, 1e-38);
    mask.flags |= Facts::kHuge | Facts::kChecked;
    AddFirst(mask);
    Output().flags |= Facts::kHuge | Facts::kChecked;
    Add("softmax", 1e-38, behind);
    Input().flags |= Facts::kHuge | Facts::kChecked;
    for (int i = 0; i < 6; ++i) Add("linear", behind, behind);
    Add("linear", behind, 0.1);
    return Find();
  };
  Findings found = build(0);
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 14u);
  EXPECT_EQ(found.culprit->reason, Reason::kOutput);
  EXPECT_EQ(found.forgotten.size(), 1u);
  found = build(0.03);
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 6u);
  EXPECT_EQ(found.culprit->reason, Reason::kInput);
}

TEST_F(EvidenceTest, OneStepOfEightBitsIsNoFaultInNoise) {
  for (int i = 0; i < 6; ++i) {
    Add("gelu", 2e-3, 2e-3);
    Output().flags |= Facts::kHalf;
  }
  Add("to", 2e-3, 0.07);
  Output().flags |= Facts::kHalf | Facts::kEighth;
  EXPECT_FALSE(Find().culprit);
  Output().error = 0.3F;
  EXPECT_TRUE(Find().culprit);
}

TEST_F(EvidenceTest, OneCallInAnotherTypeIsADifferenceAlsoInASmallRecording) {
  const auto build = [&](int num_mixed) {
    Reset();
    for (int i = 0; i < 11; ++i) {
      const bool mixed = i >= 6 && i < 6 + num_mixed;
      Add("softmax", mixed ? 2e-3 : 0, mixed ? 2e-3 : 0);
      for (Facts* facts : {&Input(), &Output()}) facts->flags |= mixed ? Facts::kMixed | Facts::kHalf : 0;
    }
    return Find().culprit.has_value();
  };
  EXPECT_TRUE(build(1));
  EXPECT_TRUE(build(2));
  EXPECT_FALSE(build(4)) << "a way of computing";
}

TEST_F(EvidenceTest, ManyThatComeInAndMoveNothingAreTold) {
  Same("linear", 6);
  constexpr std::size_t kMany = 20'000;
  for (std::size_t i = 0; i < kMany; ++i) {
    Add("gelu", 0.5, 1e-5);
    Input().norm = Input().own_norm = static_cast<float>(i + 1);
  }
  Same("tanh", 10);
  const Findings found = Find();
  EXPECT_FALSE(found.culprit);
  EXPECT_GT(found.forgotten.size(), kMany / 10);
}

}  // namespace
}  // namespace vernier

#include "judge/culprit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <limits>
#include <string>

namespace vernier {
namespace {

constexpr double kNone = -1;  // no such value

// Two recordings of one program, call by call: the error of what goes in and of what comes out.
class Pairing : public testing::Test {
 protected:
  Facts Tensor(Role role, double error, double norm = 10, double num_elements = 1000) {
    Facts facts;
    facts.role = role;
    facts.flags = Facts::kTensor | Facts::kFloat | Facts::kMatched | Facts::kMeasured;
    facts.error = static_cast<float>(error);
    facts.gap = static_cast<float>(error * norm);
    facts.norm = facts.own_norm = static_cast<float>(norm);
    facts.num_elements = static_cast<float>(num_elements);
    return facts;
  }
  Call& Add(std::string kind, double in, double out, Pass pass = Pass::kForward) {
    Call call;
    call.kind = texts_.emplace_back(kind);
    call.name = texts_.emplace_back(kind + '.' + std::to_string(calls_.size()));
    call.is_product = kind == "linear";
    call.pass = pass;
    calls_.push_back(call);
    first_.back() = facts_.size();
    if (in != kNone) facts_.push_back(Tensor(Role::kInput, in));
    if (out != kNone)
      facts_.push_back(Tensor(pass == Pass::kGradient ? Role::kGradient : Role::kOutput, out));
    first_.push_back(facts_.size());
    return calls_.back();
  }
  void Same(std::string kind, int count) {
    for (int i = 0; i < count; ++i) Add(kind, 0, 0);
  }
  Facts& Input() { return facts_[first_[first_.size() - 2]]; }
  Facts& Output() { return facts_.back(); }
  Findings Find() {
    alignment_.golden_of.resize(calls_.size());
    alignment_.how.assign(calls_.size(), PairedBy::kName);
    alignment_.target_of.resize(calls_.size());
    alignment_.is_target_fused.resize(calls_.size());
    alignment_.is_golden_fused.resize(calls_.size());
    for (std::uint32_t i = 0; i < calls_.size(); ++i) {
      const bool alone = i == alone_;
      alignment_.golden_of[i] = alone ? kNoCall : i;
      alignment_.target_of[i] = alone ? kNoCall : i;
      if (alone) alignment_.how[i] = PairedBy::kNothing;
    }
    return FindCulprit({calls_, calls_, alignment_, facts_, first_}, CulpritRules(Rules::Verdict()));
  }

  std::deque<std::string> texts_;
  Calls calls_;
  std::vector<Facts> facts_;
  std::vector<std::size_t> first_{0};
  Alignment alignment_;
  std::uint32_t alone_ = kNoCall;
};

TEST_F(Pairing, NothingDiffersAndNobodyIsBlamed) {
  Same("linear", 10);
  const Findings found = Find();
  EXPECT_FALSE(found.culprit);
  EXPECT_FALSE(found.any_difference);
}

TEST_F(Pairing, NamesTheFirstCallThatMakesAnErrorOfGoodInputs) {
  Same("linear", 6);
  Add("linear", 0, 0.01);
  Add("linear", 0.01, 0.02);
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 6u);
  EXPECT_EQ(found.culprit->reason, Reason::kOutput);
}

TEST_F(Pairing, DoesNotBlameKernelsThatAllRoundDifferently) {
  for (int i = 0; i < 20; ++i) Add("linear", 1e-3, 1.5e-3);
  const Findings found = Find();
  EXPECT_FALSE(found.culprit);
  EXPECT_TRUE(found.any_difference);
}

TEST_F(Pairing, FindsAFaultAmongKernelsThatRoundDifferently) {
  for (int i = 0; i < 10; ++i) Add("linear", 1e-3, 1e-3);
  Add("linear", 1e-3, 0.1);
  for (int i = 0; i < 5; ++i) Add("linear", 0.1, 0.1);
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 10u);
}

TEST_F(Pairing, IsQuietWhileEverythingStaysBelowTheAlarm) {
  Same("linear", 10);
  Add("linear", 0, 5e-5);
  EXPECT_FALSE(Find().culprit);
}

TEST_F(Pairing, BlamesAnArgumentOnlyWhenItShows) {
  Same("norm", 6);
  Add("norm", 0, 1e-6).is_product = false;
  Facts argument;
  argument.role = Role::kInput;
  argument.flags = Facts::kPlain | Facts::kMatched | Facts::kDiffers;
  facts_.insert(facts_.begin() + static_cast<std::ptrdiff_t>(first_[6]), argument);
  first_.back() = facts_.size();
  Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->reason, Reason::kArgument);
  facts_.back().error = 0;
  EXPECT_FALSE(Find().culprit);
}

TEST_F(Pairing, AnInputThatNothingBeforeMadeIsItsOwnCulprit) {
  Same("linear", 6);
  Add("linear", 0.5, 0.4);
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 6u);
  EXPECT_EQ(found.culprit->reason, Reason::kInput);
}

TEST_F(Pairing, WhatIsGivenOtherSizesIsNotAskedTheSame) {
  Same("sum", 6);
  Add("sum", 0, 0.5);
  Input().flags |= Facts::kOtherShape;
  Input().flags &= ~Facts::kMeasured;
  EXPECT_FALSE(Find().culprit);
  EXPECT_EQ(Find().worst, 0);
}

TEST_F(Pairing, AnAdditionalCallJustBeforeExplainsAWrongInput) {
  Same("linear", 6);
  Add("mul", kNone, kNone);
  alone_ = 6;
  Add("linear", 0.5, 0.4);
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 6u);
  EXPECT_EQ(found.culprit->reason, Reason::kAdditional);
}

TEST_F(Pairing, ASumThatCancelsIsMeasuredAgainstWhatWasSummed) {
  Same("sum", 6);
  Add("sum", 1e-7, 1.6);  // of 1e5 numbers of norm 1e3, and the result is 1e-6
  Input().num_elements = 1e5F, Input().norm = 1e3F;
  Output().num_elements = 1, Output().norm = 1e-6F, Output().gap = 1.6e-6F;
  EXPECT_FALSE(Find().culprit);
  Output().gap = 1e3F;
  EXPECT_TRUE(Find().culprit);
}

TEST_F(Pairing, MaskValuesAreNoMeasure) {
  Same("add", 6);
  Add("add", 0, 0.9);
  Output().flags |= Facts::kHuge;
  Add("softmax", 0.9, 1e-7);
  Input().flags |= Facts::kHuge;
  EXPECT_FALSE(Find().culprit);
}

TEST_F(Pairing, AMaskThatMovedIsSeen) {
  Same("add", 6);
  Add("add", 0, 0.5);
  Input().flags |= Facts::kHuge | Facts::kMaskMoved;
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->reason, Reason::kInput);
}

TEST_F(Pairing, AGradientThatNothingBeforeMadeIsBlamed) {
  Same("linear", 6);
  for (int i = 0; i < 6; ++i) Add("linear", 0, 0, Pass::kBackward);
  Add("weight", kNone, 1.0, Pass::kGradient);
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->reason, Reason::kGradient);
}

TEST_F(Pairing, AHookThatChangesAGradientIsFoundThoughNothingFollowsIt) {
  Same("linear", 6);
  Add("linear", 0, 0, Pass::kBackward);
  Add("mul", 0, 0);
  alone_ = 7;
  Output().own_norm = 20;
  Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 7u);
  Output().own_norm = Input().own_norm;  // it changes nothing
  EXPECT_FALSE(Find().culprit);
}

TEST_F(Pairing, MemoryThatNobodySetIsNoEvidence) {
  Same("linear", 6);
  Add("empty", kNone, 0.9).is_unset = true;
  Add("setitem", 0.9, 0.8).is_writer = true;
  EXPECT_FALSE(Find().culprit);

  Add("linear", 0, 0, Pass::kBackward);
  Add("mul", 0, 0);  // a hook that only the target has
  alone_ = 9;
  Output().own_norm = 20;
  const Findings found = Find();
  ASSERT_TRUE(found.culprit) << "it hides nothing either";
  EXPECT_EQ(found.culprit->call, 9u);
}

TEST_F(Pairing, ADecisionThatFlipsIsForgivenInNoiseAndNotWithoutIt) {
  for (int i = 0; i < 6; ++i) Add("linear", 1e-3, 1e-3);
  for (int i = 0; i < 6; ++i) Add("relu", 1e-3, 1e-3, Pass::kBackward);
  Add("relu", 1e-3, 0.05, Pass::kBackward).is_step = true;
  EXPECT_FALSE(Find().culprit);
}

TEST_F(Pairing, SpecialValuesThatDisagreeAreTheWorstThereIs) {
  Same("softmax", 6);
  Add("softmax", 0, HUGE_VAL);
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_TRUE(std::isinf(found.culprit->result));
}

TEST(CulpritRules, AreAllInTheFile) {
  const CulpritRules rules(Rules::Verdict());
  EXPECT_GT(rules.growth, 1);
  EXPECT_GT(rules.factor, 1);
  EXPECT_GT(rules.least_seen, 0u);
}

}  // namespace
}  // namespace vernier

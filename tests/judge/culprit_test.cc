#include "judge/culprit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "pairing.h"

namespace vernier {
namespace {

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
  Add("norm", 0, 1e-5).is_product = false;
  Facts argument;
  argument.role = Role::kInput;
  argument.flags = Facts::kPlain | Facts::kMatched | Facts::kDiffers;
  facts_.insert(facts_.begin() + static_cast<std::ptrdiff_t>(first_[6]), argument);
  first_.back() = facts_.size();
  Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->reason, Reason::kArgument);
  facts_.back().error = 1e-6F;
  EXPECT_FALSE(Find().culprit) << "rounding needs no argument to explain it";
}

TEST_F(Pairing, ADtypeAmongTheArgumentsIsOneOnlyWhereTheTensorsAgreeInTheirs) {
  Same("mean", 6);
  Add("mean", 0, 0.01);
  Facts argument;
  argument.role = Role::kInput;
  argument.flags = Facts::kPlain | Facts::kMatched | Facts::kOtherType;
  facts_.insert(facts_.end() - 1, argument);
  first_.back() = facts_.size();
  Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->reason, Reason::kArgument);
  Input().flags |= Facts::kMixed;  // all of the target is in another dtype
  found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->reason, Reason::kOutput);
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
  Add("mul", kNone, 0);
  alone_ = 6;
  Output() = Tensor(Role::kOutput, 0, 7);
  Output().flags = Facts::kTensor | Facts::kFloat;
  Add("linear", 0.5, 0.4);
  Input().own_norm = 7;
  Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 6u);
  EXPECT_EQ(found.culprit->reason, Reason::kAdditional);
  Input().own_norm = 9;
  found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 7u) << "what is wrong is not what that call gives";
  EXPECT_EQ(found.culprit->reason, Reason::kInput);
}

TEST_F(Pairing, WhatAnAdditionalCallDoesNotChangeIsStillTheSame) {
  Same("linear", 6);
  Add("mul", kNone, kNone);
  alone_ = 6;
  Same("linear", 6);
  Add("linear", 0, 1e-3);
  EXPECT_TRUE(Find().culprit) << "no kernel rounds so coarsely where all before are the same";
}

TEST_F(Pairing, AGradientIsNotBlamedForWhatCameIntoItsModule) {
  Same("linear", 6);
  Add("weight", kNone, 0.5, Pass::kGradient).place = "head#0";
  Call& backward = Add("Module.Linear", 0.5, 0.5, Pass::kBackward);
  backward.is_module = true;
  backward.place = "head#0";
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 7u);
  EXPECT_EQ(found.culprit->reason, Reason::kInput);
}

TEST_F(Pairing, GradientsOfAnotherBatchAreNotBlamed) {
  Add("linear", kNone, 0);
  Output().flags |= Facts::kOtherShape;
  Output().flags &= ~Facts::kMeasured;
  Same("linear", 6);
  Add("linear", 0, 0, Pass::kBackward);
  Add("weight", kNone, 0.5, Pass::kGradient);
  EXPECT_FALSE(Find().culprit);
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
  Reset();
  Same("linear", 6);
  for (int i = 0; i < 6; ++i) Add("relu", 0, 0, Pass::kBackward);
  Add("relu", 0, 0.05, Pass::kBackward).is_step = true;
  EXPECT_TRUE(Find().culprit) << "of equal inputs every decision is the same";
}

TEST_F(Pairing, SpecialValuesThatDisagreeAreTheWorstThereIs) {
  Same("softmax", 6);
  Add("softmax", 0, HUGE_VAL);
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_TRUE(std::isinf(found.culprit->result));
}

TEST_F(Pairing, WhereNothingDiffersALittleIsEnough) {
  Same("linear", 6);
  Add("weight", kNone, 1e-3, Pass::kGradient);
  const Findings found = Find();
  ASSERT_TRUE(found.culprit) << "products are computed alike here, so TF32 explains nothing";
  EXPECT_EQ(found.culprit->reason, Reason::kGradient);
}

TEST_F(Pairing, SixteenBitsRoundOnceWhereNothingDiffersBefore) {
  Same("linear", 6);
  Add("linear", 0, 0.003);
  Output().flags |= Facts::kHalf;
  EXPECT_FALSE(Find().culprit) << "another kernel rounds the last bit otherwise";
  Output().error = 0.01F;
  EXPECT_TRUE(Find().culprit) << "no rounding does that to equal inputs, small as it is";
  Input().error = 0.003F;
  EXPECT_FALSE(Find().culprit) << "of inputs that differ it is noise";
}

TEST_F(Pairing, OtherCallsTellNothingOfHowProductsAreComputed) {
  Same("add", 20);
  Add("linear", 0, 1e-3);
  EXPECT_FALSE(Find().culprit);
}

TEST_F(Pairing, KernelsThatRoundFinelyDoNotForbidOneThatRoundsCoarsely) {
  for (int i = 0; i < 10; ++i) Add("linear", 1e-7, 1e-6);
  Add("linear", 1e-6, 1e-3);
  EXPECT_FALSE(Find().culprit) << "a library may choose TF32 for one convolution and not for another";
  Output().error = 0.01F;
  EXPECT_TRUE(Find().culprit);
}

TEST_F(Pairing, AProductThatKeepsItsExtremesWasNotRoundedOtherwise) {
  Same("add", 6);
  Add("linear", 0, 1e-3);
  Output().flags |= Facts::kLocal;
  EXPECT_TRUE(Find().culprit);
}

TEST_F(Pairing, ValuesThatChangedPlacesAreAnotherOutput) {
  Same("linear", 6);
  Add("linear", 0, 1e-30);
  Output().flags |= Facts::kChecked | Facts::kShuffled;
  Add("softmax", 0.5, 0.5);
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 6u);
  EXPECT_EQ(found.culprit->reason, Reason::kOutput);
}

TEST_F(Pairing, EqualValuesMayBeOrderedInAnotherWay) {
  Same("linear", 6);
  Add("sort", 0, 0.5).is_order = true;
  Output().flags &= ~Facts::kFloat;
  Output().loose = 0;
  Add("index", 0, 0.7);
  Output().flags |= Facts::kShuffled;
  Output().loose = 0;
  EXPECT_FALSE(Find().culprit);
  Output().loose = 0.7F;  // more than another order
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 7u);
}

TEST_F(Pairing, SharesOfAWholeThatStillAddUpPointToTheMask) {
  Same("linear", 6);
  Add("add", 0, 0);
  Input().flags |= Facts::kHuge;
  Output().flags |= Facts::kHuge;
  Add("softmax", 0, 0.3).is_share = true;
  Input().flags |= Facts::kHuge;
  Output().flags |= Facts::kMeanKept;
  Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 6u) << "the addition of the mask";
  EXPECT_EQ(found.culprit->reason, Reason::kInput);
  Output().flags &= ~Facts::kMeanKept;
  found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 7u) << "shares that do not add up are its own fault";
  Output().flags |= Facts::kMeanKept;
  Input().flags |= Facts::kWhole;
  found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 7u) << "every element that it was given is the same";
}

TEST_F(Pairing, AMaskOfBooleansIsNamedWhereItIsPutIn) {
  Same("linear", 6);
  Add("masked_fill", 0, 0);
  Facts mask = Tensor(Role::kInput, 0);
  mask.flags &= ~std::uint32_t{Facts::kFloat};
  facts_.insert(facts_.end() - 1, mask);
  first_.back() = facts_.size();
  Output().flags |= Facts::kDrowned;
  Add("softmax", 0, 0.3).is_share = true;
  Input().flags |= Facts::kDrowned;
  Output().flags |= Facts::kMeanKept;
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 6u) << "nothing but its mask can have been another one";
  EXPECT_EQ(found.culprit->reason, Reason::kInput);
}

TEST_F(Pairing, OtherIntegersAreTheCauseOfAnotherOutput) {
  Same("linear", 6);
  Add("embedding", 1e-4, 0.3);
  Input().flags &= ~std::uint32_t{Facts::kFloat};
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 6u);
  EXPECT_EQ(found.culprit->reason, Reason::kInput) << "integers are not rounded";
}

TEST_F(Pairing, AnotherMaskIsKnownByItsChecksumAlone) {
  Same("linear", 6);
  Add("add", 1e-30, 1e-30);
  Input().flags |= Facts::kHuge | Facts::kChecked;
  Output().flags |= Facts::kHuge | Facts::kChecked;
  Add("softmax", 1e-30, 0.3);
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 6u);
  EXPECT_EQ(found.culprit->reason, Reason::kInput);
}

TEST_F(Pairing, OtherSizesExcuseOnlyWhatFollowsThem) {
  Same("sum", 6);
  Add("sum", 0, 0.5);
  Input().num_elements = 1e5F;
  Add("index", 0, 0);
  Output().flags |= Facts::kOtherShape;
  const Findings found = Find();
  ASSERT_TRUE(found.culprit) << "it was given the same sizes";
  EXPECT_EQ(found.culprit->call, 6u);
  Input().flags |= Facts::kOtherShape;
  calls_.insert(calls_.begin(), calls_.back());  // now the other sizes come first
  calls_.pop_back();
  std::rotate(facts_.begin(), facts_.end() - 2, facts_.end());
  EXPECT_FALSE(Find().culprit);
}

TEST_F(Pairing, WhatAProductMayCancelIsMeasuredByBothFactors) {
  for (int i = 0; i < 6; ++i) Add("linear", 1e-3, 1e-3);
  Add("linear", 1e-3, 0.2, Pass::kForward);  // 2 x 512 by 512 x 10
  Input().num_elements = 5120, Input().norm = 2;
  Output().num_elements = 20, Output().norm = 1;
  Facts rows = Tensor(Role::kInput, 1e-3, 4, 1024);
  facts_.insert(facts_.end() - 1, rows);
  first_.back() = facts_.size();
  Output().gap = 0.2F;
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 6u);
  Output().gap = 1e-4F;
  EXPECT_FALSE(Find().culprit) << "noise of what cancels";
}

TEST_F(Pairing, AGradientThatCancelsIsMeasuredAgainstWhatItsModuleWasGiven) {
  Same("linear", 6);
  Call& module = Add("Linear", 0, 0, Pass::kBackward);
  module.is_module = true, module.place = "layer#0";
  Input().num_elements = 1e5F, Input().norm = 1e3F;
  Add("Linear", kNone, 1.6, Pass::kGradient).place = "layer#0";
  Output().num_elements = 10, Output().norm = 1e-3F, Output().gap = 1.6e-3F;
  EXPECT_FALSE(Find().culprit);
  Output().gap = 1e3F;
  EXPECT_TRUE(Find().culprit);
}

TEST_F(Pairing, AModuleIsNotBlamedForWhatOperatorsInItMade) {
  for (int i = 0; i < 6; ++i) Add("linear", 1e-5, 1e-5);
  Add("relu", 1e-5, 9e-4, Pass::kBackward).is_step = true;
  Call& module = Add("Block", 1e-5, 3e-3, Pass::kBackward);
  module.is_module = module.is_frame = module.is_around = true;
  EXPECT_FALSE(Find().culprit);
  Output().error = 0.1F;
  EXPECT_TRUE(Find().culprit);
}

TEST_F(Pairing, AModuleInWhichNothingWasRecordedIsACallLikeOthers) {
  Same("linear", 6);
  Add("GRU", 0, 0.1).is_module = true;
  Same("linear", 1);
  Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 6u);
  calls_[6].is_frame = calls_[6].is_around = true;  // its operators are judged themselves
  EXPECT_FALSE(Find().culprit);
}

TEST_F(Pairing, ABackwardCallMayBeAsWrongAsWhatItKeptFromItsForwardCall) {
  for (int i = 0; i < 6; ++i) Add("linear", 1e-4, 1e-4);
  Add("exp", 1e-4, 8e-4).twin = "exp.0";
  for (int i = 0; i < 6; ++i) Add("add", 1e-5, 1e-5, Pass::kBackward);
  Add("exp", 1e-5, 7e-3, Pass::kBackward).twin = "exp.0";
  EXPECT_FALSE(Find().culprit) << "its result is a product with what exp gave";
  Output().error = 0.03F;
  EXPECT_TRUE(Find().culprit);
  calls_.back().twin = "exp.1";
  Output().error = 7e-3F;
  EXPECT_TRUE(Find().culprit) << "of another call it kept nothing";
}

TEST_F(Pairing, BetweenModulesOtherThingsAreComputedThanWasRecorded) {
  for (int i = 0; i < 6; ++i) Add("Linear", 1e-6, 1e-6).is_module = true;
  Add("Linear", 4e-4, 4e-4).is_module = true;
  EXPECT_FALSE(Find().culprit) << "a product stands before it, or a decision flipped";
  Input().error = Output().error = 0.1F;
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->reason, Reason::kInput);
}

TEST_F(Pairing, WhatAKernelKeepsForItsBackwardCallIsNoResult) {
  Same("linear", 6);
  Add("cudnn_rnn", 0, 0).has_workspace = true;
  Facts workspace = Tensor(Role::kOutput, HUGE_VAL);
  workspace.flags &= ~std::uint32_t{Facts::kFloat};
  facts_.push_back(workspace);
  first_.back() = facts_.size();
  Same("linear", 1);
  EXPECT_FALSE(Find().culprit);
  calls_[6].has_workspace = false;
  EXPECT_TRUE(Find().culprit);
}

TEST_F(Pairing, OneCallInAnotherTypeIsADifferenceAndAWholeModelInOneIsNot) {
  const auto build = [&](int num_mixed) {
    Reset();
    for (int i = 0; i < 40; ++i) {
      const bool mixed = i >= 20 && i < 20 + num_mixed;
      Add("softmax", i < 20 ? 0 : 2e-3, i < 20 ? 0 : 3e-3);
      if (!mixed) continue;
      for (Facts* facts : {&Input(), &Output()}) facts->flags |= Facts::kMixed | Facts::kHalf;
    }
    return Find();
  };
  const Findings one = build(1);
  ASSERT_TRUE(one.culprit);
  EXPECT_EQ(one.culprit->call, 20u);
  EXPECT_FALSE(build(20).culprit);
}

TEST_F(Pairing, AnInputThatChangesNothingIsNotBlamed) {
  Same("linear", 6);
  Add("add", 1.2, 0);  // y + x for x + y
  Same("linear", 2);
  EXPECT_FALSE(Find().culprit);
  Add("add", 1.2, 0.1);
  EXPECT_TRUE(Find().culprit);
}

TEST_F(Pairing, InNoiseAnInputIsBlamedOnlyWhereItsEffectIsBeyondTheNoise) {
  const auto build = [&](double result) {
    Reset();
    for (int i = 0; i < 10; ++i) Add("linear", 1e-3, 1e-3);
    Add("linear", 0.2, result);  // a bias that is small beside what it is added to
    for (int i = 0; i < 10; ++i) Add("linear", result, result);
    return Find();
  };
  EXPECT_FALSE(build(2e-3).culprit);
  EXPECT_TRUE(build(0.1).culprit);
}

TEST_F(Pairing, AnArgumentWhoseEffectIsGoneToTheLastBitIsNotBlamed) {
  Facts argument;
  argument.role = Role::kInput;
  argument.flags = Facts::kPlain | Facts::kMatched | Facts::kDiffers;
  const auto build = [&](double behind) {
    Reset();
    Same("linear", 6);
    Add("masked_fill", 0, HUGE_VAL);  // -1e9 for -inf
    facts_.insert(facts_.begin() + static_cast<std::ptrdiff_t>(first_[6]), argument);
    first_.back() = facts_.size();
    Add("softmax", HUGE_VAL, behind);
    for (int i = 0; i < 12; ++i) Add("linear", behind, behind);
    return Find();
  };
  EXPECT_FALSE(build(0).culprit);
  const Findings found = build(1e-5);
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->reason, Reason::kArgument);
}

TEST_F(Pairing, AGradientThatIsNothingBesideTheOthersMayDifferByAnyPercentage) {
  Same("linear", 6);
  for (int i = 0; i < 6; ++i) Add("linear", 0, 0, Pass::kBackward);
  Add("softmax", 0, 1.6, Pass::kBackward);
  Output().norm = 1e-7F, Output().own_norm = 2e-7F, Output().gap = 1.6e-7F;
  EXPECT_FALSE(Find().culprit);
  Output().own_norm = 1;  // the target has a gradient where the golden has none
  EXPECT_TRUE(Find().culprit);
}

TEST(CulpritRules, AreAllInTheFile) {
  const CulpritRules rules(Rules::Verdict());
  const double all[] = {
      rules.growth,         rules.factor,       rules.prior_product,   rules.prior_plain,
      rules.prior_half,     rules.prior_unseen, rules.rounding,        rules.rounding_half,
      rules.cancel,         rules.sums,         rules.coarsest,        rules.shows,
      rules.alarm,          rules.alarm_half,   rules.gradient_floor,  rules.odd_types,
      rules.fades,          rules.drift,        rules.flips,           rules.few_values,
      rules.gradient_floor, rules.orphan_reach, rules.backward_cancel, rules.gradient_floor_half};
  for (const double rule : all) EXPECT_GT(rule, 0);
  EXPECT_GT(rules.least_seen, 0u);
}

TEST(CulpritRules, OneCallIsTheLeastThatAPercentileIsLearnedFrom) {
  for (const char* number : {"0", "-3", "1e300"}) {
    const auto rules = Rules::Make({}, std::string(R"({"thresholds":{"least_seen":)") + number + "}}");
    ASSERT_TRUE(rules);
    EXPECT_GE(CulpritRules(*rules).least_seen, 1u);
  }
}

}  // namespace
}  // namespace vernier

#include <gtest/gtest.h>

#include <cmath>

#include "pairing.h"

namespace vernier {
namespace {

// A training step: products forward and backward, then an optimizer that is given a gradient of a size and
// makes a weight of it.
class TrainingStep : public Pairing {
 protected:
  void Step() {
    Same("linear", 6);
    for (int i = 0; i < 6; ++i) Add("linear", 1e-7, 1e-7, Pass::kBackward);
  }
  void Optimize(double gradient_norm, double gradient_error, double weight_error) {
    Add("add_", gradient_error, gradient_error);
    Input().norm = Input().own_norm = static_cast<float>(gradient_norm);
    Output().norm = Output().own_norm = static_cast<float>(gradient_norm / 10);
    Add("addcdiv_", gradient_error, weight_error);
    Input().norm = Input().own_norm = static_cast<float>(gradient_norm / 10);
  }
};

TEST_F(TrainingStep, WhatAnOptimizerMakesOfAGradientThatIsZeroButForRoundingIsNoFault) {
  Step();
  Optimize(1e-9, 1.6, 0.03);
  const Findings found = Find();
  EXPECT_FALSE(found.culprit);
  EXPECT_LT(found.worst, 1e-3);
}

TEST_F(TrainingStep, WhatAnOptimizerMakesOfAnyOtherGradientIsJudged) {
  Step();
  Optimize(1, 1e-7, 0.03);
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 13u);
}

TEST_F(TrainingStep, WhatACheckpointComputesASecondTimeIsNoHook) {
  Same("linear", 6);
  Add("gelu", 0, 0);
  Output().own_norm = 7;
  Add("linear", 0, 0, Pass::kBackward);
  Add("gelu", 0, 0);
  Output().own_norm = 7;
  alone_ = 8;
  EXPECT_FALSE(Find().culprit);
  Output().own_norm = 9;
  EXPECT_TRUE(Find().culprit);
}

TEST_F(TrainingStep, AnArgumentOfAKernelThatWorksInPlaceIsNamedThoughNobodySawWhatItDid) {
  Step();
  Add("_fused_adamw_", 0, kNone);
  Facts argument;
  argument.role = Role::kInput;
  argument.flags = Facts::kPlain | Facts::kMatched | Facts::kDiffers;
  facts_.push_back(argument);
  first_.back() = facts_.size();
  EXPECT_FALSE(Find().culprit);
  calls_.back().is_in_place = true;
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->reason, Reason::kArgument);
}

TEST_F(TrainingStep, TwoWeightsThatDifferAndMoveNothingAreNotBlamed) {
  for (int i = 0; i < 2; ++i) {
    Add("conv2d", i == 0 ? 0 : 1e-7, 0.009 - i * 0.001);
    facts_.insert(facts_.end() - 1, Tensor(Role::kInput, 0.025 - i * 0.01, 0.3));
    first_.back() = facts_.size();
    Add("batch_norm", 0.009 - i * 0.001, 1e-7);
    for (int k = 0; k < 6; ++k) Add("linear", 1e-7, 1e-7);
  }
  EXPECT_FALSE(Find().culprit);
}

TEST_F(TrainingStep, WhatMovesOnlyGradientsIsBlamedWhereItComesIn) {
  Add("mul", 0, 0.009);
  facts_.insert(facts_.end() - 1,
                Tensor(Role::kInput, 0.02));  // turned positions: products of two such agree
  first_.back() = facts_.size();
  Add("linear", 0.009, 0);
  Same("linear", 8);
  Add("linear", 1e-7, 1e-7, Pass::kBackward);
  EXPECT_FALSE(Find().culprit);
  Add("mul", 6e-4, 0.3, Pass::kBackward);
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 0u);
  EXPECT_EQ(found.culprit->reason, Reason::kInput);
}

TEST_F(TrainingStep, AScaleThatOnlyMovedFromOneSideOfAProductToTheOtherIsNotBlamed) {
  Add("mul", kNone, 0);
  alone_ = 0;
  Output() = Tensor(Role::kOutput, 0, 7);
  Output().flags = Facts::kTensor | Facts::kFloat;
  Add("matmul", 0.6, 0.6).twin = "matmul.0";
  Input().own_norm = 7;
  Same("linear", 8);
  Add("matmul", 1e-7, 0.6, Pass::kBackward).twin = "matmul.0";
  Same("linear", 1);
  EXPECT_FALSE(Find().culprit);
  Add("linear", 0.3, 0.3, Pass::kBackward);
  EXPECT_TRUE(Find().culprit) << "another gradient has moved";
}

TEST_F(TrainingStep, In16BitsNothingIsLarger) {
  Step();
  Output().flags |= Facts::kHalf;
  Optimize(1e-3, 1e4, 0.03);  // beside flows of 10
  EXPECT_FALSE(Find().culprit);
  Optimize(1e-3, 0.3, 0.03);
  EXPECT_TRUE(Find().culprit) << "the two sides have it in common";
}

TEST_F(TrainingStep, OfAListOnlyWhatCameOfNothingIsExcused) {
  Step();
  const auto foreach = [&](double other_error) {
    Add("_foreach_mul_", kNone, kNone);
    for (const Role role : {Role::kInput, Role::kOutput}) {
      for (const bool nothing : {true, false})
        facts_.push_back(Tensor(role,
                                nothing                ? 1.6
                                : role == Role::kInput ? 1e-7
                                                       : other_error,
                                nothing ? 1e-9 : 1));
    }
    first_.back() = facts_.size();
  };
  foreach (1e-7)
    ;
  EXPECT_FALSE(Find().culprit);
  foreach (0.01)
    ;
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 13u);
}

TEST_F(TrainingStep, AWeightThatDiffersAndMovesNothingIsNotBlamed) {
  const auto build = [&](double behind) {
    Reset();
    Add("conv2d", 0, 0.009);
    facts_.insert(facts_.end() - 1, Tensor(Role::kInput, 0.025, 0.3));  // its bias
    first_.back() = facts_.size();
    Add("batch_norm", 0.009, behind);
    for (int i = 0; i < 12; ++i) Add("linear", behind, behind);
    for (int i = 0; i < 6; ++i) Add("linear", 1e-7, 1e-7, Pass::kBackward);
    Add("mul_", 0.025, 0.025).is_in_place = true;  // the optimizer's, of that bias
    Input().norm = Input().own_norm = 0.3F;
    return Find();
  };
  const Findings gone = build(1e-7);
  EXPECT_FALSE(gone.culprit);
  ASSERT_EQ(gone.forgotten.size(), 1u);
  EXPECT_EQ(gone.forgotten[0].call, 0u);
  EXPECT_LT(gone.worst, 1e-3);
  const Findings stays = build(0.008);
  ASSERT_TRUE(stays.culprit);
  EXPECT_EQ(stays.culprit->call, 0u);
  EXPECT_EQ(stays.culprit->reason, Reason::kInput);
}

}  // namespace
}  // namespace vernier

#include "judge/lone_calls.h"

#include <gtest/gtest.h>

#include <cmath>

#include "pairing.h"

namespace vernier {
namespace {

class LoneCallsTest : public Pairing {
 protected:
  // A call of the target alone that gives a tensor of this norm.
  void AddAlone(const std::string& kind, float given_norm, float norm) {
    also_alone_.insert(static_cast<std::uint32_t>(calls_.size()));
    Add(kind, 0, 0);
    for (auto [facts, own_norm] : {std::pair(&Input(), given_norm), std::pair(&Output(), norm)}) {
      facts->flags = Facts::kTensor | Facts::kFloat;
      facts->own_norm = own_norm;
      facts->error = 0;
    }
  }
};

TEST_F(LoneCallsTest, OneFarBeforeIsNamedWhereItGivesJustWhatIsWrong) {
  const auto build = [&](float norm, float given_norm = 11, std::uint32_t type = Facts::kFloat) {
    Reset();
    Same("linear", 6);
    AddAlone("mul", 10, given_norm);
    Same("layer_norm", 8);  // whatever the scale of what it is given
    Add("add", 0.1, 0.1);
    Input().own_norm = norm;
    Input().flags = (Input().flags & ~Facts::kFloat) | type;
    return Find();
  };
  Findings found = build(11);
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 6u);
  EXPECT_EQ(found.culprit->reason, Reason::kAdditional);
  found = build(12);
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 15u);
  EXPECT_EQ(found.culprit->reason, Reason::kInput);
  EXPECT_EQ(build(0, 0).culprit->call, 15u) << "all zeros have one norm";
  EXPECT_EQ(build(11, 11, 0).culprit->call, 15u) << "so have booleans";
}

TEST_F(LoneCallsTest, ACallInPlaceIsOnlyAskedJustBehindIt) {
  const auto build = [&](int num_between) {
    Reset();
    Same("linear", 6);
    Add("mul_", kNone, kNone).is_in_place = true;
    alone_ = 6;
    Same("layer_norm", num_between);
    Add("add", 0.1, 0.1);
    const Findings found = Find();
    return found.culprit ? found.culprit->call : kNoCall;
  };
  EXPECT_EQ(build(1), 6u);
  EXPECT_EQ(build(8), 15u);
}

TEST_F(LoneCallsTest, OfAProgramThatEndsWithOneTheResultIsAnother) {
  Same("linear", 6);
  AddAlone("mul", 10, 20);
  ASSERT_TRUE(Find().lone_end);
  EXPECT_TRUE(Find().lone_end->in_target);
  EXPECT_EQ(Find().lone_end->call, 6u);
  Output().own_norm = 10;
  EXPECT_FALSE(Find().lone_end) << "it changes nothing";
  Output().own_norm = 20;
  Add("linear", 0, 0, Pass::kBackward);
  EXPECT_FALSE(Find().lone_end) << "what it changes shows in the backward pass";
}

TEST_F(LoneCallsTest, WhatFollowsSuchACallAtTheEndHidesNothing) {
  Same("linear", 6);
  AddAlone("mul", 10, 20);
  AddAlone("float", 20, 20);
  ASSERT_TRUE(Find().lone_end);
  EXPECT_EQ(Find().lone_end->call, 6u);
  AddAlone("mean", 20, 1);
  Output().num_elements = 1;
  EXPECT_FALSE(Find().lone_end) << "it looks at the result";
  calls_.pop_back();
  facts_.resize(first_[8]);
  first_.pop_back();
  facts_[first_[6] + 1].own_norm = 10.000001F;
  EXPECT_FALSE(Find().lone_end) << "summed in another order";
}

TEST_F(LoneCallsTest, TheOneThatMakesNanIsNamedAndNotOneBeforeIt) {
  Same("linear", 6);
  AddAlone("sub", 10, 0);
  AddAlone("div", 0, INFINITY);
  AddAlone("add", INFINITY, INFINITY);
  Add("matmul", HUGE_VAL, HUGE_VAL);
  Input().own_norm = INFINITY;
  const Findings found = Find();
  ASSERT_TRUE(found.culprit);
  EXPECT_EQ(found.culprit->call, 7u);
  EXPECT_EQ(found.culprit->reason, Reason::kAdditional);
}

}  // namespace
}  // namespace vernier

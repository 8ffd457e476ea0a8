#include "judge/call.h"

#include <gtest/gtest.h>

namespace vernier {
namespace {

Call Module(std::string_view place, Pass pass = Pass::kForward) {
  Call call;
  call.is_module = true;
  call.place = place;
  call.pass = pass;
  return call;
}

Call Operator(std::string_view place) {
  Call call;
  call.place = place;
  return call;
}

TEST(PathOf, IsThePlaceWithoutTheNumberOfTheCall) {
  EXPECT_EQ(PathOf(Module("model.layers.0#1")), "model.layers.0");
  EXPECT_EQ(PathOf(Operator("")), "");
}

TEST(MarkFrames, AModuleAroundRecordedOperatorsIsAFrame) {
  Calls calls{Operator("model.layer.linear#0"), Module("model.layer.linear#0"), Module("model.gru#0"),
              Module("model#0"), Module("model.layer.linear#0", Pass::kBackward)};
  MarkFrames(calls);
  EXPECT_TRUE(calls[1].is_frame);
  EXPECT_FALSE(calls[2].is_frame) << "nothing was recorded in it";
  EXPECT_FALSE(calls[2].is_around);
  EXPECT_TRUE(calls[3].is_frame) << "also far above";
  EXPECT_TRUE(calls[4].is_frame) << "in either pass";
}

TEST(MarkFrames, WhereModulesAloneWereRecordedTheyAreCallsThatStandAroundOthers) {
  Calls calls{Module("model.layer.linear#0"), Module("model.layer#0"), Module("model#0")};
  MarkFrames(calls);
  EXPECT_FALSE(calls[0].is_frame);
  EXPECT_FALSE(calls[0].is_around);
  EXPECT_FALSE(calls[1].is_frame);
  EXPECT_TRUE(calls[1].is_around);
  EXPECT_TRUE(calls[2].is_around);
}

TEST(MarkFrames, AnyModuleMayBeAroundOperatorsThatDoNotSayWhereTheyAre) {
  Calls calls{Operator(""), Module("model#0")};
  MarkFrames(calls);
  EXPECT_TRUE(calls[1].is_frame);
}

TEST(MarkFrames, APathIsNotTheBeginningOfALongerName) {
  Calls calls{Operator("model.layer10#0"), Module("model.layer1#0")};
  MarkFrames(calls);
  EXPECT_FALSE(calls[1].is_frame);
}

}  // namespace
}  // namespace vernier

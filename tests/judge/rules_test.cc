#include "judge/rules.h"

#include <gtest/gtest.h>

namespace vernier {
namespace {

TEST(Rules, KnowWhatAFunctionCallsItsArguments) {
  const Rules& rules = Rules::Verdict();
  EXPECT_EQ(rules.ParameterOf("layer_norm", 0), "input");
  EXPECT_EQ(rules.ParameterOf("layer_norm", 4), "eps");
  EXPECT_EQ(rules.ParameterOf("layer_norm", 5), "");
  EXPECT_EQ(rules.ParameterOf("layer", 0), "") << "the beginning of a name is another name";
  EXPECT_EQ(rules.ParameterOf("", 0), "");
}

TEST(Rules, TakeSignaturesOfFunctionsOfOnesOwn) {
  const auto rules =
      Rules::Make({}, R"-({"lists": {"signatures": ["my_norm(x,  scale)", "broken(", "bare", "empty()"]}})-");
  ASSERT_TRUE(rules);
  EXPECT_EQ(rules->ParameterOf("my_norm", 1), "scale");
  EXPECT_EQ(rules->ParameterOf("layer_norm", 4), "") << "the list is replaced";
  for (const char* name : {"broken", "bare", "empty"}) EXPECT_EQ(rules->ParameterOf(name, 0), "");
}

}  // namespace
}  // namespace vernier

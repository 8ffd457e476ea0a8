#include "precheck/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "precheck/standards.h"

namespace vernier::precheck {
namespace {

using ::testing::HasSubstr;

Standard StandardFor(Policy policy, std::string_view api, std::optional<Dtype> dtype = Dtype::kF32) {
  return StandardOf(Rules::Shipped(), policy, api, dtype, false);
}

TEST(StandardOf, LevelsComeBeforeListsUnderTheManualPolicyOnly) {
  EXPECT_EQ(StandardFor(Policy::kManual, "matmul"), Standard::kBenchmark);
  EXPECT_EQ(StandardFor(Policy::kPerApi, "matmul"), Standard::kUlp);
  EXPECT_EQ(StandardFor(Policy::kBenchmarkFirst, "mul"), Standard::kBenchmark);
  EXPECT_EQ(StandardFor(Policy::kManual, "mul"), Standard::kAbsolute);
  EXPECT_EQ(StandardFor(Policy::kManual, "relu"), Standard::kBinary);
  EXPECT_EQ(StandardFor(Policy::kManual, "linear"), Standard::kUlp);
  EXPECT_EQ(StandardFor(Policy::kManual, "conv2d"), Standard::kDual1000);
  EXPECT_EQ(StandardFor(Policy::kManual, "test_api"), Standard::kAccumulative);
  EXPECT_EQ(StandardFor(Policy::kManual, "add__"), Standard::kBenchmark);  // names match exactly
}

TEST(StandardOf, TheDtypeComesFirst) {
  EXPECT_EQ(StandardFor(Policy::kManual, "mul", Dtype::kF8E4M3FN), Standard::kUlp);
  EXPECT_EQ(StandardFor(Policy::kManual, "mul", Dtype::kI64), Standard::kBinary);
  EXPECT_EQ(StandardFor(Policy::kManual, "softmax", std::nullopt), Standard::kBinary);
  EXPECT_EQ(StandardOf(Rules::Shipped(), Policy::kManual, "softmax", Dtype::kF16, true), Standard::kAbsolute);
}

TEST(LevelOf, KnowsGeluInBothSpellings) {
  EXPECT_EQ(LevelOf(Rules::Shipped(), "GELU"), 2);
  EXPECT_EQ(LevelOf(Rules::Shipped(), "gelu"), 2);
  EXPECT_EQ(LevelOf(Rules::Shipped(), "embedding"), 1);
  EXPECT_EQ(LevelOf(Rules::Shipped(), "softmax"), 0);
}

TEST(Rules, AFileChangesWhatItNamesAndNothingElse) {
  const Rules rules =
      Rules::With(R"({"manual": {"small_value": {"float16": 0.5}}, "levels": {"L1": ["softmax"]}})", "r.json")
          .value();
  EXPECT_EQ(OptionsOf(rules, Thresholds::kManual, Standard::kBenchmark, Dtype::kF16, Dtype::kF32).small_value,
            0.5);
  EXPECT_EQ(OptionsOf(rules, Thresholds::kPeer, Standard::kBenchmark, Dtype::kF16, Dtype::kF32).small_value,
            0x1p-10);
  EXPECT_EQ(LevelOf(rules, "softmax"), 1);
  EXPECT_EQ(LevelOf(rules, "embedding"), 0);
  EXPECT_EQ(LevelOf(rules, "gelu"), 2);
}

TEST(Rules, RefusesWhatIsNotThere) {
  EXPECT_THAT(Rules::With(R"({"manual": {"smal_value": {"float16": 1}}})", "r.json").error().Message(),
              HasSubstr("r.json: invalid argument: unknown rule manual.smal_value.float16"));
  EXPECT_FALSE(Rules::With(R"({"gates": {"cosine": "high"}})", "r.json"));
  EXPECT_FALSE(Rules::With(R"({"gates": {"cosine": 1e999}})", "r.json"));
  EXPECT_FALSE(Rules::With(R"({"gates": )", "r.json"));
  EXPECT_FALSE(Rules::With(R"({} x)", "r.json"));
}

TEST(OptionsOf, HasTheNumbersOfBothSets) {
  const auto options = [](Thresholds set, Standard standard, Dtype device) {
    return OptionsOf(Rules::Shipped(), set, standard, device, Dtype::kF32);
  };
  EXPECT_EQ(options(Thresholds::kManual, Standard::kAbsolute, Dtype::kBF16).small_atol, 0x1p-16);
  EXPECT_EQ(options(Thresholds::kPeer, Standard::kAbsolute, Dtype::kF16).small_atol, 0x1p-16);
  EXPECT_EQ(options(Thresholds::kPeer, Standard::kBenchmark, Dtype::kF16).small_atol, 1e-16);
  EXPECT_EQ(options(Thresholds::kManual, Standard::kAccumulative, Dtype::kF32).small_value, 1);
  EXPECT_EQ(options(Thresholds::kManual, Standard::kUlp, Dtype::kF32).ulp_limit, 32);
  EXPECT_EQ(options(Thresholds::kManual, Standard::kUlp, Dtype::kF8E5M2).ulp_limit, 1);
  EXPECT_EQ(options(Thresholds::kManual, Standard::kUlp, Dtype::kBF16).epsilon, 0x1p-8);
}

}  // namespace
}  // namespace vernier::precheck

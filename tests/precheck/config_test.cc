#include "precheck/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vernier::precheck {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string MistakeIn(std::string_view text, const char* path = "c.json") {
  const Result<Config> config = ConfigFromText(text, path);
  return config ? "none" : config.error().Message();
}

TEST(Config, TheShippedOneIsRead) {
  const Config config = DefaultConfig().value();
  EXPECT_TRUE(config.white_list.empty());
  EXPECT_EQ(config.precision, 14);
  EXPECT_EQ(config.quantised, Rules::Shipped().List("quantised"));
}

TEST(Config, JsonReplacesTheListsAndYamlItsOwnKeys) {
  const Config json =
      ConfigFromText(R"({"task": "x", "acc_check": {"white_list": ["softmax", "linalg.inv"]}})", "c.json")
          .value();
  EXPECT_THAT(json.white_list, ElementsAre("softmax", "linalg.inv"));
  EXPECT_TRUE(json.black_list.empty());
  const Config yaml = ConfigFromText("black_list: [relu]\nprecision: 3\n", "c.yaml").value();
  EXPECT_THAT(yaml.black_list, ElementsAre("relu"));
  EXPECT_EQ(yaml.precision, 3);
  EXPECT_FALSE(yaml.Admits(Rules::Shipped(), "relu"));
  EXPECT_FALSE(yaml.Admits(Rules::Shipped(), "empty_like"));  // never run, whatever the lists say
  EXPECT_TRUE(yaml.Admits(Rules::Shipped(), "softmax"));
}

TEST(Config, EveryMistakeNamesFileAndField) {
  EXPECT_THAT(MistakeIn("{}"), HasSubstr("acc_check"));
  EXPECT_THAT(MistakeIn("[]"), HasSubstr("c.json"));
  EXPECT_THAT(MistakeIn(R"({"acc_check": {"whitelist": []}})"), HasSubstr("did you mean white_list?"));
  EXPECT_THAT(MistakeIn(R"({"acc_check": {"white_list": "relu"}})"),
              HasSubstr("white_list: expected a list"));
  EXPECT_THAT(MistakeIn(R"({"acc_check": {"white_list": [1]}})"),
              HasSubstr("white_list: expected a list of names"));
  EXPECT_THAT(MistakeIn(R"({"acc_check": {"black_list": ["no_such"]}})"),
              HasSubstr("no_such is not the name"));
  EXPECT_THAT(MistakeIn(R"({"acc_check": {"error_data_path": "/no/where"}})"), HasSubstr("/no/where"));
  EXPECT_THAT(MistakeIn(R"({"acc_check": {"error_data_path": 3}})"), HasSubstr("expected a text"));
  EXPECT_THAT(MistakeIn(R"({"acc_check": {)"), HasSubstr("c.json"));
  EXPECT_THAT(MistakeIn("precision: 21", "c.yaml"), HasSubstr("precision: expected a number from 0 to 20"));
  EXPECT_THAT(MistakeIn("precision: [1]", "c.yaml"), HasSubstr("precision"));
  EXPECT_THAT(MistakeIn("other: 1", "c.yaml"), HasSubstr("unknown key other"));
  EXPECT_THAT(MistakeIn("a: [", "c.yaml"), HasSubstr("c.yaml"));
  EXPECT_THAT(MistakeIn("- 1", "c.yaml"), HasSubstr("expected keys"));
}

}  // namespace
}  // namespace vernier::precheck

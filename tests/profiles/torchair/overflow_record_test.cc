#include <gtest/gtest.h>

#include <vector>

#include "profiles/torchair/convert.h"

namespace vernier::torchair {
namespace {

TEST(OverflowJson, ReadsTheFirstVersion) {
  std::vector<std::uint64_t> words(23);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = i;
  const std::string json = OverflowJson(std::as_bytes(std::span(words))).value();
  EXPECT_NE(json.find("\"DHA Atomic Add\": {\n        \"model_id\": 0"), std::string::npos) << json;
  EXPECT_NE(json.find("\"para_base\": \"0xb\",\n        \"status\": 19"), std::string::npos) << json;
  EXPECT_NE(json.find("\"kernel_code\": \"0x14\",\n        \"block_idx\": 21,\n        \"status\": 22"),
            std::string::npos)
      << json;
  words.pop_back();
  EXPECT_FALSE(OverflowJson(std::as_bytes(std::span(words))));
}

TEST(OverflowJson, ReadsTheLaterVersion) {
  std::vector<std::uint32_t> words = {0x5a5a5a5a, 1, 1, 0, 0, 112};  // an AI core, four numbers of status
  for (std::uint32_t i = 0; i < 14; ++i) words.insert(words.end(), {i, 0});
  const std::string json = OverflowJson(std::as_bytes(std::span(words))).value();
  EXPECT_NE(json.find("\"magic\": \"0x5a5a5a5a\""), std::string::npos) << json;
  EXPECT_NE(json.find("\"acc_type\": \"AIC\""), std::string::npos) << json;
  EXPECT_NE(json.find("\"status\": [10, 11, 12, 13]"), std::string::npos) << json;
  for (std::size_t size = 0; size < words.size(); ++size)
    EXPECT_FALSE(OverflowJson(std::as_bytes(std::span(words).first(size)))) << size;
  words[3] = 9;
  EXPECT_FALSE(OverflowJson(std::as_bytes(std::span(words))));
}

}  // namespace
}  // namespace vernier::torchair

#include "core/base64.h"

#include <gtest/gtest.h>

namespace vernier {
namespace {

std::string Encoded(std::string_view text) {
  std::string out = ">";
  AppendBase64(std::as_bytes(std::span(text)), out);
  return out;
}

std::string Decoded(std::string_view text) {
  const auto bytes = DecodeBase64(text);
  if (!bytes) return "none";
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

// The examples of RFC 4648.
TEST(Base64, EncodesAndDecodesTheExamplesOfItsStandard) {
  const std::pair<std::string_view, std::string_view> examples[] = {{"", ""},
                                                                    {"f", "Zg=="},
                                                                    {"fo", "Zm8="},
                                                                    {"foo", "Zm9v"},
                                                                    {"foob", "Zm9vYg=="},
                                                                    {"fooba", "Zm9vYmE="},
                                                                    {"foobar", "Zm9vYmFy"}};
  for (const auto& [text, encoded] : examples) {
    EXPECT_EQ(Encoded(text), ">" + std::string(encoded));
    EXPECT_EQ(Decoded(encoded), text);
  }
}

TEST(Base64, KeepsEveryByte) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  EXPECT_EQ(Decoded(Encoded(all).substr(1)), all);
}

TEST(Base64, RefusesWhatIsNone) {
  for (const char* text :
       {"Z", "Zg", "Zg=", "Zg==Zg==", "=Zg=", "Z===", "====", "Zm 9v", "Zm9-", "Zm9\xC3"}) {
    EXPECT_EQ(Decoded(text), "none") << text;
  }
}

}  // namespace
}  // namespace vernier

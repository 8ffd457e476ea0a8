#include "core/json_writer.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace vernier {
namespace {

std::string Quoted(std::string_view text, JsonText form = JsonText::kAscii) {
  std::string out;
  AppendJsonString(text, out, form);
  return out;
}

std::string Float(double value, JsonFloat form = JsonFloat::kBareWords) {
  std::string out;
  AppendJsonFloat(value, out, form);
  return out;
}

TEST(JsonWriter, QuotesAsPythonDoes) {
  EXPECT_EQ(Quoted("plain"), "\"plain\"");
  EXPECT_EQ(Quoted("a\"b\\c/d"), "\"a\\\"b\\\\c/d\"");
  EXPECT_EQ(Quoted("\n\r\t\b\f\x01\x7f"), "\"\\n\\r\\t\\b\\f\\u0001\\u007f\"");
  EXPECT_EQ(Quoted("é€😀"), "\"\\u00e9\\u20ac\\ud83d\\ude00\"");
  EXPECT_EQ(Quoted("x\xff"), "\"x\\udcff\"");  // as json.dumps(os.fsdecode(b"x\xff"))
}

TEST(JsonWriter, WritesFloatsAsPythonDoes) {
  EXPECT_EQ(Float(1), "1.0");
  EXPECT_EQ(Float(1e-5), "1e-05");
  EXPECT_EQ(Float(3.0600612751156956e+32), "3.0600612751156956e+32");
  EXPECT_EQ(Float(1.1531999f), "1.1531999111175537");
  EXPECT_EQ(Float(-0.0), "-0.0");
  EXPECT_EQ(Float(NAN), "NaN");
  EXPECT_EQ(Float(-INFINITY), "-Infinity");
}

TEST(JsonWriter, KeepsCharactersBeyondAsciiWhenAsked) {
  EXPECT_EQ(Quoted("é€😀\x7f", JsonText::kUtf8), "\"é€😀\x7f\"");
  EXPECT_EQ(Quoted("a\"b\\\n\x01", JsonText::kUtf8), "\"a\\\"b\\\\\\n\\u0001\"");
}

TEST(JsonWriter, WritesStrictJsonWhenAsked) {
  EXPECT_EQ(Float(1.5, JsonFloat::kQuotedWords), "1.5");
  EXPECT_EQ(Float(NAN, JsonFloat::kQuotedWords), "\"nan\"");
  EXPECT_EQ(Float(-INFINITY, JsonFloat::kQuotedWords), "\"-inf\"");
}

TEST(JsonWriter, WritesIntegersOfAnyWidth) {
  std::string out;
  AppendInteger(std::numeric_limits<std::int64_t>::min(), out);
  AppendLine(2, out);
  AppendInteger(std::numeric_limits<std::uint64_t>::max(), out);
  EXPECT_EQ(out, "-9223372036854775808\n  18446744073709551615");
}

}  // namespace
}  // namespace vernier

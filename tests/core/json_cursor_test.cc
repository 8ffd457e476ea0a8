#include "core/json_cursor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace vernier {
namespace {

std::vector<std::string> Keys(std::string_view text, bool* ok = nullptr) {
  JsonCursor cursor(text);
  std::vector<std::string> keys;
  cursor.ForEachMember([&](std::string_view key, bool) {
    keys.emplace_back(key);
    cursor.Skip();
  });
  if (ok != nullptr) *ok = cursor.ok() && cursor.AtEnd();
  return keys;
}

TEST(JsonCursor, WalksMembersAndSkipsWhatIsInside) {
  bool ok = false;
  EXPECT_EQ(Keys(R"( {"a": [1, {"b": "]}"}], "c\"d": null , "e":{}} )", &ok),
            (std::vector<std::string>{"a", R"(c\"d)", "e"}));
  EXPECT_TRUE(ok);
}

TEST(JsonCursor, ReadsNumbersThatPythonWrites) {
  EXPECT_TRUE(std::isnan(JsonCursor("NaN").TakeNumber()));
  EXPECT_EQ(JsonCursor("-Infinity").TakeNumber(), -HUGE_VAL);
  EXPECT_EQ(JsonCursor("1e-3").TakeNumber(), 0.001);
  EXPECT_EQ(JsonCursor("12345678901234567890123").TakeNumberText(), "12345678901234567890123");
  EXPECT_EQ(JsonCursor("-3").Peek(), JsonKind::kInt);
  EXPECT_EQ(JsonCursor("3.0").Peek(), JsonKind::kFloat);
  EXPECT_EQ(JsonCursor("-Infinity").Peek(), JsonKind::kFloat);
}

TEST(JsonCursor, RefusesNumbersThatAreNone) {
  for (const char* text : {"01", "-", "1.", ".5", "1e", "+1", "1x", "Nan", "infinity"}) {
    JsonCursor cursor(text);
    cursor.TakeNumber();
    EXPECT_FALSE(cursor.ok()) << text;
  }
}

TEST(JsonCursor, DecodesEscapesAndKeepsLoneSurrogates) {
  EXPECT_EQ(DecodeJsonString(R"(a\n\u00fc\ud83d\ude00\/)"), "a\nü😀/");
  EXPECT_EQ(DecodeJsonString(R"(\ud800x)"), R"(\ud800x)");
  EXPECT_EQ(DecodeJsonString(R"(\u12)"), R"(\u12)");
}

TEST(JsonCursor, MakesBrokenBytesVisible) {
  std::string buffer;
  EXPECT_EQ(JsonCursor("\"a\xff\"").TakeString(buffer), "a\\xff");
}

TEST(JsonCursor, FailsWithoutReadingPastTheEnd) {
  for (const char* text : {"", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,", "[1,", "\"abc", "\"a\\",
                           "{,}", "[1 2]", "{\"a\" 1}", "}"}) {
    bool ok = true;
    Keys(text, &ok);
    EXPECT_FALSE(ok) << text;
  }
}

// Texts and brackets at every distance from each other and from the end: eight characters are looked at at
// once.
TEST(JsonCursor, SkipsExactlyOneValueWhateverItsLengths) {
  for (std::size_t before = 0; before < 18; ++before) {
    for (std::size_t inside = 0; inside < 18; ++inside) {
      for (const char* special : {"", "\\\"", "\\\\", "{", "]", "\x7f", "\xff"}) {
        const std::string text = std::string(inside, 'x') + special + std::string(before, '[');
        const std::string value =
            "{\"k\":[" + std::string(before, '1') + ",\"" + text + "\"," + std::string(inside, ' ') + "{}]}";
        for (const std::string& rest : {std::string(), std::string(",\"next\":[1]}         ")}) {
          const std::string whole = value + rest;
          JsonCursor skipping(whole);
          skipping.Skip();
          EXPECT_TRUE(skipping.ok()) << whole;
          EXPECT_EQ(skipping.position(), value.size()) << whole;
        }
        JsonCursor cut(std::string_view(value).substr(0, value.size() - 1));
        cut.Skip();
        EXPECT_FALSE(cut.ok()) << value;
        const std::string quoted = '"' + text + "\" ";
        bool escaped = false;
        EXPECT_EQ(JsonCursor(quoted).TakeRawString(escaped), text);
        EXPECT_EQ(escaped, special[0] == '\\');
      }
    }
  }
}

TEST(JsonCursor, SkipsNestingOfAnyDepthWithoutRecursion) {
  const std::string deep = std::string(1000000, '[') + std::string(1000000, ']');
  JsonCursor cursor(deep);
  cursor.Skip();
  EXPECT_TRUE(cursor.ok() && cursor.AtEnd());
}

}  // namespace
}  // namespace vernier

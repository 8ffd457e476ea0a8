#include "core/text.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <string>

namespace vernier {
namespace {

TEST(Printable, LeavesPlainAndUtf8TextAlone) {
  EXPECT_EQ(Printable("layer.1 weight~"), "layer.1 weight~");
  EXPECT_EQ(Printable("größe 重量 🙂"), "größe 重量 🙂");
  EXPECT_EQ(Printable(""), "");
}

TEST(Printable, EscapesControlCharacters) {
  EXPECT_EQ(Printable("a\nb\tc\rd"), "a\\nb\\tc\\rd");
  EXPECT_EQ(Printable("\x1b[31mred\x7f"), "\\x1b[31mred\\x7f");
  EXPECT_EQ(Printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(Printable("\u0085\u2028"), "\\xc2\\x85\\xe2\\x80\\xa8");
  EXPECT_EQ(Printable("a\u202eb\u2066c\u061c"), "a\\xe2\\x80\\xaeb\\xe2\\x81\\xa6c\\xd8\\x9c");
}

TEST(Printable, EscapesWhatIsNotUtf8) {
  EXPECT_EQ(Printable("a\xff\xfe"), "a\\xff\\xfe");
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond the last code point
  EXPECT_EQ(Printable("x\xe2\x82"), "x\\xe2\\x82");                  // cut off
}

TEST(Utf8Length, CountsTheBytesOfTheFirstCharacter) {
  EXPECT_EQ(Utf8Length("a"), 1u);
  EXPECT_EQ(Utf8Length("éa"), 2u);
  EXPECT_EQ(Utf8Length("重"), 3u);
  EXPECT_EQ(Utf8Length("🙂"), 4u);
  EXPECT_EQ(Utf8Length("\x80"), 0u);
  EXPECT_EQ(Utf8Length(""), 0u);
}

TEST(ShortestText, ReadsBackAsTheSameNumber) {
  for (const double value : {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -2.5, 1e16}) {
    EXPECT_EQ(std::strtod(ShortestText(value).c_str(), nullptr), value);
  }
  EXPECT_EQ(ShortestText(0.1), "0.1");
  EXPECT_EQ(ShortestText(1), "1");
  EXPECT_EQ(ShortestText(-0.0), "-0");
}

TEST(ShortestText, NamesSpecialValues) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ShortestText(nan), "nan");
  EXPECT_EQ(ShortestText(-nan), "nan");
  EXPECT_EQ(ShortestText(inf), "inf");
  EXPECT_EQ(ShortestText(-inf), "-inf");
}

std::string_view Guess(std::string_view word) {
  constexpr std::string_view kWords[] = {"compare", "inspect", "env", "--match", "--rtol"};
  return DidYouMean(word, kWords);
}

TEST(DidYouMean, FindsASlipOfTheFinger) {
  EXPECT_EQ(Guess("comapre"), "compare");
  EXPECT_EQ(Guess("inspct"), "inspect");
  EXPECT_EQ(Guess("evn"), "env");
  EXPECT_EQ(Guess("--rto"), "--rtol");
}

TEST(DidYouMean, SaysNothingWhenNothingIsClose) {
  EXPECT_EQ(Guess("banana"), "");
  EXPECT_EQ(Guess(""), "");
  EXPECT_EQ(Guess(std::string(100000, 'x')), "");
}

TEST(Choose, GuessesOrNamesTheChoices) {
  constexpr std::string_view kWords[] = {"exact", "fuzzy"};
  EXPECT_EQ(*Choose("--match", "fuzzy", kWords), 1u);
  EXPECT_EQ(Choose("--match", "fuzy", kWords).error().detail, "did you mean fuzzy?");
  EXPECT_EQ(Choose("--match", "telepathy", kWords).error().detail, "choose one of exact, fuzzy");
}

}  // namespace
}  // namespace vernier

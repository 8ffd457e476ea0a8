#include "core/python_text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace vernier {
namespace {

TEST(PythonFloat, WritesWhatReprWrites) {
  EXPECT_EQ(PythonFloat(1), "1.0");
  EXPECT_EQ(PythonFloat(-0.0), "-0.0");
  EXPECT_EQ(PythonFloat(0.1), "0.1");
  EXPECT_EQ(PythonFloat(0.0001), "0.0001");
  EXPECT_EQ(PythonFloat(0.00001), "1e-05");
  EXPECT_EQ(PythonFloat(123456789012345680.0), "1.2345678901234568e+17");
  EXPECT_EQ(PythonFloat(1e15), "1000000000000000.0");
  EXPECT_EQ(PythonFloat(1e16), "1e+16");
  EXPECT_EQ(PythonFloat(-2.5e-300), "-2.5e-300");
  EXPECT_EQ(PythonFloat(5e-324), "5e-324");
  EXPECT_EQ(PythonFloat(HUGE_VAL), "inf");
  EXPECT_EQ(PythonFloat(-HUGE_VAL), "-inf");
  EXPECT_EQ(PythonFloat(std::nan("")), "nan");
}

TEST(ParsePythonFloat, TakesWhatFloatTakes) {
  EXPECT_EQ(ParsePythonFloat(" 3 "), 3);
  EXPECT_EQ(ParsePythonFloat("+1_000.5"), 1000.5);
  EXPECT_EQ(ParsePythonFloat(".5"), 0.5);
  EXPECT_EQ(ParsePythonFloat("-Infinity"), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(*ParsePythonFloat("NaN")));
  EXPECT_EQ(ParsePythonFloat("1e999"), HUGE_VAL);
  EXPECT_EQ(ParsePythonFloat("-1e-999"), 0);
  for (const char* text : {"", "x", "1 2", "_1", "1_", "--1", "0x10", "1e", "N/A", "None"}) {
    EXPECT_FALSE(ParsePythonFloat(text)) << text;
  }
}

TEST(AppendPythonQuoted, ChoosesTheQuoteThatNeedsNoEscape) {
  const auto quoted = [](std::string_view text) {
    std::string out;
    AppendPythonQuoted(text, out);
    return out;
  };
  EXPECT_EQ(quoted("a.pt"), "'a.pt'");
  EXPECT_EQ(quoted("it's"), "\"it's\"");
  EXPECT_EQ(quoted("'\""), "'\\'\"'");
  EXPECT_EQ(quoted("a\nb\\\x01"), "'a\\nb\\\\\\x01'");
}

TEST(RepairUtf8, MarksBrokenBytesAndNothingElse) {
  EXPECT_EQ(RepairUtf8("plain ü 漢 😀"), "");
  EXPECT_EQ(RepairUtf8("a\xff"), "a\\xff");
  EXPECT_EQ(RepairUtf8("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(RepairUtf8("\xc3"), "\\xc3");
}

}  // namespace
}  // namespace vernier

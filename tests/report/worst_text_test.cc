#include "report/worst_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace vernier {
namespace {

using testing::Pair;
using Kind = Concentration::Kind;

TEST(ApartTexts, TakesAsFewDigitsAsTellTheTwoApart) {
  EXPECT_THAT(ApartTexts(3.9758975, 4.0883531), Pair("3.976", "4.088"));
  EXPECT_THAT(ApartTexts(1.0000001192092896, 1), Pair("1.0000001", "1"));
  EXPECT_THAT(ApartTexts(1 + 0x1p-52, 1), Pair("1.0000000000000002", "1"));
  EXPECT_THAT(ApartTexts(std::numeric_limits<double>::quiet_NaN(), -1), Pair("nan", "-1"));
}

TEST(ConcentrationText, NamesTheAxisByWhatItsPositionsAreCalled) {
  const auto text = [](std::size_t axis, std::uint64_t first, std::uint64_t last, double share,
                       const Shape& shape) {
    return ConcentrationText({Kind::kRange, axis, first, last, share, false}, shape);
  };
  EXPECT_EQ(text(2, 126, 126, 0.919, {4, 64, 128}), "91 % of the squared error lies in column 126 of axis 2");
  EXPECT_EQ(text(0, 3, 3, 1, {4, 64, 128}), "100 % of the squared error lies in row 3 of axis 0");
  EXPECT_EQ(text(1, 8, 15, 0.9999, {4, 64, 128}),
            "99 % of the squared error lies in slices 8..15 of axis 1 (8 of 64)");
  EXPECT_EQ(text(0, 5, 6, 1, {9}), "100 % of the squared error lies in elements 5..6 of axis 0 (2 of 9)");
}

TEST(ConcentrationText, SaysWhatIsSpreadAndWhatIsOneElement) {
  Concentration found;
  EXPECT_EQ(ConcentrationText(found, {2}), "the squared error is spread over all axes");
  found.of_specials = true;
  EXPECT_EQ(ConcentrationText(found, {2}), "the NaN and Inf mismatches are spread over all axes");
  EXPECT_EQ(ConcentrationText({Kind::kRange, 0, 1, 1, 1, true}, {2, 2}),
            "100 % of the NaN and Inf mismatches lie in row 1 of axis 0");
  found.kind = Kind::kOneElement;
  EXPECT_EQ(ConcentrationText(found, {2}), "one element is the only NaN or Inf mismatch");
}

TEST(WorstText, FitsTheWidthWhateverTheName) {
  ElementDifferences differences;
  differences.num_numbers = 12;
  differences.num_different = 2;
  differences.worst = {{7, false, NAN, 1, NAN, std::nullopt, "", ""},
                       {3, false, 2.5, 2, 0.5, 2097152, "", ""}};
  differences.concentration = Concentration{};
  const Shape shape = {3, 4};
  const std::string text = WorstText({std::string(200, 'x'), "float32", shape}, differences, 100);
  EXPECT_EQ(WorstText({"x", "float32", shape}, differences, 100),
            "worst elements of x, float32 [3, 4]: 2 of 12 differ\n"
            "  index   got  want  abs error      ulp\n"
            "  [1, 3]  nan     1        nan        -\n"
            "  [0, 3]  2.5     2        0.5  2097152\n"
            "  the squared error is spread over all axes\n");
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    EXPECT_LE(end - start, 102u) << "bytes: an ellipsis has three";
    start = end + 1;
  }
}

TEST(WorstText, ShowsAllDigitsOfWideIntegersAndThePartsOfComplexNumbers) {
  ElementDifferences differences;
  differences.num_numbers = differences.num_different = 1;
  differences.worst = {{0, false, 1e18, 1e18, 1, std::nullopt, "1000000000000000001", "1000000000000000000"}};
  const Shape shape = {1};
  EXPECT_THAT(WorstText({"x", "int64", shape}, differences, 100),
              testing::HasSubstr("[0]    1000000000000000001  1000000000000000000          1"));
  differences.worst = {{0, true, 2, 1, 1, 8388608, "", ""}};
  EXPECT_THAT(WorstText({"x", "complex64", shape}, differences, 100),
              testing::HasSubstr("[0].imag    2     1"));
}

TEST(WorstText, SaysThatNothingDiffers) {
  const Shape shape = {3, 4};
  EXPECT_EQ(WorstText({"x", "float32", shape}, {12, 0, {}, std::nullopt}, 100),
            "worst elements of x, float32 [3, 4]: no element differs\n");
}

}  // namespace
}  // namespace vernier

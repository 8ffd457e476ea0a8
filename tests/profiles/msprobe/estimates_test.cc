#include "profiles/msprobe/estimates.h"

#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base64.h"

namespace vernier::msprobe {
namespace {

std::string Text(const std::vector<double>& numbers) {
  std::string text;
  AppendBase64(std::as_bytes(std::span(numbers)), text);
  return text;
}

// A tensor of normal numbers, as a dump describes it.
struct Described {
  std::string sketch;
  Leaf leaf;
  double norm = 0;

  explicit Described(double error, std::string_view dtype = "torch.float32", std::size_t num_sums = 64) {
    std::mt19937 random(1), errors(2);
    std::normal_distribution<double> normal;
    std::vector<double> sums(kSketchSums);
    for (std::size_t i = 0; i < 6400; ++i) {
      const double value = normal(random) + error * normal(errors);
      const std::size_t place = i % 64;
      sums[place ^ SketchTurn(i / 64)] += (SketchSigns(i / 64) >> place & 1) != 0 ? -value : value;
      norm += value * value;
    }
    norm = std::sqrt(norm);
    Sketch found{std::move(sums)};
    sketch = Text(num_sums < 64 ? Folded(found, num_sums).numbers : found.numbers);
    leaf.dtype = dtype;
    leaf.shape = "[64, 100]";
    leaf.sketch = sketch;
    leaf.statistics.fill(Cell(norm));
  }
};

TEST(Estimates, TellTheErrorOfTwoTensors) {
  const Described target(1e-3), golden(0);
  const Estimate estimate = EstimateFrom(target.leaf, golden.leaf);
  ASSERT_TRUE(estimate.difference);
  EXPECT_NEAR(estimate.difference->relative_error, 1e-3, 3e-4);
  EXPECT_NEAR(1 - estimate.difference->cosine, 0.5e-6, 0.3e-6);
  EXPECT_EQ(estimate.problem, "");
  const Described coarse(0, "torch.float32", 16);
  EXPECT_NEAR(EstimateFrom(target.leaf, coarse.leaf).difference->relative_error, 1e-3, 6e-4);
}

TEST(Estimates, UseTheRecordedNormWhereItIsThatOfTheSketch) {
  Described target(1e-3), golden(0);
  const double relative = EstimateFrom(target.leaf, golden.leaf).difference->relative_error;
  golden.leaf.statistics[3] = Cell(2 * golden.norm);
  EXPECT_NEAR(EstimateFrom(target.leaf, golden.leaf).difference->relative_error, relative / 2, 1e-9);
  // Infinite, missing, or of more than was sketched: then the sketch's own, which is near.
  golden.leaf.statistics[3] = Cell(std::numeric_limits<double>::infinity());
  EXPECT_NEAR(EstimateFrom(target.leaf, golden.leaf).difference->relative_error, relative, 0.3 * relative);
  golden.leaf.statistics[3] = Cell("None");
  EXPECT_NEAR(EstimateFrom(target.leaf, golden.leaf).difference->relative_error, relative, 0.3 * relative);
  golden.leaf.statistics[3] = Cell(1e38);
  golden.leaf.sketch_bad = 1;
  EXPECT_NEAR(EstimateFrom(target.leaf, golden.leaf).difference->relative_error, relative, 0.3 * relative);
}

TEST(Estimates, TakeNoAngleFromNormsThatWereRoundedToSixteenBits) {
  Described target(1e-3, "torch.bfloat16"), golden(0, "torch.bfloat16");
  const double norm = std::ldexp(std::nearbyint(golden.norm * 2), -1);  // eight bits
  target.leaf.statistics[3] = Cell(norm * 1.00390625);
  golden.leaf.statistics[3] = Cell(norm);
  const auto estimate = EstimateFrom(target.leaf, golden.leaf).difference;
  EXPECT_LT(1 - estimate->cosine, 1e-6);
  EXPECT_NEAR(estimate->relative_error, 1e-3, 3e-4);
}

TEST(Estimates, SayNothingOfTensorsThatAreNotAlike) {
  const Described golden(0);
  Described target(1e-3);
  target.leaf.shape = "[100, 64]";
  EXPECT_FALSE(EstimateFrom(target.leaf, golden.leaf).difference);
  target.leaf.shape = golden.leaf.shape;
  target.leaf.dtype = "torch.float64";
  EXPECT_FALSE(EstimateFrom(target.leaf, golden.leaf).difference);
  target.leaf.dtype = golden.leaf.dtype;
  target.leaf.sketch = {};
  EXPECT_FALSE(EstimateFrom(target.leaf, golden.leaf).difference);
  EXPECT_EQ(EstimateFrom(target.leaf, golden.leaf).problem, "");
}

TEST(Estimates, ExplainWhatIsWrongWithASketch) {
  const Described golden(0);
  Described target(0);
  const auto problem = [&](const std::string& sketch, std::string_view values = {}) {
    target.leaf.sketch = sketch;
    target.leaf.values = values;
    const Estimate estimate = EstimateFrom(target.leaf, golden.leaf);
    EXPECT_FALSE(estimate.difference);
    return estimate.problem;
  };
  EXPECT_EQ(problem("%%%%"), "NPU sketch: no base64 text of 4 characters");
  EXPECT_EQ(problem("AAA"), "NPU sketch: no base64 text of 3 characters");
  EXPECT_EQ(problem(Text(std::vector<double>(63))),
            "NPU sketch: 504 bytes, where 8 times 8, 16, 32 or 64 are right");
  EXPECT_EQ(problem(Text(std::vector<double>(128))),
            "NPU sketch: 1024 bytes, where 8 times 8, 16, 32 or 64 are right");
  EXPECT_EQ(problem(Text(std::vector<double>(64, std::nan("")))),
            "NPU sketch: NaN or an infinity among the sums");
  EXPECT_EQ(problem("", Text({1, 2})), "NPU values: 16 bytes, where fewer than 64 numbers are right");
  target.leaf.shape = "[1, 3]";
  EXPECT_EQ(problem("", Text({1, 2})), "NPU values: 16 bytes, where 24 are right");
  Described broken(0);
  broken.leaf.sketch = "!";
  EXPECT_EQ(EstimateFrom(golden.leaf, broken.leaf).problem, "Bench sketch: no base64 text of 1 characters");
}

TEST(Estimates, OfFewElementsAreExact) {
  Leaf target, golden;
  target.shape = golden.shape = "[3]";
  target.dtype = golden.dtype = "torch.int64";
  const std::string t = Text({3, 4, 5}), g = Text({3, 4, 0});
  target.values = t;
  golden.values = g;
  EXPECT_EQ(EstimateFrom(target, golden).difference->relative_error, 1);
  target.shape = golden.shape = "[]";
  const std::string one = Text({-1});
  target.values = golden.values = one;
  EXPECT_EQ(EstimateFrom(target, golden).difference->relative_error, 0);
  EXPECT_EQ(EstimateFrom(target, golden).difference->cosine, 1);
}

TEST(Estimates, ReadComplexNumbersAsTwoHalves) {
  Leaf leaf;
  leaf.dtype = "torch.complex64";
  leaf.shape = "[100]";
  const std::string text = Text(std::vector<double>(128, 1.0));
  leaf.sketch = text;
  const auto sketch = ReadSketch(leaf);
  ASSERT_TRUE(sketch);
  EXPECT_TRUE((*sketch)->is_complex);
  EXPECT_EQ((*sketch)->size(), 64u);
  leaf.shape = "[2]";
  leaf.sketch = {};
  const std::string four = Text({1, 2, 3, 4});
  leaf.values = four;
  EXPECT_EQ((*ReadSketch(leaf))->size(), 2u);
}

TEST(Estimates, SkipTheBlankBeforeASign) {
  Leaf leaf;
  leaf.dtype = "torch.float64";
  leaf.shape = "[1]";
  leaf.values = " +AAAAAAA8D8=";
  const auto sketch = ReadSketch(leaf);
  ASSERT_TRUE(sketch) << sketch.error().Message();
  EXPECT_GT((*sketch)->numbers.at(0), 1);
}

TEST(Estimates, AreShownWithTheDigitsTheyHave) {
  EXPECT_EQ(ShownError(0.0123456789), 0.01235);
  EXPECT_EQ(ShownError(0), 0);
  EXPECT_EQ(ShownError(std::numeric_limits<double>::infinity()), std::numeric_limits<double>::infinity());
  EXPECT_EQ(ShownCosine(1 - 1.23456789e-7), 1 - 1.235e-7);
  EXPECT_EQ(ShownCosine(1), 1);
}

}  // namespace
}  // namespace vernier::msprobe

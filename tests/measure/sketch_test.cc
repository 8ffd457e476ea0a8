// Sketches against their definition, written down a second time here, element by element.
#include "measure/sketch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "measure/kernels_internal.h"
#include "measure/summary.h"

namespace vernier {
namespace {

using Sums = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::uint64_t Mix(std::uint64_t c) {
  std::uint64_t z = (c + 1) * 0x9E3779B97F4A7C15ull;
  z ^= z >> 30;
  z *= 0xBF58476D1CE4E5B9ull;
  z ^= z >> 27;
  z *= 0x94D049BB133111EBull;
  z ^= z >> 31;
  return z;
}

// By the definition: chunks of 65536, each in index order, added in their order.
Sums Defined(const std::vector<double>& values, std::size_t num_sums = 64) {
  Sums all(num_sums, 0.0);
  for (std::size_t begin = 0; begin < values.size(); begin += 65536) {
    Sums chunk(num_sums, 0.0);
    for (std::size_t i = begin; i < std::min(begin + 65536, values.size()); ++i) {
      const double value = std::abs(values[i]) <= 1e30 ? values[i] : 0;
      const std::size_t bucket = (i % 64) ^ (Mix(2 * (i / 64) + 1) & 63);
      chunk[bucket % num_sums] += (Mix(2 * (i / 64)) >> (i % 64) & 1) != 0 ? -value : value;
    }
    for (std::size_t b = 0; b < num_sums; ++b) all[b] += chunk[b];
  }
  return all;
}

template <class Fn>
void ForEachTarget(Fn&& fn) {
  for (const std::string_view target : internal::AvailableTargets()) {
    ASSERT_TRUE(internal::ForceTarget(target));
    SCOPED_TRACE(std::string(target));
    fn();
  }
  internal::ForceTarget("");
}

template <class T>
StridedTensor View(Dtype dtype, const std::vector<T>& data, const std::vector<std::int64_t>& shape,
                   const std::vector<std::int64_t>& strides, std::size_t skip = 0) {
  return {dtype, reinterpret_cast<const std::byte*>(data.data() + skip), shape, strides};
}

Sketch SketchOf(const StridedTensor& tensor, std::size_t num_sums = 64) {
  SummaryRequest request;
  request.sketch_sums = num_sums;
  return *Summarize(tensor, request).sketch;
}
template <class T>
Sketch SketchOf(Dtype dtype, const std::vector<T>& data, std::size_t num_sums = 64) {
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(data.size())}, strides{1};
  return SketchOf(View(dtype, data, shape, strides), num_sums);
}

std::vector<float> RandomFloats(std::size_t count, unsigned seed = 7) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.25f, 3.0f);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}
template <class T>
std::vector<double> Doubles(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

TEST(Sketch, MixesAsTheFormatSays) {
  EXPECT_EQ(SketchMix(0), 0xE220A8397B1DCDAFu);
  EXPECT_EQ(SketchMix(1), 0x6E789E6AA1B965F4u);
  for (std::uint64_t block : {0ull, 1ull, 17ull, 1ull << 40}) {
    EXPECT_EQ(SketchSigns(block), Mix(2 * block));
    EXPECT_EQ(SketchTurn(block), Mix(2 * block + 1) & 63);
  }
}

// Numbers written down from the definition by hand: bits 0 and 1 of 0xE2...AF are set, block 0 turns by 0x34.
TEST(Sketch, OfOneToOneHundredAndThirtyIsTheReferenceVector) {
  std::vector<double> values;
  for (int i = 1; i <= 130; ++i) values.push_back(i);
  const Sums reference = Defined(values);
  EXPECT_EQ(Mix(1) & 63, 0x34u);
  ForEachTarget([&] {
    const Sketch sketch = SketchOf(Dtype::kF64, values);
    EXPECT_EQ(sketch.numbers, reference);
    EXPECT_FALSE(sketch.whole);
    EXPECT_EQ(sketch.num_bad, 0u);
  });
  double sum = 0, signed_sum = 0;
  for (int i = 0; i < 130; ++i) sum += (Mix(2 * (i / 64)) >> (i % 64) & 1) != 0 ? -(i + 1) : i + 1;
  for (const double value : reference) signed_sum += value;
  EXPECT_EQ(signed_sum, sum);
}

TEST(Sketch, HasTheBitsOfTheDefinitionAtEveryTailLengthOnEveryTarget) {
  ForEachTarget([] {
    for (const std::size_t count :
         {64, 65, 66, 67, 69, 80, 96, 127, 128, 129, 2047, 2048, 2049, 4099, 65537}) {
      for (const std::size_t skip : {0, 1, 3}) {
        const std::vector<float> data = RandomFloats(count + skip);
        const std::vector<std::int64_t> shape{static_cast<std::int64_t>(count)}, strides{1};
        const Sketch sketch = SketchOf(View(Dtype::kF32, data, shape, strides, skip));
        EXPECT_EQ(sketch.numbers, Defined({data.begin() + static_cast<std::ptrdiff_t>(skip), data.end()}))
            << count;
      }
    }
  });
}

TEST(Sketch, FoldsToTheDefinitionWithFewerSums) {
  const std::vector<double> values = Doubles(RandomFloats(10007));
  const Sketch all = SketchOf(Dtype::kF64, values);
  for (const std::size_t num_sums : {32, 16, 8}) {
    const Sums defined = Defined(values, num_sums);
    const Sketch direct = SketchOf(Dtype::kF64, values, num_sums), folded = Folded(all, num_sums);
    EXPECT_EQ(direct.numbers, folded.numbers);
    ASSERT_EQ(folded.numbers.size(), num_sums);
    for (std::size_t b = 0; b < num_sums; ++b) EXPECT_NEAR(folded.numbers[b], defined[b], 1e-9);
    EXPECT_EQ(Folded(Folded(all, 32), 8).size(), 8u);
  }
  std::vector<double> whole_numbers(5000);  // no rounding: equal bits
  for (std::size_t i = 0; i < whole_numbers.size(); ++i) whole_numbers[i] = static_cast<double>(i % 97) - 48;
  EXPECT_EQ(SketchOf(Dtype::kF64, whole_numbers, 16).numbers, Defined(whole_numbers, 16));
}

TEST(Sketch, HasTheSameBitsForOneAndSixteenThreads) {
  const std::vector<float> data = RandomFloats((1 << 20) + 12345);
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(data.size())}, strides{1};
  const Sums defined = Defined(Doubles(data));
  ForEachTarget([&] {
    for (const std::size_t num_threads : {1u, 16u}) {
      SummaryRequest request;
      request.sketch_sums = 64;
      SummaryTask task(View(Dtype::kF32, data, shape, strides), request);
      std::vector<std::thread> threads;
      for (std::size_t first = 0; first < num_threads; ++first) {
        threads.emplace_back([&, first] {
          for (std::size_t chunk = first; chunk < task.num_chunks(); chunk += num_threads)
            task.RunChunk(chunk);
        });
      }
      for (std::thread& thread : threads) thread.join();
      EXPECT_EQ(task.Finish().sketch->numbers, defined) << num_threads;
    }
  });
}

TEST(Sketch, TakesWhatIsNoNumberOrVeryLargeAsZeroAndCountsIt) {
  ForEachTarget([] {
    for (const std::size_t count : {100u, 2048u, 5000u}) {
      std::vector<double> values = Doubles(RandomFloats(count));
      const double bad[] = {kNan, kInf, -kInf, 1.1e30, -3.4e38, 1e300};
      for (std::size_t i = 0; i < std::size(bad); ++i) values[i * 13 + 1] = bad[i];
      values[90] = 1e30;  // still counts
      values[91] = -1e30;
      const Sketch sketch = SketchOf(Dtype::kF64, values);
      EXPECT_EQ(sketch.num_bad, std::size(bad));
      EXPECT_EQ(sketch.numbers, Defined(values));
      const std::vector<float> floats(values.begin(), values.end());
      const Sketch of_floats = SketchOf(Dtype::kF32, floats);
      EXPECT_EQ(of_floats.num_bad, std::size(bad) + (floats[90] > 1e30) * 2u);
      EXPECT_EQ(of_floats.numbers, Defined(Doubles(floats)));
    }
    // NaN first, where the range of the tensor is one of NaN too; and in the last chunk alone.
    std::vector<float> values = RandomFloats(70000);
    values[69999] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(SketchOf(Dtype::kF32, values).num_bad, 1u);
    values[0] = values[69999];
    const Sketch sketch = SketchOf(Dtype::kF32, values);
    EXPECT_EQ(sketch.num_bad, 2u);
    EXPECT_EQ(sketch.numbers, Defined(Doubles(values)));
    // Every element -inf, as in a mask.
    const Sketch mask =
        SketchOf(Dtype::kF32, std::vector<float>(1000, -std::numeric_limits<float>::infinity()));
    EXPECT_EQ(mask.num_bad, 1000u);
    EXPECT_EQ(mask.numbers, Sums(64, 0.0));
  });
}

TEST(Sketch, OfIntegersBoolsAndHalvesIsThatOfTheirValues) {
  ForEachTarget([] {
    std::vector<std::uint8_t> bools(1000), bytes(1000);
    std::vector<std::int8_t> small(1000);
    std::vector<std::int64_t> large(1000);
    std::vector<std::uint64_t> largest(1000);
    std::vector<std::uint16_t> halves(1000), brains(1000);
    std::vector<double> half_values, brain_values, largest_values;
    for (std::size_t i = 0; i < 1000; ++i) {
      bools[i] = i % 3 == 0;
      bytes[i] = static_cast<std::uint8_t>(i * 7);
      small[i] = static_cast<std::int8_t>(i * 5);
      large[i] = static_cast<std::int64_t>(i) * 1000003 - 40000000;
      largest[i] = std::numeric_limits<std::uint64_t>::max() - (i << 13);
      largest_values.push_back(static_cast<double>(largest[i]));
      halves[i] = static_cast<std::uint16_t>(0x3C00 + i);  // 1 + i / 1024
      half_values.push_back(1 + static_cast<double>(i) / 1024);
      brains[i] = static_cast<std::uint16_t>(0xBF80 + i % 128);  // -(1 + i / 128)
      brain_values.push_back(-(1 + static_cast<double>(i % 128) / 128));
    }
    EXPECT_EQ(SketchOf(Dtype::kBool, bools).numbers, Defined(Doubles(bools)));
    EXPECT_EQ(SketchOf(Dtype::kU8, bytes).numbers, Defined(Doubles(bytes)));
    EXPECT_EQ(SketchOf(Dtype::kI8, small).numbers, Defined(Doubles(small)));
    EXPECT_EQ(SketchOf(Dtype::kI64, large).numbers, Defined(Doubles(large)));
    EXPECT_EQ(SketchOf(Dtype::kU64, largest).numbers, Defined(largest_values));
    EXPECT_EQ(SketchOf(Dtype::kF16, halves).numbers, Defined(half_values));
    EXPECT_EQ(SketchOf(Dtype::kBF16, brains).numbers, Defined(brain_values));
    halves[77] = 0x7C00;  // infinite
    half_values[77] = kInf;
    EXPECT_EQ(SketchOf(Dtype::kF16, halves).num_bad, 1u);
    EXPECT_EQ(SketchOf(Dtype::kF16, halves).numbers, Defined(half_values));
  });
}

TEST(Sketch, OfComplexNumbersIsThatOfTheRealPartsThenOfTheImaginary) {
  ForEachTarget([] {
    std::vector<std::complex<float>> data(3000);
    std::vector<double> real, imaginary;
    const std::vector<float> random = RandomFloats(6000);
    for (std::size_t i = 0; i < data.size(); ++i) {
      data[i] = {random[2 * i], random[2 * i + 1]};
      if (i == 5) data[i].imag(std::numeric_limits<float>::quiet_NaN());
      real.push_back(data[i].real());
      imaginary.push_back(data[i].imag());
    }
    const Sketch sketch = SketchOf(Dtype::kC64, data);
    Sums expected = Defined(real);
    const Sums second = Defined(imaginary);
    expected.insert(expected.end(), second.begin(), second.end());
    EXPECT_TRUE(sketch.is_complex);
    EXPECT_EQ(sketch.numbers, expected);
    EXPECT_EQ(sketch.num_bad, 1u);
    EXPECT_EQ(SketchOf(Dtype::kC64, data, 16).numbers.size(), 32u);
    const std::vector<std::complex<double>> few{{1, 2}, {3, kInf}};
    EXPECT_EQ(SketchOf(Dtype::kC128, few).numbers, (Sums{1, 3, 2, kInf}));
  });
}

TEST(Sketch, FollowsTheOrderOfElementsNotOfMemory) {
  const std::vector<float> data = RandomFloats(60 * 50 * 2);
  const std::vector<std::int64_t> shape{50, 60}, permuted{1, 50}, gaps{120, 2}, repeated{0, 1};
  const auto gathered = [&](const std::vector<std::int64_t>& strides) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < shape[0]; ++i) {
      for (std::int64_t j = 0; j < shape[1]; ++j)
        values.push_back(data[static_cast<std::size_t>(i * strides[0] + j * strides[1])]);
    }
    return values;
  };
  ForEachTarget([&] {
    for (const auto& strides : {permuted, gaps, repeated}) {
      const Sketch sketch = SketchOf(View(Dtype::kF32, data, shape, strides));
      EXPECT_EQ(sketch.numbers, Defined(gathered(strides)));
    }
  });
  // A reshaped tensor has the same one.
  const std::vector<std::int64_t> flat{3000}, one{1}, cube{10, 30, 10}, strides{300, 10, 1};
  EXPECT_EQ(SketchOf(View(Dtype::kF32, data, flat, one)).numbers,
            SketchOf(View(Dtype::kF32, data, cube, strides)).numbers);
}

TEST(Sketch, KeepsFewElementsWhole) {
  ForEachTarget([] {
    const std::vector<float> data{1.5f, -2, std::numeric_limits<float>::infinity(), 2e37f};
    const std::vector<std::int64_t> shape{2, 2}, transposed{1, 2};
    const Sketch sketch = SketchOf(View(Dtype::kF32, data, shape, transposed), 8);
    EXPECT_TRUE(sketch.whole);
    EXPECT_EQ(sketch.numbers, (Sums{1.5, kInf, -2, static_cast<double>(data[3])}));
    EXPECT_EQ(sketch.num_bad, 0u);
    EXPECT_TRUE(SketchOf(Dtype::kF32, RandomFloats(63)).whole);
    EXPECT_FALSE(SketchOf(Dtype::kF32, RandomFloats(64)).whole);
    const std::vector<std::int64_t> none;
    EXPECT_EQ(SketchOf(View(Dtype::kF32, data, none, none)).numbers, Sums{1.5});
  });
}

TEST(Sketch, IsNotThereUnlessAskedFor) {
  const std::vector<float> data = RandomFloats(100);
  const std::vector<std::int64_t> shape{100}, strides{1};
  EXPECT_EQ(Summarize(View(Dtype::kF32, data, shape, strides), {}).sketch, nullptr);
  SummaryRequest without_statistics{.statistics = false, .crc32 = true};
  without_statistics.sketch_sums = 64;
  EXPECT_EQ(Summarize(View(Dtype::kF32, data, shape, strides), without_statistics).sketch, nullptr);
}

// ---- estimates

double Norm(const std::vector<double>& values) {
  double sum_sq = 0;
  for (const double value : values) sum_sq += value * value;
  return std::sqrt(sum_sq);
}
struct Exact {
  double relative, cosine;
};
Exact ExactOf(const std::vector<double>& t, const std::vector<double>& g) {
  double dot = 0, sum_sq = 0;
  for (std::size_t i = 0; i < t.size(); ++i) {
    dot += t[i] * g[i];
    sum_sq += (t[i] - g[i]) * (t[i] - g[i]);
  }
  return {std::sqrt(sum_sq) / Norm(g), dot / (Norm(t) * Norm(g))};
}

// The accuracy table of the format: ratios of estimate and truth, of errors of many kinds.
TEST(SketchEstimate, IsRightWithinWhatTheFormatPromises) {
  constexpr std::size_t kPairs = 600;
  struct Bound {
    std::size_t num_sums;
    double low, high, rms;  // of 5 % and 95 % of the ratios, and their root mean square error
  };
  constexpr Bound kBounds[] = {
      {8, 0.50, 1.45, 0.30}, {16, 0.64, 1.35, 0.22}, {32, 0.75, 1.23, 0.16}, {64, 0.82, 1.17, 0.12}};
  std::array<std::vector<double>, 4> ratios, cosines;
  std::mt19937_64 random(20261);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> exponent(-6, -1);
  for (std::size_t pair = 0; pair < kPairs; ++pair) {
    const std::size_t columns = std::size_t{16} << random() % 5, count = columns * (20 + random() % 60);
    std::vector<double> golden(count), target(count);
    const double size = std::pow(10, exponent(random));
    const std::size_t bad_column = random() % columns;
    for (std::size_t i = 0; i < count; ++i) {
      golden[i] = normal(random);
      const double error = pair % 3 == 0   ? golden[i] * normal(random)          // relative to each element
                           : pair % 3 == 1 ? normal(random)                      // everywhere alike
                                           : (i % columns == bad_column) * 3.0;  // one column is shifted
      target[i] = golden[i] + size * error;
    }
    const Exact exact = ExactOf(target, golden);
    const Sketch t = SketchOf(Dtype::kF64, target), g = SketchOf(Dtype::kF64, golden);
    for (std::size_t k = 0; k < std::size(kBounds); ++k) {
      const auto estimate = EstimateDifference(Folded(t, kBounds[k].num_sums), Folded(g, kBounds[k].num_sums),
                                               SketchNorms{Norm(target), Norm(golden)});
      ASSERT_TRUE(estimate);
      ratios[k].push_back(estimate->relative_error / exact.relative);
      EXPECT_NEAR(estimate->error_norm / (estimate->relative_error * Norm(golden)), 1, 1e-12);
      if (pair % 3 != 2) cosines[k].push_back((1 - estimate->cosine) / (1 - exact.cosine));
    }
  }
  for (std::size_t k = 0; k < std::size(kBounds); ++k) {
    SCOPED_TRACE(kBounds[k].num_sums);
    std::sort(ratios[k].begin(), ratios[k].end());
    double sum_sq = 0;
    for (const double ratio : ratios[k]) sum_sq += (ratio - 1) * (ratio - 1);
    const double low = ratios[k][kPairs / 20], high = ratios[k][kPairs - kPairs / 20],
                 median = ratios[k][kPairs / 2];
    RecordProperty("quantiles_" + std::to_string(kBounds[k].num_sums),
                   std::to_string(low) + " " + std::to_string(median) + " " + std::to_string(high) + " rms " +
                       std::to_string(std::sqrt(sum_sq / kPairs)));
    EXPECT_GT(low, kBounds[k].low);
    EXPECT_LT(high, kBounds[k].high);
    EXPECT_NEAR(median, 1, 0.08);
    EXPECT_LT(std::sqrt(sum_sq / kPairs), kBounds[k].rms);
    std::sort(cosines[k].begin(), cosines[k].end());
    if (kBounds[k].num_sums == 64) {  // 1 - cosine: twice the error of the norm
      EXPECT_GT(cosines[k][cosines[k].size() / 20], 0.65);
      EXPECT_LT(cosines[k][cosines[k].size() - cosines[k].size() / 20], 1.4);
    }
  }
}

TEST(SketchEstimate, SeesErrorsOfOneInTenMillion) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  for (const double size : {1e-6, 1e-7, 1e-8}) {
    std::vector<double> golden(1000000), target(1000000);
    for (std::size_t i = 0; i < golden.size(); ++i) {
      golden[i] = normal(random);
      target[i] = golden[i] * (1 + size * normal(random));
    }
    const auto estimate = EstimateDifference(SketchOf(Dtype::kF64, target), SketchOf(Dtype::kF64, golden),
                                             SketchNorms{Norm(target), Norm(golden)});
    EXPECT_NEAR(estimate->relative_error / size, 1, 0.3) << size;
  }
}

TEST(SketchEstimate, OfAScaledTensorHasTheErrorAndNoAngle) {
  const std::vector<double> golden = Doubles(RandomFloats(100000));
  std::vector<double> target = golden;
  for (double& value : target) value *= 1.02;
  const Sketch t = SketchOf(Dtype::kF64, target), g = SketchOf(Dtype::kF64, golden);
  for (const bool exact : {true, false}) {
    const auto estimate = EstimateDifference(
        t, g, exact ? std::optional(SketchNorms{Norm(target), Norm(golden)}) : std::nullopt);
    EXPECT_NEAR(estimate->relative_error, 0.02, 0.006);
    EXPECT_NEAR(estimate->cosine, 1, 1e-12);
  }
}

TEST(SketchEstimate, FindsOneWrongElementExactly) {
  std::vector<double> golden = Doubles(RandomFloats(100000)), target = golden;
  target[4711] += 2.5;
  const auto estimate = EstimateDifference(SketchOf(Dtype::kF64, target), SketchOf(Dtype::kF64, golden), {});
  EXPECT_NEAR(estimate->error_norm, 2.5, 1e-9);
  EXPECT_TRUE(estimate->is_in_one_sum);
  for (double& value : target) value += 1;
  EXPECT_FALSE(
      EstimateDifference(SketchOf(Dtype::kF64, target), SketchOf(Dtype::kF64, golden), {})->is_in_one_sum);
}

TEST(SketchEstimate, FoldsTheFinerOfTwo) {
  const std::vector<double> golden = Doubles(RandomFloats(5000)), target = Doubles(RandomFloats(5000, 8));
  const Sketch fine = SketchOf(Dtype::kF64, target), coarse = SketchOf(Dtype::kF64, golden, 16);
  const auto both = EstimateDifference(fine, coarse, {}), turned = EstimateDifference(coarse, fine, {});
  EXPECT_EQ(both->error_norm, EstimateDifference(Folded(fine, 16), coarse, {})->error_norm);
  EXPECT_EQ(turned->error_norm, both->error_norm);
}

TEST(SketchEstimate, OfFewElementsIsExact) {
  const std::vector<double> golden{3, 4, 0, kInf, kNan}, target{3, 4, 1, kInf, 2};
  const Sketch t = SketchOf(Dtype::kF64, target), g = SketchOf(Dtype::kF64, golden);
  const auto estimate = EstimateDifference(t, g, SketchNorms{99, 99});
  EXPECT_DOUBLE_EQ(estimate->error_norm, std::sqrt(1 + 4));
  EXPECT_DOUBLE_EQ(estimate->relative_error, std::sqrt(5) / 5);
  EXPECT_NEAR(estimate->cosine, 25 / (5 * std::sqrt(30)), 1e-12);
}

TEST(SketchEstimate, HasNothingToSayOfTensorsThatAreNotAlike) {
  const Sketch few = SketchOf(Dtype::kF32, RandomFloats(63)), fewer = SketchOf(Dtype::kF32, RandomFloats(62));
  const Sketch many = SketchOf(Dtype::kF32, RandomFloats(64));
  EXPECT_FALSE(EstimateDifference(few, many, {}));
  EXPECT_FALSE(EstimateDifference(few, fewer, {}));
  const Sketch pairs = SketchOf(Dtype::kC64, std::vector<std::complex<float>>(64));
  EXPECT_FALSE(EstimateDifference(pairs, many, {}));
}

TEST(SketchEstimate, HasAnAnswerForTensorsOfZeros) {
  const std::vector<double> zeros(100), ones(100, 1.0);
  const Sketch zero = SketchOf(Dtype::kF64, zeros), one = SketchOf(Dtype::kF64, ones);
  const auto both = EstimateDifference(zero, zero, {}),
             golden = EstimateDifference(one, zero, SketchNorms{10, 0});
  EXPECT_EQ(both->relative_error, 0);
  EXPECT_EQ(both->cosine, 1);
  EXPECT_EQ(golden->relative_error, kInf);
  EXPECT_EQ(golden->cosine, 0);
}

}  // namespace
}  // namespace vernier

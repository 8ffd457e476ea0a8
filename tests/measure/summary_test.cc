#include "measure/summary.h"

#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <libdeflate.h>

#include "measure/kernels_internal.h"

namespace vernier {
namespace {

using internal::AvailableTargets;
using internal::ForceTarget;

template <class Fn>
void ForEachTarget(Fn&& fn) {
  for (const std::string_view target : AvailableTargets()) {
    ASSERT_TRUE(ForceTarget(target));
    SCOPED_TRACE(std::string(target));
    fn();
  }
  ForceTarget("");
}

template <class T>
StridedTensor View(Dtype dtype, const std::vector<T>& data, const std::vector<std::int64_t>& shape,
                   const std::vector<std::int64_t>& strides, std::size_t first = 0) {
  return {dtype, reinterpret_cast<const std::byte*>(data.data() + first), shape, strides};
}

std::vector<float> RandomFloats(std::size_t count, unsigned seed = 7) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.25f, 3.0f);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// What any reader can check by eye.
struct Plain {
  double min, max, sum = 0, sum_sq = 0;
  explicit Plain(const std::vector<double>& values) : min(values[0]), max(values[0]) {
    for (const double value : values) {
      min = std::min(min, value);
      max = std::max(max, value);
      sum += value;
      sum_sq += value * value;
    }
  }
};

void ExpectClose(const Summary& summary, const std::vector<double>& values) {
  const Plain plain(values);
  EXPECT_EQ(summary.num_elements, values.size());
  EXPECT_EQ(summary.min, plain.min);
  EXPECT_EQ(summary.max, plain.max);
  EXPECT_NEAR(summary.sum, plain.sum, 1e-12 * (std::abs(plain.sum) + std::sqrt(plain.sum_sq) + 1));
  EXPECT_NEAR(summary.sum_sq, plain.sum_sq, 1e-12 * plain.sum_sq);
}

TEST(Summary, MatchesThePlainLoopAtEveryTailLength) {
  ForEachTarget([] {
    for (const std::int64_t count : {1, 2, 15, 16, 17, 31, 32, 33, 63, 65, 2047, 2048, 2049, 4099}) {
      for (const std::size_t skip : {0, 1, 3}) {
        const std::vector<float> data = RandomFloats(static_cast<std::size_t>(count) + skip);
        const Summary summary = Summarize(View(Dtype::kF32, data, {count}, {1}, skip), {});
        ExpectClose(summary,
                    std::vector<double>(data.begin() + static_cast<std::ptrdiff_t>(skip), data.end()));
      }
    }
  });
}

TEST(Summary, HasTheSameBitsOnEveryTargetAndInAnyOrderOfChunks) {
  const std::vector<float> data = RandomFloats((1 << 19) + 12345);
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(data.size())}, strides{1};
  std::vector<Summary> found;
  SummaryRequest request;
  request.crc32 = request.xor64 = true;
  ForEachTarget([&] {
    found.push_back(Summarize(View(Dtype::kF32, data, shape, strides), request));
    SummaryTask task(View(Dtype::kF32, data, shape, strides), request);
    ASSERT_GE(task.num_chunks(), 3u);
    for (std::size_t chunk = task.num_chunks(); chunk-- > 0;) task.RunChunk(chunk);
    found.push_back(task.Finish());
  });
  for (const Summary& summary : found) EXPECT_TRUE(summary == found[0]);
  EXPECT_EQ(found[0].crc32, libdeflate_crc32(0, data.data(), data.size() * sizeof data[0]));
}

TEST(Summary, SixteenBitFloatsHaveTheSameBitsOnEveryTarget) {
  std::mt19937 random(3);
  std::vector<std::uint16_t> data(5003);
  for (std::uint16_t& bits : data)
    bits = static_cast<std::uint16_t>(random() & 0xBBFF);  // all finite, some tiny
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBF16}) {
    std::vector<Summary> found;
    ForEachTarget([&] { found.push_back(Summarize(View(dtype, data, {5003}, {1}), {})); });
    for (const Summary& summary : found) EXPECT_TRUE(summary == found[0]) << Name(dtype);
    EXPECT_GT(found[0].sum_sq, 0);
  }
}

TEST(Summary, SixteenBitFloatsCountAsTheirValues) {
  ForEachTarget([] {
    std::vector<std::uint16_t> half, brain;
    std::vector<double> half_values, brain_values;
    for (int i = 0; i < 100; ++i) {
      half.push_back(static_cast<std::uint16_t>(0x3C00 + i));  // 1 + i / 1024
      half_values.push_back(1 + i / 1024.0);
      brain.push_back(static_cast<std::uint16_t>(0xBF80 + i));
      brain_values.push_back(std::bit_cast<float>((0xBF80u + static_cast<unsigned>(i)) << 16));
    }
    ExpectClose(Summarize(View(Dtype::kF16, half, {100}, {1}), {}), half_values);
    ExpectClose(Summarize(View(Dtype::kBF16, brain, {10, 10}, {10, 1}), {}), brain_values);
  });
}

template <class T>
void ExpectExactIntegers(Dtype dtype) {
  SCOPED_TRACE(std::string(Name(dtype)));
  constexpr T kMin = std::numeric_limits<T>::min(), kMax = std::numeric_limits<T>::max();
  for (const std::size_t count : {1u, 5u, 64u, 65u, 3000u}) {
    std::vector<T> data(count, T{3});
    data[count / 2] = kMax;
    data[count - 1] = kMin;
    const std::int64_t size = static_cast<std::int64_t>(count);
    const Summary summary = Summarize(View(dtype, data, {size}, {1}), {});
    EXPECT_EQ(static_cast<T>(summary.integer_min), kMin) << count;
    EXPECT_EQ(static_cast<T>(summary.integer_max), count == 1 ? kMin : kMax) << count;
  }
}

TEST(Summary, ExtremesOfIntegersAreExact) {
  ForEachTarget([] {
    ExpectExactIntegers<std::int8_t>(Dtype::kI8);
    ExpectExactIntegers<std::uint8_t>(Dtype::kU8);
    ExpectExactIntegers<std::int16_t>(Dtype::kI16);
    ExpectExactIntegers<std::uint16_t>(Dtype::kU16);
    ExpectExactIntegers<std::int32_t>(Dtype::kI32);
    ExpectExactIntegers<std::uint32_t>(Dtype::kU32);
    ExpectExactIntegers<std::int64_t>(Dtype::kI64);
    ExpectExactIntegers<std::uint64_t>(Dtype::kU64);
  });
}

TEST(Summary, IntegersAreSummedOnlyWhenAsked) {
  const std::vector<std::int64_t> data{1, -2, 3};
  EXPECT_EQ(Summarize(View(Dtype::kI64, data, {3}, {1}), {}).sum, 0);
  SummaryRequest request;
  request.sums_of_integers = true;
  EXPECT_EQ(Summarize(View(Dtype::kI64, data, {3}, {1}), request).sum, 2);
  EXPECT_EQ(Summarize(View(Dtype::kI64, data, {3}, {1}), request).sum_sq, 14);
}

TEST(Summary, ComplexNumbersCountByMagnitude) {
  const std::vector<std::complex<float>> data{{3, 4}, {0, 0}, {-5, 12}};
  ExpectClose(Summarize(View(Dtype::kC64, data, {3}, {1}), {}), {5, 0, 13});
}

TEST(Summary, InfiniteHalvesAreInfiniteOnEveryTarget) {
  ForEachTarget([] {
    for (const std::size_t at : {0u, 40u, 99u}) {
      std::vector<std::uint16_t> half(100, 0x3C00);
      half[at] = 0x7E00;  // NaN
      EXPECT_TRUE(Summarize(View(Dtype::kF16, half, {100}, {1}), {}).has_nan());
      half[at] = 0x7C00;
      const Summary summary = Summarize(View(Dtype::kF16, half, {100}, {1}), {});
      EXPECT_EQ(summary.max, std::numeric_limits<double>::infinity());
      EXPECT_EQ(summary.sum, std::numeric_limits<double>::infinity());
    }
  });
}

TEST(Summary, OnlyANanMakesTheSumOfSquaresOne) {
  constexpr float kInf = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN();
  ForEachTarget([&] {
    for (const std::size_t at : {0u, 40u, 99u}) {
      std::vector<float> data(100, 1.0f);
      data[at] = kNan;
      EXPECT_TRUE(Summarize(View(Dtype::kF32, data, {100}, {1}), {}).has_nan());
      data[at] = kInf;
      data[99 - at] = -kInf;
      const Summary summary = Summarize(View(Dtype::kF32, data, {100}, {1}), {});
      EXPECT_FALSE(summary.has_nan());
      EXPECT_TRUE(std::isnan(summary.sum));
      EXPECT_EQ(summary.sum_sq, kInf);
      EXPECT_EQ(summary.min, -kInf);
      EXPECT_EQ(summary.max, kInf);
    }
  });
}

TEST(Summary, TheSignOfZeroIsThatOfTheLastOne) {
  ForEachTarget([] {
    std::vector<float> zeros(70, 0.0f);
    EXPECT_FALSE(std::signbit(Summarize(View(Dtype::kF32, zeros, {70}, {1}), {}).min));
    zeros.back() = -0.0f;
    EXPECT_TRUE(std::signbit(Summarize(View(Dtype::kF32, zeros, {70}, {1}), {}).max));
    zeros[3] = 1.0f;
    EXPECT_FALSE(std::signbit(Summarize(View(Dtype::kF32, zeros, {70}, {1}), {}).min));
  });
}

struct Layout {
  const char* what;
  std::vector<std::int64_t> shape, strides;
};
const Layout kLayouts[] = {
    {"C order", {6, 7, 8}, {56, 8, 1}},
    {"transposed", {8, 6, 7}, {1, 56, 8}},
    {"rows with gaps", {5, 3}, {9, 1}},
    {"every third", {40}, {3}},
    {"columns", {7, 5}, {1, 11}},
    {"expanded inside", {4, 6, 3}, {6, 1, 0}},
    {"expanded outside", {9, 4}, {0, 2}},
    {"one element", {1, 1}, {77, 5}},
    {"scalar", {}, {}},
    {"one everywhere", {1, 6, 1, 4}, {3, 4, 999, 1}},
    {"all expanded", {3, 3}, {0, 0}},
    {"overlapping", {4, 4}, {1, 1}},
    {"large with gaps", {300, 70}, {150, 2}},
    {"large transposed", {70, 300}, {1, 70}},
    {"heads", {3, 40, 50}, {50, 1, 151}},
    {"wide rows across", {6, 3000}, {1, 7}},
};

std::vector<float> InOrder(const Layout& layout, const std::vector<float>& data) {
  std::vector<float> values;
  std::vector<std::int64_t> index(layout.shape.size(), 0);
  while (true) {
    values.push_back(data[static_cast<std::size_t>(
        std::inner_product(index.begin(), index.end(), layout.strides.begin(), std::int64_t{0}))]);
    std::size_t axis = index.size();
    while (axis > 0 && ++index[axis - 1] == layout.shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return values;
  }
}

TEST(Summary, SeesEveryLayoutInLogicalOrder) {
  const std::vector<float> data = RandomFloats(50000);
  for (const Layout& layout : kLayouts) {
    SCOPED_TRACE(layout.what);
    const std::vector<float> values = InOrder(layout, data);
    const StridedTensor tensor = View(Dtype::kF32, data, layout.shape, layout.strides);
    ExpectClose(Summarize(tensor, {}), std::vector<double>(values.begin(), values.end()));

    std::vector<float> copy(values.size());
    SummaryRequest request;
    request.crc32 = request.xor64 = true;
    request.copy = reinterpret_cast<std::byte*>(copy.data());
    const Summary summary = Summarize(tensor, request);
    ExpectClose(summary, std::vector<double>(values.begin(), values.end()));
    EXPECT_EQ(copy, values);
    EXPECT_EQ(summary.crc32, libdeflate_crc32(0, values.data(), values.size() * sizeof values[0]));
  }
}

TEST(Summary, CopiesLargeTensorsExactly) {
  const std::vector<float> data = RandomFloats((1 << 19) + 77);
  ForEachTarget([&] {
    for (const std::size_t skip : {0, 1}) {  // of the place they are copied to
      std::vector<float> copy(data.size() + skip, -1.0f);
      SummaryRequest request;
      request.crc32 = true;
      request.copy = reinterpret_cast<std::byte*>(copy.data() + skip);
      const Summary summary =
          Summarize(View(Dtype::kF32, data, {static_cast<std::int64_t>(data.size())}, {1}), request);
      EXPECT_EQ(std::memcmp(copy.data() + skip, data.data(), data.size() * sizeof data[0]), 0);
      EXPECT_EQ(summary.crc32, libdeflate_crc32(0, data.data(), data.size() * sizeof data[0]));
    }
  });
}

TEST(Summary, XorPadsTheLastWordWithZeros) {
  ForEachTarget([] {
    SummaryRequest request;
    request.xor64 = true;
    const std::vector<std::uint8_t> bytes{5, 3, 250};
    EXPECT_EQ(Summarize(View(Dtype::kU8, bytes, {3}, {1}), request).xor64, 0xfa0305u);
    const std::vector<std::int64_t> words{7, -3, 7};
    EXPECT_EQ(Summarize(View(Dtype::kI64, words, {3}, {1}), request).xor64, ~std::uint64_t{0} - 2);
    const std::vector<std::uint8_t> many(1001, 0x11);  // 125 words and a byte
    EXPECT_EQ(Summarize(View(Dtype::kU8, many, {1001}, {1}), request).xor64, 0x1111111111111100u);
  });
}

TEST(Summary, Float8HasDigestsOnly) {
  const std::vector<std::uint8_t> bytes{1, 2, 3};
  SummaryRequest request;
  request.crc32 = true;
  const Summary summary = Summarize(View(Dtype::kF8E4M3FN, bytes, {3}, {1}), request);
  EXPECT_EQ(summary.crc32, libdeflate_crc32(0, bytes.data(), bytes.size()));
  EXPECT_EQ(summary.sum, 0);
  EXPECT_FALSE(HasSummary(Dtype::kF8E5M2));
  EXPECT_TRUE(HasSummary(Dtype::kBool));
}

}  // namespace
}  // namespace vernier

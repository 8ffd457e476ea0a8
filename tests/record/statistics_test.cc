// The numbers of a descriptor, for every kind of tensor.
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <sstream>

#include "core/python_text.h"
#include "recording.h"

namespace vernier {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

// Max, Min, Mean, Norm and md5, as far as the descriptor has them.
std::string Described(const Words& words, const RecorderOptions& options = {}) {
  Recording recording(options);
  recording.Put("A.0.forward", "{\"output\":[\x01]}", words);
  const std::string text = recording.Document();
  const std::vector<std::string> digest = ValuesOf(text, "md5");
  return Statistics(text) + (digest.empty() ? "" : " " + digest[0]);
}

RecorderOptions Mode(SummaryMode mode) {
  RecorderOptions options;
  options.summary = mode;
  return options;
}

RecorderOptions HighPrecision() {
  RecorderOptions options;
  options.high_precision = true;
  return options;
}

template <class T>
std::string DescribedVector(Dtype dtype, const std::vector<T>& values, const RecorderOptions& options = {}) {
  return Described(Tensor(values.data(), dtype, {static_cast<std::int64_t>(values.size())}), options);
}

TEST(Statistics, SquaresAreRoundedToFloat) {
  // 9e-46 is nearest to the smallest number of float, 1.4e-45; 1e-46 to zero.
  EXPECT_EQ(DescribedVector(Dtype::kF32, std::vector<float>(4, 3e-23f)),
            "3.000000157232057e-23 3.000000157232057e-23 3.000000157232057e-23 7.486784133018432e-23");
  EXPECT_EQ(DescribedVector(Dtype::kF32, std::vector<float>(4, 1e-23f)),
            "9.999999998199587e-24 9.999999998199587e-24 9.999999998199587e-24 0.0");
}

TEST(Statistics, OfArraysAreThoseOfNumPy) {
  const auto described = [](auto values, Dtype dtype, SummaryMode summary) {
    RecorderOptions options;
    options.summary = summary;
    auto words = Tensor(values.data(), dtype, {static_cast<std::int64_t>(values.size())});
    words[4] |= kArray;
    return Described(words, options);
  };
  for (const SummaryMode mode : {SummaryMode::kStatistics, SummaryMode::kMd5, SummaryMode::kXor}) {
    EXPECT_EQ(described(std::vector<double>{3, 4}, Dtype::kF64, mode), "4.0 3.0 3.5 5.0");
    EXPECT_EQ(described(std::vector<std::int32_t>{3, 4}, Dtype::kI32, mode), "4 3 3.5 5.0");
    EXPECT_EQ(described(std::vector<float>{3, 4}, Dtype::kF32, mode), "4.0 3.0 3.5 5.0");
  }
}

TEST(Statistics, FollowTheTableForEveryDtype) {
  EXPECT_EQ(DescribedVector<float>(Dtype::kF32, {1.5f, -2.25f, 0.1f, 3}),
            "3.0 -2.25 0.5874999761581421 4.040111541748047");
  EXPECT_EQ(DescribedVector<double>(Dtype::kF64, {1.5, -2.25, 0.1}), "1.5 -2.25 null null");
  EXPECT_EQ(DescribedVector<std::uint16_t>(Dtype::kF16, std::vector<std::uint16_t>(8, 0x7B53)),  // 60000
            "60000.0 60000.0 Infinity Infinity");
  EXPECT_EQ(DescribedVector<std::uint16_t>(Dtype::kF16, {0x7BFF, 0x3E00}), "65504.0 1.5 32752.0 Infinity");
  EXPECT_EQ(DescribedVector<std::uint16_t>(Dtype::kBF16, {0x3FC0, 0xC010, 0x3DCD, 0x4040}),
            "3.0 -2.25 0.5859375 4.03125");
  EXPECT_EQ(DescribedVector<std::int8_t>(Dtype::kI8, {5, -3}), "5 -3 null null");
  EXPECT_EQ(DescribedVector<std::int64_t>(Dtype::kI64, {INT64_MAX, INT64_MIN}),
            "9223372036854775807 -9223372036854775808 null null");
  EXPECT_EQ(DescribedVector<std::uint64_t>(Dtype::kU64, {UINT64_MAX, 1}), "18446744073709551615 1 null null");
  EXPECT_EQ(DescribedVector<std::uint8_t>(Dtype::kBool, {1, 0}), "true false null null");
  EXPECT_EQ(DescribedVector<std::uint8_t>(Dtype::kBool, {1, 1}), "true true null null");
  EXPECT_EQ(DescribedVector<std::uint8_t>(Dtype::kBool, {0}), "false false null null");
  EXPECT_EQ(DescribedVector<std::complex<float>>(Dtype::kC64, {{3, 4}, {0, 0}}), "5.0 0.0 2.5 null");
  EXPECT_EQ(DescribedVector<std::uint8_t>(Dtype::kF8E4M3FN, {1, 2}), "null null null null");
}

TEST(Statistics, AScalarIsItsOwnStatistic) {
  const float number = -1.25f, nan = kNan;
  EXPECT_EQ(Described(Tensor(&number, Dtype::kF32, {})), "-1.25 -1.25 -1.25 -1.25");
  EXPECT_EQ(Described(Tensor(&nan, Dtype::kF32, {})), "NaN NaN NaN NaN");
  const double wide = 0.1;
  EXPECT_EQ(Described(Tensor(&wide, Dtype::kF64, {})), "0.1 0.1 0.1 0.1");
  const std::int64_t seven = 7;
  EXPECT_EQ(Described(Tensor(&seven, Dtype::kI64, {})), "7 7 7 7");
  const std::uint8_t yes = 1;
  EXPECT_EQ(Described(Tensor(&yes, Dtype::kBool, {})), "true true null null");
  const std::complex<float> complex(3, 4);
  EXPECT_EQ(Described(Tensor(&complex, Dtype::kC64, {})), "5.0 5.0 5.0 null");
  const std::uint8_t tiny = 8;
  EXPECT_EQ(Described(Tensor(&tiny, Dtype::kF8E5M2, {})), "null null null null");
}

TEST(Statistics, NotFiniteNumbersSpreadAsInTorch) {
  EXPECT_EQ(DescribedVector<float>(Dtype::kF32, {1, kInf, 2}), "Infinity 1.0 Infinity Infinity");
  EXPECT_EQ(DescribedVector<float>(Dtype::kF32, {3, -kInf, 2}), "3.0 -Infinity -Infinity Infinity");
  EXPECT_EQ(DescribedVector<float>(Dtype::kF32, {kInf, -kInf}), "Infinity -Infinity NaN Infinity");
  EXPECT_EQ(DescribedVector<float>(Dtype::kF32, {kNan, kInf}), "NaN NaN NaN NaN");
  EXPECT_EQ(DescribedVector<float>(Dtype::kF32, {1, 2, kNan}), "NaN NaN NaN NaN");
  EXPECT_EQ(DescribedVector<double>(Dtype::kF64, {1, kNan}), "NaN NaN null null");
}

TEST(Statistics, AreNullWhereThereIsNothingToRead) {
  const float number = 1;
  EXPECT_EQ(Described(Tensor(&number, Dtype::kF32, {0, 3})), "null null null null");
  EXPECT_EQ(Described(Tensor(nullptr, Dtype::kF32, {3})), "null null null null");
  EXPECT_EQ(Described(Tensor(nullptr, Dtype::kF32, {3}, {.flags = kNoData})), "null null null null");
  Words unknown = Tensor(nullptr, Dtype::kF32, {2});
  unknown[3] = -1;
  EXPECT_EQ(Described(unknown), "null null null null");
}

TEST(Statistics, HighPrecisionComputesInDoubleAndLeavesNothingOut) {
  EXPECT_EQ(DescribedVector<double>(Dtype::kF64, {3, 4}, HighPrecision()), "4.0 3.0 3.5 5.0");
  EXPECT_EQ(DescribedVector<std::int32_t>(Dtype::kI32, {3, 4}, HighPrecision()), "4 3 3.5 5.0");
  EXPECT_EQ(DescribedVector<float>(Dtype::kF32, {1, 2, 2}, HighPrecision()),
            "2.0 1.0 1.6666666666666667 3.0");
  EXPECT_EQ(
      DescribedVector<std::uint16_t>(Dtype::kF16, std::vector<std::uint16_t>(8, 0x7B53), HighPrecision()),
      "60000.0 60000.0 60000.0 169705.6274847714");
  EXPECT_EQ(DescribedVector<std::uint8_t>(Dtype::kBool, {1, 0}, HighPrecision()), "true false null null");
}

TEST(Digests, AreOfTheBytesInOrder) {
  const RecorderOptions md5 = Mode(SummaryMode::kMd5);
  EXPECT_EQ(DescribedVector<std::uint8_t>(Dtype::kU8, {'1', '2', '3', '4', '5', '6', '7', '8', '9'}, md5),
            "57 49 null null \"cbf43926\"");  // the check value of CRC-32
  const std::vector<std::uint8_t> mixed{'1', '4', '7', '2', '5', '8', '3', '6', '9'};
  EXPECT_EQ(Described(Tensor(mixed.data(), Dtype::kU8, {3, 3}, {}, {1, 3}), md5),
            "57 49 null null \"cbf43926\"");
  EXPECT_EQ(
      DescribedVector<std::uint8_t>(Dtype::kF8E4M3FN, {'1', '2', '3', '4', '5', '6', '7', '8', '9'}, md5),
      "null null null null \"cbf43926\"");
  EXPECT_EQ(Described(Tensor(nullptr, Dtype::kF32, {0}), md5), "null null null null \"00000000\"");
  EXPECT_EQ(Described(Tensor(nullptr, Dtype::kF32, {2}, {.flags = kNoData}), md5),
            "null null null null null");
}

TEST(Digests, XorStandsInPlaceOfTheStatistics) {
  const RecorderOptions options = Mode(SummaryMode::kXor);
  EXPECT_EQ(DescribedVector<std::int64_t>(Dtype::kI64, {7, -3, 7}, options), " \"0xfffffffffffffffd\"");
  const float number = -1.25f;
  EXPECT_EQ(Described(Tensor(&number, Dtype::kF32, {}), options), " \"0x00000000bfa00000\"");
  EXPECT_EQ(Described(Tensor(nullptr, Dtype::kF32, {0}), options), " null");
}

// ---- against torch itself; data/make_data.py wrote the file

struct Case {
  std::string dtype, shape, hex, numbers[4], crc32;
  std::vector<std::uint8_t> Bytes() const {
    std::vector<std::uint8_t> bytes;
    for (std::size_t i = 0; i < hex.size(); i += 2) {
      bytes.push_back(static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
    return bytes;
  }
  std::vector<std::int64_t> Shape() const {
    std::vector<std::int64_t> sizes;
    std::istringstream parts(shape);
    for (std::string part; shape != "-" && std::getline(parts, part, '.');) sizes.push_back(std::stoll(part));
    return sizes;
  }
};

double Tolerance(const std::string& dtype) {
  return dtype == "float16" ? 0x1p-10 : dtype == "bfloat16" ? 0x1p-7 : 2e-6;
}

TEST(Statistics, AgreeWithTorch) {
  std::ifstream file(VN_TEST_DATA "/torch_statistics.txt");
  std::string line;
  int num_cases = 0;
  while (std::getline(file, line)) {
    SCOPED_TRACE(line);
    Case found;
    std::istringstream words(line);
    words >> found.dtype >> found.shape >> found.hex;
    for (std::string& number : found.numbers) words >> number;
    words >> found.crc32;
    const std::vector<std::uint8_t> bytes = found.Bytes();
    std::istringstream ours(
        Described(Tensor(bytes.data(), *ParseDtype(found.dtype), found.Shape()), Mode(SummaryMode::kMd5)));
    double magnitude = 0;
    for (int i = 0; i < 4; ++i) {
      std::string text;
      ours >> text;
      const std::string& wanted = found.numbers[i];
      if (wanted == "-") {
        EXPECT_EQ(text, "null") << i;
        continue;
      }
      if (wanted == "true" || wanted == "false") {
        EXPECT_EQ(text, wanted) << i;
        continue;
      }
      const double a = *ParsePythonFloat(text), b = *ParsePythonFloat(wanted);
      if (i < 2 && std::isfinite(b)) magnitude = std::max(magnitude, std::abs(b));
      const bool exact = i < 2 || !std::isfinite(b) || found.shape == "-";
      EXPECT_TRUE((std::isnan(a) && std::isnan(b)) || a == b ||
                  (!exact && std::abs(a - b) <= Tolerance(found.dtype) * std::max(magnitude, std::abs(b))))
          << i << ": " << text << ", torch: " << wanted;
    }
    std::string digest;
    ours >> digest;
    EXPECT_EQ(digest, "\"" + found.crc32 + "\"");
    ++num_cases;
  }
  EXPECT_GT(num_cases, 100);
}

RecorderOptions WithSketches(std::size_t num_sums) {
  RecorderOptions options;
  options.sketch_sums = num_sums;
  return options;
}

// The keys of the only tensor of a document, in order.
std::string KeysOf(const std::string& document) {
  std::string keys;
  for (std::size_t at = document.find("\"type\""); at != std::string::npos;
       at = document.find("\n     \"", at)) {
    at = document.find('"', at) + 1;
    keys += document.substr(at, document.find('"', at) - at) + " ";
  }
  return keys;
}

TEST(Sketches, StandBehindTheCompatibleFields) {
  const std::vector<float> values(100, 1.5f);
  RecorderOptions options = WithSketches(64);
  options.summary = SummaryMode::kMd5;
  options.tensors = true;
  Recording recording(options);
  recording.Put("A.0.forward", "{\"output\":[\x01{\"after\":{\"mine\":1}}]}", Floats(values));
  recording.Flush();
  EXPECT_EQ(KeysOf(recording.Document()),
            "type dtype shape Max Min Mean Norm requires_grad mine sketch data_name md5 ");
  EXPECT_EQ(ValuesOf(recording.Document(), "sketch").at(0).size(), 684u + 2);
}

TEST(Sketches, OfFewElementsAreTheElements) {
  const std::vector<double> values{1, -2.5};
  const auto described = [&](std::size_t num_sums) {
    Recording recording(WithSketches(num_sums));
    recording.Put("A.0.forward", "{\"output\":[\x01]}", Tensor(values.data(), Dtype::kF64, {2}));
    return recording.Document();
  };
  EXPECT_EQ(ValuesOf(described(8), "values"), std::vector<std::string>{"\"AAAAAAAA8D8AAAAAAAAEwA==\""});
  EXPECT_EQ(KeysOf(described(0)), "type dtype shape Max Min Mean Norm requires_grad ");
}

TEST(Sketches, CountWhatIsTakenAsZero) {
  std::vector<float> values(100, 1);
  values[7] = kInf;
  values[8] = kNan;
  Recording recording(WithSketches(16));
  recording.Put("A.0.forward", "{\"output\":[\x01]}", Floats(values));
  EXPECT_EQ(ValuesOf(recording.Document(), "sketch_bad"), std::vector<std::string>{"2"});
  EXPECT_EQ(ValuesOf(recording.Document(), "sketch").at(0).size(), 172u + 2);
}

TEST(Sketches, AreNotThereWhereStatisticsAreNull) {
  const std::vector<std::uint8_t> bytes(100, 3);
  Recording recording(WithSketches(64));
  const auto put = [&](const std::string& name, const Words& words) {
    recording.Put(name, "{\"output\":[\x01]}", words);
  };
  put("A.0.forward", Tensor(bytes.data(), Dtype::kF8E4M3FN, {100}));
  put("B.0.forward", Tensor(bytes.data(), Dtype::kU8, {0}));
  put("C.0.forward", Tensor(nullptr, Dtype::kF32, {100}, {.flags = kNoData}));
  EXPECT_EQ(recording.Document().find("sketch"), std::string::npos);
  EXPECT_EQ(recording.Document().find("values"), std::string::npos);
}

TEST(Sketches, AreFilledInFromElsewhere) {
  Recording recording(WithSketches(32));
  const Words deferred = Tensor(reinterpret_cast<void*>(5), Dtype::kF32, {100}, {.flags = kDeferred});
  recording.Put("A.0.forward", "{\"output\":[\x01]}", deferred);
  std::array<std::uint64_t, VN_SKETCH_WORDS> words{};
  for (std::size_t i = 0; i < 64; ++i) words[i] = std::bit_cast<std::uint64_t>(static_cast<double>(i));
  words[64] = 3;
  EXPECT_FALSE(recording->FillSketch(6, words));
  EXPECT_TRUE(recording->FillSketch(5, words));
  const std::array<std::uint64_t, 8> found{};
  EXPECT_TRUE(recording->FillFound(5, found));
  EXPECT_EQ(ValuesOf(recording.Document(), "sketch_bad"), std::vector<std::string>{"3"});
  const std::string text = ValuesOf(recording.Document(), "sketch").at(0);
  EXPECT_EQ(text.size(), 344u + 2);
  EXPECT_EQ(text.substr(0, 13), "\"AAAAAAAAQEAA");  // 0 + 32 = 32, then 34
  Recording without;
  without.Put("A.0.forward", "{\"output\":[\x01]}", deferred);
  EXPECT_FALSE(without->FillSketch(5, words));
}

}  // namespace
}  // namespace vernier

// Comparing pairs of .pt files against merely reading their bytes, in one run.
//
//   pair_bench FOLDER          128 pairs of 4 MiB, every set of columns, and one pair of 4 GiB
//   pair_bench FOLDER --small  the same with less data, to see that it works
//
// Prints a line a scenario: name, GB/s of plain reading, GB/s of comparing, their ratio. Two threads each.
// Medians of rounds in which every scenario has its turn, so that a noisy moment falls on all alike.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "format/pt_write.h"
#include "plain_reading.h"
#include "vernier/measure.h"
#include "vernier/read.h"

namespace vernier::bench {
namespace {

constexpr Groups kMsprobeColumns = Group::kDiff | Group::kStats | Group::kRelative;
constexpr Groups kNativeColumns = Group::kDiff | Group::kRelative | Group::kClose | Group::kUlp;

struct Scenario {
  const char* name;
  Dtype dtype;
  bool huge;  // one large pair instead of many
  Groups groups;
  Relative relative;
};

// clang-format off
const Scenario kScenarios[] = {
    {"float32, msprobe columns",              Dtype::kF32,  false, kMsprobeColumns, Relative::kStoredType},
    {"float32, native columns",               Dtype::kF32,  false, kNativeColumns,  Relative::kFloor},
    {"bfloat16, msprobe columns",             Dtype::kBF16, false, kMsprobeColumns, Relative::kStoredType},
    {"bfloat16, native columns",              Dtype::kBF16, false, kNativeColumns,  Relative::kFloor},
    {"float16, msprobe columns",              Dtype::kF16,  false, kMsprobeColumns, Relative::kStoredType},
    {"float16, native columns",               Dtype::kF16,  false, kNativeColumns,  Relative::kFloor},
    {"float32, one huge pair, msprobe columns", Dtype::kF32, true, kMsprobeColumns, Relative::kStoredType},
    {"float32, one huge pair, native columns",  Dtype::kF32, true, kNativeColumns,  Relative::kFloor},
};
// clang-format on

struct Files {
  std::vector<std::string> target, golden;
  std::vector<std::string> all() const {
    std::vector<std::string> both = target;
    both.insert(both.end(), golden.begin(), golden.end());
    return both;
  }
};

std::uint16_t ToBrain(float value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}
// Good enough for normal numbers around one, which is all we make.
std::uint16_t ToHalf(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude < 0x38800000u) return static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | ((magnitude - 0x38000000u) >> 13));
}

// Activations of a model that was ported: the same numbers but for rounding.
std::vector<std::byte> Values(Dtype dtype, std::size_t num_bytes, bool target) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::byte> bytes(num_bytes);
  const std::size_t item = ItemBytes(dtype), period = std::min<std::size_t>(num_bytes / item, 1 << 20);
  for (std::size_t i = 0; i < period; ++i) {
    const float golden = normal(random), noise = normal(random) * 1e-6f;
    const float value = target ? golden * (1 + (dtype == Dtype::kF32 ? noise : 1000 * noise)) : golden;
    const std::uint16_t narrow = dtype == Dtype::kF16 ? ToHalf(value) : ToBrain(value);
    std::memcpy(bytes.data() + i * item, dtype == Dtype::kF32 ? static_cast<const void*>(&value) : &narrow,
                item);
  }
  for (std::size_t at = period * item; at < num_bytes; at += period * item) {
    std::memcpy(bytes.data() + at, bytes.data(), std::min(period * item, num_bytes - at));
  }
  return bytes;
}

Files MakeFiles(const std::filesystem::path& folder, Dtype dtype, std::size_t num_pairs,
                std::size_t num_bytes) {
  Files files;
  for (const bool target : {true, false}) {
    const std::vector<std::byte> bytes = Values(dtype, num_bytes, target);
    const TensorView view =
        BorrowTensor(dtype, {static_cast<std::int64_t>(num_bytes / ItemBytes(dtype))}, bytes.data());
    for (std::size_t i = 0; i < num_pairs; ++i) {
      const std::string name = std::string(target ? "target_" : "golden_") + std::string(Name(dtype)) + "_" +
                               std::to_string(num_bytes) + "_" + std::to_string(i) + ".pt";
      const std::filesystem::path path = folder / name;
      if (!std::filesystem::exists(path) && !WritePt(path, view)) std::perror(path.c_str());
      (target ? files.target : files.golden).push_back(path.string());
    }
  }
  return files;
}

std::vector<PairMeasures> Compare(const Files& files, const Scenario& scenario) {
  MeasureOptions options;
  options.groups = scenario.groups;
  options.relative = scenario.relative;
  options.num_threads = 2;
  std::vector<PairMeasures> results;
  MeasurePairs(
      files.target.size(),
      [&](std::size_t i) -> Result<LoadedPair> {
        VN_ASSIGN_OR_RETURN(TensorView target, LoadTensorFile(files.target[i]));
        VN_ASSIGN_OR_RETURN(TensorView golden, LoadTensorFile(files.golden[i]));
        return LoadedPair{std::move(target), std::move(golden)};
      },
      options,
      [&](std::size_t, const Result<PairMeasures>& measures) {
        if (measures) results.push_back(*measures);
      });
  return results;
}

// Wrong and fast does not count.
bool AgreesWithASimpleLoop(const Files& files, const Scenario& scenario) {
  if (scenario.dtype != Dtype::kF32 || scenario.huge) return true;
  const Result<TensorView> t = LoadTensorFile(files.target[0]), g = LoadTensorFile(files.golden[0]);
  if (!t || !g) return false;
  double dot = 0, max = 0;
  for (std::uint64_t i = 0; i < t->num_elements; ++i) {
    float a, b;
    std::memcpy(&a, t->data + 4 * i, 4);
    std::memcpy(&b, g->data + 4 * i, 4);
    dot += double{a} * b;
    max = std::max(max, std::abs(double{a} - b));
  }
  const PairMeasures m = Compare({{files.target[0]}, {files.golden[0]}}, scenario).at(0);
  return m.max_abs_diff == max && std::abs(m.dot - dot) <= 1e-9 * std::abs(dot);
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

int Run(const std::filesystem::path& folder, bool small) {
  const std::size_t num_pairs = small ? 4 : 128;
  const std::size_t huge_bytes = small ? std::size_t{8} << 20 : std::size_t{4} << 30;
  for (const bool huge : {false, true}) {
    std::vector<const Scenario*> scenarios;
    std::vector<Files> files;
    for (const Scenario& scenario : kScenarios) {
      if (scenario.huge != huge) continue;
      scenarios.push_back(&scenario);
      files.push_back(huge ? MakeFiles(folder, scenario.dtype, 1, huge_bytes)
                           : MakeFiles(folder, scenario.dtype, num_pairs, std::size_t{4} << 20));
      if (!AgreesWithASimpleLoop(files.back(), scenario)) {
        std::fprintf(stderr, "%s: wrong result\n", scenario.name);
        return 1;
      }
    }
    const int rounds = small ? 1 : huge ? 3 : 7;
    std::vector<std::vector<double>> reading(scenarios.size()), comparing(scenarios.size());
    std::uint64_t sum = 0;
    for (int round = 0; round < rounds + 1; ++round) {  // the first one warms the page cache
      for (std::size_t i = 0; i < scenarios.size(); ++i) {
        const double start = Seconds();
        sum += ReadPlainly(files[i].all(), 2);
        const double between = Seconds();
        if (Compare(files[i], *scenarios[i]).size() != files[i].target.size()) return 1;
        const double end = Seconds();
        if (round == 0 && !small) continue;
        reading[i].push_back(between - start);
        comparing[i].push_back(end - between);
      }
    }
    for (std::size_t i = 0; i < scenarios.size(); ++i) {
      double bytes = 0;
      for (const std::string& file : files[i].all())
        bytes += static_cast<double>(std::filesystem::file_size(file));
      const double read = Median(reading[i]), compare = Median(comparing[i]);
      std::printf("%s|%.2f|%.2f|%.2f\n", scenarios[i]->name, bytes / read / 1e9, bytes / compare / 1e9,
                  read / compare);
      std::fflush(stdout);
    }
    for (const Files& set : files) {
      for (const std::string& file : set.all()) std::filesystem::remove(file);
    }
    if (sum == 1) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace vernier::bench

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: pair_bench FOLDER [--small]\n");
    return 2;
  }
  return vernier::bench::Run(argv[1], argc > 2 && std::string(argv[2]) == "--small");
}

// What a sketch costs beside the statistics of a tensor, on one thread.
//
//   sketch_bench [--small]
//
// Prints a line a scenario: name, ns per element of the statistics alone, with a sketch, the difference.
// The fastest of rounds in which both have their turn: what else the machine does only adds to them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "measure/summary.h"
#include "plain_reading.h"

namespace vernier::bench {
namespace {

struct Scenario {
  const char* name;
  Dtype dtype;
  std::int64_t num_elements;
};

// clang-format off
const Scenario kScenarios[] = {
    {"float32, 16 Ki elements",  Dtype::kF32,  1 << 14},
    {"float32, 1 Mi elements",   Dtype::kF32,  1 << 20},
    {"float32, 64 Mi elements",  Dtype::kF32,  1 << 26},
    {"bfloat16, 1 Mi elements",  Dtype::kBF16, 1 << 20},
    {"float64, 1 Mi elements",   Dtype::kF64,  1 << 20},
    {"int64, 1 Mi elements",     Dtype::kI64,  1 << 20},
};
// clang-format on

std::vector<std::byte> Values(const Scenario& scenario) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const std::size_t item = ItemBytes(scenario.dtype), count = static_cast<std::size_t>(scenario.num_elements);
  std::vector<std::byte> bytes(count * item);
  for (std::size_t i = 0; i < count; ++i) {
    const float value = normal(random);
    const double wide = value;
    const auto whole = static_cast<std::int64_t>(1000 * value);
    const void* from = &value;
    if (scenario.dtype == Dtype::kF64) from = &wide;
    if (scenario.dtype == Dtype::kI64) from = &whole;
    // Little endian: the upper half of a float is that number in bfloat16.
    if (scenario.dtype == Dtype::kBF16) from = reinterpret_cast<const char*>(&value) + 2;
    std::memcpy(bytes.data() + i * item, from, item);
  }
  return bytes;
}

double Fastest(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }

// Wrong and fast does not count: without its turns and signs a sketch has the sum of all elements.
bool IsRight(const StridedTensor& tensor, const Sketch& sketch) {
  if (tensor.dtype != Dtype::kF32) return true;
  std::vector<double> sums(kSketchSums);
  for (std::int64_t i = 0; i < tensor.shape[0]; ++i) {
    float value;
    std::memcpy(&value, tensor.data + 4 * i, 4);
    const auto block = static_cast<std::uint64_t>(i) / kSketchSums,
               place = static_cast<std::uint64_t>(i) % kSketchSums;
    sums[place ^ SketchTurn(block)] += (SketchSigns(block) >> place & 1) != 0 ? -value : value;
  }
  for (std::size_t b = 0; b < kSketchSums; ++b) {
    if (std::abs(sums[b] - sketch.numbers[b]) > 1e-9 * std::sqrt(static_cast<double>(tensor.shape[0])))
      return false;
  }
  return true;
}

int Run(bool small) {
  for (const Scenario& scenario : kScenarios) {
    if (small && scenario.num_elements > 1 << 20) continue;
    const std::vector<std::byte> bytes = Values(scenario);
    const std::vector<std::int64_t> shape{scenario.num_elements}, strides{1};
    const StridedTensor tensor{scenario.dtype, bytes.data(), shape, strides};
    SummaryRequest without, with;
    with.sketch_sums = kSketchSums;
    if (!IsRight(tensor, *Summarize(tensor, with).sketch)) {
      std::fprintf(stderr, "%s: wrong result\n", scenario.name);
      return 1;
    }
    const std::int64_t repeat =
        std::max<std::int64_t>(1, (small ? 1 << 20 : 1 << 25) / scenario.num_elements);
    std::vector<double> seconds[2];
    double sum = 0;
    for (int round = 0; round < (small ? 3 : 21); ++round) {
      for (const SummaryRequest& request : {without, with}) {
        const double start = Seconds();
        for (std::int64_t i = 0; i < repeat; ++i) sum += Summarize(tensor, request).sum_sq;
        seconds[request.sketch_sums != 0].push_back(Seconds() - start);
      }
    }
    const double scale = 1e9 / static_cast<double>(repeat * scenario.num_elements);
    const double alone = Fastest(seconds[0]) * scale, both = Fastest(seconds[1]) * scale;
    std::printf("%s|%.3f|%.3f|%.3f\n", scenario.name, alone, both, both - alone);
    std::fflush(stdout);
    if (sum == 1) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace vernier::bench

int main(int argc, char** argv) { return vernier::bench::Run(argc > 1 && std::string(argv[1]) == "--small"); }

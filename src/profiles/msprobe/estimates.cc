#include "profiles/msprobe/estimates.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "core/base64.h"
#include "core/text.h"
#include "profiles/msprobe/row.h"

namespace vernier::msprobe {
namespace {

constexpr int kShownDigits = 4;

Error BadSketch(std::string_view field, std::string detail) {
  return Error{ErrorCode::kBadArgument, std::string(field), std::move(detail)};
}

bool IsComplex(std::string_view dtype) { return dtype.find("omplex") != std::string_view::npos; }
bool HasSixteenBits(std::string_view dtype) { return dtype.find("loat16") != std::string_view::npos; }

// Of a shape as it is shown: "[2, 3]". Nothing where that is none, or has too many elements to be kept whole.
std::optional<std::size_t> CountElements(std::string_view shape) {
  if (!shape.starts_with('[') || !shape.ends_with(']')) return std::nullopt;
  std::uint64_t count = 1;
  const char *at = shape.data() + 1, *const end = shape.data() + shape.size() - 1;
  while (at < end) {
    std::uint64_t size = 0;
    const auto [next, problem] = std::from_chars(at, end, size);
    if (problem != std::errc() || size >= kSketchSums) return std::nullopt;
    count *= size;
    if (count >= kSketchSums) return std::nullopt;
    at = next;
    while (at < end && (*at == ',' || *at == ' ')) ++at;
  }
  return static_cast<std::size_t>(count);
}

// Whether the number has so few digits that it was rounded to 16 bits.
bool IsCoarse(double norm) {
  constexpr std::uint64_t kBelowTwelveBits = (std::uint64_t{1} << 41) - 1;
  return (std::bit_cast<std::uint64_t>(norm) & kBelowTwelveBits) == 0;
}

// The recorded norms, where they are those of what was sketched.
std::optional<SketchNorms> NormsOf(const Leaf& npu, const Leaf& bench, const Sketch& t, const Sketch& g) {
  constexpr std::size_t kNorm = 3;
  const std::optional<double> target = NumericOf(npu.statistics[kNorm]),
                              golden = NumericOf(bench.statistics[kNorm]);
  if (t.num_bad != 0 || g.num_bad != 0 || !target || !golden) return std::nullopt;
  if (!std::isfinite(*target) || !std::isfinite(*golden)) return std::nullopt;
  const bool coarse = HasSixteenBits(npu.dtype) && (IsCoarse(*target) || IsCoarse(*golden));
  return SketchNorms{*target, *golden, coarse};
}

double RoundDigits(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  double rounded = value;
  const std::string text = fmt::format("{:.{}e}", value, kShownDigits - 1);
  (void)std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

}  // namespace

Result<std::optional<Sketch>> ReadSketch(const Leaf& leaf) {
  if (leaf.sketch.empty() && leaf.values.empty()) return std::optional<Sketch>();
  Sketch sketch;
  sketch.whole = leaf.sketch.empty();
  sketch.is_complex = IsComplex(leaf.dtype);
  sketch.num_bad = leaf.sketch_bad;
  const std::string_view field = sketch.whole ? "values" : "sketch";
  std::string_view text = sketch.whole ? leaf.values : leaf.sketch;
  if (text.starts_with(' ')) text.remove_prefix(1);  // written before a plus, which other readers refuse
  const auto bytes = DecodeBase64(text);
  if (!bytes) return BadSketch(field, fmt::format("no base64 text of {} characters", text.size()));
  const std::size_t parts = sketch.is_complex ? 2 : 1, unit = parts * sizeof(double);
  const std::size_t size = bytes->size() / unit;
  const auto wanted = sketch.whole ? CountElements(leaf.shape) : std::nullopt;
  const bool fits = sketch.whole ? wanted == size : IsSketchSize(size);
  if (bytes->size() % unit != 0 || !fits) {
    return BadSketch(field, fmt::format("{} bytes, where {} are right", bytes->size(),
                                        sketch.whole && wanted ? std::to_string(*wanted * unit)
                                        : sketch.whole         ? "fewer than 64 numbers"
                                                       : fmt::format("{0} times 8, 16, 32 or 64", unit)));
  }
  sketch.numbers.resize(size * parts);
  std::memcpy(sketch.numbers.data(), bytes->data(), bytes->size());
  const auto is_finite = [](double number) { return std::isfinite(number); };
  if (!sketch.whole && !std::all_of(sketch.numbers.begin(), sketch.numbers.end(), is_finite))
    return BadSketch(field, "NaN or an infinity among the sums");
  return std::optional<Sketch>(std::move(sketch));
}

Estimate EstimateFrom(const Leaf& npu, const Leaf& bench) {
  Estimate estimate;
  const auto has_none = [](const Leaf& leaf) { return leaf.sketch.empty() && leaf.values.empty(); };
  if ((has_none(npu) && has_none(bench))) return estimate;
  const Result<std::optional<Sketch>> target = ReadSketch(npu), golden = ReadSketch(bench);
  if (!target || !golden) {
    const Error& error = target ? golden.error() : target.error();
    estimate.problem = fmt::format("{} {}: {}", target ? "Bench" : "NPU", error.where, error.detail);
    return estimate;
  }
  // Elements are put by their place in the tensor, and numbers of another type are rounded differently.
  if (!*target || !*golden || npu.shape != bench.shape || npu.dtype != bench.dtype) return estimate;
  estimate.difference = EstimateDifference(**target, **golden, NormsOf(npu, bench, **target, **golden));
  return estimate;
}

double ShownError(double relative_error) { return RoundDigits(relative_error); }
double ShownCosine(double cosine) { return 1 - RoundDigits(1 - cosine); }

}  // namespace vernier::msprobe

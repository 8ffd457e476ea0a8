#include "profiles/torchair/columns.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

namespace vernier::torchair {
namespace {

using R = const Row&;
using A = TextArena&;
using S = Row::State;
using enum Good;

constexpr std::string_view kModeNames[] = {"real data", "minimum and maximum", "digests"};

// The seed's rule for a PASS.
constexpr double kLeastCosine = 0.99, kRelativeLimit = 0.01;
// Below these a PASS is marked yellow.
constexpr double kSureCosine = 0.999, kSureRelative = 0.005, kSureShare = 0.9;

double RoundedTo10Decimals(double value) {
  if (!std::isfinite(value)) return value;
  const std::string digits = fmt::format("{:.10f}", value);
  double rounded = value;
  std::from_chars(digits.data(), digits.data() + digits.size(), rounded);
  return rounded;
}

double ShareOf(std::uint64_t count, const PairMeasures& m) {
  return m.num_elements == 0 ? 0 : static_cast<double>(count) / static_cast<double>(m.num_elements);
}

double RelativeDistance(const PairMeasures& m) {
  if (std::sqrt(m.sum_sq_golden) <= 0x1p-23) return 0;
  return std::sqrt(m.sum_sq_diff / m.sum_sq_golden);
}

Cell Known(const std::optional<double>& value) {
  return value && !std::isnan(*value) ? Cell(*value) : Cell();
}

// A metric of the reference: nothing where it was not computed.
template <class Value>
Cell Plain(R row, const Value& value) {
  return row.state == S::kMeasured ? Cell(double(value(*row.measures))) : Cell();
}
// A metric of the seed, which says why there is none.
Cell Worded(R row, double value) {
  if (row.state == S::kMeasured) return value;
  return row.state == S::kNotFinite ? Cell("NaN") : Cell("N/A");
}

double Mean(double sum, const PairMeasures& m) { return sum / static_cast<double>(m.num_elements); }

// Differences of the minima (0) or maxima (1) of two shrunk tensors.
enum Which { kMinimum, kMaximum };
std::optional<double> DiffOf(R row, Which which) {
  const auto of = [&](const RowSide& side) { return which == kMinimum ? side.first : side.second; };
  if (!of(row.target) || !of(row.golden)) return std::nullopt;
  return *of(row.target) - *of(row.golden);
}
Cell Difference(R row, Which which) {
  const std::optional<double> diff = DiffOf(row, which);
  if (!diff) return "N/A";
  return std::isnan(*diff) ? Cell("NaN") : Cell(*diff);
}
Cell RelativeDifference(R row, Which which) {
  const std::optional<double> diff = DiffOf(row, which);
  if (!diff) return "N/A";
  const double golden = which == kMinimum ? *row.golden.first : *row.golden.second;
  const double relative = *diff == 0 ? 0 : std::abs(*diff / golden);
  return std::isnan(relative) ? Cell("NaN") : Cell(relative);
}

Cell ResultCell(R row) {
  if (row.state == S::kEmpty && row.mode != Mode::kDigest) return "N/A";
  return row.Passes() ? "PASS" : "FAIL";
}
Cell AccuracyCell(R row) {
  if (row.state == S::kEmpty && row.mode != Mode::kDigest) return "N/A";
  return row.Passes() ? "Yes" : "No";
}
Cell DigestCell(R row, const RowSide& side, A arena) {
  return row.state == S::kFailed ? Cell("N/A") : Cell(arena.Keep(fmt::format("{:08x}", side.crc32)));
}
Cell MessageCell(R row, A arena) {
  if (row.doubt.empty()) return Cell(row.reason);
  return arena.Keep(row.reason + (row.reason.empty() ? "" : " ") + row.doubt);
}

using M = const PairMeasures&;
// clang-format off
#define VN_REFERENCE_COLUMNS                                                                                                             \
    {"token_id",           kNeither, "the execution of the graph, from 0", [](R r, A) { return Cell(r.token); }},                         \
    {"data_id",            kNeither, "number of the pair in the order of matching", [](R r, A) { return Cell(r.number); }},               \
    {"golden_data_path",   kNeither, "file of the golden tensor", [](R r, A) { return Cell(r.golden.path); }},                            \
    {"golden_op_type",     kNeither, "always empty", [](R, A) { return Cell(); }},                                                        \
    {"golden_dtype",       kNeither, "element type of the golden tensor", [](R r, A) { return Cell(r.golden.dtype); }},                   \
    {"golden_shape",       kNeither, "its shape", [](R r, A) { return Cell(r.golden.shape); }},                                           \
    {"golden_max_value",   kNeither, "its largest value, in float32", [](R r, A) { return Known(r.golden.max); }},                        \
    {"golden_min_value",   kNeither, "its smallest value", [](R r, A) { return Known(r.golden.min); }},                                   \
    {"golden_mean_value",  kNeither, "its mean", [](R r, A) { return Known(r.golden.mean); }},                                            \
    {"my_data_path",       kNeither, "dump file of the target tensor, and which tensor of it", [](R r, A) { return Cell(r.target.path); }}, \
    {"my_op_type",         kNeither, "always empty", [](R, A) { return Cell(); }},                                                        \
    {"my_dtype",           kNeither, "element type of the target tensor", [](R r, A) { return Cell(r.target.dtype); }},                   \
    {"my_shape",           kNeither, "its shape", [](R r, A) { return Cell(r.target.shape); }},                                           \
    {"my_max_value",       kNeither, "its largest value, in float32", [](R r, A) { return Known(r.target.max); }},                        \
    {"my_min_value",       kNeither, "its smallest value", [](R r, A) { return Known(r.target.min); }},                                   \
    {"my_mean_value",      kNeither, "its mean", [](R r, A) { return Known(r.target.mean); }},                                            \
    {"cosine_similarity",  kLarge,   "cosine of the two tensors, to 10 decimals", [](R r, A) { return Plain(r, [&](M) { return r.Cosine(); }); }}, \
    {"max_relative_error", kSmall,   "largest |my/golden - 1| where |golden| > 2^-23", [](R r, A) { return Plain(r, [](M m) { return m.divergence.max_relative; }); }}, \
    {"mean_relative_error", kSmall,  "mean of the same over all elements", [](R r, A) { return Plain(r, [](M m) { return Mean(m.divergence.sum_relative, m); }); }}, \
    {"max_absolute_error", kSmall,   "largest |my - golden| where |golden| > 2^-23", [](R r, A) { return Plain(r, [](M m) { return m.divergence.max_abs; }); }}, \
    {"mean_absolute_error", kSmall,  "mean of the same over all elements", [](R r, A) { return Plain(r, [](M m) { return Mean(m.divergence.sum_abs, m); }); }}, \
    {"kl_divergence",      kSmall,   "Kullback-Leibler divergence of the softmaxes", [](R r, A) { return Plain(r, [](M m) { return m.divergence.SoftmaxDivergence(); }); }}, \
    {"relative_euclidean_distance", kSmall, "|my - golden| / |golden| of the vectors", [](R r, A) { return Plain(r, RelativeDistance); }}, \
    {"cmp_fail_reason",    kNeither, "why there are no metrics", [](R r, A) { return Cell(r.reason); }}

#define VN_NAME_COLUMNS                                                                                                                  \
    {"API Name",           kNeither, "operator of the graph", [](R r, A) { return Cell(r.api_name); }},                                  \
    {"Stack Info",         kNeither, "N/A: these dumps have no call stacks", [](R, A) { return Cell("N/A"); }},                           \
    {"Data Name",          kNeither, "[target data, golden data]", [](R r, A a) { return Cell(a.Keep(fmt::format("[{}, {}]", r.target.path.substr(r.target.path.rfind('/') + 1), r.golden.path.substr(r.golden.path.rfind('/') + 1)))); }}

#define VN_RESULT_COLUMNS                                                                                                                \
    {"Result",             kNeither, "PASS or FAIL; N/A: two empty tensors", [](R r, A) { return ResultCell(r); }},                       \
    {"Accuracy Reached or Not", kNeither, "Yes or No, the same in words", [](R r, A) { return AccuracyCell(r); }},                        \
    {"Err_message",        kNeither, "why there are no metrics, or what is doubtful", [](R r, A a) { return MessageCell(r, a); }}

#define VN_VECTOR_COLUMNS                                                                                                                \
    {"Cosine",             kLarge,   "cosine_similarity", [](R r, A) { return Worded(r, r.state == S::kMeasured ? r.Cosine() : 0); }},               \
    {"EucDist",            kSmall,   "|my - golden| of the vectors", [](R r, A) { return Worded(r, r.exact.distance); }}, \
    {"MaxAbsErr",          kSmall,   "largest |my - golden|", [](R r, A) { return Worded(r, r.exact.max_abs); }},      \
    {"MaxRelativeErr",     kSmall,   "largest |my - golden| / |golden|; inf where golden is 0 and my is not", [](R r, A) { return Worded(r, r.exact.max_relative); }}, \
    {"One Thousandth Err Ratio",  kLarge, "share of elements with a relative error below 0.001", [](R r, A) { return Worded(r, r.exact.share_below_1e3); }}, \
    {"Five Thousandth Err Ratio", kLarge, "share below 0.005", [](R r, A) { return Worded(r, r.exact.share_below_5e3); }}, \
    {"Requires_grad Consistent",  kNeither, "N/A: these dumps do not say", [](R, A) { return Cell("N/A"); }},                             \
    VN_RESULT_COLUMNS

constexpr Column kRealColumns[] = {VN_REFERENCE_COLUMNS, VN_NAME_COLUMNS, VN_VECTOR_COLUMNS};
constexpr Column kShrunkColumns[] = {
    VN_REFERENCE_COLUMNS, VN_NAME_COLUMNS,
    {"Max diff",           kSmall,   "maximum of my - maximum of golden (shrunk dumps)", [](R r, A) { return Difference(r, kMaximum); }},
    {"Min diff",           kSmall,   "minimum of my - minimum of golden", [](R r, A) { return Difference(r, kMinimum); }},
    {"Mean diff",          kSmall,   "N/A: shrinking keeps no mean", [](R, A) { return Cell("N/A"); }},
    {"L2norm diff",        kSmall,   "N/A: shrinking keeps no norm", [](R, A) { return Cell("N/A"); }},
    // The seed calls it MaxRelativeErr, as it does the metric of the two vectors; one file cannot have both.
    {"MaxRelativeErr (max)", kSmall, "|Max diff / maximum of golden|", [](R r, A) { return RelativeDifference(r, kMaximum); }},
    {"MinRelativeErr",     kSmall,   "|Min diff / minimum of golden|", [](R r, A) { return RelativeDifference(r, kMinimum); }},
    {"MeanRelativeErr",    kSmall,   "N/A", [](R, A) { return Cell("N/A"); }},
    {"NormRelativeErr",    kSmall,   "N/A", [](R, A) { return Cell("N/A"); }},
    VN_VECTOR_COLUMNS,
    {"note",               kNeither, "which side was reduced to its minimum and maximum, and when", [](R r, A) { return Cell(r.note); }},
};
constexpr Column kDigestColumns[] = {
    VN_REFERENCE_COLUMNS, VN_NAME_COLUMNS,
    {"NPU MD5",            kNeither, "CRC-32 of the target's bytes in plain order (--md5)", [](R r, A a) { return DigestCell(r, r.target, a); }},
    {"BENCH MD5",          kNeither, "CRC-32 of the golden's", [](R r, A a) { return DigestCell(r, r.golden, a); }},
    VN_RESULT_COLUMNS,
};
// clang-format on

}  // namespace

std::string_view Name(Mode mode) { return kModeNames[static_cast<std::size_t>(mode)]; }

std::span<const Column> ColumnsOf(Mode mode) {
  switch (mode) {
    case Mode::kShrunk:
      return kShrunkColumns;
    case Mode::kDigest:
      return kDigestColumns;
    case Mode::kReal:
      break;
  }
  return kRealColumns;
}

ExactNumbers ExactNumbers::OfFloats(const PairMeasures& m) {
  const DivergenceMeasures& d = m.divergence;
  return {std::sqrt(m.sum_sq_diff), m.max_abs_diff, d.max_any_relative, ShareOf(d.num_below_1e3, m),
          ShareOf(d.num_below_5e3, m)};
}

ExactNumbers ExactNumbers::Of(const PairMeasures& m) {
  return {std::sqrt(m.sum_sq_diff), m.max_abs_diff, m.max_relative, ShareOf(m.num_relative_below_1e3, m),
          ShareOf(m.num_relative_below_5e3, m)};
}

double Row::Cosine() const {
  const PairMeasures& m = *measures;
  if (m.sum_sq_target == 0 && m.sum_sq_golden == 0) return 1;
  constexpr double kLeastNorm = 1e-8;
  const double target_norm = std::sqrt(m.sum_sq_target), golden_norm = std::sqrt(m.sum_sq_golden);
  if (target_norm > kLeastNorm && golden_norm > kLeastNorm) return RoundedTo10Decimals(m.Cosine());
  return RoundedTo10Decimals(m.dot / (std::max(target_norm, kLeastNorm) * std::max(golden_norm, kLeastNorm)));
}

bool Row::Passes() const {
  if (mode == Mode::kDigest) return state != State::kFailed && target.crc32 == golden.crc32;
  return state == State::kMeasured && Cosine() >= kLeastCosine && exact.max_relative < kRelativeLimit;
}

Status Row::status() const {
  if (state == State::kFailed) return Status::kError;
  return Passes() || (state == State::kEmpty && mode != Mode::kDigest) ? Status::kPass : Status::kFail;
}

RowColour Row::Colour() const {
  if (state == State::kEmpty && mode != Mode::kDigest) return RowColour::kNone;
  if (!Passes()) return RowColour::kRed;
  if (mode == Mode::kDigest) return RowColour::kGreen;
  const bool is_sure =
      Cosine() >= kSureCosine && exact.max_relative < kSureRelative && exact.share_below_1e3 >= kSureShare;
  return is_sure ? RowColour::kGreen : RowColour::kYellow;
}

double Row::Severity() const {
  if (state == State::kNotFinite) return std::numeric_limits<double>::infinity();
  return state == State::kMeasured ? RelativeDistance(*measures) : 0;
}

}  // namespace vernier::torchair

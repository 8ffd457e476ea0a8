#include "profiles/msprobe/real.h"

#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace vernier::msprobe {
namespace {

constexpr double kEpsilon = 2.220446049250313e-16;
constexpr int kDecimals = 12, kShortDecimals = 6;
constexpr double kNearlyOne = 0.9999;

struct FixedOutcome {
  RealState state;
  std::string_view cell, message;
};
constexpr std::string_view kUnsupported = "unsupported";
constexpr FixedOutcome kFixedOutcomes[] = {
    {RealState::kNoNpuFile, kUnsupported, "NPU does not have data file."},
    {RealState::kNoBenchFile, kUnsupported, "Bench does not have data file."},
    {RealState::kUnmatched, kUnsupported, "Bench api/module unmatched."},
    {RealState::kReadFailed, kUnsupported, ""},  // the message names the files
    {RealState::kEmpty, kUnsupported, "This is empty data, can not compare."},
    {RealState::kShapesDiffer, "shape unmatched", "Shape of NPU and bench tensor do not match. Skipped."},
};

constexpr std::string_view kScalarMessage =
    "This is type of 0-d tensor, can not calculate 'Cosine', 'EucDist', 'One Thousandth Err Ratio' and 'Five "
    "Thousandths Err Ratio'. ";
constexpr std::string_view kPositions = "The position of inf or nan in NPU and bench Tensor do not match.";
constexpr std::string_view kDtypes = "Dtype of NPU and bench tensor do not match.";
constexpr std::string_view kMaxAbsNan =
    "Cannot compare by MaxAbsError, the data contains nan/inf/-inf in dump data.";
constexpr std::string_view kRelativeNan =
    "Cannot compare by MaxRelativeError, the data contains nan/inf/-inf in dump data.";

// What an element type is after reading: the reference widens bfloat16 and the 8-bit floats.
Dtype AsRead(Dtype dtype) {
  return Class(dtype) == DtypeClass::kFloat && (ItemBytes(dtype) == 1 || dtype == Dtype::kBF16) ? Dtype::kF32
                                                                                                : dtype;
}

void Fill(std::string_view text, ResultRow& row) {
  for (std::size_t i = 0; i < kNumRealMetrics; ++i) row.metrics[i] = Cell(text);
}

Cell NumberOrNan(double value, std::string_view nan_message, std::string& message) {
  if (!std::isnan(value)) return Cell(RoundDecimals(value, kDecimals));
  message += nan_message;
  return Cell("Nan");
}

Cell Cosine(const PairMeasures& m, std::string& message) {
  if (m.num_elements == 1) {
    message += "This is a 1-d tensor of length 1.";
    return Cell(kUnsupported);
  }
  const double npu = std::sqrt(m.sum_sq_target), bench = std::sqrt(m.sum_sq_golden);
  if (npu <= kEpsilon && bench <= kEpsilon) return Cell(1.0);
  if (npu <= kEpsilon || bench <= kEpsilon) {
    message += npu <= kEpsilon
                   ? "Cannot compare by Cosine Similarity, All the data is Zero in npu dump data."
                   : "Cannot compare by Cosine Similarity, All the data is Zero in Bench dump data.";
    return Cell("Nan");
  }
  const double cosine = m.dot / (npu * bench);
  if (std::isnan(cosine)) {
    message += "Cannot compare by Cosine Similarity, the dump data has NaN.";
    return Cell("Nan");
  }
  const double rounded = RoundDecimals(cosine, kDecimals);
  return Cell(rounded > kNearlyOne ? RoundDecimals(rounded, kShortDecimals) : rounded);
}

double Share(std::uint64_t part, std::uint64_t whole) {
  return RoundDecimals(static_cast<double>(part) / static_cast<double>(whole), kDecimals);
}

// Positions of nan and of inf must be the same on both sides; the sign of an infinity is not looked at.
bool SpecialPositionsAgree(const PairMeasures& m) {
  return m.num_nan_target_only + m.num_nan_golden_only + m.num_inf_target_only + m.num_inf_golden_only == 0;
}

void FillTensor(const PairMeasures& m, Dtype npu, Dtype bench, ResultRow& row, std::string& message) {
  if (!SpecialPositionsAgree(m)) {
    Fill("N/A", row);
    message += kPositions;
    return;
  }
  if (AsRead(npu) != AsRead(bench)) message += kDtypes;
  row.metrics[kCosine] = Cosine(m, message);
  row.metrics[kEucDist] = Cell(std::sqrt(m.sum_sq_diff));
  row.metrics[kMaxAbsErr] = NumberOrNan(m.max_abs_diff, kMaxAbsNan, message);
  const double relative = m.relative_has_nan ? std::nan("") : m.max_relative;
  row.metrics[kMaxRelativeErr] = NumberOrNan(relative, kRelativeNan, message);
  row.metrics[kOneThousandth] = Cell(Share(m.num_relative_below_1e3, m.num_elements));
  row.metrics[kFiveThousandths] = Cell(Share(m.num_relative_below_5e3, m.num_elements));
}

// The only element of a tensor, from its statistics.
double OnlyElement(const TensorStats& stats) {
  if (stats.num_nan > 0) return std::nan("");
  if (stats.num_pos_inf > 0) return HUGE_VAL;
  if (stats.num_neg_inf > 0) return -HUGE_VAL;
  return stats.finite_max;
}

double RoundToHalf(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int unit = std::max(std::ilogb(value) - 10, -24);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  return std::fabs(rounded) > 65504 ? std::copysign(HUGE_VAL, value) : rounded;
}

// The difference of two scalars in the type they are stored in. Unsigned and bool types are subtracted as
// numbers.
double ScalarDifference(double npu, double bench, Dtype npu_dtype, Dtype bench_dtype) {
  const double difference = std::fabs(npu - bench);
  const Dtype a = AsRead(npu_dtype), b = AsRead(bench_dtype);
  if (a == Dtype::kF16 && b == Dtype::kF16) return RoundToHalf(difference);
  const auto narrow = [](Dtype dtype) { return dtype == Dtype::kF32 || dtype == Dtype::kF16; };
  return narrow(a) && narrow(b) ? static_cast<double>(static_cast<float>(difference)) : difference;
}

void FillScalar(const PairMeasures& m, Dtype npu_dtype, Dtype bench_dtype, ResultRow& row,
                std::string& message) {
  Fill(kUnsupported, row);
  std::string text(kScalarMessage);
  const double npu = OnlyElement(m.target), bench = OnlyElement(m.golden);
  const bool finite = std::isfinite(npu) && std::isfinite(bench);
  const double relative = !finite              ? std::fabs((npu - bench) / bench)
                          : m.relative_has_nan ? std::nan("")
                                               : m.max_relative;
  row.metrics[kMaxAbsErr] =
      NumberOrNan(ScalarDifference(npu, bench, npu_dtype, bench_dtype), kMaxAbsNan, text);
  row.metrics[kMaxRelativeErr] = NumberOrNan(relative, kRelativeNan, text);
  message += text;
  // In the reference each of the two ratio columns says everything so far again. Copies of the first sentence
  // alone are dropped; with others between them they are part of the text that people search for.
  if (text.size() > kScalarMessage.size()) message += text + text + text;
}

}  // namespace

double RoundDecimals(double value, int decimals) {
  if (!std::isfinite(value) || std::fabs(value) >= 1e15) return value;  // no decimals left to round
  char buffer[48];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, decimals).ptr;
  double rounded = value;
  std::from_chars(buffer, end, rounded);
  return rounded;
}

RealState StateOf(const Profile& profile, const TensorView& npu, const TensorView& bench) {
  if (npu.num_elements == 0) return RealState::kEmpty;
  const bool differ = npu.shape != bench.shape;
  if (profile.shape_check_before_scalar_check && differ) return RealState::kShapesDiffer;
  if (npu.shape.empty() && !differ) return RealState::kScalar;
  return differ ? RealState::kShapesDiffer : RealState::kTensor;
}

void FillRealMetrics(RealState state, const PairMeasures* measures, Dtype npu, Dtype bench, ResultRow& row,
                     std::string& message) {
  if (state == RealState::kTensor) return FillTensor(*measures, npu, bench, row, message);
  if (state == RealState::kScalar) return FillScalar(*measures, npu, bench, row, message);
  const FixedOutcome& outcome = kFixedOutcomes[static_cast<std::size_t>(state)];
  Fill(outcome.cell, row);
  message += outcome.message;
  if (state == RealState::kReadFailed)
    message += fmt::format("Dump file: {} not found or read failed.", row.data_name);
}

void FillAccuracy(const Rules& rules, ResultRow& row) {
  const Cell &cosine = row.metrics[kCosine], &error = row.metrics[kMaxAbsErr];
  if (cosine.Is("shape unmatched")) return row.SetResult("Unmatched", Judged::kShapesDiffer);
  if (cosine.Is("N/A") || error.Is("N/A")) return row.SetResult("No", Judged::kFail);
  const auto c = NumericOf(cosine), e = NumericOf(error);
  if (!c || !e) return row.SetResult("None", Judged::kNoNumbers);
  const bool bad =
      (*c < rules.Threshold("accuracy_cosine") && *e > rules.Threshold("accuracy_max_abs_err")) ||
      *c < rules.Threshold("accuracy_cosine_worst") || *e > rules.Threshold("accuracy_max_abs_err_worst");
  row.SetResult(bad ? "No" : "Yes", bad ? Judged::kFail : Judged::kPass);
}

}  // namespace vernier::msprobe

#include "profiles/msprobe/summary.h"

#include <algorithm>
#include <cmath>

namespace vernier::msprobe {
namespace {

constexpr std::size_t kMaxGrowth = 100;
constexpr std::size_t kMaxEvidence = 16;

double Ratio(double difference, double size) {
  if (std::isnan(difference) || std::isnan(size)) return HUGE_VAL;
  if (difference == 0) return 0;
  return size == 0 ? HUGE_VAL : difference / size;
}

std::optional<double> StatisticsError(const ResultRow& row) {
  enum { kMax, kMin, kMean, kNorm };
  std::optional<double> n[4], b[4];
  for (std::size_t i = 0; i < 4; ++i) {
    n[i] = NumericOf(row.npu.statistics[i]);
    b[i] = NumericOf(row.bench.statistics[i]);
  }
  if (!n[kMax] || !b[kMax]) return std::nullopt;
  const double size = std::fmax(std::fabs(*b[kMax]), b[kMin] ? std::fabs(*b[kMin]) : 0);
  double worst = 0;
  // A mean may be zero up to noise, so it is not asked; a norm is its own size.
  for (const std::size_t i : {std::size_t{kMax}, std::size_t{kMin}, std::size_t{kNorm}}) {
    if (!n[i] || !b[i]) continue;
    const bool same = *n[i] == *b[i] || (std::isnan(*n[i]) && std::isnan(*b[i]));
    if (!same)
      worst = std::fmax(worst, Ratio(std::fabs(*n[i] - *b[i]), i == kNorm ? std::fabs(*b[i]) : size));
  }
  return worst;
}

std::optional<double> RealError(const ResultRow& row) {
  if (row.measures == nullptr) return std::nullopt;
  const PairMeasures& m = *row.measures;
  if (m.num_special_mismatches() > 0) return HUGE_VAL;
  return Ratio(std::sqrt(m.sum_sq_diff), std::sqrt(m.sum_sq_golden));
}

bool IsHalf(std::string_view dtype) {
  return dtype.find("float16") != std::string_view::npos || dtype.find("float8") != std::string_view::npos ||
         dtype.find("Float16") != std::string_view::npos;
}

// Nothing can be measured, but it is known that they differ: the shape of one is not that of the other, or
// nothing on the other side has its shape. REQUIRES: other rows of the record are matched
bool HasAnotherShape(const ResultRow& row) {
  const bool is_tensor = row.npu.dtype != "None" && !row.npu.dtype.starts_with("<class");
  return row.state == PortState::kOutput && is_tensor && (!row.matched || row.npu.shape != row.bench.shape);
}

// A number, text or flag that the program chose. When it differs that is a cause, not an inherited error.
bool IsPlainArgument(const ResultRow& row) {
  return row.state != PortState::kOutput && row.npu.dtype.starts_with("<class");
}

bool IsDifferentArgument(const ResultRow& row) {
  return row.matched && IsPlainArgument(row) &&
         CellText(row.npu.statistics[0]) != CellText(row.bench.statistics[0]);
}

bool HasPartner(std::span<const ResultRow> record) {
  return std::any_of(record.begin(), record.end(), [](const ResultRow& row) { return row.matched; });
}

}  // namespace

std::optional<double> RowError(Mode mode, const ResultRow& row) {
  if (!row.matched) return std::nullopt;
  switch (mode) {
    case Mode::kReal:
      return RealError(row);
    case Mode::kStatistics:
      return StatisticsError(row);
    case Mode::kMd5:
      return row.npu.md5 == row.bench.md5 ? 0 : HUGE_VAL;
  }
  return std::nullopt;
}

double SummaryBuilder::Tolerance(const ResultRow& row) const {
  return rules_.Threshold(IsHalf(row.npu.dtype) || IsHalf(row.bench.dtype) ? "agree_half" : "agree");
}

void SummaryBuilder::See(std::uint64_t first_row, std::span<const ResultRow> record) {
  double input_error = 0, output_error = 0;
  bool inputs_agree = true, outputs_agree = true, has_output = false;
  const bool has_partner = HasPartner(record);
  for (const ResultRow& row : record) {
    const Status status = row.status();
    ++summary_.num_target;
    summary_.num_matched += row.matched;
    summary_.num_measured += row.measures != nullptr;
    summary_.num_passed += status == Status::kPass;
    summary_.num_failed += status == Status::kFail;
    summary_.num_errors += status == Status::kError;
    if (mode_ == Mode::kReal && row.matched && row.npu.data_name != "-1" && row.measures == nullptr) {
      ++summary_.num_not_measured;
    }
    std::optional<double> error = RowError(mode_, row);
    if (has_partner && HasAnotherShape(row)) error = HUGE_VAL;
    if (!error || IsPlainArgument(row)) continue;
    const bool agrees = *error <= Tolerance(row);
    if (row.state == PortState::kOutput) {
      has_output = true;
      outputs_agree = outputs_agree && agrees;
      output_error = std::fmax(output_error, *error);
    } else {
      inputs_agree = inputs_agree && agrees;
      input_error = std::fmax(input_error, *error);
    }
  }
  if (!has_output) return;
  if (inputs_agree && !outputs_agree && !summary_.first_divergence) Diverge(first_row, record);
  const double floor = rules_.Threshold("growth_floor");
  summary_.growth_factor = rules_.Threshold("growth_factor");
  if (mode_ != Mode::kMd5 && output_error > floor &&
      output_error > summary_.growth_factor * std::fmax(input_error, floor)) {
    ++summary_.num_growth;
    if (summary_.growth.size() < kMaxGrowth) {
      summary_.growth.push_back({std::string(record[0].api), input_error, output_error});
    }
  }
}

void SummaryBuilder::Diverge(std::uint64_t first_row, std::span<const ResultRow> record) {
  Divergence found;
  found.record = record[0].api;
  found.row = first_row;
  double worst = -1;
  const bool has_partner = HasPartner(record);
  for (const ResultRow& row : record) {
    if (row.stack != "N/A" && found.stack.empty()) found.stack = row.stack;
    if (IsDifferentArgument(row) && found.arguments.size() < kMaxEvidence) {
      found.arguments.push_back(
          {std::string(row.npu_name), CellText(row.npu.statistics[0]), CellText(row.bench.statistics[0])});
    }
    std::optional<double> error = RowError(mode_, row);
    if (has_partner && HasAnotherShape(row)) error = HUGE_VAL;
    if (!error) continue;
    if (found.evidence.size() < kMaxEvidence) {
      found.evidence.push_back({std::string(row.npu_name), std::string(Name(row.state)), *error,
                                CellText(row.npu.statistics[0]), CellText(row.bench.statistics[0])});
    }
    if (row.state == PortState::kOutput && *error > worst && row.matched && row.npu.data_name != "-1") {
      worst = *error;
      found.target_file = row.npu.data_name;
      found.golden_file = row.bench.data_name;
    }
  }
  summary_.first_divergence = std::move(found);
}

}  // namespace vernier::msprobe

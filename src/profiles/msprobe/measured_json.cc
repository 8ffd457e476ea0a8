// Everything measured of two files as one JSON object, for jsonl reports.
#include <fmt/format.h>

#include "core/json_writer.h"
#include "profiles/msprobe/columns.h"

namespace vernier::msprobe {
namespace {

// What was measured of the two files, for readers that want more than the columns.
struct MeasuredNumber {
  std::string_view key;
  void (*append)(const PairMeasures& m, std::string& out);
};
// Counts are written as whole numbers.
void Append(std::uint64_t number, std::string& out) { AppendInteger(number, out); }
void Append(double number, std::string& out) { AppendJsonFloat(number, out, JsonFloat::kQuotedWords); }
template <auto kMember>
void Member(const PairMeasures& m, std::string& out) {
  Append(m.*kMember, out);
}
template <auto kSide, auto kNumber>
void Statistic(const PairMeasures& m, std::string& out) {
  Append(((m.*kSide).*kNumber)(), out);
}
constexpr MeasuredNumber kMeasuredNumbers[] = {
    {"num_elements", Member<&PairMeasures::num_elements>},
    {"dot", Member<&PairMeasures::dot>},
    {"sum_sq_npu", Member<&PairMeasures::sum_sq_target>},
    {"sum_sq_bench", Member<&PairMeasures::sum_sq_golden>},
    {"sum_sq_diff", Member<&PairMeasures::sum_sq_diff>},
    {"sum_abs_diff", Member<&PairMeasures::sum_abs_diff>},
    {"sum_diff", Member<&PairMeasures::sum_diff>},
    {"max_abs_diff", Member<&PairMeasures::max_abs_diff>},
    {"max_relative", Member<&PairMeasures::max_relative>},
    {"num_relative_below_1e3", Member<&PairMeasures::num_relative_below_1e3>},
    {"num_relative_below_5e3", Member<&PairMeasures::num_relative_below_5e3>},
    {"num_both_nan", Member<&PairMeasures::num_both_nan>},
    {"num_both_same_inf", Member<&PairMeasures::num_both_same_inf>},
    {"num_opposite_inf", Member<&PairMeasures::num_opposite_inf>},
    {"num_nan_npu_only", Member<&PairMeasures::num_nan_target_only>},
    {"num_nan_bench_only", Member<&PairMeasures::num_nan_golden_only>},
    {"num_inf_npu_only", Member<&PairMeasures::num_inf_target_only>},
    {"num_inf_bench_only", Member<&PairMeasures::num_inf_golden_only>},
    {"npu_max", Statistic<&PairMeasures::target, &TensorStats::Max>},
    {"npu_min", Statistic<&PairMeasures::target, &TensorStats::Min>},
    {"npu_mean", Statistic<&PairMeasures::target, &TensorStats::Mean>},
    {"npu_norm", Statistic<&PairMeasures::target, &TensorStats::Norm>},
    {"bench_max", Statistic<&PairMeasures::golden, &TensorStats::Max>},
    {"bench_min", Statistic<&PairMeasures::golden, &TensorStats::Min>},
    {"bench_mean", Statistic<&PairMeasures::golden, &TensorStats::Mean>},
    {"bench_norm", Statistic<&PairMeasures::golden, &TensorStats::Norm>},
};

// One element, with its value on both sides.
void AppendElement(std::string_view key, std::uint64_t index, double npu, double bench, std::string& out) {
  out += fmt::format(", \"{}\": {{\"index\": {}, \"npu\": ", key, index);
  Append(npu, out);
  out += ", \"bench\": ";
  Append(bench, out);
  out += '}';
}

}  // namespace

std::string MeasuredJson(const PairMeasures& m) {
  std::string out = "{";
  for (const MeasuredNumber& number : kMeasuredNumbers) {
    out += fmt::format("{}\"{}\": ", out.size() == 1 ? "" : ", ", number.key);
    number.append(m, out);
  }
  AppendElement("worst", m.max_abs_diff_index, m.max_abs_diff_target, m.max_abs_diff_golden, out);
  if (m.num_special_mismatches() > 0) {
    AppendElement("special_mismatch", m.first_special_mismatch, m.special_mismatch_target,
                  m.special_mismatch_golden, out);
  }
  return out + '}';
}

std::string EstimateJson(const SketchEstimate& estimate) {
  std::string out = "{\"error_norm_estimate\": ";
  Append(estimate.error_norm, out);
  out += ", \"error_estimate\": ";
  Append(estimate.relative_error, out);
  out += ", \"cosine_estimate\": ";
  Append(estimate.cosine, out);
  return out + fmt::format(", \"error_is_in_one_sum\": {}}}", estimate.is_in_one_sum);
}

}  // namespace vernier::msprobe

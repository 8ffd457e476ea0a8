#include <cmath>

#include <fmt/format.h>

#include "core/python_text.h"
#include "report/msprobe_table.h"

namespace vernier::msprobe {
namespace {

// What was measured of the two files, for readers that want more than the columns.
struct MeasuredNumber {
  std::string_view key;
  double (*get)(const PairMeasures& m);
};
template <auto kMember>
double Get(const PairMeasures& m) {
  return static_cast<double>(m.*kMember);
}
constexpr MeasuredNumber kMeasuredNumbers[] = {
    {"num_elements", Get<&PairMeasures::num_elements>},
    {"dot", Get<&PairMeasures::dot>},
    {"sum_sq_npu", Get<&PairMeasures::sum_sq_target>},
    {"sum_sq_bench", Get<&PairMeasures::sum_sq_golden>},
    {"sum_sq_diff", Get<&PairMeasures::sum_sq_diff>},
    {"sum_abs_diff", Get<&PairMeasures::sum_abs_diff>},
    {"sum_diff", Get<&PairMeasures::sum_diff>},
    {"max_abs_diff", Get<&PairMeasures::max_abs_diff>},
    {"max_relative", Get<&PairMeasures::max_relative>},
    {"sum_relative", Get<&PairMeasures::sum_relative>},
    {"num_relative_below_1e3", Get<&PairMeasures::num_relative_below_1e3>},
    {"num_relative_below_5e3", Get<&PairMeasures::num_relative_below_5e3>},
    {"num_both_nan", Get<&PairMeasures::num_both_nan>},
    {"num_both_same_inf", Get<&PairMeasures::num_both_same_inf>},
    {"num_opposite_inf", Get<&PairMeasures::num_opposite_inf>},
    {"num_nan_npu_only", Get<&PairMeasures::num_nan_target_only>},
    {"num_nan_bench_only", Get<&PairMeasures::num_nan_golden_only>},
    {"num_inf_npu_only", Get<&PairMeasures::num_inf_target_only>},
    {"num_inf_bench_only", Get<&PairMeasures::num_inf_golden_only>},
    {"npu_max", [](const PairMeasures& m) { return m.target.Max(); }},
    {"npu_min", [](const PairMeasures& m) { return m.target.Min(); }},
    {"npu_mean", [](const PairMeasures& m) { return m.target.Mean(); }},
    {"npu_norm", [](const PairMeasures& m) { return m.target.Norm(); }},
    {"bench_max", [](const PairMeasures& m) { return m.golden.Max(); }},
    {"bench_min", [](const PairMeasures& m) { return m.golden.Min(); }},
    {"bench_mean", [](const PairMeasures& m) { return m.golden.Mean(); }},
    {"bench_norm", [](const PairMeasures& m) { return m.golden.Norm(); }},
};

void AppendMeasured(const PairMeasures& m, std::string& out) {
  out += ", \"measured\": {";
  for (const MeasuredNumber& number : kMeasuredNumbers) {
    out += fmt::format("\"{}\": ", number.key);
    AppendJsonNumber(number.get(m), false, out);
    out += ", ";
  }
  out += fmt::format("\"worst\": {{\"index\": {}, \"npu\": ", m.max_abs_diff_index);
  AppendJsonNumber(m.max_abs_diff_target, false, out);
  out += ", \"bench\": ";
  AppendJsonNumber(m.max_abs_diff_golden, false, out);
  out += '}';
  if (m.num_special_mismatches() > 0) {
    out += fmt::format(", \"special_mismatch\": {{\"index\": {}, \"npu\": ", m.first_special_mismatch);
    AppendJsonNumber(m.special_mismatch_target, false, out);
    out += ", \"bench\": ";
    AppendJsonNumber(m.special_mismatch_golden, false, out);
    out += '}';
  }
  out += '}';
}

}  // namespace

void AppendJsonRow(std::span<const Column> columns, const ResultRow& row, bool python, int indent,
                   std::string& out) {
  const std::string separator =
      indent > 0 ? ",\n" + std::string(static_cast<std::size_t>(indent), ' ') : ", ";
  out += '{';
  if (indent > 0) out += separator.substr(1);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (i > 0) out += separator;
    AppendJsonText(columns[i].heading, out);
    out += ": ";
    AppendJsonValue(columns[i].cell(row), python, out);
  }
  if (!python && row.measures != nullptr) AppendMeasured(*row.measures, out);
  if (indent == 0) out += '}';
}

}  // namespace vernier::msprobe

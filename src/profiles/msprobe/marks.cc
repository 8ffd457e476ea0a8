// Which rows of the classic generation are red or yellow, and why.
#include <cmath>
#include <vector>

#include "profiles/msprobe/verdict.h"

namespace vernier::msprobe {
namespace {

struct Reasons {
  std::vector<std::string_view> red, yellow;
};

// The largest difference of a row: "Max diff" or "MaxAbsErr".
const Cell& Difference(Mode mode, const ResultRow& row) {
  return row.metrics[mode == Mode::kReal ? std::size_t{kMaxAbsErr} : 0];
}

bool IsSpecial(const Cell& statistic) {
  return statistic.Is("Nan") || (statistic.kind == Cell::Kind::kNumber && std::isinf(statistic.number));
}

class RecordMarker {
 public:
  RecordMarker(Mode mode, const Rules& rules, std::span<ResultRow> rows)
      : mode_(mode), rules_(rules), rows_(rows), reasons_(rows.size()) {}

  void Run() {
    for (std::size_t i = 0; i < rows_.size(); ++i) MarkAlone(i);
    for (std::size_t i = 1; i < rows_.size(); ++i) {
      if (rows_[i].state == PortState::kOutput && IsNumeric(rows_[i])) MarkAgainstInputs(i);
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!rows_[i].grad_consistent) reasons_[i].yellow.push_back(rules_.Message("mark_grad"));
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) PutColour(i);
  }

 private:
  void MarkAlone(std::size_t i) {
    const ResultRow& row = rows_[i];
    const Cell& difference = Difference(mode_, row);
    if (IsSpecial(row.npu.statistics[0]) || IsSpecial(row.npu.statistics[1])) {
      reasons_[i].red.push_back(rules_.Message("mark_special"));
    } else if (difference.is_number() && std::fabs(difference.number) > rules_.Threshold("huge_difference")) {
      reasons_[i].red.push_back(rules_.Message("mark_huge"));
    }
  }

  bool IsNumeric(const ResultRow& row) const {
    return row.npu.statistics[0].is_number() && row.bench.statistics[0].is_number() &&
           Difference(mode_, row).is_number();
  }

  // The first row of a record counts as an input whatever it is.
  void MarkAgainstInputs(std::size_t output) {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const PortState state = rows_[i].state;
      const bool is_input = i == 0 || state == PortState::kInput || state == PortState::kParameters;
      if (is_input && IsNumeric(rows_[i])) MarkPair(rows_[i], rows_[output], reasons_[output]);
    }
  }

  void MarkPair(const ResultRow& input, const ResultRow& output, Reasons& reasons) {
    const double i = std::fabs(Difference(mode_, input).number),
                 o = std::fabs(Difference(mode_, output).number);
    const double floor = rules_.Threshold("magnitude_floor");
    if (i > floor && o > floor && i <= o &&
        std::log10(o) - std::log10(i) >= rules_.Threshold("magnitude_growth")) {
      reasons.yellow.push_back(rules_.Message("mark_magnitude"));
    }
    if (mode_ == Mode::kReal) {
      MarkRatio(input, output, reasons);
      MarkCosine(input, output, reasons);
    } else {
      MarkRelative(input, output, reasons);
    }
  }

  void MarkRatio(const ResultRow& input, const ResultRow& output, Reasons& reasons) {
    const Cell &i = input.metrics[kOneThousandth], &o = output.metrics[kOneThousandth];
    if (!i.is_number() || !o.is_number()) return;
    if (i.number > rules_.Threshold("ratio_input_good") && o.number < rules_.Threshold("ratio_output_bad")) {
      reasons.red.push_back(rules_.Message("mark_ratio_bad"));
    } else if (i.number - o.number > rules_.Threshold("ratio_drop")) {
      reasons.yellow.push_back(rules_.Message("mark_ratio_drop"));
    }
  }

  void MarkCosine(const ResultRow& input, const ResultRow& output, Reasons& reasons) {
    const Cell &i = input.metrics[kCosine], &o = output.metrics[kCosine];
    if (i.is_number() && o.is_number() && i.number - o.number > rules_.Threshold("cosine_drop")) {
      reasons.yellow.push_back(rules_.Message("mark_cosine_drop"));
    }
  }

  void MarkRelative(const ResultRow& input, const ResultRow& output, Reasons& reasons) {
    const auto i = FractionOf(input.metrics[kFirstRelativeErr]),
               o = FractionOf(output.metrics[kFirstRelativeErr]);
    if (!o) return;
    if (*o > rules_.Threshold("relative_bad")) reasons.red.push_back(rules_.Message("mark_relative_bad"));
    if (i && *o > rules_.Threshold("relative_suspicious") && *i < rules_.Threshold("relative_input_good")) {
      reasons.yellow.push_back(rules_.Message("mark_relative_suspicious"));
    }
  }

  void PutColour(std::size_t i) {
    const Reasons& reasons = reasons_[i];
    ResultRow& row = rows_[i];
    row.colour = !reasons.red.empty()      ? RowColour::kRed
                 : !reasons.yellow.empty() ? RowColour::kYellow
                                           : RowColour::kNone;
    for (const std::string_view reason : !reasons.red.empty() ? reasons.red : reasons.yellow) {
      if (!row.message.empty()) row.message += '\n';
      row.message += reason;
    }
  }

  Mode mode_;
  const Rules& rules_;
  std::span<ResultRow> rows_;
  std::vector<Reasons> reasons_;
};

}  // namespace

void MarkRecord(Mode mode, const Rules& rules, std::span<ResultRow> rows) {
  if (mode != Mode::kMd5) RecordMarker(mode, rules, rows).Run();
}

}  // namespace vernier::msprobe

#include "profiles/msprobe/verdict.h"

#include <cmath>
#include <vector>

namespace vernier::msprobe {
namespace {

enum class Level { kWarning, kError };
struct Message {
  Level level;
  std::string_view text;
};
using Messages = std::vector<Message>;

bool IsSpecial(const Cell& statistic) {
  if (statistic.is_number()) return !std::isfinite(statistic.number);
  return statistic.Is("Nan") || statistic.Is("inf") || statistic.Is("-inf");
}

bool SameScalar(const Cell& a, const Cell& b) {
  if (a.is_number() && b.is_number()) return a.number == b.number;
  return CellText(a) == CellText(b);
}

// The second component of a name.
std::string_view ShortName(std::string_view name) {
  const std::size_t first = name.find('.');
  if (first == std::string_view::npos) return {};
  return name.substr(first + 1, name.find('.', first + 1) - first - 1);
}

class RecordJudge {
 public:
  RecordJudge(Mode mode, const Rules& rules, std::span<ResultRow> rows)
      : mode_(mode), rules_(rules), rows_(rows), messages_(rows.size()) {
    std::string_view api;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const bool is_output = rows[i].npu_name.find(".output.") != std::string_view::npos;
      if (!is_output && inputs_.empty()) api = ShortName(rows[i].npu_name);
      (is_output ? outputs_ : inputs_).push_back(i);
    }
    exempt_ = rules.Lists("exempt", api);
    inputs_exempt_ = rules.Lists("inputs_exempt", api);
  }

  void Run() {
    if (mode_ == Mode::kMd5) {
      for (std::size_t i = 0; i < rows_.size(); ++i) TestMd5(i);
    } else if (!exempt_) {
      // In the order in which their messages appear.
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        if (Tested(i)) TestSpecial(i);
      }
      if (!inputs_exempt_) TestOutputsAgainstInputs();
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        if (Tested(i)) TestProperties(i);
      }
      if (!inputs_exempt_) TestGrowth();
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) Write(i);
  }

 private:
  bool Tested(std::size_t i) const {
    return !inputs_exempt_ || rows_[i].npu_name.find(".output.") != std::string_view::npos;
  }
  bool IsInput(std::size_t i) const { return rows_[i].npu_name.find(".output.") == std::string_view::npos; }
  void Error(std::size_t i, std::string_view key) {
    messages_[i].push_back({Level::kError, rules_.Message(key)});
  }
  void Warn(std::size_t i, std::string_view key) {
    messages_[i].push_back({Level::kWarning, rules_.Message(key)});
  }

  // The smallest (start 1) or largest (start 0) number in a column of some rows; other texts are passed over.
  double Extreme(const std::vector<std::size_t>& rows, std::size_t metric, bool largest) const {
    double extreme = largest ? 0.0 : 1.0;
    for (const std::size_t i : rows) {
      const auto number = FractionOf(rows_[i].metrics[metric]);
      if (!number || std::isnan(*number)) continue;
      extreme = largest ? std::fmax(extreme, *number) : std::fmin(extreme, *number);
    }
    return extreme;
  }

  void TestSpecial(std::size_t i) {
    const ResultRow& row = rows_[i];
    const auto special = [](const Leaf& leaf) {
      return IsSpecial(leaf.statistics[0]) || IsSpecial(leaf.statistics[1]);
    };
    if (special(row.npu) && !special(row.bench)) Error(i, "error_special");
  }

  void TestOutputsAgainstInputs() {
    if (outputs_.empty()) return;
    if (mode_ == Mode::kReal) {
      if (Extreme(inputs_, kOneThousandth, false) > rules_.Threshold("ratio_input_good") &&
          Extreme(outputs_, kOneThousandth, false) < rules_.Threshold("ratio_output_bad")) {
        Error(outputs_[0], "error_ratio");
      }
      return;
    }
    if (!(Extreme(inputs_, kNormRelativeErr, true) < rules_.Threshold("norm_input_good"))) return;
    for (const std::size_t i : outputs_) {
      const Cell& cell = rows_[i].metrics[kNormRelativeErr];
      const auto norm = cell.Is("inf") ? std::optional(HUGE_VAL) : FractionOf(cell);
      if (norm && *norm > rules_.Threshold("norm_output_bad")) Error(i, "error_norm");
    }
  }

  void TestProperties(std::size_t i) {
    const ResultRow& row = rows_[i];
    if (!row.matched) return;
    if (row.npu.requires_grad != row.bench.requires_grad) Error(i, "error_grad");
    const auto is_class = [](std::string_view dtype) {
      return dtype.find("class") != std::string_view::npos;
    };
    if (!inputs_exempt_ && IsInput(i) && is_class(row.npu.dtype) && is_class(row.bench.dtype) &&
        row.npu.shape == "[]" && !SameScalar(row.npu.statistics[0], row.bench.statistics[0])) {
      Error(i, "error_scalar");
    }
    if (row.npu.dtype != row.bench.dtype && !rules_.ListsPartOf("dtype_may_differ", row.bench_name))
      Error(i, "error_dtype");
    if (row.npu.shape != row.bench.shape) Error(i, "error_shape");
  }

  void TestGrowth() {
    if (outputs_.empty()) return;
    if (mode_ == Mode::kReal) {
      const double input = Extreme(inputs_, kCosine, false), output = Extreme(outputs_, kCosine, false);
      if (input > rules_.Threshold("cosine_input_good") && input - output > rules_.Threshold("cosine_drop")) {
        Warn(outputs_[0], "warning_cosine");
      }
      return;
    }
    const double input = Extreme(inputs_, kNormRelativeErr, true),
                 output = Extreme(outputs_, kNormRelativeErr, true);
    const bool grows = input == 0 ? output > rules_.Threshold("norm_output_suspicious")
                                  : output / input > rules_.Threshold("norm_growth");
    if (grows) Warn(outputs_[0], "warning_norm");
  }

  void TestMd5(std::size_t i) {
    const std::string_view npu = rows_[i].npu.md5, bench = rows_[i].bench.md5;
    if (npu == bench) return;
    const auto missing = [](std::string_view md5) { return md5.empty() || md5 == "N/A" || md5 == "Nan"; };
    missing(npu) || missing(bench) ? Warn(i, "warning_no_md5") : Error(i, "error_md5");
  }

  void Write(std::size_t i) {
    ResultRow& row = rows_[i];
    row.SetResult("pass", Judged::kPass);
    row.message = "[";
    for (const auto& [level, text] : messages_[i]) {
      if (row.message.size() > 1) row.message += ", ";
      row.message += '"';
      row.message += text;
      row.message += '"';
      if (level == Level::kError || row.result != "error")
        row.SetResult(level == Level::kError ? "error" : "warning", Judged::kFail);
    }
    row.message += ']';
  }

  Mode mode_;
  const Rules& rules_;
  std::span<ResultRow> rows_;
  std::vector<Messages> messages_;
  std::vector<std::size_t> inputs_, outputs_;
  bool exempt_ = false, inputs_exempt_ = false;
};

}  // namespace

void JudgeRecord(Mode mode, const Rules& rules, std::span<ResultRow> rows) {
  RecordJudge(mode, rules, rows).Run();
}

}  // namespace vernier::msprobe

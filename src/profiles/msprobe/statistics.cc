#include "profiles/msprobe/statistics.h"

#include <cmath>

#include "core/python_text.h"

namespace vernier::msprobe {
namespace {

struct Comparison {
  Cell difference, relative;
  bool suspicious = false;
};

Comparison Both(std::string_view word) { return {Cell(word), Cell(word), false}; }

Cell Percent(double difference, double bench, TextArena& arena) {
  const double percent = std::fabs(difference / bench * 100);
  return Cell::Shown(percent / 100, arena.Keep(PythonFloat(percent) + '%'));
}

// The reference's divisor is the larger of the two values, signed, not the bench value (see the
// specification, #6).
constexpr double kWarningFloor = 1e-10;

Comparison CompareClassic(const Cell& npu, const Cell& bench, double warning_ratio, TextArena& arena) {
  const auto n = NumericOf(npu), b = NumericOf(bench);
  if (!n || !b) return Both("N/A");
  const double difference = *n - *b;
  if (std::isnan(difference)) return Both("Nan");
  Comparison result;
  result.difference = Cell(difference);
  result.relative = *b == 0 ? Cell("N/A") : Percent(difference, *b, arena);
  const double larger = std::fabs(std::fmax(*n, *b)) + kWarningFloor;
  result.suspicious = std::fabs(difference) / larger > warning_ratio;
  return result;
}

enum Class { kNumber, kNan, kPosInf, kNegInf, kDevice, kMissing, kOther, kNumClasses };

Class ClassOf(const Cell& value) {
  if (value.is_number()) return std::isinf(value.number) ? (value.number > 0 ? kPosInf : kNegInf) : kNumber;
  if (value.text == "N/A") return kMissing;
  if (const auto number = NumericOf(value)) {
    return std::isnan(*number) ? kNan : std::isinf(*number) ? (*number > 0 ? kPosInf : kNegInf) : kNumber;
  }
  for (const std::string_view device : {"npu", "cpu", "cuda"}) {
    if (value.text.find(device) != std::string_view::npos) return kDevice;
  }
  return kOther;
}

// One word stands for difference and relative error. Row: NPU, column: bench. Empty: two numbers, or the same
// text.
// clang-format off
constexpr std::string_view kWords[kNumClasses][kNumClasses] = {
    //           number   nan     inf     -inf    device  N/A    other
    /* number */ {"",     "Nan",  "-inf", "inf",  "Diff", "N/A", "Diff"},
    /* nan    */ {"Nan",  "Nan",  "Nan",  "Nan",  "Diff", "N/A", "Diff"},
    /* inf    */ {"inf",  "Nan",  "",     "inf",  "Diff", "N/A", "Diff"},
    /* -inf   */ {"-inf", "Nan",  "-inf", "",     "Diff", "N/A", "Diff"},
    /* device */ {"Diff", "Diff", "Diff", "Diff", "N/A",  "N/A", "Diff"},
    /* N/A    */ {"N/A",  "N/A",  "N/A",  "N/A",  "N/A",  "N/A", "N/A"},
    /* other  */ {"Diff", "Diff", "Diff", "Diff", "Diff", "N/A", "Diff"},
};
// clang-format on

bool SameText(const Cell& a, const Cell& b) {
  if (a.kind == b.kind) {
    return a.kind == Cell::Kind::kNumber
               ? a.number == b.number && std::signbit(a.number) == std::signbit(b.number)
               : a.text == b.text;
  }
  return CellText(a) == CellText(b);
}

Comparison CompareCurrent(const Cell& npu, const Cell& bench, TextArena& arena) {
  if (SameText(npu, bench)) return Both("0");
  const Class n = ClassOf(npu), b = ClassOf(bench);
  if (n != kNumber || b != kNumber) {
    const std::string_view word = kWords[n][b];
    return Both(word.empty() ? "0" : word);
  }
  const double divisor = *NumericOf(bench), difference = *NumericOf(npu) - divisor;
  Comparison result;
  result.difference = Cell(arena.Keep(PythonFloat(difference)));
  result.relative = divisor == 0 ? Cell("inf") : Percent(difference, divisor, arena);
  return result;
}

}  // namespace

void CompareStatistics(const Profile& profile, const Rules& rules, ResultRow& row, TextArena& arena) {
  const bool classic = profile.generation == Generation::kClassic;
  const double warning_ratio = classic ? rules.Threshold("warning_ratio") : 0;
  bool suspicious = false;
  for (std::size_t i = 0; i < row.npu.statistics.size(); ++i) {
    const Comparison cell =
        !row.matched ? Both("N/A")
        : classic    ? CompareClassic(row.npu.statistics[i], row.bench.statistics[i], warning_ratio, arena)
                     : CompareCurrent(row.npu.statistics[i], row.bench.statistics[i], arena);
    row.metrics[i] = cell.difference;
    row.metrics[kFirstRelativeErr + i] = cell.relative;
    suspicious = suspicious || cell.suspicious;
  }
  if (!classic) return;
  row.SetResult(!row.matched ? "N/A"
                : suspicious ? "Warning"
                             : "",
                suspicious ? Judged::kFail : Judged::kNone);
  row.message = !row.matched ? rules.Message("no_bench") : suspicious ? rules.Message("double_check") : "";
  if (!row.grad_consistent) row.message += rules.Message("grad_inconsistent");
}

void CompareMd5(ResultRow& row) {
  const bool same = row.npu.md5 == row.bench.md5;
  row.SetResult(!row.matched ? "N/A"
                : same       ? "pass"
                             : "Different",
                !row.matched ? Judged::kNone
                : same       ? Judged::kPass
                             : Judged::kFail);
}

}  // namespace vernier::msprobe

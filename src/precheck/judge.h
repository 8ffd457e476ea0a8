// One output of an API on the device against the bench's -> a row of accuracy_checking_details_*.csv.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "precheck/columns.h"
#include "precheck/rules.h"
#include "precheck/standards.h"
#include "precheck/verdict.h"
#include "vernier/cell.h"
#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier::precheck {

struct JudgeSettings {
  const Rules* rules = &Rules::Shipped();
  Policy policy = Policy::kManual;
  Thresholds thresholds = Thresholds::kManual;
  std::vector<std::string> quantised;  // APIs whose integers may be off by one
  int num_threads = 0;                 // 0: one per core
};

struct DetailsRow {
  using Value = std::variant<std::monostate, double, std::string>;

  std::array<Value, kNumDetails> cells;  // without name, status and message
  Verdict status = Verdict::kPass;
  std::string message;    // one reason per line
  std::string failed_by;  // the metric that gave an error or a warning, with its value
  double severity = 0;    // larger is worse: the error beside the size of the values

  Value& operator[](Detail column) { return cells[At(column)]; }
  const Value& operator[](Detail column) const { return cells[At(column)]; }
  void Say(std::string_view line) { message += (message.empty() ? "" : "\n") + std::string(line); }
};

struct PairOfTensors {
  TensorView bench, device;
  Dtype device_dtype = Dtype::kF32;  // what the device computed in; `device` may hold it widened
  bool has_float8_inputs = false;
};

// Fails only when it was asked to stop or memory ran out.
Result<DetailsRow> JudgeTensors(const JudgeSettings& settings, std::string_view api,
                                const PairOfTensors& pair);
// Values of Python's bool, int, float and str; the types as str(type(x)) shows them.
DetailsRow JudgePlain(std::string_view bench_type, std::string_view device_type, bool are_equal);
DetailsRow SkippedRow(std::string_view reason);
// Two things that cannot be compared: "shape: bench (2, 3), device (3, 2): cannot be compared".
DetailsRow MismatchRow(std::string_view what, std::string_view bench, std::string_view device);

// Random by nature: only the share of zeros must be alike.
Result<Verdict> JudgeDropout(const JudgeSettings& settings, const PairOfTensors& pair);

// Every metric of every standard, as "benchmark.rmse", …; a truth value says whether a gate is passed.
using NamedCell = std::pair<std::string, Cell>;
Result<std::vector<NamedCell>> AllMetrics(const JudgeSettings& settings, const PairOfTensors& pair);

// A row as it stands in the file: its name first, one space where there is nothing, `precision` decimals.
std::vector<std::string> CellTexts(const DetailsRow& row, std::string_view name, int precision);

std::string ShapeTuple(const Shape& shape);  // "(2, 3)", "(5,)", "()"

}  // namespace vernier::precheck

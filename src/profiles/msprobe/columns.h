// The result tables of the msprobe family: their columns, and how their files look.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/msprobe/row.h"
#include "vernier/report.h"

namespace vernier::msprobe {

struct Column {
  std::string_view heading;
  Cell (*cell)(const ResultRow& row, TextArena& arena);
  std::string_view help;  // what it holds and how it is computed
};
// In table order. `with_measured`: everything measured of the two files behind them, for formats that can
// hold it.
// `with_estimates`: of the dumps one holds sketches.
std::vector<Column> ColumnsOf(Generation generation, Mode mode, bool with_stack, bool with_measured = false,
                              bool with_estimates = false);
std::span<const Column> EstimateColumns();

// `coloured`: of -hl, where the sheet has another name and truth values are texts.
TableStyle StyleOf(bool coloured);

// A text that a spreadsheet might run, as the reference sees it. Numbers may have a sign.
bool IsForbidden(const Cell& cell);

// What was measured of two files as a JSON object.
std::string MeasuredJson(const PairMeasures& measures);
// What two sketches tell, likewise.
std::string EstimateJson(const SketchEstimate& estimate);

inline constexpr std::uint64_t kMaxSheetRows = 1048500;  // the reference's limit, a little below the format's
inline constexpr std::uint64_t kMaxCsvRows = 1000000;

}  // namespace vernier::msprobe

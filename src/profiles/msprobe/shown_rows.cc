// The rows of a table that --top asks for, on the screen.
#include <algorithm>

#include "profiles/msprobe/rank.h"
#include "profiles/msprobe/run.h"

namespace vernier::msprobe {
namespace {

// What a row on the screen shows, of the columns that its table has.
struct ShownColumn {
  std::string_view heading;
  TableColumn::Cut cut = TableColumn::Cut::kNever;
};
constexpr ShownColumn kShownColumns[] = {
    {"Result"},
    {"Accuracy Reached or Not"},
    {"NPU Name", TableColumn::Cut::kMiddle},
    {"NPU Dtype"},
    {"NPU Tensor Shape"},
    {"Cosine"},
    {"MaxAbsErr"},
    {"MaxRelativeErr"},
    {"NormRelativeErr"},
    {"NPU max"},
    {"Bench max"},
    {"NPU MD5"},
    {"BENCH MD5"},
    {"Err_message", TableColumn::Cut::kEnd},
};

}  // namespace

std::string ShownRowsText(const RankResult& result, const CompareHooks::Screen& screen) {
  if (result.shown.empty()) return {};
  std::vector<TableColumn> columns;
  std::vector<std::size_t> places;
  for (const ShownColumn& column : kShownColumns) {
    const auto found = std::find(result.columns.begin(), result.columns.end(), column.heading);
    if (found == result.columns.end()) continue;
    columns.push_back({std::string(column.heading), column.cut});
    places.push_back(static_cast<std::size_t>(found - result.columns.begin()));
  }
  RowBlock rows(columns.size());
  for (const KeptRow& row : result.shown) {
    for (const std::size_t place : places) rows.cells.push_back(row.kept.cells()[place]);
    rows.colours.push_back(row.status == Status::kFail ? RowColour::kRed : RowColour::kNone);
  }
  return (result.outcome.rank.empty() ? "" : result.outcome.rank + ":\n") +
         RenderTable(columns, rows, {screen.width, screen.colour, 0}) + '\n';
}

}  // namespace vernier::msprobe

// What the terminal shows: the guide's table, with its widths.
#include <fmt/format.h>

#include <cmath>

#include "profiles/xray/xray.h"

namespace vernier::xray {
namespace {

constexpr std::size_t kNameWidth = 57;

std::string NumberText(const Cell& cell) {
  if (cell.kind == Cell::Kind::kNumber && std::isfinite(cell.number))
    return fmt::format("{:.7G}", cell.number);
  return CellText(cell);
}

}  // namespace

std::vector<std::string> ScreenCells(const Row& row) {
  constexpr std::size_t kNumColumns = 8;
  std::vector<std::string> cells;
  TextArena arena;
  for (const Column& column : Columns().first(kNumColumns))
    cells.push_back(NumberText(column.value(row, arena)));
  return cells;
}

std::string ScreenTable(std::span<const ScreenRow> rows) {
  const FrameColumn columns[] = {
      {"Index", 5},        {"Status", 6}, {"Module (Bench/Target)", kNameWidth, kNameWidth, false, false},
      {"Cosine", 6},       {"RMSE", 9},   {"IsClose (%)", 11},
      {"Max Err (t)", 11}, {"GtNum", 6},
  };
  std::vector<std::vector<std::string>> lines;
  for (const ScreenRow& row : rows) lines.push_back(row.cells);
  return RenderFrame(columns, lines);
}

}  // namespace vernier::xray

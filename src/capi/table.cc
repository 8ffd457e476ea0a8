// Tables cross the border cell by cell.
#include <algorithm>

#include "capi/c_api_internal.h"

namespace vernier {
namespace {

VnCell ToVnCell(const Cell& cell) {
  switch (cell.kind) {
    case Cell::Kind::kNone:
      return {};
    case Cell::Kind::kBool:
      return {VN_CELL_BOOL, cell.integer, 0, nullptr, 0};
    case Cell::Kind::kInt:
      if (cell.text.empty()) return {VN_CELL_INT, cell.integer, 0, nullptr, 0};
      break;  // it may have more digits than an integer
    case Cell::Kind::kUint:
      return {VN_CELL_UINT, cell.integer, 0, nullptr, 0};
    case Cell::Kind::kNumber:
      return {VN_CELL_DOUBLE, 0, cell.number, nullptr, 0};
    default:
      break;
  }
  return {VN_CELL_TEXT, 0, 0, cell.text.data(), cell.text.size()};
}

}  // namespace
}  // namespace vernier

using namespace vernier;  // NOLINT: the functions below are C

size_t VnTableNumRows(const VnTable* table) { return table != nullptr ? table->rows.size() : 0; }
size_t VnTableNumColumns(const VnTable* table) { return table != nullptr ? table->columns.size() : 0; }
const char* VnTableColumn(const VnTable* table, size_t column) {
  return column < VnTableNumColumns(table) ? table->columns[column].c_str() : nullptr;
}

VnStatus VnTableRow(const VnTable* table, size_t row, VnCell* cells, size_t num_cells) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"table", table}, {"cells", cells}}));
    if (row >= table->rows.size()) return BadArgument("row", std::to_string(row) + " is not in the table");
    if (num_cells < table->columns.size()) return BadArgument("cells", "has no room for every column");
    const auto values = table->rows[row].cells();
    VnCell* const end = std::transform(values.begin(), values.end(), cells, ToVnCell);
    std::fill(end, cells + table->columns.size(), VnCell{});
    return Done{};
  });
}

void VnCloseTable(VnTable* table) { delete table; }

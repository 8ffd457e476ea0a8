// Tables cross the border cell by cell.
#include "capi/c_api_internal.h"

namespace vernier {
namespace {

struct ToVnCell {
  VnCell operator()(std::monostate) const { return {}; }
  VnCell operator()(bool value) const { return {VN_CELL_BOOL, value, 0, nullptr, 0}; }
  VnCell operator()(std::int64_t value) const { return {VN_CELL_INT, value, 0, nullptr, 0}; }
  VnCell operator()(std::uint64_t value) const {
    return {VN_CELL_UINT, static_cast<std::int64_t>(value), 0, nullptr, 0};
  }
  VnCell operator()(double value) const { return {VN_CELL_DOUBLE, 0, value, nullptr, 0}; }
  VnCell operator()(const std::string& value) const {
    return {VN_CELL_TEXT, 0, 0, value.data(), value.size()};
  }
};

}  // namespace
}  // namespace vernier

using namespace vernier;  // NOLINT: the functions below are C

size_t VnTableNumRows(const VnTable* table) { return table->rows.size(); }
size_t VnTableNumColumns(const VnTable* table) { return table->columns.size(); }
const char* VnTableColumn(const VnTable* table, size_t column) {
  return column < table->columns.size() ? table->columns[column].c_str() : nullptr;
}

VnStatus VnTableRow(const VnTable* table, size_t row, VnCell* cells, size_t num_cells) {
  return Guarded([&]() -> Result<Done> {
    if (row >= table->rows.size()) return BadArgument("row", std::to_string(row) + " is not in the table");
    if (num_cells < table->columns.size()) return BadArgument("cells", "has no room for every column");
    for (const Cell& cell : table->rows[row]) *cells++ = std::visit(ToVnCell{}, cell);
    return Done{};
  });
}

void VnCloseTable(VnTable* table) { delete table; }

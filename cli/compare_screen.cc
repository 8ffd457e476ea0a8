#include <fmt/format.h>

#include <algorithm>

#include "cli/compare.h"
#include "core/text.h"

namespace vernier {
namespace {

using Cut = TableColumn::Cut;

struct ScreenColumn {
  std::string_view key;  // of CompareColumns()
  std::string_view heading;
  Cut cut = Cut::kNever;
  bool only_if_wide = false;
};
// clang-format off
constexpr ScreenColumn kScreenColumns[] = {
    {"verdict",       "verdict"},
    {"name",          "name",    Cut::kMiddle},
    {"dtype",         "dtype"},
    {"shape",         "shape",   Cut::kMiddle},
    {"max_abs",       "max abs"},
    {"max_rel",       "max rel"},
    {"cosine",        "cosine"},
    {"percent_close", "% close"},
    {"why",           "why",     Cut::kEnd, true},
};
// clang-format on
constexpr std::size_t kWide = 160;  // columns, from which on the reasons fit beside the numbers

int StatusRank(Status status) {
  constexpr int kRanks[] = {3, 0, 1, 2};  // pass, fail, error, unmatched
  return kRanks[static_cast<std::size_t>(status)];
}

std::size_t ColumnOf(std::string_view key) {
  const auto columns = CompareColumns();
  const auto found =
      std::find_if(columns.begin(), columns.end(), [key](const CompareColumn& c) { return c.key == key; });
  return static_cast<std::size_t>(found - columns.begin());
}

std::string TextCell(const KeptRow& row, std::string_view key) {
  const auto* text = std::get_if<std::string>(&row.cells[ColumnOf(key)]);
  return text ? *text : "";
}

std::string TableTextOf(const CompareScreen& screen, std::size_t width, bool colour) {
  std::vector<TableColumn> columns;
  std::vector<std::size_t> sources;
  for (const ScreenColumn& column : kScreenColumns) {
    if (column.only_if_wide && width != 0 && width < kWide) continue;
    columns.push_back({std::string(column.heading), column.cut});
    sources.push_back(ColumnOf(column.key));
  }
  std::vector<TableRow> rows;
  for (const KeptRow& kept : screen.rows) {
    TableRow row;
    for (const std::size_t source : sources) row.cells.push_back(kept.cells[source]);
    row.colour = ColourOf(kept.status);
    rows.push_back(std::move(row));
  }
  TableOptions options;
  options.width = width;
  options.colour = colour;
  options.colour_column = 0;
  return RenderTable(columns, rows, options);
}

}  // namespace

bool IsWorse(const KeptRow& a, const KeptRow& b) {
  if (a.status != b.status) return StatusRank(a.status) < StatusRank(b.status);
  if (a.severity != b.severity) return a.severity > b.severity;
  return a.position < b.position;
}

std::string CompareScreenText(const CompareScreen& screen, std::size_t width, bool colour) {
  std::string text;
  if (!screen.rows.empty()) {
    text += TableTextOf(screen, width, colour);
    if (screen.num_rows > screen.rows.size()) {
      text += fmt::format("… {} more rows; --top N shows more, -o FILE writes all\n",
                          screen.num_rows - screen.rows.size());
    }
    text += '\n';
  }
  text += screen.summary.Text() + '\n';
  for (const KeptRow& row : screen.first_bad) {
    text += fmt::format("first {} in file order: {}: {}\n", row.status == Status::kFail ? "failure" : "error",
                        Printable(TextCell(row, "name")), Printable(TextCell(row, "why")));
  }
  for (const std::string& name : screen.written) text += fmt::format("wrote {}\n", Printable(name));
  return text;
}

}  // namespace vernier

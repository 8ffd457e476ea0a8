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
  enum class When {
    kAlways,
    kIfRoomy,
    kIfWide,
    kIfAny
  } when = When::kAlways;            // kIfAny: where a row has more than zero
  std::string_view golden_key = {};  // shown beside it where it differs, or instead where there is no target
};
using When = ScreenColumn::When;
// clang-format off
constexpr ScreenColumn kScreenColumns[] = {
    {"verdict",       "verdict"},
    {"name",          "name",    Cut::kMiddle},
    {"dtype",         "dtype",   Cut::kNever,  When::kAlways, "golden_dtype"},
    {"shape",         "shape",   Cut::kMiddle, When::kAlways, "golden_shape"},
    {"max_abs",       "max abs"},
    {"max_rel",       "max rel", Cut::kNever,  When::kIfRoomy},
    {"cosine",        "cosine"},
    {"percent_close", "% close"},
    {"nan_inf_mismatches", "nan/inf", Cut::kNever, When::kIfAny},
    {"why",           "why",     Cut::kEnd, When::kIfWide},
};
// clang-format on
// Columns of the terminal from which on one more number, and the reasons, fit beside the others.
constexpr std::size_t kRoomy = 110, kWide = 160;

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

Cell ScreenCell(const ScreenColumn& column, const KeptRow& row) {
  const Cell& cell = row.cells[ColumnOf(column.key)];
  const std::string golden = column.golden_key.empty() ? "" : TextCell(row, column.golden_key);
  const auto* text = std::get_if<std::string>(&cell);
  if (golden.empty() || (text && *text == golden)) return cell;
  return text ? *text + " vs " + golden : golden;
}

bool IsShown(const ScreenColumn& column, const CompareScreen& screen, std::size_t width) {
  const auto above_zero = [&column](const KeptRow& row) {
    const auto* count = std::get_if<std::uint64_t>(&row.cells[ColumnOf(column.key)]);
    return count && *count > 0;
  };
  if (column.when == When::kIfRoomy) return width == 0 || width >= kRoomy;
  if (column.when == When::kIfWide) return width == 0 || width >= kWide;
  return column.when == When::kAlways || std::any_of(screen.rows.begin(), screen.rows.end(), above_zero);
}

std::string TableTextOf(const CompareScreen& screen, std::size_t width, bool colour) {
  std::vector<TableColumn> columns;
  std::vector<TableRow> rows;
  for (const KeptRow& kept : screen.rows) rows.push_back({{}, ColourOf(kept.status)});
  for (const ScreenColumn& column : kScreenColumns) {
    if (!IsShown(column, screen, width)) continue;
    columns.push_back({std::string(column.heading), column.cut});
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].cells.push_back(ScreenCell(column, screen.rows[i]));
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
  if (screen.summary.num_pairs() == 0) {
    text += "no tensor has a partner; try --match fuzzy, --match position or --rename OLD=NEW\n";
  }
  for (const KeptRow& row : screen.first_bad) {
    text += fmt::format("first {} in file order: {}: {}\n", row.status == Status::kFail ? "failure" : "error",
                        Printable(TextCell(row, "name")), Printable(TextCell(row, "why")));
  }
  for (const std::string& name : screen.written) text += fmt::format("wrote {}\n", Printable(name));
  return text;
}

}  // namespace vernier

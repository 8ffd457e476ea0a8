// What the terminal shows of a comparison of tensors.
#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "profiles/native/native.h"
#include "profiles/verdict_screen.h"

namespace vernier::native {
namespace {

using Cut = TableColumn::Cut;

struct ScreenColumn {
  std::string_view key;  // of Columns()
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

const Cell& CellOf(const KeptRow& row, std::string_view key) {
  const auto columns = Columns();
  const auto found =
      std::find_if(columns.begin(), columns.end(), [key](const Column& c) { return c.key == key; });
  return row.kept.cells()[static_cast<std::size_t>(found - columns.begin())];
}

Cell ScreenCell(const ScreenColumn& column, const KeptRow& row, TextArena& arena) {
  const Cell& cell = CellOf(row, column.key);
  if (column.golden_key.empty()) return cell;
  const Cell& golden = CellOf(row, column.golden_key);
  if (golden.text.empty() || golden.text == cell.text) return cell;
  return cell.text.empty() ? golden : Cell(arena.Keep(fmt::format("{} vs {}", cell.text, golden.text)));
}

bool IsShown(const ScreenColumn& column, const ScreenContent& content, std::size_t width) {
  const auto above_zero = [&column](const KeptRow& row) { return CellOf(row, column.key).number > 0; };
  if (column.when == When::kIfRoomy) return width == 0 || width >= kRoomy;
  if (column.when == When::kIfWide) return width == 0 || width >= kWide;
  return column.when == When::kAlways || std::any_of(content.rows.begin(), content.rows.end(), above_zero);
}

std::string TableTextOf(const ScreenContent& content, std::size_t width, bool colour) {
  std::vector<const ScreenColumn*> shown;
  std::vector<TableColumn> columns;
  for (const ScreenColumn& column : kScreenColumns) {
    if (!IsShown(column, content, width)) continue;
    shown.push_back(&column);
    columns.push_back({std::string(column.heading), column.cut});
  }
  TextArena arena;
  RowBlock rows(shown.size());
  for (const KeptRow& row : content.rows) {
    for (const ScreenColumn* column : shown) rows.cells.push_back(ScreenCell(*column, row, arena));
    rows.colours.push_back(ColourOf(row.status));
  }
  TableOptions options;
  options.width = width;
  options.colour = colour;
  options.colour_column = 0;
  return RenderTable(columns, rows, options);
}

}  // namespace

std::string ScreenText(const ScreenContent& content, std::size_t width, bool colour) {
  std::string text;
  if (!content.rows.empty()) {
    text += TableTextOf(content, width, colour);
    if (content.num_rows > content.rows.size()) {
      text += fmt::format("… {} more rows; --top N shows more, -o FILE writes all\n",
                          content.num_rows - content.rows.size());
    }
    text += '\n';
  }
  return text + VerdictText(content, colour);
}

std::string VerdictText(const ScreenContent& content, bool colour) {
  std::string text =
      fmt::format("{}  {}\n", HeadingOf(content.outcome, colour), SummaryText(content.outcome));
  for (const std::string& doubt : content.outcome.doubts) text += "  " + doubt + '\n';
  if (content.outcome.num_matched == 0) {
    text += "no tensor has a partner; try --match fuzzy, --match position or --rename OLD=NEW\n";
  }
  for (const KeptRow& row : content.first_bad) {
    text += fmt::format("first {} in file order: {}: {}\n", row.status == Status::kFail ? "failure" : "error",
                        Printable(CellOf(row, "name").text), Printable(CellOf(row, "why").text));
  }
  return text;
}

}  // namespace vernier::native

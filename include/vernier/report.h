// report: rows -> csv, xlsx, json, jsonl, a table on the terminal. A writer loops over a table of columns;
// none names one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "vernier/result.h"

namespace vernier {

// Nothing, a truth value, an integer, a number, a text.
using Cell = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string>;

enum class RowColour : std::uint8_t { kNone, kRed, kYellow, kGreen };

enum class ReportFormat { kCsv, kXlsx, kJson, kJsonl };
// By the extension of a path; fails for another one, naming those there are.
Result<ReportFormat> FormatOf(const std::filesystem::path& path);
// By its name: "csv", "xlsx", "json", "jsonl".
Result<ReportFormat> ParseFormat(std::string_view name);

// Only xlsx has a use for these.
struct ReportOptions {
  std::string sheet = "Sheet";
  std::optional<int> first_sheet_number = 1;  // "Sheet1", "Sheet2", …; none: no number behind the first name
  std::uint64_t rows_per_sheet = 1'048'575;   // the header's line makes it the most a sheet can have
};

// Streams rows into one file. The file appears under its name only when Finish() succeeds; before that it has
// a temporary name beside it, which is removed when the writer is destroyed unfinished.
//
//          number                 infinity, NaN    truth value   nothing   text
//   csv    as Python's repr       inf, -inf, nan   True          empty     SpreadsheetSafe, quoted where it
//   must be json   the same               "inf" …          true          null      escaped xlsx   a number,
//   16 digits    text inf …       boolean       empty     text, never a formula; cut at 32 767
//
// Text that is not UTF-8 shows its broken bytes as \xff everywhere.
class ReportWriter {
 public:
  static Result<std::unique_ptr<ReportWriter>> Create(const std::filesystem::path& path, ReportFormat format,
                                                      const std::vector<std::string>& columns,
                                                      const ReportOptions& options = {});
  virtual ~ReportWriter() = default;
  // REQUIRES: cells.size() == the number of columns
  virtual Result<Done> Write(std::span<const Cell> cells, RowColour colour) = 0;
  virtual Result<Done> Finish() = 0;
};

// Text as it may stand in a spreadsheet cell: what would be read as a formula (a leading = + - @, tab or
// return, unless it is a number) gets an apostrophe in front.
std::string SpreadsheetSafe(std::string_view text);

// A table for a person: aligned columns, numbers to the right with few digits, one line for each row.
struct TableColumn {
  enum class Cut { kNever, kMiddle, kEnd };
  std::string heading;
  Cut cut = Cut::kNever;  // where a text may lose characters when the line is too long
};
struct TableRow {
  std::vector<Cell> cells;
  RowColour colour = RowColour::kNone;
};
struct TableOptions {
  std::size_t width = 0;  // of a line; 0: any
  bool colour = false;    // escape sequences for the heading and the cells in colour_column
  std::optional<std::size_t> colour_column;  // the one that shows a row's colour
};
// REQUIRES: every row has as many cells as there are columns
std::string RenderTable(std::span<const TableColumn> columns, std::span<const TableRow> rows,
                        const TableOptions& options);

}  // namespace vernier

// report: rows of cells -> csv, xlsx, json, jsonl, a table on the terminal. A writer loops over the columns
// it is given; none names one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vernier/cell.h"
#include "vernier/result.h"

namespace vernier {

enum class RowColour : std::uint8_t { kNone, kRed, kYellow, kGreen };

enum class ReportFormat { kCsv, kXlsx, kJson, kJsonl };
// By the extension of a path; fails for another one, naming those there are.
Result<ReportFormat> FormatOf(const std::filesystem::path& path);
// By its name: "csv", "xlsx", "json", "jsonl".
Result<ReportFormat> ParseFormat(std::string_view name);
std::string_view Name(ReportFormat format);

// What a family of dumps has of its own in the look of its files. The defaults are ours.
struct TableStyle {
  // csv
  bool marks_formulas = true;           // SpreadsheetSafe
  std::string_view before_infinity;     // in front of "inf"
  std::uint64_t max_rows_of_a_csv = 0;  // the rest goes to NAME_part_2.csv, …; 0: one file
  // xlsx
  bool plain_sheets = false;  // no front page, no bold heading that stays in sight, no filter, no widths
  enum class Colours : std::uint8_t { kPale, kBright, kNone } colours = Colours::kPale;
  bool bools_as_texts = false;                               // "True"
  std::string_view behind_infinity;                          // "inf" with this behind it
  std::string_view cut_note = " [cut]";                      // behind a text that is too long for a cell
  std::string_view only_sheet = "Sheet1", sheets = "Sheet";  // names: "Sheet1", "Sheet2", … when several
  int first_sheet_number = 1;
  std::uint64_t max_rows_of_a_sheet = 1'048'575;  // the header's line makes it the most a sheet can have
};

struct ReportOptions {
  TableStyle style;
  // Known beforehand: rows are spread evenly over the sheets that are needed, and files are named by it.
  std::optional<std::uint64_t> num_rows;
};

// Rows of equally many cells, one behind the other.
struct RowBlock {
  explicit RowBlock(std::size_t columns) : num_columns(columns) {}
  std::size_t size() const { return colours.size(); }
  std::span<const Cell> row(std::size_t i) const {
    return std::span(cells).subspan(i * num_columns, num_columns);
  }

  std::size_t num_columns;
  std::vector<Cell> cells;
  std::vector<RowColour> colours;  // one for each row
};

// Rows as they will stand in the file, cut where a new sheet or file begins.
struct RenderedPiece {
  std::uint32_t part = 0;
  std::string bytes;
  std::uint64_t unpacked_bytes = 0;  // of xlsx, whose pieces are deflated
  std::uint32_t crc32 = 0;
};
using Rendered = std::vector<RenderedPiece>;

// A report that is written block by block: Render() may run on many threads at once, Append() takes what they
// made in order, one at a time. The files appear under their names only when Finish() succeeds; before that
// they have temporary names, which are removed when the writer is destroyed unfinished.
//
//         number               infinity, NaN    truth value  nothing  text
//   csv   Python's repr        inf, -inf, nan   True         empty    SpreadsheetSafe, quoted where it must
//   be json  Python's repr        "inf", "nan", …  true         null     escaped xlsx  a number, 16 digits
//   text inf, …      boolean      empty    never a formula; cut at 32 767
//
// Text that is not UTF-8 shows its broken bytes as \xff everywhere.
class ReportWriter {
 public:
  static Result<std::unique_ptr<ReportWriter>> Create(const std::filesystem::path& path, ReportFormat format,
                                                      const std::vector<std::string>& columns,
                                                      const ReportOptions& options = {});
  virtual ~ReportWriter() = default;

  // `first_row` is the number of the first of these rows in the report. REQUIRES: as many cells as columns
  virtual Result<Rendered> Render(std::uint64_t first_row, const RowBlock& rows) const = 0;
  virtual Result<Done> Append(const Rendered& rendered) = 0;
  virtual Result<Done> Finish() = 0;

  // What a reader should see first, line by line; where a format has no such place, it is left out. Before
  // Finish().
  virtual void SetFrontPage(std::vector<std::string> /*lines*/) {}

  const std::vector<std::filesystem::path>& paths() const { return paths_; }

 protected:
  std::vector<std::filesystem::path> paths_;
};

// Text as it may stand in a spreadsheet cell: what would be read as a formula (a leading = + - @, blanks and
// invisible characters before it or not, a tab or return, unless it is a number) gets an apostrophe in front.
std::string SpreadsheetSafe(std::string_view text);

// A row as a JSON object: {"column": value, …}. `indent` > 0: each member on its own line with that many
// blanks in front, and the closing bracket is left to the caller.
enum class JsonFloat;
void AppendJsonCell(const Cell& cell, JsonFloat floats, std::string& out);
void AppendJsonRow(std::span<const std::string> columns, std::span<const Cell> cells, JsonFloat floats,
                   int indent, std::string& out);

// A table for a person: aligned columns, numbers to the right with few digits, one line for each row.
struct TableColumn {
  enum class Cut { kNever, kMiddle, kEnd };
  std::string heading;
  Cut cut = Cut::kNever;  // where a text may lose characters when the line is too long
};
struct TableOptions {
  std::size_t width = 0;  // of a line; 0: any
  bool colour = false;    // escape sequences for the heading and the cells in colour_column
  std::optional<std::size_t> colour_column;  // the one that shows a row's colour
};
// REQUIRES: every row has as many cells as there are columns
std::string RenderTable(std::span<const TableColumn> columns, const RowBlock& rows,
                        const TableOptions& options);

// At most `width` columns of a text that is valid UTF-8: what is too much is left out of its middle.
std::string CutMiddle(const std::string& text, std::size_t width);

// A table in a frame of + - and |, of the width its cells need: for files as well as for the screen.
struct FrameColumn {
  std::string_view heading;
  std::size_t min_width = 0;
  std::size_t max_width = 0;  // a longer cell shows its start and "..."; 0: any
  bool heading_to_the_right = true, cells_to_the_right = true;
};
// REQUIRES: every line has as many cells as there are columns
std::string RenderFrame(std::span<const FrameColumn> columns,
                        std::span<const std::vector<std::string>> lines);

}  // namespace vernier

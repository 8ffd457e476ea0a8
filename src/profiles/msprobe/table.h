// The result tables of the msprobe profile: their columns, and the files they are written to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/xlsx.h"
#include "profiles/msprobe/row.h"
#include "vernier/report.h"
#include "vernier/result.h"

namespace vernier::msprobe {

struct Column {
  std::string_view heading;
  Value (*cell)(const ResultRow& row);
  std::string_view help;  // what it holds and how it is computed
};
// In table order.
std::vector<Column> ColumnsOf(Generation generation, Mode mode, bool with_stack);

struct TableOptions {
  ReportFormat format = ReportFormat::kCsv;
  Generation generation = Generation::kClassic;
  Mode mode = Mode::kStatistics;
  bool with_stack = false;
  bool coloured = false;       // xlsx of -hl: other sheet name, booleans as texts
  std::uint64_t num_rows = 0;  // of the whole table: it decides how sheets and files are split
};

// Rows as they will stand in the file, cut where a new sheet or file begins.
struct RenderedPiece {
  std::uint32_t part = 0;
  DeflatedPiece xlsx;
  std::string text;
  std::vector<std::string> complaints;  // about texts that were written all the same: with colours, as texts
};
using Rendered = std::vector<RenderedPiece>;

// A table that is written batch by batch. Render() may run on many threads at once; Append() takes their
// results in table order, one at a time.
class TableFile {
 public:
  // Nothing appears at `path` (or its parts) before Finish().
  static Result<std::unique_ptr<TableFile>> Create(const std::filesystem::path& path,
                                                   const TableOptions& options);
  virtual ~TableFile() = default;

  // `first_row` is the number of the first of these rows in the table. Fails on a text that a spreadsheet
  // might run.
  virtual Result<Rendered> Render(std::uint64_t first_row, std::span<const ResultRow> rows) const = 0;
  virtual Result<Done> Append(const Rendered& rendered) = 0;
  virtual Result<Done> Finish() = 0;

  const std::vector<std::filesystem::path>& paths() const { return paths_; }

 protected:
  std::vector<std::filesystem::path> paths_;
};

// One row as a JSON object, members in table order: {"NPU Name": …}. `python` writes NaN and Infinity as
// Python does, otherwise they are texts.
void AppendJsonRow(std::span<const Column> columns, const ResultRow& row, bool python, int indent,
                   std::string& out);

inline constexpr std::uint64_t kMaxSheetRows = 1048500;  // the reference's limit, a little below the format's
inline constexpr std::uint64_t kMaxCsvRows = 1000000;

}  // namespace vernier::msprobe

// report: rows -> csv, xlsx, json, jsonl, a table on the terminal. A writer loops over a table of columns; none names one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
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

// Streams rows into one file. The file appears under its name only when Finish() succeeds; before that it has a
// temporary name beside it, which is removed when the writer is destroyed unfinished.
class ReportWriter {
 public:
  static Result<std::unique_ptr<ReportWriter>> Create(const std::filesystem::path& path, ReportFormat format,
                                                      std::vector<std::string> columns);
  virtual ~ReportWriter() = default;
  // REQUIRES: cells.size() == the number of columns
  virtual Result<Done> Write(std::span<const Cell> cells, RowColour colour) = 0;
  virtual Result<Done> Finish() = 0;
};

// Text as it may stand in a spreadsheet cell: what would be read as a formula (a leading = + - @ or tab, unless it is
// a number) gets an apostrophe in front.
std::string SpreadsheetSafe(std::string_view text);

}  // namespace vernier

// The pre-check's csv files: UTF-8 with a byte-order mark, CR LF behind each row, one space in a cell that
// has nothing.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "precheck/columns.h"

namespace vernier::precheck {

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// One row, its last cell being a message and its first a name: texts that a spreadsheet would run are made
// harmless.
void AppendCsvRow(std::span<const std::string> cells, std::string& out);
// The mark and the names of the columns.
std::string CsvHeading(std::span<const ColumnName> columns, Header header);

// Nothing but blanks, as every cell without a value is.
bool IsBlank(std::string_view cell);

// "20240102030405", local time; of that many seconds later.
std::string TimeStamp(int seconds_later = 0);

}  // namespace vernier::precheck

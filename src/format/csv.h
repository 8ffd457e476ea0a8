// Comma-separated values.
#pragma once

#include <string>
#include <string_view>

#include "format/table_file.h"

namespace vernier {

// A text as a field: in quotes where it must be.
void AppendCsvText(std::string_view text, std::string& out);

// Calls the sink for each row of a file, until it gives false. Blank lines are left out.
void ReadCsv(std::string_view text, const TableRowSink& sink);

}  // namespace vernier

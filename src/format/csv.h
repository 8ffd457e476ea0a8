// Comma-separated values.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "format/table_file.h"

namespace vernier {

// A text as a field: in quotes where it must be.
void AppendCsvText(std::string_view text, std::string& out);

// Calls the sink for each row of a file, until it gives false. Blank lines are left out.
void ReadCsv(std::string_view text, const TableRowSink& sink);

// The same for texts alone, without asking what each cell is; they live until the sink returns.
using CsvTextSink = std::function<bool(std::span<const std::string> cells)>;
void ReadCsvTexts(std::string_view text, const CsvTextSink& sink);

// The positions behind each row of a file, the line feed included. A last row without one is not whole and
// not among them: its writer was stopped inside it.
std::vector<std::size_t> CsvRowEnds(std::string_view text);

}  // namespace vernier

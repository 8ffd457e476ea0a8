// The writers behind ReportWriter::Create.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "vernier/report.h"

namespace vernier {

using Columns = std::vector<std::string>;
using Writer = Result<std::unique_ptr<ReportWriter>>;

Writer NewCsvWriter(const std::filesystem::path& path, const Columns& columns, const ReportOptions& options);
Writer NewJsonWriter(const std::filesystem::path& path, const Columns& columns, const ReportOptions& options);
Writer NewJsonlWriter(const std::filesystem::path& path, const Columns& columns,
                      const ReportOptions& options);
Writer NewXlsxWriter(const std::filesystem::path& path, const Columns& columns, const ReportOptions& options);

// Calls append(row number within its part, cells, colour, piece) for each row, with the piece of its part.
template <class AppendRow>
Rendered RenderParts(std::uint64_t first_row, const RowBlock& rows, std::uint64_t rows_per_part,
                     const AppendRow& append) {
  Rendered pieces;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::uint64_t row = first_row + i;
    const auto part = static_cast<std::uint32_t>(row / rows_per_part);
    if (pieces.empty() || pieces.back().part != part) pieces.push_back({part, {}, 0, 0});
    append(row % rows_per_part, rows.row(i), rows.colours[i], pieces.back().bytes);
  }
  return pieces;
}

}  // namespace vernier

#include "precheck/csv_rows.h"

#include <ctime>
#include <vector>

#include "core/text.h"
#include "format/csv.h"
#include "vernier/report.h"

namespace vernier::precheck {

void AppendCsvRow(std::span<const std::string> cells, std::string& out) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) out += ',';
    const bool is_free_text = i == 0 || i + 1 == cells.size();
    if (cells[i].empty()) {
      out += ' ';
    } else if (is_free_text) {
      AppendCsvText(SpreadsheetSafe(ValidUtf8(cells[i])), out);
    } else {
      AppendCsvText(cells[i], out);
    }
  }
  out += "\r\n";
}

std::string CsvHeading(std::span<const ColumnName> columns, Header header) {
  std::string heading(kByteOrderMark);
  std::vector<std::string> names;
  for (const ColumnName& column : columns) names.emplace_back(NameOf(column, header));
  AppendCsvRow(names, heading);
  return heading;
}

bool IsBlank(std::string_view cell) { return cell.find_first_not_of(" \t") == std::string_view::npos; }

std::string TimeStamp(int seconds_later) {
  const std::time_t now = std::time(nullptr) + seconds_later;
  std::tm local{};
  localtime_r(&now, &local);
  char text[15];
  return {text, std::strftime(text, sizeof text, "%Y%m%d%H%M%S", &local)};
}

}  // namespace vernier::precheck

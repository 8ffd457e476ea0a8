#include "format/csv.h"

#include <algorithm>

#include "core/python_text.h"

namespace vernier {
namespace {

TableCell CsvCell(std::string text, bool quoted) {
  using Kind = TableCell::Kind;
  if (text.empty()) return {};
  if (text == "True" || text == "False") return {Kind::kBool, std::move(text)};
  const bool is_number = !quoted && ParsePythonFloat(text).has_value();
  return {is_number ? Kind::kNumber : Kind::kText, std::move(text)};
}

}  // namespace

void AppendCsvText(std::string_view text, std::string& out) {
  // In one walk: find_first_of() makes a call for each character.
  const auto needs_quotes = [](char c) { return c == ',' || c == '"' || c == '\r' || c == '\n'; };
  if (std::none_of(text.begin(), text.end(), needs_quotes)) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

void ReadCsv(std::string_view text, const TableRowSink& sink) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<TableCell> row;
  std::string field;
  bool quoted = false, in_quotes = false;
  const auto end_field = [&] {
    row.push_back(CsvCell(std::move(field), quoted));
    field.clear();
    quoted = false;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_quotes) {
      if (c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
        field += c;
        ++i;
      } else if (c == '"') {
        in_quotes = false;
      } else {
        field += c;
      }
    } else if (c == '"' && field.empty()) {
      in_quotes = quoted = true;
    } else if (c == ',') {
      end_field();
    } else if (c == '\n') {
      end_field();
      const bool blank = row.size() == 1 && row[0].kind == TableCell::Kind::kEmpty;
      if (!blank && !sink(row)) return;
      row.clear();
    } else if (c != '\r') {
      field += c;
    }
  }
  if (!field.empty() || !row.empty()) {
    end_field();
    sink(row);
  }
}

}  // namespace vernier

#include "format/csv.h"

#include <algorithm>
#include <span>

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

// Calls row(fields, which of them were in quotes, the position behind it, whether a line feed ends it) for
// each row that is not blank, until it gives false. The fields' memory is used again for the next row.
template <class Row>
void WalkCsv(std::string_view text, const Row& row) {
  const std::size_t start = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  std::vector<std::string> fields(1);
  std::vector<char> quoted(1);
  std::size_t last = 0;  // the field that is being read
  bool in_quotes = false;
  const auto next_field = [&] {
    if (++last == fields.size()) {
      fields.emplace_back();
      quoted.push_back(0);
    }
    fields[last].clear();
    quoted[last] = 0;
  };
  const auto end_row = [&](std::size_t end, bool is_whole) {
    const bool blank = last == 0 && fields[0].empty();
    const std::size_t count = last + 1;
    const bool more =
        blank || row(std::span(fields).first(count), std::span(quoted).first(count), end, is_whole);
    last = static_cast<std::size_t>(-1);
    next_field();
    return more;
  };
  for (std::size_t i = start; i < text.size(); ++i) {
    const char c = text[i];
    std::string& field = fields[last];
    if (in_quotes) {
      if (c != '"') {
        field += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        field += c;
        ++i;
      } else {
        in_quotes = false;
      }
    } else if (c == '"' && field.empty()) {
      in_quotes = true;
      quoted[last] = 1;
    } else if (c == ',') {
      next_field();
    } else if (c == '\n') {
      if (!end_row(i + 1, true)) return;
    } else if (c != '\r') {
      field += c;
    }
  }
  if (!fields[last].empty() || last > 0 || in_quotes) end_row(text.size(), false);
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
  std::vector<TableCell> row;
  WalkCsv(text, [&](std::span<const std::string> fields, std::span<const char> quoted, std::size_t, bool) {
    row.clear();
    for (std::size_t i = 0; i < fields.size(); ++i) row.push_back(CsvCell(fields[i], quoted[i] != 0));
    return sink(row);
  });
}

void ReadCsvTexts(std::string_view text, const CsvTextSink& sink) {
  WalkCsv(text, [&](std::span<const std::string> fields, std::span<const char>, std::size_t, bool) {
    return sink(fields);
  });
}

std::vector<std::size_t> CsvRowEnds(std::string_view text) {
  std::vector<std::size_t> ends;
  WalkCsv(text, [&](std::span<const std::string>, std::span<const char>, std::size_t end, bool is_whole) {
    if (is_whole) ends.push_back(end);
    return true;
  });
  return ends;
}

}  // namespace vernier

// csv, json and jsonl: each row is formatted into one string and handed to the file.
#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "report/writers_internal.h"

namespace vernier {
namespace {

template <class Integer>
void AppendInteger(std::string& out, Integer value) {
  char text[24];
  out.append(text, fmt::format_to(text, FMT_COMPILE("{}"), value));
}

class CsvCell {
 public:
  explicit CsvCell(std::string& line) : out_(line) {}

  void operator()(std::monostate) const {}
  void operator()(bool value) const { out_ += value ? "True" : "False"; }
  void operator()(std::int64_t value) const { AppendInteger(out_, value); }
  void operator()(std::uint64_t value) const { AppendInteger(out_, value); }
  void operator()(double value) const { AppendPythonRepr(out_, value); }
  void operator()(const std::string& text) const {
    if (IsPlain(text)) {
      out_ += text;
    } else {
      Careful(SpreadsheetSafe(ValidUtf8(text)));
    }
  }

 private:
  // Nearly every cell: nothing in it could need a second look.
  static bool IsPlain(std::string_view text) {
    const auto is_letter = [](char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; };
    const auto is_harmless = [](char c) { return c >= ' ' && c != ',' && c != '"'; };
    return !text.empty() && is_letter(text[0]) && std::all_of(text.begin(), text.end(), is_harmless);
  }
  void Careful(const std::string& safe) const {
    if (safe.find_first_of(",\"\r\n") == std::string::npos) {
      out_ += safe;
      return;
    }
    out_ += '"';
    for (const char c : safe) {
      if (c == '"') out_ += '"';
      out_ += c;
    }
    out_ += '"';
  }

  std::string& out_;
};

void AppendJsonText(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : ValidUtf8(text)) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(out), FMT_COMPILE("\\u{:04x}"), static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

struct JsonCell {
  std::string& out;

  void operator()(std::monostate) const { out += "null"; }
  void operator()(bool value) const { out += value ? "true" : "false"; }
  void operator()(std::int64_t value) const { AppendInteger(out, value); }
  void operator()(std::uint64_t value) const { AppendInteger(out, value); }
  void operator()(double value) const {
    if (std::isfinite(value)) {
      AppendPythonRepr(out, value);
    } else {
      AppendJsonText(out, ShortestText(value));  // JSON has no number for it
    }
  }
  void operator()(const std::string& text) const { AppendJsonText(out, text); }
};

class CsvWriter final : public ReportWriter {
 public:
  explicit CsvWriter(AtomicFile file) : file_(std::move(file)) {}

  Result<Done> Write(std::span<const Cell> cells, RowColour) override {
    line_.clear();
    for (const Cell& cell : cells) {
      if (&cell != cells.data()) line_ += ',';
      std::visit(CsvCell{line_}, cell);
    }
    line_ += '\n';
    return file_.Write(line_);
  }
  Result<Done> Finish() override { return file_.Commit(); }

 private:
  AtomicFile file_;
  std::string line_;
};

// Both kinds have one object on each line; json puts them in a list.
class JsonWriter final : public ReportWriter {
 public:
  JsonWriter(AtomicFile file, const Columns& columns, bool as_list)
      : file_(std::move(file)), as_list_(as_list) {
    for (const std::string& column : columns) {
      std::string key = keys_.empty() ? "{" : ", ";
      AppendJsonText(key, column);
      keys_.push_back(key + ": ");
    }
  }

  Result<Done> Write(std::span<const Cell> cells, RowColour) override {
    line_ = as_list_ ? (first_ ? "[\n" : ",\n") : "";
    first_ = false;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      line_ += keys_[i];
      std::visit(JsonCell{line_}, cells[i]);
    }
    line_ += as_list_ ? "}" : "}\n";
    return file_.Write(line_);
  }
  Result<Done> Finish() override {
    if (as_list_) VN_RETURN_IF_ERROR(file_.Write(first_ ? "[]\n" : "\n]\n"));
    return file_.Commit();
  }

 private:
  AtomicFile file_;
  bool as_list_, first_ = true;
  std::vector<std::string> keys_;  // with the punctuation in front
  std::string line_;
};

}  // namespace

Writer NewCsvWriter(AtomicFile file, const Columns& columns, const ReportOptions&) {
  auto writer = std::make_unique<CsvWriter>(std::move(file));
  VN_RETURN_IF_ERROR(writer->Write(std::vector<Cell>(columns.begin(), columns.end()), RowColour::kNone));
  return std::unique_ptr<ReportWriter>(std::move(writer));
}

Writer NewJsonWriter(AtomicFile file, const Columns& columns, const ReportOptions&) {
  return std::unique_ptr<ReportWriter>(std::make_unique<JsonWriter>(std::move(file), columns, true));
}

Writer NewJsonlWriter(AtomicFile file, const Columns& columns, const ReportOptions&) {
  return std::unique_ptr<ReportWriter>(std::make_unique<JsonWriter>(std::move(file), columns, false));
}

}  // namespace vernier

#include "profiles/msprobe/table.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/python_text.h"

namespace vernier::msprobe {
namespace {

namespace fs = std::filesystem;

// Texts that a spreadsheet might run end the job, as they do in the reference. Numbers may have a sign.
Result<Done> CheckHarmless(const Value& value, const fs::path& path, std::string_view kind) {
  if (value.kind != Value::Kind::kText || value.text.empty() || !IsDangerous(value.text)) return Done{};
  if (ParsePythonFloat(value.text)) return Done{};
  return Error{ErrorCode::kBadArgument, "",
               fmt::format("Malicious value [{}] not allowed to be written into the {}: {}.", value.text,
                           kind, path.string())};
}

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

// The mark that keeps a spreadsheet from turning an infinity into something else differs from file to file.
void AppendCsvValue(const Value& value, std::string& out) {
  if (value.kind == Value::Kind::kText) return AppendCsvText(value.text, out);
  if (value.kind == Value::Kind::kFloat && std::isinf(value.number)) out += ' ';
  AppendText(value, out);
}

class CsvTable : public TableFile {
 public:
  CsvTable(const fs::path& path, const TableOptions& options)
      : columns_(ColumnsOf(options.generation, options.mode, options.with_stack)),
        split_(options.num_rows > kMaxCsvRows) {
    const std::uint64_t num_parts = split_ ? (options.num_rows + kMaxCsvRows - 1) / kMaxCsvRows : 1;
    for (std::uint64_t part = 1; part <= num_parts; ++part) {
      fs::path name = path;
      if (split_)
        name.replace_filename(
            fmt::format("{}_part_{}{}", path.stem().string(), part, path.extension().string()));
      paths_.push_back(name);
    }
  }

  Result<Rendered> Render(std::uint64_t first_row, std::span<const ResultRow> rows) const override {
    Rendered pieces;
    for (std::uint64_t i = 0; i < rows.size(); ++i) {
      const auto part = static_cast<std::uint32_t>(split_ ? (first_row + i) / kMaxCsvRows : 0);
      if (pieces.empty() || pieces.back().part != part) pieces.push_back({part, {}, {}, {}});
      std::string& text = pieces.back().text;
      for (const Column& column : columns_) {
        const Value value = column.cell(rows[i]);
        VN_RETURN_IF_ERROR(CheckHarmless(value, paths_[part], "csv"));
        AppendCsvValue(value, text);
        text += ',';
      }
      text.back() = '\n';
    }
    return pieces;
  }

  Result<Done> Append(const Rendered& rendered) override {
    for (const RenderedPiece& piece : rendered) {
      while (files_.size() <= piece.part) VN_RETURN_IF_ERROR(OpenNext());
      VN_RETURN_IF_ERROR(files_[piece.part].Write(piece.text));
    }
    return Done{};
  }

  Result<Done> Finish() override {
    while (files_.size() < paths_.size()) VN_RETURN_IF_ERROR(OpenNext());
    for (AtomicFile& file : files_) VN_RETURN_IF_ERROR(file.Commit());
    return Done{};
  }

 private:
  Result<Done> OpenNext() {
    VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(paths_[files_.size()]));
    files_.push_back(std::move(file));
    std::string header;
    for (const Column& column : columns_) {
      AppendCsvText(column.heading, header);
      header += ',';
    }
    header.back() = '\n';
    return files_.back().Write(header);
  }

  std::vector<Column> columns_;
  bool split_;
  std::deque<AtomicFile> files_;
};

class XlsxTable : public TableFile {
 public:
  XlsxTable(const fs::path& path, const TableOptions& options, XlsxStream stream)
      : columns_(ColumnsOf(options.generation, options.mode, options.with_stack)),
        coloured_(options.coloured),
        stream_(std::move(stream)) {
    paths_.push_back(path);
    if (options.num_rows >= kMaxSheetRows) {
      num_sheets_ = (options.num_rows + kMaxSheetRows - 1) / kMaxSheetRows;
      sheet_rows_ = (options.num_rows + num_sheets_ - 1) / num_sheets_;
    }
  }

  Result<Rendered> Render(std::uint64_t first_row, std::span<const ResultRow> rows) const override {
    Rendered pieces;
    for (std::uint64_t i = 0; i < rows.size(); ++i) {
      const auto part = static_cast<std::uint32_t>((first_row + i) / sheet_rows_);
      if (pieces.empty() || pieces.back().part != part) pieces.push_back({part, {}, {}, {}});
      const auto line = static_cast<std::uint32_t>((first_row + i) % sheet_rows_ + 2);
      VN_RETURN_IF_ERROR(AppendRow(line, rows[i], pieces.back()));
    }
    for (RenderedPiece& piece : pieces) {
      VN_ASSIGN_OR_RETURN(piece.xlsx, DeflatePiece(piece.text));
      piece.text = std::string();
    }
    return pieces;
  }

  Result<Done> Append(const Rendered& rendered) override {
    for (const RenderedPiece& piece : rendered) {
      while (opened_ <= piece.part) VN_RETURN_IF_ERROR(OpenNext());
      VN_RETURN_IF_ERROR(stream_.Append(piece.xlsx));
    }
    return Done{};
  }

  Result<Done> Finish() override {
    while (opened_ < num_sheets_) VN_RETURN_IF_ERROR(OpenNext());
    return stream_.Finish();
  }

 private:
  Result<Done> OpenNext() {
    const std::string name = num_sheets_ > 1 ? fmt::format("part_{}", opened_)
                             : coloured_     ? "Sheet"
                                             : "Sheet1";
    ++opened_;
    VN_RETURN_IF_ERROR(stream_.BeginSheet(name));
    std::string xml = "<row r=\"1\">";
    for (std::uint32_t i = 0; i < columns_.size(); ++i)
      AppendXlsxText(1, i, columns_[i].heading, XlsxFill::kNone, xml);
    xml += "</row>";
    VN_ASSIGN_OR_RETURN(const DeflatedPiece header, DeflatePiece(xml));
    return stream_.Append(header);
  }

  Result<Done> AppendRow(std::uint32_t line, const ResultRow& row, RenderedPiece& piece) const {
    std::string& xml = piece.text;
    const XlsxFill fill = row.colour == Colour::kRed      ? XlsxFill::kRed
                          : row.colour == Colour::kYellow ? XlsxFill::kYellow
                                                          : XlsxFill::kNone;
    xml += fmt::format(FMT_STRING("<row r=\"{}\">"), line);
    for (std::uint32_t i = 0; i < columns_.size(); ++i) {
      const Value value = columns_[i].cell(row);
      if (Result<Done> harmless = CheckHarmless(value, paths_[0], "excel"); !harmless) {
        if (!coloured_) return std::move(harmless).error();
        piece.complaints.push_back(std::move(harmless).error().detail);
      }
      AppendCell(line, i, value, fill, xml);
    }
    xml += "</row>";
    return Done{};
  }

  void AppendCell(std::uint32_t line, std::uint32_t column, const Value& value, XlsxFill fill,
                  std::string& xml) const {
    if (value.is_number() && std::isinf(value.number)) {
      const std::string_view text = value.number > 0 ? "inf\t" : "-inf\t";
      AppendXlsxText(line, column, coloured_ ? text : text.substr(0, text.size() - 1), fill, xml);
    } else if (value.is_number()) {
      AppendXlsxNumber(line, column, value.number, fill, xml);
    } else if (value.kind == Value::Kind::kBool && !coloured_) {
      AppendXlsxBool(line, column, value.number != 0, fill, xml);
    } else if (value.kind == Value::Kind::kBool) {
      AppendXlsxText(line, column, value.number != 0 ? "True" : "False", fill, xml);
    } else {
      AppendXlsxText(line, column, value.text, fill, xml);
    }
  }

  std::vector<Column> columns_;
  bool coloured_;
  XlsxStream stream_;
  std::uint64_t num_sheets_ = 1, sheet_rows_ = kMaxSheetRows;
  std::uint64_t opened_ = 0;
};

// json: one list of objects; jsonl: one object a line.
class JsonTable : public TableFile {
 public:
  JsonTable(const fs::path& path, const TableOptions& options, AtomicFile file)
      : columns_(ColumnsOf(options.generation, options.mode, options.with_stack)),
        lines_(options.format == ReportFormat::kJsonl),
        file_(std::move(file)) {
    paths_.push_back(path);
  }

  Result<Rendered> Render(std::uint64_t first_row, std::span<const ResultRow> rows) const override {
    Rendered pieces{{0, {}, {}, {}}};
    std::string& text = pieces[0].text;
    for (std::uint64_t i = 0; i < rows.size(); ++i) {
      if (!lines_) text += first_row + i == 0 ? "[\n" : ",\n";
      AppendJsonRow(columns_, rows[i], false, 0, text);
      if (lines_) text += '\n';
    }
    return pieces;
  }

  Result<Done> Append(const Rendered& rendered) override {
    empty_ = false;
    return file_.Write(rendered[0].text);
  }

  Result<Done> Finish() override {
    if (!lines_) VN_RETURN_IF_ERROR(file_.Write(empty_ ? "[]\n" : "\n]\n"));
    return file_.Commit();
  }

 private:
  std::vector<Column> columns_;
  bool lines_, empty_ = true;
  AtomicFile file_;
};

}  // namespace

Result<std::unique_ptr<TableFile>> TableFile::Create(const fs::path& path, const TableOptions& options) {
  switch (options.format) {
    case ReportFormat::kCsv:
      return std::unique_ptr<TableFile>(std::make_unique<CsvTable>(path, options));
    case ReportFormat::kXlsx: {
      VN_ASSIGN_OR_RETURN(XlsxStream stream, XlsxStream::Create(path));
      return std::unique_ptr<TableFile>(std::make_unique<XlsxTable>(path, options, std::move(stream)));
    }
    default: {
      VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
      return std::unique_ptr<TableFile>(std::make_unique<JsonTable>(path, options, std::move(file)));
    }
  }
}

}  // namespace vernier::msprobe

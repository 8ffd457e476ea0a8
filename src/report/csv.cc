// Reports as csv.
#include "format/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "core/atomic_file.h"
#include "core/text.h"
#include "report/writers_internal.h"

namespace vernier {
namespace {

constexpr std::uint64_t kAnyNumber = std::numeric_limits<std::uint64_t>::max();

// Nearly every cell: nothing in it could need a second look.
bool IsPlain(std::string_view text) {
  const auto is_letter = [](char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; };
  const auto is_harmless = [](char c) { return c >= ' ' && c != ',' && c != '"'; };
  return !text.empty() && is_letter(text[0]) && std::all_of(text.begin(), text.end(), is_harmless);
}

void AppendField(const Cell& cell, const TableStyle& style, std::string& line) {
  const bool is_text = cell.kind == Cell::Kind::kText || cell.kind == Cell::Kind::kShown;
  if (is_text && IsPlain(cell.text)) {
    line += cell.text;
  } else if (is_text) {
    const std::string valid = ValidUtf8(cell.text);
    // A family that refuses formulas itself looks only at the first character.
    const bool is_hidden = WithoutInvisibleStart(valid).size() != valid.size();
    AppendCsvText(style.marks_formulas || is_hidden ? SpreadsheetSafe(valid) : valid, line);
  } else if (cell.kind != Cell::Kind::kJson) {
    if (cell.kind == Cell::Kind::kNumber && std::isinf(cell.number)) line += style.before_infinity;
    AppendText(cell, line);
  }
}

class CsvWriter final : public ReportWriter {
 public:
  CsvWriter(const std::filesystem::path& path, const Columns& columns, const ReportOptions& options)
      : style_(options.style), rows_per_file_(kAnyNumber) {
    for (const std::string& column : columns)
      AppendField(column, style_, heading_ += heading_.empty() ? "" : ",");
    heading_ += '\n';
    const std::uint64_t most = style_.max_rows_of_a_csv, num_rows = options.num_rows.value_or(0);
    if (most == 0 || num_rows <= most) {
      paths_.push_back(path);
      return;
    }
    rows_per_file_ = most;
    for (std::uint64_t part = 1; (part - 1) * most < num_rows; ++part) {
      paths_.push_back(path);
      paths_.back().replace_filename(
          fmt::format("{}_part_{}{}", path.stem().string(), part, path.extension().string()));
    }
  }

  Result<Rendered> Render(std::uint64_t first_row, const RowBlock& rows) const override {
    return RenderParts(first_row, rows, rows_per_file_,
                       [&](std::uint64_t, std::span<const Cell> cells, RowColour, std::string& text) {
                         for (const Cell& cell : cells) {
                           if (&cell != cells.data()) text += ',';
                           AppendField(cell, style_, text);
                         }
                         text += '\n';
                       });
  }

  Result<Done> Append(const Rendered& rendered) override {
    for (const RenderedPiece& piece : rendered) {
      while (files_.size() <= piece.part) VN_RETURN_IF_ERROR(OpenNext());
      VN_RETURN_IF_ERROR(files_[piece.part].Write(piece.bytes));
    }
    return Done{};
  }

  Result<Done> Finish() override {
    paths_.resize(files_.size());  // fewer rows came than were announced
    for (AtomicFile& file : files_) VN_RETURN_IF_ERROR(file.Commit());
    return Done{};
  }

  Result<Done> OpenNext() {
    VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::CreateReport(paths_[files_.size()]));
    files_.push_back(std::move(file));
    return files_.back().Write(heading_);
  }

 private:
  const TableStyle style_;
  std::uint64_t rows_per_file_;
  std::string heading_;
  std::deque<AtomicFile> files_;
};

}  // namespace

Writer NewCsvWriter(const std::filesystem::path& path, const Columns& columns, const ReportOptions& options) {
  auto writer = std::make_unique<CsvWriter>(path, columns, options);
  VN_RETURN_IF_ERROR(writer->OpenNext());  // a folder that cannot be written to is told at once
  return std::unique_ptr<ReportWriter>(std::move(writer));
}

}  // namespace vernier

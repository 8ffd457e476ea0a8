// Reports as .xlsx.
#include "format/xlsx.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>

#include "core/text.h"
#include "report/writers_internal.h"

namespace vernier {
namespace {

// By TableStyle::Colours and RowColour.
constexpr XlsxFill kFills[][4] = {
    {XlsxFill::kNone, XlsxFill::kPaleRed, XlsxFill::kPaleYellow, XlsxFill::kPaleGreen},
    {XlsxFill::kNone, XlsxFill::kRed, XlsxFill::kYellow, XlsxFill::kNone},
    {XlsxFill::kNone, XlsxFill::kNone, XlsxFill::kNone, XlsxFill::kNone}};
constexpr std::size_t kFrontPageWidth = 120;

// Counted in characters, as the limit of the format is; cutting inside one would make the file unreadable.
std::string CutText(std::string_view text, std::string_view note) {
  std::string valid = ValidUtf8(text);
  if (valid.size() <= kXlsxMostCharacters) return valid;
  std::size_t num_characters = 0, end = 0, cut = 0;
  for (; end < valid.size(); ++num_characters) {
    if (num_characters <= kXlsxMostCharacters - note.size()) cut = end;
    // Beyond U+FFFF a character counts twice there.
    const std::size_t length = Utf8Length(std::string_view(valid).substr(end));
    if (length == 4) ++num_characters;
    end += length;
  }
  if (num_characters <= kXlsxMostCharacters) return valid;
  return valid.substr(0, cut) + std::string(note);
}

// A cell is a double: beyond 2^53 an integer would lose digits silently, unless a family wants it so.
bool IsWritableNumber(const Cell& cell) {
  const bool is_exact =
      cell.kind == Cell::Kind::kNumber || !cell.text.empty() || std::abs(cell.number) < 0x1p53;
  return cell.is_number() && std::isfinite(cell.number) && is_exact;
}

void AppendCell(std::uint32_t row, std::uint32_t column, const Cell& cell, const TableStyle& style,
                XlsxFill fill, std::string& xml) {
  if (IsWritableNumber(cell)) return AppendXlsxNumber(row, column, cell.number, fill, xml);
  if (cell.kind == Cell::Kind::kNone || cell.kind == Cell::Kind::kJson)
    return AppendXlsxEmpty(row, column, fill, xml);
  if (cell.kind == Cell::Kind::kBool && !style.bools_as_texts)
    return AppendXlsxBool(row, column, cell.integer != 0, fill, xml);
  if (cell.kind == Cell::Kind::kText || cell.kind == Cell::Kind::kShown)
    return AppendXlsxText(row, column, CutText(cell.text, style.cut_note), fill, xml);
  std::string text = CellText(cell);
  if (std::isinf(cell.number)) text += style.behind_infinity;
  AppendXlsxText(row, column, text, fill, xml);
}

std::string ColumnWidths(std::span<const std::size_t> widths) {
  if (widths.empty()) return "";
  std::string xml = "<cols>";
  for (std::size_t i = 0; i < widths.size(); ++i) {
    xml += fmt::format("<col min=\"{0}\" max=\"{0}\" width=\"{1}\" customWidth=\"1\"/>", i + 1, widths[i]);
  }
  return xml + "</cols>";
}

// Names, reasons and stacks are long, whatever their headings.
std::size_t WidthOf(std::string_view heading) {
  constexpr std::string_view kLong[] = {"name", "why", "message", "stack"};
  std::string lower(heading);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool is_long = std::any_of(std::begin(kLong), std::end(kLong),
                                   [&](std::string_view word) { return lower.find(word) != lower.npos; });
  return is_long ? 50 : heading.size() + 4;
}

// The heading stays in sight.
std::string LayoutOf(const Columns& columns) {
  std::vector<std::size_t> widths;
  for (const std::string& column : columns) widths.push_back(WidthOf(column));
  return "<sheetViews><sheetView workbookViewId=\"0\"><pane ySplit=\"1\" topLeftCell=\"A2\" "
         "activePane=\"bottomLeft\" state=\"frozen\"/></sheetView></sheetViews>" +
         ColumnWidths(widths);
}

// Over all rows that a sheet can have: how many there are is not known yet.
std::string FilterOf(std::size_t num_columns) {
  if (num_columns == 0) return "";
  return fmt::format("<autoFilter ref=\"A1:{}1048576\"/>",
                     XlsxColumnName(static_cast<std::uint32_t>(num_columns - 1)));
}

class XlsxWriter final : public ReportWriter {
 public:
  XlsxWriter(const std::filesystem::path& path, XlsxStream stream, const Columns& columns,
             const ReportOptions& options)
      : stream_(std::move(stream)), style_(options.style), rows_per_sheet_(style_.max_rows_of_a_sheet) {
    paths_.push_back(path);
    for (const std::string& column : columns) columns_.push_back(column);
    const std::uint64_t num_rows = options.num_rows.value_or(0);
    if (num_rows < rows_per_sheet_) return;
    num_sheets_ = (num_rows + rows_per_sheet_ - 1) / rows_per_sheet_;
    rows_per_sheet_ = (num_rows + num_sheets_ - 1) / num_sheets_;
  }

  Result<Rendered> Render(std::uint64_t first_row, const RowBlock& rows) const override {
    const auto& fills = kFills[static_cast<std::size_t>(style_.colours)];
    Rendered pieces = RenderParts(
        first_row, rows, rows_per_sheet_,
        [&](std::uint64_t row, std::span<const Cell> cells, RowColour colour, std::string& xml) {
          AppendRow(row + 2, cells, fills[static_cast<std::size_t>(colour)], xml);  // behind the heading
        });
    for (RenderedPiece& piece : pieces) {
      VN_ASSIGN_OR_RETURN(DeflatedPiece deflated, DeflatePiece(piece.bytes));
      piece = {piece.part, std::move(deflated.bytes), deflated.unpacked_bytes, deflated.crc32};
    }
    return pieces;
  }

  Result<Done> Append(const Rendered& rendered) override {
    for (const RenderedPiece& piece : rendered) {
      while (num_opened_ <= piece.part) VN_RETURN_IF_ERROR(OpenNext());
      VN_RETURN_IF_ERROR(stream_.Append({piece.bytes, piece.unpacked_bytes, piece.crc32}));
    }
    return Done{};
  }

  Result<Done> Finish() override {
    while (num_opened_ < num_sheets_) VN_RETURN_IF_ERROR(OpenNext());
    if (!front_page_.empty() && !style_.plain_sheets) VN_RETURN_IF_ERROR(WriteFrontPage());
    return stream_.Finish();
  }

  void SetFrontPage(std::vector<std::string> lines) override { front_page_ = std::move(lines); }

 private:
  void AppendRow(std::uint64_t row, std::span<const Cell> cells, XlsxFill fill, std::string& xml) const {
    const auto line = static_cast<std::uint32_t>(row);
    fmt::format_to(std::back_inserter(xml), FMT_STRING("<row r=\"{}\">"), line);
    for (std::uint32_t i = 0; i < cells.size(); ++i) AppendCell(line, i, cells[i], style_, fill, xml);
    xml += "</row>";
  }

  Result<Done> OpenNext() {
    const bool only = num_sheets_ == 1 && num_opened_ == 0;
    const std::string name =
        only ? std::string(style_.only_sheet)
             : fmt::format("{}{}", style_.sheets,
                           num_opened_ + static_cast<std::uint64_t>(style_.first_sheet_number));
    ++num_opened_;
    if (style_.plain_sheets) {
      VN_RETURN_IF_ERROR(stream_.BeginSheet(name));
    } else {
      VN_RETURN_IF_ERROR(
          stream_.BeginSheet(name, {.layout = LayoutOf(columns_), .behind_rows = FilterOf(columns_.size())}));
    }
    std::string xml;
    const std::vector<Cell> headings(columns_.begin(), columns_.end());
    AppendRow(1, headings, style_.plain_sheets ? XlsxFill::kNone : XlsxFill::kHeading, xml);
    VN_ASSIGN_OR_RETURN(const DeflatedPiece piece, DeflatePiece(xml));
    return stream_.Append(piece);
  }

  Result<Done> WriteFrontPage() {
    const std::size_t widths[] = {kFrontPageWidth};
    VN_RETURN_IF_ERROR(stream_.BeginSheet("Verdict", {.layout = ColumnWidths(widths), .first = true}));
    std::string xml;
    for (std::size_t i = 0; i < front_page_.size(); ++i) {
      const Cell line(front_page_[i]);
      AppendRow(i + 1, std::span(&line, 1), XlsxFill::kNone, xml);
    }
    VN_ASSIGN_OR_RETURN(const DeflatedPiece piece, DeflatePiece(xml));
    return stream_.Append(piece);
  }

  XlsxStream stream_;
  Columns columns_;
  std::vector<std::string> front_page_;
  const TableStyle style_;
  std::uint64_t rows_per_sheet_, num_sheets_ = 1, num_opened_ = 0;
};

}  // namespace

Writer NewXlsxWriter(const std::filesystem::path& path, const Columns& columns,
                     const ReportOptions& options) {
  VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::CreateReport(path));
  if (file.written_directly()) {
    return Error{ErrorCode::kUnsupported, path.string(), "xlsx needs a regular file"};
  }
  VN_ASSIGN_OR_RETURN(XlsxStream stream, XlsxStream::Create(std::move(file)));
  return std::unique_ptr<ReportWriter>(
      std::make_unique<XlsxWriter>(path, std::move(stream), columns, options));
}

}  // namespace vernier

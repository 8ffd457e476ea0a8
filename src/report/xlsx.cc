// xlsx: rows are rendered into pieces of XML, each deflated on its own.
#include <fmt/format.h>

#include <cmath>

#include "core/text.h"
#include "report/writers_internal.h"
#include "format/xlsx.h"

namespace vernier {
namespace {

constexpr std::size_t kMostCharacters = 32'767;  // of a cell
constexpr std::string_view kCutNote = " [cut]";
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

constexpr XlsxFill kFills[] = {  // in the order of RowColour
    XlsxFill::kNone, XlsxFill::kPaleRed, XlsxFill::kPaleYellow, XlsxFill::kPaleGreen};

// Counted in characters, as the limit of the format is; cutting inside one would make the file unreadable.
std::string CellText(std::string_view text) {
  std::string valid = ValidUtf8(text);
  if (valid.size() <= kMostCharacters) return valid;
  std::size_t num_characters = 0, end = 0, cut = 0;
  for (; end < valid.size(); ++num_characters) {
    if (num_characters <= kMostCharacters - kCutNote.size()) cut = end;
    // Beyond U+FFFF a character counts twice there.
    const std::size_t length = Utf8Length(std::string_view(valid).substr(end));
    if (length == 4) ++num_characters;
    end += length;
  }
  if (num_characters <= kMostCharacters) return valid;
  return valid.substr(0, cut) + std::string(kCutNote);
}

struct XlsxCell {
  std::uint32_t row, column;
  XlsxFill fill;
  std::string& xml;

  // A number cell is a double: beyond 2^53 an integer would lose digits silently.
  template <class Integer>
  void Whole(Integer value) const {
    const auto number = static_cast<double>(value);
    if (std::abs(number) < 0x1p53) {
      AppendXlsxNumber(row, column, number, fill, xml);
    } else {
      AppendXlsxText(row, column, std::to_string(value), fill, xml);
    }
  }

  void operator()(std::monostate) const { AppendXlsxEmpty(row, column, fill, xml); }
  void operator()(bool value) const { AppendXlsxBool(row, column, value, fill, xml); }
  void operator()(std::int64_t value) const { Whole(value); }
  void operator()(std::uint64_t value) const { Whole(value); }
  void operator()(double value) const {
    if (std::isfinite(value)) {
      AppendXlsxNumber(row, column, value, fill, xml);
    } else {
      AppendXlsxText(row, column, ShortestText(value), fill, xml);
    }
  }
  void operator()(const std::string& text) const { AppendXlsxText(row, column, CellText(text), fill, xml); }
};

// The heading stays in sight, and every column is as wide as its heading.
std::string LayoutOf(const Columns& columns) {
  std::string layout =
      "<sheetViews><sheetView workbookViewId=\"0\"><pane ySplit=\"1\" topLeftCell=\"A2\" "
      "activePane=\"bottomLeft\" state=\"frozen\"/></sheetView></sheetViews>";
  if (columns.empty()) return layout;
  layout += "<cols>";
  for (std::size_t i = 0; i < columns.size(); ++i) {
    layout += fmt::format("<col min=\"{0}\" max=\"{0}\" width=\"{1}\" customWidth=\"1\"/>", i + 1,
                          columns[i].size() + 4);
  }
  return layout + "</cols>";
}

class XlsxWriter final : public ReportWriter {
 public:
  XlsxWriter(XlsxStream stream, const Columns& columns, const ReportOptions& options)
      : stream_(std::move(stream)), columns_(columns), options_(options) {}

  Result<Done> Write(std::span<const Cell> cells, RowColour colour) override {
    if (num_rows_in_sheet_ == options_.rows_per_sheet) VN_RETURN_IF_ERROR(StartSheet());
    ++num_rows_in_sheet_;
    AddRow(cells, kFills[static_cast<std::size_t>(colour)]);
    return xml_.size() < kPieceBytes ? Result<Done>(Done{}) : WritePiece();
  }

  Result<Done> Finish() override {
    VN_RETURN_IF_ERROR(WritePiece());
    return stream_.Finish();
  }

  Result<Done> StartSheet() {
    VN_RETURN_IF_ERROR(WritePiece());
    std::string name = options_.sheet;
    if (options_.first_sheet_number) {
      name += std::to_string(*options_.first_sheet_number + num_sheets_);
    } else if (num_sheets_ > 0) {
      name += std::to_string(num_sheets_ + 1);
    }
    ++num_sheets_;
    num_rows_in_sheet_ = 0;
    VN_RETURN_IF_ERROR(stream_.BeginSheet(name, LayoutOf(columns_)));
    AddRow(std::vector<Cell>(columns_.begin(), columns_.end()), XlsxFill::kHeading);
    return Done{};
  }

 private:
  // The heading is row 1, so that the number of rows behind it gives the row of the last.
  void AddRow(std::span<const Cell> cells, XlsxFill fill) {
    const auto row = static_cast<std::uint32_t>(num_rows_in_sheet_ + 1);
    fmt::format_to(std::back_inserter(xml_), "<row r=\"{}\">", row);
    for (std::uint32_t column = 0; column < cells.size(); ++column) {
      std::visit(XlsxCell{row, column, fill, xml_}, cells[column]);
    }
    xml_ += "</row>";
  }

  Result<Done> WritePiece() {
    if (xml_.empty()) return Done{};
    VN_ASSIGN_OR_RETURN(const DeflatedPiece piece, DeflatePiece(xml_));
    xml_.clear();
    return stream_.Append(piece);
  }

  XlsxStream stream_;
  Columns columns_;
  ReportOptions options_;
  std::string xml_;  // rows that are not written yet
  int num_sheets_ = 0;
  std::uint64_t num_rows_in_sheet_ = 0;
};

}  // namespace

Writer NewXlsxWriter(AtomicFile file, const Columns& columns, const ReportOptions& options) {
  if (file.written_directly()) {
    return Error{ErrorCode::kUnsupported, file.path().string(), "xlsx needs a regular file"};
  }
  VN_ASSIGN_OR_RETURN(XlsxStream stream, XlsxStream::Create(std::move(file)));
  auto writer = std::make_unique<XlsxWriter>(std::move(stream), columns, options);
  VN_RETURN_IF_ERROR(writer->StartSheet());
  return std::unique_ptr<ReportWriter>(std::move(writer));
}

}  // namespace vernier

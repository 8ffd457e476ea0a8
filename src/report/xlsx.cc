// xlsx through libxlsxwriter, one row in memory at a time.
#include <fmt/format.h>
#include <xlsxwriter.h>

#include <cmath>

#include "core/text.h"
#include "report/writers_internal.h"

namespace vernier {
namespace {

constexpr std::size_t kMostCharacters = 32'767;  // of a cell
constexpr std::string_view kCutNote = " [cut]";

// clang-format off
struct Fill { lxw_color_t strong, pale; };
constexpr Fill kFills[] = {  // in the order of RowColour
    {0,        0       },
    {0xff0000, 0xffc7ce},
    {0xffff00, 0xffeb9c},
    {0x00ff00, 0xc6efce},
};
// clang-format on

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
  lxw_worksheet* sheet;
  lxw_row_t row;
  lxw_col_t column;
  lxw_format* format;

  lxw_error Text(const std::string& text) const {
    if (text.empty()) return (*this)(std::monostate{});
    return worksheet_write_string(sheet, row, column, text.c_str(), format);
  }
  lxw_error Number(double value) const { return worksheet_write_number(sheet, row, column, value, format); }

  lxw_error operator()(std::monostate) const {
    return format ? worksheet_write_blank(sheet, row, column, format) : LXW_NO_ERROR;
  }
  lxw_error operator()(bool value) const {
    return worksheet_write_boolean(sheet, row, column, value, format);
  }
  // A number cell is a double: beyond 2^53 an integer would lose digits silently.
  lxw_error operator()(std::int64_t value) const {
    return std::abs(value) < (std::int64_t{1} << 53) ? Number(static_cast<double>(value))
                                                     : Text(std::to_string(value));
  }
  lxw_error operator()(std::uint64_t value) const {
    return value < (std::uint64_t{1} << 53) ? Number(static_cast<double>(value))
                                            : Text(std::to_string(value));
  }
  lxw_error operator()(double value) const {
    return std::isfinite(value) ? Number(value) : Text(ShortestText(value));
  }
  lxw_error operator()(const std::string& text) const { return Text(CellText(text)); }
};

class XlsxWriter final : public ReportWriter {
 public:
  XlsxWriter(AtomicFile file, const Columns& columns, const ReportOptions& options)
      : file_(std::move(file)), columns_(columns), options_(options) {}
  ~XlsxWriter() override {
    if (workbook_) lxw_workbook_free(workbook_);
  }

  Result<Done> Open() {
    // The library's own temporary files go to the same disk: when it is full, closing the workbook tells.
    std::string folder = file_.temporary_path().parent_path().string();
    if (folder.empty()) folder = ".";
    lxw_workbook_options how = {};
    how.constant_memory = LXW_TRUE;
    how.tmpdir = folder.data();
    how.use_zip64 = LXW_TRUE;
    workbook_ = workbook_new_opt(file_.temporary_path().c_str(), &how);
    if (!workbook_) return Failed("out of memory");
    for (std::size_t i = 1; i < std::size(kFills); ++i) {
      formats_[i] = workbook_add_format(workbook_);
      format_set_bg_color(formats_[i], options_.strong_colours ? kFills[i].strong : kFills[i].pale);
    }
    heading_ = workbook_add_format(workbook_);
    format_set_bold(heading_);
    return StartSheet();
  }

  Result<Done> Write(std::span<const Cell> cells, RowColour colour) override {
    if (num_rows_in_sheet_ == options_.rows_per_sheet) VN_RETURN_IF_ERROR(StartSheet());
    ++num_rows_in_sheet_;
    return WriteRow(cells, formats_[static_cast<std::size_t>(colour)]);
  }

  Result<Done> Finish() override {
    const lxw_error error = workbook_close(std::exchange(workbook_, nullptr));
    if (error != LXW_NO_ERROR) return Failed(lxw_strerror(error));
    return file_.Commit();
  }

 private:
  Result<Done> Failed(std::string_view why) const {
    return Error{ErrorCode::kIo, file_.path().string(), std::string(why)};
  }

  Result<Done> StartSheet() {
    std::string name = options_.sheet;
    if (options_.first_sheet_number) {
      name += std::to_string(*options_.first_sheet_number + num_sheets_);
    } else if (num_sheets_ > 0) {
      name += std::to_string(num_sheets_ + 1);
    }
    ++num_sheets_;
    num_rows_in_sheet_ = 0;
    sheet_ = workbook_add_worksheet(workbook_, name.c_str());
    if (!sheet_) return Failed("cannot add the sheet " + name);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const auto column = static_cast<lxw_col_t>(i);
      worksheet_set_column(sheet_, column, column, static_cast<double>(columns_[i].size() + 4), nullptr);
    }
    worksheet_freeze_panes(sheet_, 1, 0);
    return WriteRow(std::vector<Cell>(columns_.begin(), columns_.end()), heading_);
  }

  Result<Done> WriteRow(std::span<const Cell> cells, lxw_format* format) {
    XlsxCell out{sheet_, format == heading_ ? 0 : static_cast<lxw_row_t>(num_rows_in_sheet_), 0, format};
    for (const Cell& cell : cells) {
      if (const lxw_error error = std::visit(out, cell); error != LXW_NO_ERROR)
        return Failed(lxw_strerror(error));
      ++out.column;
    }
    return Done{};
  }

  AtomicFile file_;
  Columns columns_;
  ReportOptions options_;
  lxw_workbook* workbook_ = nullptr;
  lxw_worksheet* sheet_ = nullptr;
  lxw_format* heading_ = nullptr;
  lxw_format* formats_[std::size(kFills)] = {};
  int num_sheets_ = 0;
  std::uint64_t num_rows_in_sheet_ = 0;
};

}  // namespace

Writer NewXlsxWriter(AtomicFile file, const Columns& columns, const ReportOptions& options) {
  if (file.written_directly()) {
    return Error{ErrorCode::kUnsupported, file.path().string(), "xlsx needs a regular file"};
  }
  auto writer = std::make_unique<XlsxWriter>(std::move(file), columns, options);
  VN_RETURN_IF_ERROR(writer->Open());
  return std::unique_ptr<ReportWriter>(std::move(writer));
}

}  // namespace vernier

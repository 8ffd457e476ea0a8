// Rows as a table on the terminal, cut to its width.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/text.h"
#include "vernier/report.h"

namespace vernier {
namespace {

constexpr std::size_t kGap = 2;             // blanks between columns
constexpr std::size_t kNarrowestText = 12;  // a text is not cut below this
constexpr std::string_view kEllipsis = "…";

// clang-format off
struct WidthRange { char32_t first, last; std::size_t width; };
constexpr WidthRange kWidths[] = {  // every other character is one column wide
    {0x0300, 0x036f, 0}, {0x200b, 0x200f, 0}, {0x20d0, 0x20ff, 0}, {0xfe00, 0xfe0f, 0},
    {0x1100, 0x115f, 2}, {0x2e80, 0x303e, 2}, {0x3041, 0xa4cf, 2}, {0xac00, 0xd7a3, 2}, {0xf900, 0xfaff, 2},
    {0xfe30, 0xfe6f, 2}, {0xff00, 0xff60, 2}, {0xffe0, 0xffe6, 2}, {0x1f300, 0x1f64f, 2}, {0x1f900, 0x1f9ff, 2},
    {0x20000, 0x3fffd, 2},
};

constexpr std::string_view kColours[] = {"", "\x1b[31m", "\x1b[33m", "\x1b[32m"};  // in the order of RowColour
constexpr std::string_view kBold = "\x1b[1m", kPlain = "\x1b[0m";
// clang-format on

std::size_t CharacterWidth(std::string_view character) {
  if (character.size() == 1) return 1;
  char32_t code = static_cast<unsigned char>(character[0]) & (0x7fu >> character.size());
  for (const char c : character.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3fu);
  for (const WidthRange& range : kWidths) {
    if (code >= range.first && code <= range.last) return range.width;
  }
  return 1;
}

// The length in bytes of the longest start of `text` that is at most `width` columns wide. `text` is valid
// UTF-8.
std::size_t StartOfWidth(std::string_view text, std::size_t width) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::string_view character =
        text.substr(end, std::max<std::size_t>(Utf8Length(text.substr(end)), 1));
    const std::size_t character_width = CharacterWidth(character);
    if (character_width > width) break;
    width -= character_width;
    end += character.size();
  }
  return end;
}

std::size_t DisplayWidth(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(Utf8Length(text), 1);
    width += CharacterWidth(text.substr(0, length));
    text.remove_prefix(length);
  }
  return width;
}

std::string CutText(const std::string& text, std::size_t width, TableColumn::Cut cut) {
  const std::size_t full_width = DisplayWidth(text);
  if (full_width <= width || cut == TableColumn::Cut::kNever) return text;
  const std::size_t kept = width - 1;  // the ellipsis takes one
  if (cut == TableColumn::Cut::kEnd) return text.substr(0, StartOfWidth(text, kept)) + std::string(kEllipsis);
  // Names differ mostly towards their end, so that keeps the larger half.
  const std::size_t tail_width = kept - kept / 3;
  std::size_t tail = StartOfWidth(text, full_width - tail_width);
  while (DisplayWidth(std::string_view(text).substr(tail)) > tail_width) {
    tail += Utf8Length(std::string_view(text).substr(tail));
  }
  return text.substr(0, StartOfWidth(text, kept / 3)) + std::string(kEllipsis) + text.substr(tail);
}

std::string NumberText(double value) {
  if (std::isnan(value)) return "nan";
  std::string text = fmt::format("{:.4g}", value);
  // A cosine of 0.99999 must not look like 1, nor 99.999 percent like all of them.
  if (text == "1" && value < 1) return fmt::format("{:.6f}", std::floor(value * 1e6) / 1e6);
  if (text == "100" && value < 100) return fmt::format("{:.4f}", std::floor(value * 1e4) / 1e4);
  return text;
}

std::string ShownText(const Cell& cell) {
  if (cell.kind == Cell::Kind::kBool) return cell.integer != 0 ? "yes" : "no";
  if (cell.kind == Cell::Kind::kNumber) return NumberText(cell.number);
  return Printable(CellText(cell));
}

using Texts = std::vector<std::string>;
using Cut = TableColumn::Cut;

// The widest column that may be cut gives up one character at a time.
void FitWidths(std::vector<std::size_t>& widths, std::span<const TableColumn> columns,
               std::size_t line_width) {
  std::size_t total = kGap * (widths.size() - 1);
  for (const std::size_t width : widths) total += width;
  for (; total > line_width; --total) {
    std::size_t widest = columns.size();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (columns[i].cut == TableColumn::Cut::kNever || widths[i] <= kNarrowestText) continue;
      if (widest == columns.size() || widths[i] > widths[widest]) widest = i;
    }
    if (widest == columns.size()) return;
    --widths[widest];
  }
}

// The start that all texts share, up to a separator: "model.layers." of names, which tells none from another.
std::size_t CommonStart(const std::vector<Texts>& lines, std::size_t column) {
  std::string_view start = lines.front()[column];
  for (const Texts& line : lines) {
    const auto [end, ignored] =
        std::mismatch(start.begin(), start.end(), line[column].begin(), line[column].end());
    start = start.substr(0, static_cast<std::size_t>(end - start.begin()));
  }
  return start.find_last_of("./:") + 1;  // 0 when there is none
}

class TableText {
 public:
  TableText(std::span<const TableColumn> columns, const RowBlock& rows, const TableOptions& options)
      : columns_(columns), options_(options), to_the_right_(columns.size()) {
    for (const TableColumn& column : columns) widths_.push_back(DisplayWidth(column.heading));
    for (std::size_t row = 0; row < rows.size(); ++row) {
      Texts texts;
      for (std::size_t i = 0; i < columns.size(); ++i) {
        const Cell& cell = rows.row(row)[i];
        texts.push_back(ShownText(cell));
        widths_[i] = std::max(widths_[i], DisplayWidth(texts.back()));
        if (cell.is_number()) to_the_right_[i] = true;
      }
      lines_.push_back(std::move(texts));
    }
    if (options.width != 0 && !columns.empty()) Fit();
  }

  std::string Render(const RowBlock& rows) {
    Texts headings;
    for (const TableColumn& column : columns_) headings.push_back(column.heading);
    AddLine(headings, kBold, std::nullopt);
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      AddLine(lines_[i], kColours[static_cast<std::size_t>(rows.colours[i])], options_.colour_column);
    }
    return std::move(out_);
  }

 private:
  void Fit() {
    const std::vector<std::size_t> natural = widths_;
    FitWidths(widths_, columns_, options_.width);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].cut == Cut::kMiddle && widths_[i] < natural[i] && lines_.size() > 1) DropCommonStart(i);
    }
  }

  void DropCommonStart(std::size_t column) {
    const std::size_t start = CommonStart(lines_, column);
    if (start <= kEllipsis.size()) return;
    std::size_t widest = DisplayWidth(columns_[column].heading);
    for (Texts& line : lines_) {
      line[column].replace(0, start, kEllipsis);
      widest = std::max(widest, DisplayWidth(line[column]));
    }
    widths_[column] = std::min(widths_[column], widest);
  }

  // Colours the cell of one column, or all of them.
  void AddLine(const Texts& texts, std::string_view colour, std::optional<std::size_t> only_column) {
    std::string line;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::string text = CutText(texts[i], widths_[i], columns_[i].cut);
      const std::string padding(widths_[i] - std::min(widths_[i], DisplayWidth(text)), ' ');
      const bool coloured =
          options_.colour && !colour.empty() && !text.empty() && only_column.value_or(i) == i;
      if (i > 0) line.append(kGap, ' ');
      if (to_the_right_[i]) line += padding;
      line += coloured ? fmt::format("{}{}{}", colour, text, kPlain) : text;
      if (!to_the_right_[i]) line += padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out_ += line + '\n';
  }

  std::span<const TableColumn> columns_;
  const TableOptions& options_;
  std::vector<bool> to_the_right_;
  std::vector<std::size_t> widths_;
  std::vector<Texts> lines_;
  std::string out_;
};

std::string CutToWidth(const std::string& text, std::size_t width) {
  constexpr std::string_view kDots = "...";
  if (width == 0 || DisplayWidth(text) <= width) return text;
  return text.substr(0, StartOfWidth(text, width - kDots.size())) + std::string(kDots);
}

}  // namespace

std::string RenderFrame(std::span<const FrameColumn> columns,
                        std::span<const std::vector<std::string>> lines) {
  std::vector<Texts> shown;
  std::vector<std::size_t> widths;
  for (const FrameColumn& column : columns)
    widths.push_back(std::max(column.min_width, DisplayWidth(column.heading)));
  for (const std::vector<std::string>& line : lines) {
    Texts& texts = shown.emplace_back();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      texts.push_back(CutToWidth(Printable(line[i]), columns[i].max_width));
      widths[i] = std::max(widths[i], DisplayWidth(texts[i]));
    }
  }
  std::string edge = "+", out;
  for (const std::size_t width : widths) edge += std::string(width + 2, '-') + "+";
  edge += '\n';
  const auto add = [&](std::string_view text, std::size_t column, bool to_the_right) {
    const std::string padding(widths[column] - DisplayWidth(text), ' ');
    out += fmt::format("| {}{}{} ", to_the_right ? padding : "", text, to_the_right ? "" : padding);
  };
  out = edge;
  for (std::size_t i = 0; i < columns.size(); ++i)
    add(columns[i].heading, i, columns[i].heading_to_the_right);
  out += "|\n" + edge;
  for (const Texts& texts : shown) {
    for (std::size_t i = 0; i < columns.size(); ++i) add(texts[i], i, columns[i].cells_to_the_right);
    out += "|\n";
  }
  return out + edge;
}

std::string CutMiddle(const std::string& text, std::size_t width) {
  return CutText(text, width, Cut::kMiddle);
}

std::string RenderTable(std::span<const TableColumn> columns, const RowBlock& rows,
                        const TableOptions& options) {
  return TableText(columns, rows, options).Render(rows);
}

}  // namespace vernier

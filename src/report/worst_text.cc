#include "report/worst_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "vernier/judge.h"
#include "vernier/report.h"

namespace vernier {
namespace {

constexpr int kFewestDigits = 4, kMostDigits = 17;  // 17 tell any two doubles apart
constexpr std::size_t kIndent = 2, kShortestName = 12;

// What a position along an axis is called.
std::string_view PositionWord(std::size_t axis, std::size_t num_axes) {
  if (num_axes == 1) return "element";
  if (axis == 0) return "row";
  return axis + 1 == num_axes ? "column" : "slice";
}

std::string PercentText(double share) {
  return fmt::format("{:.0f} %", std::floor(100 * share));  // 99.9 % are not all
}

std::string IndexOf(const RankedElement& element, const Shape& shape, bool is_complex) {
  return IndexText(element.index, shape) + (!is_complex ? "" : element.is_imaginary ? ".imag" : ".real");
}

std::string TableOf(const ElementDifferences& differences, const Shape& shape, std::size_t width) {
  const bool is_complex = std::any_of(differences.worst.begin(), differences.worst.end(),
                                      [](const RankedElement& element) { return element.is_imaginary; });
  const bool has_ulp = std::any_of(differences.worst.begin(), differences.worst.end(),
                                   [](const RankedElement& element) { return element.ulp.has_value(); });
  std::vector<TableColumn> columns = {{"index", TableColumn::Cut::kEnd}, {"got"}, {"want"}, {"abs error"}};
  if (has_ulp) columns.push_back({"ulp"});
  RowBlock rows(columns.size());
  TextArena arena;
  for (const RankedElement& element : differences.worst) {
    auto [got, want] = ApartTexts(element.target, element.golden);
    if (!element.target_text.empty()) {
      got = element.target_text;
      want = element.golden_text;
    }
    rows.cells.insert(rows.cells.end(), {arena.Keep(IndexOf(element, shape, is_complex)),
                                         Cell::Digits(element.target, arena.Keep(got)),
                                         Cell::Digits(element.golden, arena.Keep(want)), element.abs_diff});
    if (has_ulp) rows.cells.push_back(element.ulp ? Cell(*element.ulp) : Cell("-"));
    rows.colours.push_back(RowColour::kNone);
  }
  TableOptions options;
  options.width = std::max(width, kIndent + 1) - kIndent;
  return RenderTable(columns, rows, options);
}

std::string Indented(std::string_view text) {
  std::string indented;
  while (!text.empty()) {
    const std::size_t end = text.find('\n') + 1;
    indented += std::string(kIndent, ' ') + std::string(text.substr(0, end));
    text.remove_prefix(end);
  }
  return indented;
}

}  // namespace

std::pair<std::string, std::string> ApartTexts(double got, double want) {
  for (int digits = kFewestDigits;; ++digits) {
    std::pair texts(fmt::format("{:.{}g}", got, digits), fmt::format("{:.{}g}", want, digits));
    if (texts.first != texts.second || digits == kMostDigits) return texts;
  }
}

std::string ConcentrationText(const Concentration& concentration, const Shape& shape) {
  using Kind = Concentration::Kind;
  const std::string_view what =
      concentration.of_specials ? "of the NaN and Inf mismatches lie" : "of the squared error lies";
  if (concentration.kind == Kind::kOneElement)
    return concentration.of_specials
               ? "one element is the only NaN or Inf mismatch"
               : fmt::format("{} {} in one element", PercentText(concentration.share), what);
  if (concentration.kind == Kind::kSpread)
    return concentration.of_specials ? "the NaN and Inf mismatches are spread over all axes"
                                     : "the squared error is spread over all axes";
  const std::string_view word = PositionWord(concentration.axis, shape.size());
  const std::string where =
      concentration.first == concentration.last
          ? fmt::format("{} {} of axis {}", word, concentration.first, concentration.axis)
          : fmt::format("{}s {}..{} of axis {} ({} of {})", word, concentration.first, concentration.last,
                        concentration.axis, concentration.last - concentration.first + 1,
                        shape[concentration.axis]);
  return fmt::format("{} {} in {}", PercentText(concentration.share), what, where);
}

std::string WorstText(const ShownPair& pair, const ElementDifferences& differences, std::size_t width) {
  constexpr std::string_view kBefore = "worst elements of ";
  const std::string counts =
      differences.num_different == 0
          ? "no element differs"
          : fmt::format("{} of {} differ", differences.num_different, differences.num_numbers);
  const std::string behind = fmt::format(", {} {}: {}", pair.dtype, ShapeText(pair.shape), counts);
  const std::size_t taken = kBefore.size() + behind.size();
  const std::string name = CutMiddle(Printable(pair.name), std::max(width, taken + kShortestName) - taken);
  std::string text = fmt::format("{}{}{}\n", kBefore, name, behind);
  if (!differences.worst.empty()) text += Indented(TableOf(differences, pair.shape, width));
  if (differences.concentration)
    text += Indented(ConcentrationText(*differences.concentration, pair.shape) + '\n');
  return text;
}

}  // namespace vernier

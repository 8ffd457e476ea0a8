// Our own columns: key, meaning and value side by side.
#include <iterator>

#include "vernier/compare.h"

namespace vernier {
namespace {

// Of the target, or of the golden when there is no target.
const TensorInfo& Present(const CompareRow& row) { return row.target ? *row.target : *row.golden; }

// dtype and shape of a damaged tensor are unknown.
template <class Value>
Cell OfSide(const TensorInfo* info, const Value& value) {
  return info && !info->damage ? Cell(value(*info)) : Cell();
}
std::string DtypeOf(const TensorInfo& info) { return std::string(Name(info.dtype)); }
std::string ShapeOf(const TensorInfo& info) { return ShapeText(info.shape); }

template <class Value>
Cell Measured(const CompareRow& row, const Value& value) {
  return row.measures ? Cell(value(*row.measures)) : Cell();
}
template <class Value>
Cell Worst(const CompareRow& row, const Value& value) {
  const std::optional<WorstElement> worst = row.measures ? WorstOf(*row.measures) : std::nullopt;
  return worst ? Cell(value(*worst)) : Cell();
}

double PercentClose(const PairMeasures& m) {
  return m.num_elements == 0 ? 100.0
                             : 100.0 * static_cast<double>(m.num_close) / static_cast<double>(m.num_elements);
}

using R = const CompareRow&;
using M = const PairMeasures&;
using W = const WorstElement&;

// clang-format off
constexpr CompareColumn kColumns[] = {
    {"name",           Good::kNeither, "name in the target, or in the golden when only that has it",
     [](R r) { return Cell(Present(r).name); }},
    {"golden_name",    Good::kNeither, "name in the golden",
     [](R r) { return r.golden ? Cell(r.golden->name) : Cell(); }},
    {"matched",        Good::kNeither, "how the two were paired: exact, renamed, fuzzy, position",
     [](R r) { return r.matched ? Cell(std::string(Name(*r.matched))) : Cell(); }},
    {"dtype",          Good::kNeither, "dtype of the target",
     [](R r) { return OfSide(r.target, DtypeOf); }},
    {"golden_dtype",   Good::kNeither, "dtype of the golden",
     [](R r) { return OfSide(r.golden, DtypeOf); }},
    {"shape",          Good::kNeither, "shape of the target",
     [](R r) { return OfSide(r.target, ShapeOf); }},
    {"golden_shape",   Good::kNeither, "shape of the golden",
     [](R r) { return OfSide(r.golden, ShapeOf); }},
    {"max_abs",        Good::kSmall,   "largest |target - golden|, over elements that are finite on both sides",
     [](R r) { return Measured(r, [](M m) { return m.max_abs_diff; }); }},
    {"max_rel",        Good::kSmall,   "largest |target - golden| / max(|golden|, 1e-12), over the same",
     [](R r) { return Measured(r, [](M m) { return m.max_relative; }); }},
    {"mean_rel",       Good::kSmall,   "mean of the same",
     [](R r) { return Measured(r, [](M m) { return m.MeanRelative(); }); }},
    {"rmse",           Good::kSmall,   "root of the mean of (target - golden)^2",
     [](R r) { return Measured(r, [](M m) { return m.Rmse(); }); }},
    {"cosine",         Good::kLarge,   "target . golden / (|target| |golden|), 1 when the directions agree",
     [](R r) { return Measured(r, [](M m) { return m.Cosine(); }); }},
    {"max_ulp",        Good::kSmall,   "largest distance in units in the last place, for equal float dtypes",
     [](R r) { return r.measures && r.measures->has_ulp ? Cell(r.measures->max_ulp) : Cell(); }},
    {"percent_close",  Good::kLarge,   "elements with |target - golden| <= atol + rtol * |golden|, in percent",
     [](R r) { return Measured(r, PercentClose); }},
    {"nan_inf_mismatches", Good::kSmall,   "elements that are NaN or infinite on one side only, or infinite with opposite signs",
     [](R r) { return Measured(r, [](M m) { return m.num_special_mismatches(); }); }},
    {"worst_index",    Good::kNeither, "the first NaN or infinity mismatch, else the element with the largest difference",
     [](R r) { return Worst(r, [r](W w) { return IndexText(w.index, r.target->shape); }); }},
    {"worst_got",      Good::kNeither, "the target's value there",
     [](R r) { return Worst(r, [](W w) { return w.got; }); }},
    {"worst_want",     Good::kNeither, "the golden's value there",
     [](R r) { return Worst(r, [](W w) { return w.want; }); }},
    {"verdict",        Good::kNeither, "pass, fail, error (could not be judged), unmatched",
     [](R r) { return Cell(std::string(Name(r.verdict.status))); }},
    {"why",            Good::kNeither, "the reason in a sentence",
     [](R r) { return r.verdict.why.empty() ? Cell() : Cell(r.verdict.why); }},
    {"error",          Good::kNeither, "stable key of the error that kept it from being compared",
     [](R r) { return r.error ? Cell(std::string(Info(r.error->code).key)) : Cell(); }},
};
// clang-format on

}  // namespace

std::span<const CompareColumn> CompareColumns() { return kColumns; }

std::vector<std::string> CompareColumnKeys() {
  std::vector<std::string> keys;
  for (const CompareColumn& column : kColumns) keys.emplace_back(column.key);
  return keys;
}

std::vector<Cell> CompareCells(const CompareRow& row) {
  std::vector<Cell> cells;
  cells.reserve(std::size(kColumns));
  for (const CompareColumn& column : kColumns) cells.push_back(column.value(row));
  return cells;
}

RowColour ColourOf(Status status) {
  constexpr RowColour kOfStatus[] = {RowColour::kGreen, RowColour::kRed, RowColour::kRed, RowColour::kYellow};
  return kOfStatus[static_cast<std::size_t>(status)];
}

}  // namespace vernier

// Our own columns: key, meaning and value side by side.
#include <iterator>

#include "profiles/native/native.h"

namespace vernier::native {
namespace {

// Of the target, or of the golden when there is no target.
const TensorInfo& Present(const CompareRow& row) { return row.target ? *row.target : *row.golden; }

// dtype and shape of a damaged tensor are unknown.
template <class Value>
Cell OfSide(const TensorInfo* info, const Value& value) {
  return info && !info->damage ? Cell(value(*info)) : Cell();
}
std::string_view DtypeOf(const TensorInfo& info) { return Name(info.dtype); }

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
using A = TextArena&;
using M = const PairMeasures&;
using W = const WorstElement&;

// clang-format off
constexpr Column kColumns[] = {
    {"name",           Good::kNeither, "name in the target, or in the golden when only that has it",
     [](R r, A) { return Cell(Present(r).name); }},
    {"golden_name",    Good::kNeither, "name in the golden",
     [](R r, A) { return r.golden ? Cell(r.golden->name) : Cell(); }},
    {"matched",        Good::kNeither, "how the two were paired: exact, renamed, fuzzy, position",
     [](R r, A) { return r.matched ? Cell(Name(*r.matched)) : Cell(); }},
    {"dtype",          Good::kNeither, "dtype of the target",
     [](R r, A) { return OfSide(r.target, DtypeOf); }},
    {"golden_dtype",   Good::kNeither, "dtype of the golden",
     [](R r, A) { return OfSide(r.golden, DtypeOf); }},
    {"shape",          Good::kNeither, "shape of the target",
     [](R r, A a) { return OfSide(r.target, [&a](const TensorInfo& t) { return a.Keep(ShapeText(t.shape)); }); }},
    {"golden_shape",   Good::kNeither, "shape of the golden",
     [](R r, A a) { return OfSide(r.golden, [&a](const TensorInfo& t) { return a.Keep(ShapeText(t.shape)); }); }},
    {"max_abs",        Good::kSmall,   "largest |target - golden|, over elements that are finite on both sides",
     [](R r, A) { return Measured(r, [](M m) { return m.max_abs_diff; }); }},
    {"max_rel",        Good::kSmall,   "largest |target - golden| / max(|golden|, 1e-12), over the same",
     [](R r, A) { return Measured(r, [](M m) { return m.max_relative; }); }},
    {"mean_rel",       Good::kSmall,   "mean of the same",
     [](R r, A) { return Measured(r, [](M m) { return m.MeanRelative(); }); }},
    {"rmse",           Good::kSmall,   "root of the mean of (target - golden)^2",
     [](R r, A) { return Measured(r, [](M m) { return m.Rmse(); }); }},
    {"cosine",         Good::kLarge,   "target . golden / (|target| |golden|), 1 when the directions agree",
     [](R r, A) { return Measured(r, [](M m) { return m.Cosine(); }); }},
    {"max_ulp",        Good::kSmall,   "largest distance in units in the last place, for equal float dtypes",
     [](R r, A) { return r.measures && r.measures->has_ulp ? Cell(r.measures->max_ulp) : Cell(); }},
    {"percent_close",  Good::kLarge,   "elements with |target - golden| <= atol + rtol * |golden|, in percent",
     [](R r, A) { return Measured(r, PercentClose); }},
    {"nan_inf_mismatches", Good::kSmall,   "elements that are NaN or infinite on one side only, or infinite with opposite signs",
     [](R r, A) { return Measured(r, [](M m) { return m.num_special_mismatches(); }); }},
    {"worst_index",    Good::kNeither, "the first NaN or infinity mismatch, else the element with the largest difference",
     [](R r, A a) { return Worst(r, [&](W w) { return a.Keep(IndexText(w.index, r.target->shape)); }); }},
    {"worst_got",      Good::kNeither, "the target's value there",
     [](R r, A) { return Worst(r, [](W w) { return w.got; }); }},
    {"worst_want",     Good::kNeither, "the golden's value there",
     [](R r, A) { return Worst(r, [](W w) { return w.want; }); }},
    {"verdict",        Good::kNeither, "pass, fail, error (could not be judged), unmatched",
     [](R r, A) { return Cell(Name(r.verdict.status)); }},
    {"why",            Good::kNeither, "the reason in a sentence",
     [](R r, A a) { return r.verdict.why.empty() ? Cell() : Cell(a.Keep(r.verdict.why)); }},
    {"error",          Good::kNeither, "stable key of the error that kept it from being compared",
     [](R r, A) { return r.error ? Cell(Info(r.error->code).key) : Cell(); }},
};
// clang-format on

}  // namespace

std::span<const Column> Columns() { return kColumns; }

}  // namespace vernier::native

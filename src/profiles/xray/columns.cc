// The columns of a comparison of HDF5 recordings: those of its guide first, then ours.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "profiles/xray/xray.h"

namespace vernier::xray {
namespace {

template <class Value>
Cell Measured(const Row& row, const Value& value) {
  return row.errors ? NumberCell(value(*row.errors)) : Cell();
}
template <class Value>
Cell Worst(const Row& row, const Value& value) {
  return row.errors && row.errors->worst ? Cell(value(*row.errors->worst)) : Cell();
}
// dtype and shape of a damaged tensor are unknown.
template <class Value>
Cell Known(const TensorInfo* info, const Value& value) {
  return info && !info->damage ? Cell(value(*info)) : Cell();
}

std::string_view Matched(const Row& row) {
  if (row.rule) return Name(*row.rule);
  return row.target_item ? "target only" : "golden only";
}

using R = const Row&;
using A = TextArena&;
using E = const PairErrors&;
using W = const WorstElement&;
using T = const TensorInfo&;

// clang-format off
constexpr Column kColumns[] = {
    {"Index",                 Good::kNeither, "row, from 0",
     [](R r, A) { return Cell(r.index); }},
    {"Status",                Good::kNeither, "empty, Fail (Max Err above --max-err, or NaN and infinities elsewhere), Unmatched, Shape, Error",
     [](R r, A) { return Cell(Name(r.status)); }},
    {"Module (Bench/Target)", Good::kNeither, "the key; golden key / target key where they differ",
     [](R r, A a) { return Cell(a.Keep(NameOf(r))); }},
    {"Cosine",                Good::kLarge,   "target . golden / (|target| |golden|); both all zero: 1, one: 0",
     [](R r, A) { return Measured(r, [](E e) { return e.cosine; }); }},
    {"RMSE",                  Good::kSmall,   "root of the mean of (target - golden)^2",
     [](R r, A) { return Measured(r, [](E e) { return e.rmse; }); }},
    {"IsClose (%)",           Good::kLarge,   "elements with |target - golden| <= atol + rtol * |golden|, by the less precise dtype",
     [](R r, A) { return Measured(r, [](E e) { return e.percent_close; }); }},
    {"Max Err (t)",           Good::kSmall,   "largest |target - golden|; inf where NaN or infinities stand elsewhere",
     [](R r, A) { return Measured(r, [](E e) { return e.max_error; }); }},
    {"GtNum",                 Good::kSmall,   "elements with |target - golden| above --gt, 0 unless given",
     [](R r, A) { return r.errors ? Cell(r.errors->num_above) : Cell(); }},
    {"Min Err (t)",           Good::kSmall,   "smallest |target - golden|",
     [](R r, A) { return Measured(r, [](E e) { return e.min_error; }); }},
    {"matched",               Good::kNeither, "how the two were paired: exact, class, order, position; or which side has it alone",
     [](R r, A) { return Cell(Matched(r)); }},
    {"dtype",                 Good::kNeither, "dtype of the target",
     [](R r, A) { return Known(r.target, [](T t) { return Name(t.dtype); }); }},
    {"golden_dtype",          Good::kNeither, "dtype of the golden",
     [](R r, A) { return Known(r.golden, [](T t) { return Name(t.dtype); }); }},
    {"shape",                 Good::kNeither, "shape of the target",
     [](R r, A a) { return Known(r.target, [&a](T t) { return a.Keep(ShapeText(t.shape)); }); }},
    {"golden_shape",          Good::kNeither, "shape of the golden",
     [](R r, A a) { return Known(r.golden, [&a](T t) { return a.Keep(ShapeText(t.shape)); }); }},
    {"mean_rel",              Good::kSmall,   "mean of |target - golden| / max(|golden|, 1e-12)",
     [](R r, A) { return Measured(r, [](E e) { return e.mean_relative; }); }},
    {"worst_index",           Good::kNeither, "where the largest error is",
     [](R r, A a) { return Worst(r, [&](W w) { return a.Keep(IndexText(w.index, r.target->shape)); }); }},
    {"worst_got",             Good::kNeither, "the target's value there",
     [](R r, A) { return Worst(r, [](W w) { return w.got; }); }},
    {"worst_want",            Good::kNeither, "the golden's value there",
     [](R r, A) { return Worst(r, [](W w) { return w.want; }); }},
    {"step",                  Good::kNeither, "step of the recording",
     [](R r, A) { const Item& item = r.golden_item ? *r.golden_item : *r.target_item; return item.step ? Cell(*item.step) : Cell(); }},
    {"message",               Good::kNeither, "why there are no numbers, or what to know about them",
     [](R r, A a) { return r.message.empty() ? Cell() : Cell(a.Keep(r.message)); }},
};
// clang-format on

}  // namespace

std::span<const Column> Columns() { return kColumns; }

std::string_view Name(RowStatus status) {
  constexpr std::string_view kNames[] = {"", "Fail", "Unmatched", "Shape", "Error"};
  return kNames[static_cast<std::size_t>(status)];
}

Status StatusOf(RowStatus status) {
  constexpr Status kStatuses[] = {Status::kPass, Status::kFail, Status::kUnmatched, Status::kFail,
                                  Status::kError};
  return kStatuses[static_cast<std::size_t>(status)];
}

std::string NameOf(const Row& row) {
  if (!row.golden_item) return std::string(row.target_item->key);
  std::string name(row.golden_item->key);
  if (row.target_item && row.target_item->key != row.golden_item->key)
    name += fmt::format(" / {}", row.target_item->key);
  return name;
}

Cell NumberCell(double value) {
  const double rounded = std::strtod(fmt::format("{:.9g}", value).c_str(), nullptr);
  constexpr double kMostExact = 0x1p53;
  if (std::abs(rounded) < kMostExact && rounded == std::floor(rounded))
    return static_cast<std::int64_t>(rounded);
  return rounded;
}

}  // namespace vernier::xray

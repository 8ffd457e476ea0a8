// Statistics of one tensor and measures of a pair, as tables of one row.
#include "vernier/measure.h"

#include <memory>

#include "capi/c_api_internal.h"
#include "vernier/judge.h"

namespace vernier {
namespace {

template <class T>
struct Column {
  const char* name;
  Cell (*value)(const T& measured);
};

template <class Value>
Cell Worst(const PairMeasures& measures, const Value& value) {
  const std::optional<WorstElement> worst = WorstOf(measures);
  return worst ? value(*worst) : Cell{};
}

// clang-format off
constexpr Column<TensorStats> kStatsColumns[] = {
    {"num_elements", [](const TensorStats& s) { return Cell{s.num_elements}; }},
    {"num_nan",      [](const TensorStats& s) { return Cell{s.num_nan}; }},
    {"num_pos_inf",  [](const TensorStats& s) { return Cell{s.num_pos_inf}; }},
    {"num_neg_inf",  [](const TensorStats& s) { return Cell{s.num_neg_inf}; }},
    {"num_zero",     [](const TensorStats& s) { return Cell{s.num_zero}; }},
    {"num_denormal", [](const TensorStats& s) { return Cell{s.num_denormal}; }},
    {"min",          [](const TensorStats& s) { return Cell{s.Min()}; }},
    {"max",          [](const TensorStats& s) { return Cell{s.Max()}; }},
    {"mean",         [](const TensorStats& s) { return Cell{s.Mean()}; }},
    {"std",          [](const TensorStats& s) { return Cell{s.Std()}; }},
    {"norm",         [](const TensorStats& s) { return Cell{s.Norm()}; }},
    {"max_abs",      [](const TensorStats& s) { return Cell{s.MaxAbs()}; }},
    {"finite_min",   [](const TensorStats& s) { return s.num_finite() ? Cell{s.finite_min} : Cell{}; }},
    {"finite_max",   [](const TensorStats& s) { return s.num_finite() ? Cell{s.finite_max} : Cell{}; }},
    {"finite_sum",   [](const TensorStats& s) { return Cell{s.finite_sum}; }},
    {"crc32",        [](const TensorStats& s) { return Cell{std::uint64_t{s.crc32}}; }},
};

constexpr Column<PairMeasures> kPairColumns[] = {
    {"num_elements",          [](const PairMeasures& m) { return Cell{m.num_elements}; }},
    {"max_abs",               [](const PairMeasures& m) { return Cell{m.max_abs_diff}; }},
    {"mean_abs",              [](const PairMeasures& m) { return Cell{m.MeanAbsDiff()}; }},
    {"max_rel",               [](const PairMeasures& m) { return Cell{m.max_relative}; }},
    {"mean_rel",              [](const PairMeasures& m) { return Cell{m.MeanRelative()}; }},
    {"rmse",                  [](const PairMeasures& m) { return Cell{m.Rmse()}; }},
    {"bias",                  [](const PairMeasures& m) { return Cell{m.Bias()}; }},
    {"cosine",                [](const PairMeasures& m) { return Cell{m.Cosine()}; }},
    {"max_ulp",               [](const PairMeasures& m) { return m.has_ulp ? Cell{m.max_ulp} : Cell{}; }},
    {"mean_ulp",              [](const PairMeasures& m) { return m.has_ulp ? Cell{m.MeanUlp()} : Cell{}; }},
    {"rtol",                  [](const PairMeasures& m) { return Cell{m.rtol}; }},
    {"atol",                  [](const PairMeasures& m) { return Cell{m.atol}; }},
    {"num_close",             [](const PairMeasures& m) { return Cell{m.num_close}; }},
    {"num_unequal",           [](const PairMeasures& m) { return Cell{m.num_unequal()}; }},
    {"num_target_greater",    [](const PairMeasures& m) { return Cell{m.num_target_greater}; }},
    {"num_target_less",       [](const PairMeasures& m) { return Cell{m.num_target_less}; }},
    {"num_rel_below_1e3",     [](const PairMeasures& m) { return Cell{m.num_relative_below_1e3}; }},
    {"num_rel_below_5e3",     [](const PairMeasures& m) { return Cell{m.num_relative_below_5e3}; }},
    {"num_abs_above_1e1",     [](const PairMeasures& m) { return Cell{m.num_abs_above[0]}; }},
    {"num_abs_above_1e2",     [](const PairMeasures& m) { return Cell{m.num_abs_above[1]}; }},
    {"num_abs_above_1e3",     [](const PairMeasures& m) { return Cell{m.num_abs_above[2]}; }},
    {"num_abs_above_1e4",     [](const PairMeasures& m) { return Cell{m.num_abs_above[3]}; }},
    {"num_abs_above_1e5",     [](const PairMeasures& m) { return Cell{m.num_abs_above[4]}; }},
    {"num_abs_above_1e6",     [](const PairMeasures& m) { return Cell{m.num_abs_above[5]}; }},
    {"num_both_nan",          [](const PairMeasures& m) { return Cell{m.num_both_nan}; }},
    {"num_both_same_inf",     [](const PairMeasures& m) { return Cell{m.num_both_same_inf}; }},
    {"num_opposite_inf",      [](const PairMeasures& m) { return Cell{m.num_opposite_inf}; }},
    {"num_nan_target_only",   [](const PairMeasures& m) { return Cell{m.num_nan_target_only}; }},
    {"num_nan_golden_only",   [](const PairMeasures& m) { return Cell{m.num_nan_golden_only}; }},
    {"num_inf_target_only",   [](const PairMeasures& m) { return Cell{m.num_inf_target_only}; }},
    {"num_inf_golden_only",   [](const PairMeasures& m) { return Cell{m.num_inf_golden_only}; }},
    {"worst_flat_index",      [](const PairMeasures& m) { return Worst(m, [](const WorstElement& w) { return Cell{w.index}; }); }},
    {"worst_got",             [](const PairMeasures& m) { return Worst(m, [](const WorstElement& w) { return Cell{w.got}; }); }},
    {"worst_want",            [](const PairMeasures& m) { return Worst(m, [](const WorstElement& w) { return Cell{w.want}; }); }},
};
// clang-format on

constexpr Groups kPairGroups =
    Group::kDiff | Group::kRelative | Group::kClose | Group::kUlp | Group::kThresholds | Group::kDetails;

template <class T, std::size_t kNumColumns>
VnTable* OneRow(const Column<T> (&columns)[kNumColumns], const T& measured) {
  auto table = std::make_unique<VnTable>();
  std::vector<Cell> row;
  for (const Column<T>& column : columns) {
    table->columns.emplace_back(column.name);
    row.push_back(column.value(measured));
  }
  table->rows.emplace_back(row);
  return table.release();
}

// The batch functions, for one item, because they are the ones that can be stopped.
template <class Measured, class Item, class Batch, class Options>
Result<Measured> MeasureOne(const Batch& batch, const Item& item, const Options& how, VnCancel* cancel) {
  Result<Measured> measured = Error{ErrorCode::kCancelled, "", ""};
  batch(
      1, [&](std::size_t) { return Result<Item>(item); }, how,
      [&](std::size_t, const Result<Measured>& result) { measured = result; },
      BatchHooks{cancel != nullptr ? cancel->source.get_token() : std::stop_token(), {}});
  return measured;
}

}  // namespace
}  // namespace vernier

using namespace vernier;  // NOLINT: the functions below are C

VnStatus VnStats(const VnTensor* tensor, const VnOptions* options, VnTable** row) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"row", row}}));
    const VnOptions complete = Complete(options);
    VN_ASSIGN_OR_RETURN(const TensorView view, ViewOf(tensor, "tensor"));
    const StatsOptions how{complete.crc32 != 0, complete.num_threads};
    VN_ASSIGN_OR_RETURN(const TensorStats stats,
                        MeasureOne<TensorStats>(MeasureTensors, view, how, complete.cancel));
    *row = OneRow(kStatsColumns, stats);
    if (complete.crc32 == 0)
      (*row)->rows[0] = KeptCells((*row)->rows[0].cells().first(std::size(kStatsColumns) - 1));
    return Done{};
  });
}

VnStatus VnPair(const VnTensor* target, const VnTensor* golden, const VnOptions* options, VnTable** row) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"row", row}}));
    VN_ASSIGN_OR_RETURN(TensorView target_view, ViewOf(target, "target"));
    VN_ASSIGN_OR_RETURN(TensorView golden_view, ViewOf(golden, "golden"));
    if (target_view.shape != golden_view.shape) {
      return Error{ErrorCode::kShapeMismatch, "",
                   ShapeText(target_view.shape) + " against " + ShapeText(golden_view.shape)};
    }
    const VnOptions complete = Complete(options);
    MeasureOptions how;
    how.groups = kPairGroups;
    how.rtol = complete.rtol;
    how.atol = complete.atol;
    how.num_threads = complete.num_threads;
    const LoadedPair pair{std::move(target_view), std::move(golden_view)};
    VN_ASSIGN_OR_RETURN(const PairMeasures measures,
                        MeasureOne<PairMeasures>(MeasurePairs, pair, how, complete.cancel));
    *row = OneRow(kPairColumns, measures);
    return Done{};
  });
}

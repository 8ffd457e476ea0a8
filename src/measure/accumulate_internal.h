// Chunks of tensors -> measures, and their merging. Everything above a block and below a thread.
#pragma once

#include "measure/kernels_internal.h"
#include "measure/widen_internal.h"
#include "vernier/measure.h"

namespace vernier::internal {

// The unit of work of a thread. Fixed, because chunks are merged one by one and sums depend on where they are
// cut.
inline constexpr std::uint64_t kChunkNumbers = std::uint64_t{1} << 18;

enum class RelativeKind { kNone, kFloor, kOwnType, kDouble, kHalf, kOfGolden };

// What is decided once for a pair, above the loops.
struct PairPlan {
  Reader target, golden;
  bool work_double = false;
  bool is_complex = false;      // indexes count elements, not numbers
  bool exact_integers = false;  // both sides 64-bit integers: double may not tell them apart
  RelativeKind relative = RelativeKind::kNone;
  double epsilon = 0;
  int ulp_bits = 0;  // 0: not measured
  MeasureOptions options;
};

Result<PairPlan> PlanPair(const TensorView& target, const TensorView& golden, const MeasureOptions& options);

// Adds up members that are sums or counts.
template <class T, class... Member>
void AddMembers(T& to, const T& from, Member T::*... members) {
  ((to.*members += from.*members), ...);
}

// Measures the numbers [first, first + count) of a pair.
PairMeasures MeasurePairChunk(const PairPlan& plan, const Kernels& kernels, std::uint64_t first,
                              std::uint64_t count);
// `next` covers the numbers right after ours. Always called in chunk order.
void Merge(PairMeasures& measures, const PairMeasures& next);

// A block of a pair in which something is not finite: such positions are counted, then zero on both sides.
template <class W>
struct SpecialBlock {
  alignas(64) W target[kBlockElements];
  alignas(64) W golden[kBlockElements];
  bool special[kBlockElements];
};
template <class W>
void ZeroSpecials(const W* t, const W* g, std::size_t n, std::uint64_t first, SpecialBlock<W>& block,
                  PairMeasures& measures);

struct StatsParts {
  bool centered = false;  // what the standard deviation needs
  bool zeros = false;     // and numbers below `min_normal`
  double min_normal = 0;
};
template <class W>
void AddStatsBlock(const W* x, std::size_t n, const TypedKernels<W>& kernels, const StatsParts& parts,
                   TensorStats& stats);
// The statistics of a block in which every number is finite.
TensorStats FiniteStats(std::size_t n, double min, double max, const Lanes& sum, const Lanes& sum_sq);
TensorStats MeasureTensorChunk(const Reader& reader, const Kernels& kernels, std::uint64_t first,
                               std::uint64_t count, bool zeros);
void Merge(TensorStats& stats, const TensorStats& next);

// The pre-check standards' measures of a block; values are not replaced where they are special.
template <class W>
void AddPrecheckBlock(const W* t, const W* g, std::size_t n, bool is_finite, const TypedKernels<W>& kernels,
                      const PrecheckOptions& options, PrecheckMeasures& measures);
void Merge(DivergenceMeasures& measures, const DivergenceMeasures& next);
void Merge(PrecheckMeasures& measures, const PrecheckMeasures& next);

}  // namespace vernier::internal

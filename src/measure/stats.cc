// One tensor: blocks of finite numbers through the kernels, special values counted on the side.
#include <algorithm>
#include <cmath>
#include <limits>

#include "measure/accumulate_internal.h"
#include "measure/plain_kernels_internal.h"

namespace vernier::internal {
namespace {

template <class W>
struct FiniteBlock {
  alignas(64) W values[kBlockElements];
  std::size_t n = 0;
};

// Sum of (x - mean)^2. Where the mean is small beside the spread nothing cancels in the difference of the
// sums, and the block need not be read again.
template <class W>
double CenteredSum(const W* x, std::size_t n, double sum, double sum_sq, const TypedKernels<W>& kernels) {
  const double mean = sum / static_cast<double>(n), of_mean = sum * mean;
  if (of_mean <= sum_sq / 8) return sum_sq - of_mean;
  Lanes centered;
  kernels.centered(x, n, mean, centered);
  return centered.Sum();
}

// Keeps what is finite, in order, and counts the rest. Without branches: masks full of -inf are everyday
// data.
template <class W>
void Compact(const W* x, std::size_t n, FiniteBlock<W>& block, TensorStats& stats) {
  std::size_t kept = 0, num_nan = 0, num_pos_inf = 0, num_neg_inf = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const W value = plain::LoadAt<W>(x, i);
    block.values[kept] = value;
    kept += std::abs(value) <= std::numeric_limits<W>::max();
    num_nan += value != value;
    num_pos_inf += value > std::numeric_limits<W>::max();
    num_neg_inf += value < std::numeric_limits<W>::lowest();
  }
  block.n = kept;
  stats.num_nan += num_nan;
  stats.num_pos_inf += num_pos_inf;
  stats.num_neg_inf += num_neg_inf;
}

template <class W>
TensorStats FiniteBlockStats(const W* x, std::size_t n, const StatsLanes& lanes,
                             const TypedKernels<W>& kernels, const StatsParts& parts) {
  TensorStats block = FiniteStats(n, lanes.min, lanes.max, lanes.sum, lanes.sum_sq);
  if (parts.centered) {
    block.centered_sum_sq = CenteredSum(x, n, block.finite_sum, block.finite_sum_sq, kernels);
  }
  if (parts.zeros) {
    ZeroCounts counts;
    kernels.zeros(x, n, parts.min_normal, counts);
    block.num_zero = counts.zero;
    block.num_denormal = parts.min_normal > 0 ? counts.denormal : 0;
  }
  return block;
}

template <class W>
TensorStats MeasureChunk(const Reader& reader, const Kernels& kernels, const TypedKernels<W>& typed,
                         std::uint64_t first, std::uint64_t count, bool zeros) {
  TensorStats stats;
  alignas(64) W buffer[kBlockElements];
  const StatsParts parts{.centered = true, .zeros = zeros, .min_normal = MinNormal(reader.number)};
  for (std::uint64_t done = 0; done < count; done += kBlockElements) {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(kBlockElements, count - done));
    AddStatsBlock(ReadBlock(reader, first + done, n, kernels, buffer), n, typed, parts, stats);
  }
  return stats;
}

}  // namespace

template <class W>
void AddStatsBlock(const W* x, std::size_t n, const TypedKernels<W>& kernels, const StatsParts& parts,
                   TensorStats& stats) {
  StatsLanes lanes;
  kernels.stats(x, n, lanes);
  if (std::isfinite(lanes.sum_sq.Sum())) {
    return Merge(stats, FiniteBlockStats(x, n, lanes, kernels, parts));
  }
  FiniteBlock<W> finite;
  TensorStats block;
  Compact(x, n, finite, block);
  block.num_elements = n - finite.n;
  if (finite.n > 0) {
    lanes = StatsLanes{};
    kernels.stats(finite.values, finite.n, lanes);
    Merge(block, FiniteBlockStats(finite.values, finite.n, lanes, kernels, parts));
  }
  Merge(stats, block);
}
template void AddStatsBlock(const float*, std::size_t, const TypedKernels<float>&, const StatsParts&,
                            TensorStats&);
template void AddStatsBlock(const double*, std::size_t, const TypedKernels<double>&, const StatsParts&,
                            TensorStats&);

TensorStats FiniteStats(std::size_t n, double min, double max, const Lanes& sum, const Lanes& sum_sq) {
  TensorStats block;
  block.num_elements = n;
  block.finite_min = min + 0.0;  // adding zero makes -0 into 0, which no instruction set orders alike
  block.finite_max = max + 0.0;
  block.finite_sum = sum.Sum();
  block.finite_sum_sq = sum_sq.Sum();
  return block;
}

TensorStats MeasureTensorChunk(const Reader& reader, const Kernels& kernels, std::uint64_t first,
                               std::uint64_t count, bool zeros) {
  return FitsFloat(reader) ? MeasureChunk<float>(reader, kernels, kernels.f32, first, count, zeros)
                           : MeasureChunk<double>(reader, kernels, kernels.f64, first, count, zeros);
}

void Merge(TensorStats& stats, const TensorStats& next) {
  const double finite = static_cast<double>(stats.num_finite()),
               more = static_cast<double>(next.num_finite());
  if (more > 0 && finite > 0) {
    // Chan's update: two centred sums and the distance of their means.
    const double distance = next.finite_sum / more - stats.finite_sum / finite;
    stats.centered_sum_sq += next.centered_sum_sq + distance * distance * (finite * more / (finite + more));
    stats.finite_min = std::min(stats.finite_min, next.finite_min);
    stats.finite_max = std::max(stats.finite_max, next.finite_max);
  } else if (more > 0) {
    stats.centered_sum_sq = next.centered_sum_sq;
    stats.finite_min = next.finite_min;
    stats.finite_max = next.finite_max;
  }
  using S = TensorStats;
  AddMembers(stats, next, &S::num_elements, &S::num_nan, &S::num_pos_inf, &S::num_neg_inf, &S::num_zero,
             &S::num_denormal, &S::finite_sum, &S::finite_sum_sq);
}

}  // namespace vernier::internal

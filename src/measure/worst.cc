// The elements of a pair that differ most: for a person who looks at one output, so a plain loop will do.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "measure/accumulate_internal.h"

namespace vernier {
namespace {

// Larger is worse; 0 for equal elements, two NaNs among them.
double Rank(const RankedElement& element) {
  const double t = element.target, g = element.golden;
  if (t == g || (std::isnan(t) && std::isnan(g))) return 0;
  const double difference = std::abs(t - g);
  return std::isfinite(difference) ? difference : std::numeric_limits<double>::infinity();
}

bool IsWorse(const RankedElement& a, const RankedElement& b) {
  const double rank_a = Rank(a), rank_b = Rank(b);
  return rank_a != rank_b ? rank_a > rank_b : a.index < b.index;
}

}  // namespace

Result<std::vector<RankedElement>> LargestDifferences(const TensorView& target, const TensorView& golden,
                                                      std::size_t count) {
  VN_ASSIGN_OR_RETURN(const internal::PairPlan plan, internal::PlanPair(target, golden, {}));
  if (plan.is_complex) return Error{ErrorCode::kUnsupported, "", "complex numbers"};
  const internal::Kernels& kernels = internal::ActiveKernels();
  std::vector<RankedElement> worst;  // a heap with the least bad one on top
  std::vector<double> buffers(2 * internal::kBlockElements);
  for (std::uint64_t first = 0; first < target.num_elements && count > 0; first += internal::kBlockElements) {
    const std::size_t n = static_cast<std::size_t>(
        std::min<std::uint64_t>(internal::kBlockElements, target.num_elements - first));
    const double* t = internal::ReadBlock(plan.target, first, n, kernels, buffers.data());
    const double* g =
        internal::ReadBlock(plan.golden, first, n, kernels, buffers.data() + internal::kBlockElements);
    for (std::size_t i = 0; i < n; ++i) {
      RankedElement element{first + i, 0, 0};
      std::memcpy(&element.target, t + i, sizeof(double));  // the file's own bytes need not be aligned
      std::memcpy(&element.golden, g + i, sizeof(double));
      if (Rank(element) == 0) continue;
      if (worst.size() == count) {
        if (!IsWorse(element, worst.front())) continue;
        std::pop_heap(worst.begin(), worst.end(), IsWorse);
        worst.pop_back();
      }
      worst.push_back(element);
      std::push_heap(worst.begin(), worst.end(), IsWorse);
    }
  }
  std::sort(worst.begin(), worst.end(), IsWorse);
  return worst;
}

}  // namespace vernier

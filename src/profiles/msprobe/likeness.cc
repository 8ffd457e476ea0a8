#include "profiles/msprobe/likeness.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace vernier::msprobe {

bool HasStatistics(const Value& a, const Value& b) {
  return a.max != Value::kUnknown && b.max != Value::kUnknown;
}

double Unlikeness(const Value& a, const Value& b) {
  constexpr double kMost = 0.5;
  if (a.num_elements != b.num_elements || a.is_float != b.is_float) return HUGE_VAL;
  if (!HasStatistics(a, b)) return a.checksum == b.checksum && !a.checksum.empty() ? 0 : HUGE_VAL;
  double sum = 0;
  for (const auto& [x, y] : {std::pair(a.max, b.max), std::pair(a.min, b.min), std::pair(a.norm, b.norm)}) {
    const double apart = x == y ? 0 : std::fabs(x - y) / std::fmax(std::fabs(x), std::fabs(y));
    if (!(apart <= kMost)) return HUGE_VAL;
    sum += apart;
  }
  // Weights of one kind share their size and their extremes; their means tell them apart.
  const double root_mean_square = std::fabs(b.norm) / std::sqrt(std::fmax(1, b.num_elements));
  if (a.mean != b.mean && a.mean != Value::kUnknown && b.mean != Value::kUnknown && root_mean_square > 0)
    sum += std::fabs(a.mean - b.mean) / root_mean_square;
  return std::isnan(sum) ? HUGE_VAL : sum;
}

std::size_t NumAlike(const std::vector<Value>& ours, const std::vector<Value>& theirs, double most) {
  return static_cast<std::size_t>(std::count_if(ours.begin(), ours.end(), [&](const Value& value) {
    return std::any_of(theirs.begin(), theirs.end(),
                       [&](const Value& other) { return Unlikeness(value, other) < most; });
  }));
}

}  // namespace vernier::msprobe

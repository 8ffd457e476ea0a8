#include "measure/concentration.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace vernier::internal {
namespace {

constexpr std::uint64_t kMostRanges = std::uint64_t{1} << 16;
// What is worth a sentence: nearly all of it in at most half of an axis, or the larger part at one position
// of an axis that has many.
constexpr double kNearlyAll = 0.9, kShortPart = 0.5, kLargerPart = 0.5;
constexpr std::uint64_t kManyPositions = 8;
constexpr double kOfItsMean = 0.25;

Concentration RangeOf(std::size_t axis, std::uint64_t length, unsigned shift, std::size_t first_range,
                      std::size_t end_range, double share) {
  Concentration found;
  found.kind = Concentration::Kind::kRange;
  found.axis = axis;
  found.first = std::uint64_t{first_range} << shift;
  found.last = std::min(length, std::uint64_t{end_range} << shift) - 1;
  found.share = std::min(share, 1.0);
  return found;
}

double PartOf(const Concentration& range, std::uint64_t length) {
  return static_cast<double>(range.last - range.first + 1) / static_cast<double>(length);
}

}  // namespace

AxisSums::AxisSums(const Shape& shape) {
  std::uint64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    const auto length = static_cast<std::uint64_t>(shape[i]);
    if (length > 1) {
      Axis axis;
      axis.number = i;
      axis.length = length;
      axis.stride = stride;
      while ((length - 1) >> axis.shift >= kMostRanges) ++axis.shift;
      axes_.push_back(std::move(axis));
    }
    stride *= length;
  }
  std::reverse(axes_.begin(), axes_.end());
}

void AxisSums::AddTo(Axis& axis, std::uint64_t position, double amount) {
  axis.sums[position >> axis.shift] += amount;
}

void AxisSums::Add(std::uint64_t first, const double* amounts, std::size_t count) {
  if (axes_.empty() || std::all_of(amounts, amounts + count, [](double amount) { return amount == 0; }))
    return;
  for (Axis& axis : axes_) {
    if (axis.sums.empty()) axis.sums.resize(((axis.length - 1) >> axis.shift) + 1);
  }
  Axis& columns = axes_.back();
  std::vector<std::uint64_t> at(axes_.size());
  for (std::size_t i = 0; i < axes_.size(); ++i) at[i] = first / axes_[i].stride % axes_[i].length;
  for (std::size_t done = 0; done < count;) {
    const auto run =
        static_cast<std::size_t>(std::min<std::uint64_t>(count - done, columns.length - at.back()));
    double sum = 0;
    for (std::size_t i = 0; i < run; ++i) {
      AddTo(columns, at.back() + i, amounts[done + i]);
      sum += amounts[done + i];
    }
    for (std::size_t i = 0; i + 1 < axes_.size(); ++i) AddTo(axes_[i], at[i], sum);
    done += run;
    at.back() += run;
    for (std::size_t i = axes_.size(); i-- > 1 && at[i] == axes_[i].length;) {
      at[i] = 0;
      ++at[i - 1];
    }
  }
}

void AxisSums::Merge(const AxisSums& next) {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const std::vector<double>& from = next.axes_[i].sums;
    std::vector<double>& to = axes_[i].sums;
    if (to.empty()) {
      to = from;
    } else {
      for (std::size_t k = 0; k < from.size(); ++k) to[k] += from[k];
    }
  }
}

Concentration AxisSums::Shortest(const Axis& axis) const {
  std::vector<double> before(axis.sums.size() + 1);
  std::partial_sum(axis.sums.begin(), axis.sums.end(), before.begin() + 1);
  const double total = before.back();
  std::size_t best_first = 0, best_end = axis.sums.size();
  for (std::size_t first = 0, end = 0; end <= axis.sums.size();) {
    if (before[end] - before[first] < kNearlyAll * total) {
      ++end;
      continue;
    }
    const auto held = [&](std::size_t from, std::size_t to) { return before[to] - before[from]; };
    const std::size_t length = end - first, best = best_end - best_first;
    if (length < best || (length == best && held(first, end) > held(best_first, best_end))) {
      best_first = first;
      best_end = end;
    }
    ++first;
  }
  // What lies beside it and has about as much belongs to it: a head has 64 columns, not the worst 58.
  const double enough =
      kOfItsMean * (before[best_end] - before[best_first]) / static_cast<double>(best_end - best_first);
  while (best_first > 0 && axis.sums[best_first - 1] >= enough) --best_first;
  while (best_end < axis.sums.size() && axis.sums[best_end] >= enough) ++best_end;
  const Concentration range = RangeOf(axis.number, axis.length, axis.shift, best_first, best_end,
                                      (before[best_end] - before[best_first]) / total);
  return PartOf(range, axis.length) <= kShortPart ? range : Concentration{};
}

Concentration AxisSums::Largest(const Axis& axis) const {
  const auto largest = std::max_element(axis.sums.begin(), axis.sums.end());
  const double share = *largest / std::accumulate(axis.sums.begin(), axis.sums.end(), 0.0);
  if (share < kLargerPart || axis.sums.size() < kManyPositions) return {};
  const auto place = static_cast<std::size_t>(largest - axis.sums.begin());
  return RangeOf(axis.number, axis.length, axis.shift, place, place + 1, share);
}

Concentration AxisSums::Find() const {
  for (const auto find : {&AxisSums::Shortest, &AxisSums::Largest}) {
    Concentration best;
    double best_part = 2;
    for (const Axis& axis : axes_) {
      if (axis.sums.empty()) continue;
      const Concentration found = (this->*find)(axis);
      if (found.kind != Concentration::Kind::kRange) continue;
      const double part = PartOf(found, axis.length);
      if (part < best_part || (part == best_part && found.share > best.share)) {
        best = found;
        best_part = part;
      }
    }
    if (best.kind == Concentration::Kind::kRange) return best;
  }
  return {};
}

}  // namespace vernier::internal

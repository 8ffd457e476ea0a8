// Where along the axes of a tensor something lies: how much of it, summed up for each position of each axis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "vernier/measure.h"

namespace vernier::internal {

// Sums of an amount per element, for each axis longer than one. Memory is bounded whatever the shape: a long
// axis is cut into ranges of equal length. Added up and merged in a fixed order, so the sums are the same on
// any number of threads.
class AxisSums {
 public:
  explicit AxisSums(const Shape& shape);

  // `amounts` are those of the elements [first, first + count) in C order.
  void Add(std::uint64_t first, const double* amounts, std::size_t count);
  void Merge(const AxisSums& next);

  // The shortest stretch of an axis that holds nearly all, where it is short enough to tell something; else a
  // single position that holds the larger part; else kSpread.
  Concentration Find() const;

 private:
  struct Axis {
    std::size_t number = 0;  // in the shape
    std::uint64_t length = 0, stride = 0;
    unsigned shift = 0;        // positions in one range: 1 << shift
    std::vector<double> sums;  // of each range; empty while all are zero
  };
  void AddTo(Axis& axis, std::uint64_t position, double amount);
  Concentration Shortest(const Axis& axis) const;
  Concentration Largest(const Axis& axis) const;

  std::vector<Axis> axes_;  // in the order of the shape
};

}  // namespace vernier::internal

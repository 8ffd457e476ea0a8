// The error of a device's tensor against the CPU's: how large, and how many elements exceed each order of
// ten.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "vernier/cell.h"
#include "vernier/measure.h"

namespace vernier::xray_ops {

inline constexpr int kDefaultOrders = 6, kMaxOrders = 30;

// The error of an element is |device - cpu| in double, of complex numbers the modulus of the difference.
// Equal infinities and NaN against NaN are 0, any other pair with one of them is infinite.
struct ErrorCounts {
  bool passes = false;  // every error within the tolerance of the dtype
  std::string message;  // why it does not
  // Absent when dtypes or shapes differ: then nothing can be counted.
  std::optional<double> max;
  std::vector<std::uint64_t> above;  // [k - 1]: elements with an error > 10^-k
  // Of the CPU's finite elements; absent when there are none. Integers have exact ones.
  Cell min_value, max_value;
  Dtype dtype = Dtype::kF32;  // of the CPU
  Shape shape;
};

// Fails for a number of orders that is not in [1, kMaxOrders].
Result<Done> CheckOrders(int num_orders);
Result<ErrorCounts> CountErrors(const TensorView& cpu, const TensorView& device, int num_orders,
                                int num_threads = 0);

}  // namespace vernier::xray_ops

// A tensor as a running program holds it: any order of axes, gaps between rows, axes of stride zero.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "vernier/dtype.h"

namespace vernier {

// Memory of the caller's. Strides are in elements and not negative; every dimension fits NumElements().
struct StridedTensor {
  Dtype dtype = Dtype::kF32;
  const std::byte* data = nullptr;  // element [0, 0, ...]
  std::span<const std::int64_t> shape, strides;
};

// The order in which the elements of a tensor are visited, with as few axes as describe it. Plain data;
// const methods may run concurrently.
class Walk {
 public:
  static constexpr std::size_t kMaxAxes = 64;  // what NumPy and torch allow
  struct Axis {
    std::int64_t size, stride;
  };

  // Every element, in C order. REQUIRES: at most kMaxAxes axes
  static Walk InOrder(const StridedTensor& tensor);
  // Every element that has memory of its own once, in the order of memory; repeat() tells how often each
  // stands in the tensor.
  static Walk ByMemory(const StridedTensor& tensor);

  std::uint64_t num_elements() const { return num_elements_; }
  std::uint64_t repeat() const { return repeat_; }
  bool contiguous() const { return num_axes_ == 0 || (num_axes_ == 1 && axes_[0].stride == 1); }
  std::span<const Axis> axes() const { return {axes_.data(), num_axes_}; }  // outermost first

  // Copies the elements [first, first + count) of the walk one behind the other.
  void Gather(const std::byte* data, std::size_t item_bytes, std::uint64_t first, std::uint64_t count,
              std::byte* to) const;

 private:
  void Add(Axis axis);

  std::uint64_t num_elements_ = 1, repeat_ = 1;
  std::size_t num_axes_ = 0;
  std::array<Axis, kMaxAxes> axes_;  // outermost first; only the first num_axes_ are set
};

}  // namespace vernier

#include "vernier/tensor.h"

#include <limits>

namespace vernier {

Result<std::uint64_t> NumElements(const Shape& shape, Dtype dtype) {
  std::uint64_t num_elements = 1;
  bool overflow = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0) return Error{ErrorCode::kBadShape, "", "negative dimension in shape " + ShapeText(shape)};
    if (dim == 0) return std::uint64_t{0};
    overflow |= __builtin_mul_overflow(num_elements, static_cast<std::uint64_t>(dim), &num_elements);
  }
  std::uint64_t num_bytes = 0;
  overflow |= __builtin_mul_overflow(num_elements, ItemBytes(dtype), &num_bytes);
  if (overflow || num_bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return Error{ErrorCode::kBadShape, "",
                 "shape " + ShapeText(shape) + " has more bytes than can be addressed"};
  }
  return num_elements;
}

std::string ShapeText(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

TensorView BorrowTensor(Dtype dtype, Shape shape, const void* data) {
  TensorView view;
  view.dtype = dtype;
  view.num_elements = NumElements(shape, dtype).value();
  view.shape = std::move(shape);
  view.data = static_cast<const std::byte*>(data);
  return view;
}

}  // namespace vernier

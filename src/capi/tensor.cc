// The caller's tensors as ours: as they are when they lie in C order, as a copy otherwise.
#include <cstring>
#include <memory>

#include "capi/c_api_internal.h"

namespace vernier {
namespace {

constexpr int kMaxDimensions = 64;  // what NumPy and torch allow

std::vector<std::int64_t> COrderStrides(const Shape& shape, std::size_t item_bytes) {
  std::vector<std::int64_t> strides(shape.size());
  auto stride = static_cast<std::int64_t>(item_bytes);
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

// The stride of an axis with one element is never used, and NumPy and torch put anything there.
bool LiesInCOrder(const Shape& shape, const std::int64_t* strides_bytes, std::size_t item_bytes) {
  const std::vector<std::int64_t> wanted = COrderStrides(shape, item_bytes);
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] > 1 && strides_bytes[axis] != wanted[axis]) return false;
  }
  return true;
}

template <std::size_t kItemBytes>
void GatherAxis(const Shape& shape, const std::int64_t* strides_bytes, std::size_t axis,
                const std::byte* from, std::byte*& to) {
  if (axis + 1 < shape.size()) {
    for (std::int64_t i = 0; i < shape[axis]; ++i, from += strides_bytes[axis]) {
      GatherAxis<kItemBytes>(shape, strides_bytes, axis + 1, from, to);
    }
    return;
  }
  for (std::int64_t i = 0; i < shape[axis]; ++i, from += strides_bytes[axis], to += kItemBytes) {
    std::memcpy(to, from, kItemBytes);
  }
}

// REQUIRES: at least one axis and one element
std::shared_ptr<const std::byte[]> Gather(const TensorView& view, const std::int64_t* strides_bytes) {
  std::shared_ptr<std::byte[]> copy(new std::byte[view.num_bytes()]);
  std::byte* to = copy.get();
  VisitDtype(view.dtype, [&](auto type) {
    GatherAxis<sizeof(typename decltype(type)::type)>(view.shape, strides_bytes, 0, view.data, to);
  });
  return copy;
}

Result<Dtype> DtypeOf(const VnTensor& tensor, const char* role) {
  const std::string_view name = tensor.dtype != nullptr ? tensor.dtype : "NULL";
  const std::optional<Dtype> dtype = ParseDtype(name);
  if (!dtype) return Error{ErrorCode::kUnsupported, role, "dtype " + std::string(name)};
  return *dtype;
}

}  // namespace

Result<TensorView> ViewOf(const VnTensor* tensor, const char* role) {
  if (tensor == nullptr) return BadArgument(role, "is NULL");
  VN_ASSIGN_OR_RETURN(const Dtype dtype, DtypeOf(*tensor, role));
  if (tensor->ndim < 0 || tensor->ndim > kMaxDimensions || (tensor->ndim > 0 && tensor->shape == nullptr)) {
    return BadArgument(role, "shape with " + std::to_string(tensor->ndim) + " dimensions");
  }
  Shape shape(tensor->shape, tensor->shape + tensor->ndim);
  const Result<std::uint64_t> num_elements = NumElements(shape, dtype);
  if (!num_elements) return In(role, num_elements.error());
  if (tensor->data == nullptr && *num_elements > 0) return BadArgument(role, "data is NULL");

  TensorView view = BorrowTensor(dtype, std::move(shape), tensor->data);
  if (*num_elements == 0 || tensor->strides_bytes == nullptr ||
      LiesInCOrder(view.shape, tensor->strides_bytes, ItemBytes(dtype))) {
    return view;
  }
  const std::shared_ptr<const std::byte[]> copy = Gather(view, tensor->strides_bytes);
  view.data = copy.get();
  view.owner = copy;
  return view;
}

}  // namespace vernier

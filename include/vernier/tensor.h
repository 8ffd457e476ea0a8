// What a tensor is before and after its bytes are looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "vernier/dtype.h"
#include "vernier/result.h"

namespace vernier {

class MappedFile;
using FileRef = std::shared_ptr<const MappedFile>;

using Shape = std::vector<std::int64_t>;

// Number of elements, or an error when a dimension is negative or the byte size does not fit 63 bits.
Result<std::uint64_t> NumElements(const Shape& shape, Dtype dtype);
std::string ShapeText(const Shape& shape);  // "[2, 3]", "[]"

struct TensorInfo {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape;
  std::uint64_t num_elements = 0;
  std::optional<Error> damage;  // set: dtype and shape may be unknown, loading gives this error

  std::uint64_t num_bytes() const { return num_elements * ItemBytes(dtype); }
};

// Elements that do not lie one behind the other in memory, because of a storage layout or a packed type.
// Thread-safe.
class ElementSource {
 public:
  virtual ~ElementSource() = default;
  // Writes the elements [first, first + count) in C order, little endian, of the dtype of their view.
  virtual void Read(std::uint64_t first, std::size_t count, std::byte* out) const = 0;
};

// The elements of one tensor: C order, little endian, possibly unaligned. Keeps its memory alive; cheap to
// copy.
struct TensorView {
  Dtype dtype = Dtype::kF32;
  Shape shape;
  std::uint64_t num_elements = 0;
  const std::byte* data = nullptr;
  std::shared_ptr<const void> owner;  // what keeps `data` alive; null when the caller does
  FileRef file;                       // set when `data` lies inside this mapping
  // Set: `data` is null, and the elements are read through this, chunk by chunk. Only measure.h takes such a
  // view.
  std::shared_ptr<const ElementSource> source = nullptr;

  std::uint64_t num_bytes() const { return num_elements * ItemBytes(dtype); }
  std::span<const std::byte> bytes() const { return {data, static_cast<std::size_t>(num_bytes())}; }
};

// A view of memory that the caller keeps alive, C order. REQUIRES: NumElements(shape, dtype) succeeds.
TensorView BorrowTensor(Dtype dtype, Shape shape, const void* data);
}  // namespace vernier

// What every decoder gives: the tensors of one file, and where their bytes lie.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

using Bytes = std::vector<std::byte>;

// Where the elements of a tensor lie in its file.
struct TensorSource {
  std::uint64_t offset_bytes = 0;      // of the element [0, 0, …]
  std::vector<std::int64_t> strides;   // in elements; empty: C order. A decoder has checked that all of it lies in the file
  bool big_endian = false;
  // Set when the file holds no plain copy of the elements (deflated, chunked): gives them in C order, little endian.
  std::function<Result<Bytes>(const FileRef&)> unpack;
};

// info.name is the name inside the file; empty for a file that is one bare tensor.
struct TensorEntry {
  TensorInfo info;
  TensorSource source;
};

using Entries = std::vector<TensorEntry>;

// Turns an entry into a contiguous little-endian view: the file's own bytes when they already are that, a copy
// otherwise. Gives info.damage when it is set.
Result<TensorView> LoadEntry(const TensorEntry& entry, const FileRef& file);

}  // namespace vernier

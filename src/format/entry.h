// What every decoder gives: the tensors of one file, and where their bytes lie.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

// Checksums are not looked at in fuzzers, which could not get past them.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
inline constexpr bool kFuzzing = true;
#else
inline constexpr bool kFuzzing = false;
#endif

using Bytes = std::vector<std::byte>;
using ByteSpan = std::span<const std::byte>;

// So many bytes, or kTooLarge: an input made us ask for them. `before` and `after` stand around "7 bytes".
Result<Bytes> Allocate(std::uint64_t num_bytes, std::string_view before = "", std::string_view after = "");

// The result, or its error with `where` in front.
template <class T>
Result<T> Inside(std::string_view where, Result<T> result) {
  if (result) return result;
  return In(where, std::move(result).error());
}

// What is written into files of several tensors.
struct NamedTensor {
  std::string name;
  TensorView tensor;
};

// Where the elements of a tensor lie in its file.
struct TensorSource {
  std::uint64_t offset_bytes = 0;  // of the element [0, 0, …]
  // In elements, never negative, 0 where a dimension repeats itself; empty: C order. A decoder has checked
  // with CheckExtent() that all of it lies in the file.
  std::vector<std::int64_t> strides;
  bool big_endian = false;
  // Set when the file holds no plain copy of the elements (deflated, chunked): gives them in C order, little
  // endian.
  std::function<Result<Bytes>(const FileRef&)> unpack;
};

// info.name is the name inside the file; empty for a file that is one bare tensor.
struct TensorEntry {
  TensorInfo info;
  TensorSource source;
};

using Entries = std::vector<TensorEntry>;

// Fails when an element lies outside the first `size_bytes` of what source.offset_bytes counts in. Trusts
// neither strides nor offset; info.num_elements must be that of info.shape.
Result<Done> CheckExtent(const TensorInfo& info, const TensorSource& source, std::uint64_t size_bytes);

// A copy of the elements in C order, little endian, taken from `bytes`, in which source.offset_bytes counts.
// source.unpack is not looked at.
Result<Bytes> CopyElements(const TensorInfo& info, const TensorSource& source,
                           std::span<const std::byte> bytes);

// Turns an entry into a contiguous little-endian view: the file's own bytes when they already are that, a
// copy otherwise. Gives info.damage when it is set. `file` may have changed since it was decoded: that is an
// error, never a view outside of it.
Result<TensorView> LoadEntry(const TensorInfo& info, const TensorSource& source, const FileRef& file);
// The same tensor with its elements one behind the other: a copy where view.source is set.
Result<TensorView> InMemory(TensorView view);

inline Result<TensorView> LoadEntry(const TensorEntry& entry, const FileRef& file) {
  return LoadEntry(entry.info, entry.source, file);
}

}  // namespace vernier

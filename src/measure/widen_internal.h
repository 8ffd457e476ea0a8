// Stored elements -> float or double, a block at a time. The one place that knows what the bits of a dtype
// mean.
#pragma once

#include <cstddef>
#include <cstdint>

#include "measure/kernels_internal.h"
#include "vernier/dtype.h"
#include "vernier/tensor.h"

namespace vernier::internal {

// The numbers inside a tensor: a complex element is two, unless only its real part is asked for.
enum class Parts { kAll, kRealOnly, kRealWithZeroImaginary };

struct Reader {
  Dtype number = Dtype::kF32;  // type of one number; never complex
  Parts parts = Parts::kAll;
  const std::byte* data = nullptr;
  std::uint64_t num_numbers = 0;
  // Set: `data` is null, and elements of this type are read through it.
  const ElementSource* source = nullptr;
  Dtype element = Dtype::kF32;
  bool as_float32 = false;  // numbers are rounded to float

  // Bytes that hold the numbers [first, first + count).
  std::size_t OffsetBytes(std::uint64_t first) const;
};

struct ReaderOptions {
  bool real_part_only = false, as_float32 = false;
  bool like_complex = false;  // give a real tensor imaginary parts of zero, because the other side is complex
};
Reader MakeReader(const TensorView& tensor, const ReaderOptions& options);

// float is enough for what this reader gives; otherwise it takes double (64-bit integers are rounded to it).
bool FitsFloat(const Reader& reader);
double MinNormal(Dtype number);

// The numbers [first, first + count) as W: the stored bytes themselves when they are W already (possibly
// unaligned), else `buffer`. REQUIRES: count <= kBlockElements; W = double unless FitsFloat(reader)
template <class W>
const W* ReadBlock(const Reader& reader, std::uint64_t first, std::size_t count, const Kernels& kernels,
                   W* buffer);

}  // namespace vernier::internal

// Stored elements -> float or double, a block at a time. The one place that knows what the bits of a dtype
// mean.
#pragma once

#include <cstddef>
#include <cstdint>

#include "measure/kernels_internal.h"
#include "vernier/dtype.h"

namespace vernier::internal {

// The numbers inside a tensor: a complex element is two, unless only its real part is asked for.
enum class Parts { kAll, kRealOnly, kRealWithZeroImaginary };

struct Reader {
  Dtype number = Dtype::kF32;  // type of one number; never complex
  Parts parts = Parts::kAll;
  const std::byte* data = nullptr;
  std::uint64_t num_numbers = 0;

  // Bytes that hold the numbers [first, first + count).
  std::size_t OffsetBytes(std::uint64_t first) const;
};

// `like_complex`: give a real tensor imaginary parts of zero, because the other side is complex.
Reader MakeReader(Dtype dtype, const std::byte* data, std::uint64_t num_elements, bool real_part_only,
                  bool like_complex);

// float holds every value of these types; the others need double (64-bit integers are rounded to it).
bool FitsFloat(Dtype number);
double MinNormal(Dtype number);

// The numbers [first, first + count) as W: the stored bytes themselves when they are W already (possibly
// unaligned), else `buffer`. REQUIRES: count <= kBlockElements; W = double unless FitsFloat(reader.number)
template <class W>
const W* ReadBlock(const Reader& reader, std::uint64_t first, std::size_t count, const Kernels& kernels,
                   W* buffer);

}  // namespace vernier::internal

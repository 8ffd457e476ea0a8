// The loops of summary.cc: one table for each instruction set, and one of plain loops. All give the same
// bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vernier/dtype.h"

namespace vernier::internal {

// Element i of a chunk is added to lane i % kNumSumLanes, whatever the width of the machine's registers. Many
// lanes, because one chain of additions would wait out its own latency.
inline constexpr std::size_t kNumSumLanes = 32;

struct SumLanes {
  alignas(64) double sum[kNumSumLanes] = {};
  alignas(64) double sum_sq[kNumSumLanes] = {};
};

template <class T>
struct Range {
  T min, max;
};

// Every function takes a block that begins at a multiple of kNumSumLanes in its chunk; `x` may be unaligned.
struct SummaryKernels {
  const char* name;
  void (*sum_f32)(const float* x, std::size_t n, SumLanes& lanes);
  void (*sum_f64)(const double* x, std::size_t n, SumLanes& lanes);
  void (*sum_f16)(const Float16* x, std::size_t n, SumLanes& lanes);
  void (*sum_bf16)(const BFloat16* x, std::size_t n, SumLanes& lanes);
  // Widen `range`, which holds some element of the tensor already.
  void (*range_f32)(const float* x, std::size_t n, Range<float>& range);
  void (*range_f64)(const double* x, std::size_t n, Range<double>& range);
  void (*range_f16)(const Float16* x, std::size_t n, Range<float>& range);
  void (*range_bf16)(const BFloat16* x, std::size_t n, Range<float>& range);
  void (*range_i8)(const std::int8_t* x, std::size_t n, Range<std::int8_t>& range);
  void (*range_u8)(const std::uint8_t* x, std::size_t n, Range<std::uint8_t>& range);
  void (*range_i16)(const std::int16_t* x, std::size_t n, Range<std::int16_t>& range);
  void (*range_u16)(const std::uint16_t* x, std::size_t n, Range<std::uint16_t>& range);
  void (*range_i32)(const std::int32_t* x, std::size_t n, Range<std::int32_t>& range);
  void (*range_u32)(const std::uint32_t* x, std::size_t n, Range<std::uint32_t>& range);
  void (*range_i64)(const std::int64_t* x, std::size_t n, Range<std::int64_t>& range);
  void (*range_u64)(const std::uint64_t* x, std::size_t n, Range<std::uint64_t>& range);
  std::uint64_t (*xor64)(const std::byte* bytes, std::size_t num_bytes);
};

const SummaryKernels& PlainSummaryKernels();
// The ones for the instruction set that ActiveKernels() has chosen.
const SummaryKernels& ActiveSummaryKernels();

}  // namespace vernier::internal

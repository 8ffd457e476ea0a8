// The loops over elements, as a table of functions: one table for each instruction set, and one of plain
// loops that any reader can check by eye. Every table gives the same bits for the same input.
//
// A kernel sees one block: kBlockElements at most, so that a block read by several kernels comes from memory
// once and from the L1 cache after that. Values are float or double already (widened from what the file
// holds), and finite: measure.cc replaces what is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "vernier/dtype.h"

namespace vernier::internal {

inline constexpr std::size_t kBlockElements = 2048;

// Sums are spread over this many lanes whatever the width of the machine's registers: element i of a block is
// added to lane i % kNumLanes, and Sum() adds the lanes up.
inline constexpr std::size_t kNumLanes = 8;

struct Lanes {
  alignas(64) double lane[kNumLanes] = {};
  // Always in this order.
  double Sum() const {
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
  }
  double Max() const {
    double max = 0;
    for (const double value : lane) max = value > max ? value : max;
    return max;
  }
};

struct StatsLanes {
  Lanes sum, sum_sq;
  double min = 0, max = 0;  // of the block. REQUIRES: at least one element
};

struct RelativeLanes {
  Lanes sum;  // only where the definition asks for a mean
  double max = 0;
  bool has_nan = false;
  std::uint64_t num_below_1e3 = 0, num_below_5e3 = 0;
};

// What one walk over a block of a pair gives; t: target, g: golden, d = t - g. The parts beyond the
// differences share its loads and conversions, which is why they are not kernels of their own. A bit each,
// any combination:
enum PairParts : unsigned {
  kPartStats = 1,     // sum_t, sum_g, min and max of both
  kPartRelative = 2,  // |d| / max(|g|, floor), in double: sum and max
  kPartClose = 4,     // |d| <= atol + rtol * |g|
  kPartErrors = 8,    // smallest |d|, and |d| > above
  kNumPartSets = 16,
};
struct PairLanes {
  Lanes dot, sq_t, sq_g, sq_d, max_abs_d;
  Lanes sum_t, sum_g;
  double min_t = 0, max_t = 0, min_g = 0, max_g = 0;
  RelativeLanes relative;
  std::uint64_t num_close = 0;
  double min_abs_d = std::numeric_limits<double>::infinity();
  std::uint64_t num_above = 0;
};
// Where the numbers after the block lie in memory, so that they can be fetched in passing. Any address will
// do.
struct NextBlock {
  const std::byte *target = nullptr, *golden = nullptr;
  std::size_t target_item_bytes = 0, golden_item_bytes = 0;
};
struct PairParameters {
  double floor = 0, rtol = 0, atol = 0, above = 0;
  NextBlock next;
};

struct DetailLanes {
  Lanes abs_d, d;
  std::uint64_t greater = 0, less = 0;                 // t > g, t < g
  std::uint64_t num_below_1e3 = 0, num_below_5e3 = 0;  // |d| / max(|g|, floor)
};

struct UlpCounts {
  std::uint64_t max = 0, above = 0;
  std::uint64_t sum = 0;  // of one block; cannot overflow below 64-bit types
};

inline constexpr std::size_t kNumAbsThresholds = 6;  // as many as MeasureOptions::thresholds

// See DivergenceMeasures. Exponentials are of the distance to the maxima that are given. Relative errors are
// those of float here; relative_of_golden has the exact ones where something depends on them.
struct DivergenceParameters {
  float max_t = 0, max_g = 0;
  // No |t - max_t - (g - max_g)| is above kNearDistance: one exponential serves both sides.
  bool near = false;
  static constexpr double kNearDistance = 0x1p-5;
};
struct DivergenceLanes {
  Lanes exp_t, exp_g, exp_diff, abs, relative;
  float max_abs = 0, max_relative = 0, max_any_relative = 0;
};
using DivergenceKernel = void (*)(const float* t, const float* g, std::size_t n,
                                  const DivergenceParameters& parameters, DivergenceLanes& out);

struct ZeroCounts {
  std::uint64_t zero = 0, denormal = 0;
};

// The pre-check standards, t being the device and g the bench. A bit each, any combination:
enum PrecheckParts : unsigned {
  kPrecheckDuals = 1,   // relative errors below 1/100, 1/1000, 1/10000; unequal elements
  kPrecheckRanges = 2,  // small and normal values, and which side is greater
  kPrecheckUlp = 4,     // fractional units in the last place
  kNumPrecheckSets = 8,
};
// How the bench is rounded before it is asked which side is greater.
enum class PrecheckRounding : std::uint8_t { kNone, kToFloat, kToHalf };
struct PrecheckParameters {
  double epsilon = 0, small_value = 0, small_atol = 0, rtol = 0;  // used as T
  PrecheckRounding rounding = PrecheckRounding::kNone;
  int mantissa_bits = 0, min_exponent = 0;
  double ulp_limit = 0;
};
struct PrecheckLanes {
  Lanes sum_sq, sum_relative, sum_ulp;  // the first two over normal elements
  double max_abs_d = 0, max_abs_t = 0, max_abs_g = 0, max_relative = 0, max_ulp = 0;
  std::uint64_t below_1e2 = 0, below_1e3 = 0, below_1e4 = 0, unequal = 0;
  std::uint64_t small = 0, small_errors = 0, normal_errors = 0, greater = 0, less = 0;
  std::uint64_t ulp_above = 0;
};

// Functions that exist for both work types, T = float and double.
template <class T>
struct TypedKernels {
  void (*pair[kNumPartSets])(const T* t, const T* g, std::size_t n, const PairParameters& parameters,
                             PairLanes& out);
  void (*details)(const T* t, const T* g, std::size_t n, double floor, DetailLanes& out);
  void (*stats)(const T* x, std::size_t n, StatsLanes& out);
  void (*centered)(const T* x, std::size_t n, double mean, Lanes& sum_sq);
  // Denormal: not zero and smaller than min_normal, the stored type's smallest normal number.
  void (*zeros)(const T* x, std::size_t n, double min_normal, ZeroCounts& out);
  // |d / g| in T itself; where g = 0, epsilon is added to both first
  void (*relative_own)(const T* t, const T* g, std::size_t n, double epsilon, RelativeLanes& out);
  // |d| / |g| in double; 0 / 0 counts as 0, x / 0 is infinite
  void (*relative_of_golden)(const T* t, const T* g, std::size_t n, RelativeLanes& out);
  // as relative_own, in double
  void (*relative_double)(const T* t, const T* g, std::size_t n, double epsilon, RelativeLanes& out);
  // Elements with |d| above each of the limits, of which there are kNumAbsThresholds.
  void (*thresholds)(const T* t, const T* g, std::size_t n, const double* limits, std::uint64_t* above);
  // |g| must not overflow when it is rounded as `parameters` says.
  void (*precheck[kNumPrecheckSets])(const T* t, const T* g, std::size_t n,
                                     const PrecheckParameters& parameters, PrecheckLanes& out);
};

// Units in the last place, on the stored bits: everything, and the largest alone, which costs a fraction.
struct UlpKernels {
  void (*all)(const void* t, const void* g, std::size_t n, std::uint64_t threshold, UlpCounts& out);
  std::uint64_t (*max)(const void* t, const void* g, std::size_t n);
};

// What a recorder wants of one tensor (summary.cc). Element i of a chunk is added to lane i % kNumSumLanes,
// whatever the width of the machine's registers. Many lanes, because one chain of additions would wait out
// its own latency.
inline constexpr std::size_t kNumSumLanes = 32;

struct SumLanes {
  alignas(64) double sum[kNumSumLanes] = {};
  alignas(64) double sum_sq[kNumSumLanes] = {};
};

template <class T>
struct Range {
  T min, max;
};

// The type in which the extremes of a stored type are found.
template <class T>
using Work = std::conditional_t<std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>, float, T>;

template <class... T>
struct Types {};
using SummedTypes = Types<float, double, Float16, BFloat16>;
using RangedTypes = Types<float, double, Float16, BFloat16, std::int8_t, std::uint8_t, std::int16_t,
                          std::uint16_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t>;

// Both take a block that begins at a multiple of kNumSumLanes in its chunk; `x` may be unaligned.
template <class T>
using SumKernel = void (*)(const T* x, std::size_t n, SumLanes& lanes);
// Widens `range`, which holds some element of the tensor already.
template <class T>
using RangeKernel = void (*)(const T* x, std::size_t n, Range<Work<T>>& range);
template <class... T>
using SumTable = std::tuple<SumKernel<T>...>;
template <class... T>
using RangeTable = std::tuple<RangeKernel<T>...>;
template <class... T>
SumTable<T...> SumTableOf(Types<T...>);
template <class... T>
RangeTable<T...> RangeTableOf(Types<T...>);

// Adds the elements of a block, of which the first is number `first` of the tensor in C order, to the sums of
// a sketch: see sketch.h. `first` is a multiple of kSketchSums, so that each sum gets one element of every
// such group, in their order, whatever the width of registers. Which elements count as 0 is asked only where
// there may be some; returned is their number.
template <class T>
using SketchKernel = std::uint64_t (*)(const T* x, std::size_t n, std::uint64_t first, double* sums);
template <class... T>
struct SketchTable {
  std::tuple<SketchKernel<T>...> all_count, some_may_not;
};
template <class... T>
SketchTable<T...> SketchTableOf(Types<T...>);

struct SummaryKernels {
  decltype(SumTableOf(SummedTypes())) sum;
  decltype(RangeTableOf(RangedTypes())) range;
  decltype(SketchTableOf(SummedTypes())) sketch;
  std::uint64_t (*xor64)(const std::byte* bytes, std::size_t num_bytes);
};

struct Kernels {
  const char* name;
  TypedKernels<float> f32;
  TypedKernels<double> f64;
  void (*widen_f16)(const void* in, std::size_t n, float* out);
  void (*widen_bf16)(const void* in, std::size_t n, float* out);
  void (*widen_f32)(const void* in, std::size_t n, double* out);
  // |d / g| where every step is rounded to half precision, as NumPy computes with float16
  void (*relative_half)(const float* t, const float* g, std::size_t n, RelativeLanes& out);
  UlpKernels ulp16, ulp32;
  SummaryKernels summary;
  DivergenceKernel divergence;
};

const Kernels& PlainKernels();
const Kernels& ActiveKernels();

// For tests and VERNIER_TARGET: the names that can be forced on this machine, best first, "PLAIN" last; empty
// name: back to the best.
std::vector<std::string_view> AvailableTargets();
bool ForceTarget(std::string_view name);

}  // namespace vernier::internal

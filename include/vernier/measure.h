// measure: tensors -> sums, counts and extremes, each byte read once. Metrics are derived from these
// afterwards.
//
// Results depend on the bytes alone: not on the number of threads, not on the instruction set. Sums are
// double, kept in 8 virtual lanes per block, blocks added in order within a chunk, chunks merged in order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

inline constexpr std::uint64_t kNoIndex = ~std::uint64_t{0};

// What the caller wants measured of a pair. What is not asked for costs nothing.
enum class Group : std::uint32_t {
  kDiff,        // dot, squares, differences, worst element, special values; always on
  kStats,       // extremes and sums of both sides
  kRelative,    // relative errors as MeasureOptions::relative defines them
  kClose,       // elements within rtol/atol
  kUlp,         // largest distance in units in the last place; both sides of one float type
  kThresholds,  // elements with |d| above MeasureOptions::thresholds
  kPrecheck,    // the pre-check standards' small, normal and special values
  kDetails,     // what few want of the groups above: sums of d and |d|, order, shares, mean ULP
  kErrors,      // the smallest |d|, and elements with |d| above MeasureOptions::error_above
  kDivergence,  // DivergenceMeasures; needs kStats and as_float32
};
class Groups {
 public:
  constexpr Groups() = default;
  constexpr Groups(Group group) : bits_(BitOf(group)) {}  // NOLINT(google-explicit-constructor)
  constexpr bool Has(Group group) const { return (bits_ & BitOf(group)) != 0; }
  friend constexpr Groups operator|(Groups a, Groups b) {
    a.bits_ |= b.bits_;
    return a;
  }

 private:
  static constexpr std::uint32_t BitOf(Group group) { return 1u << static_cast<std::uint32_t>(group); }
  std::uint32_t bits_ = 0;
};
constexpr Groups operator|(Group a, Group b) { return Groups(a) | Groups(b); }

// How the relative error of an element is defined; t is the target's value, g the golden's, d = t - g.
enum class Relative {
  kFloor,           // |d| / max(|g|, relative_floor), in double
  kStoredType,      // |d / g| in the common stored type; where g = 0, 2^-52 is added to both sides first
  kAtLeastFloat32,  // the same in at least float32, with that type's machine epsilon
  kOfGolden,        // |d| / |g| in double; 0 / 0 counts as 0, x / 0 is infinite
};

// What the pre-check standards define by numbers; t is the device's value, g the bench's. Elements are
// special (not finite on a side, after g was converted to the device's dtype), small (|g| <= small_value) or
// normal. The parts of the standards that are not asked for cost nothing.
struct PrecheckOptions {
  // When values of which one is not finite match, other than NaN with NaN; c clips infinities to
  // largest_finite.
  enum class SpecialRule : std::uint8_t {
    kNearClipped,      // |c(t) - c(g)| <= rtol * |c(g)|
    kRelativeToBench,  // |c(t) - c(g)| / (|g| + epsilon) <= rtol, the difference in the device's dtype
  };
  Dtype device = Dtype::kF32;  // what t was computed in, whatever it is stored as
  bool duals = true;           // num_below_…, num_unequal
  bool ranges = true;          // num_special … normal_max_relative, num_target_greater, num_target_less
  bool ulp = true;             // max_ulp, sum_ulp, num_ulp_above
  SpecialRule special_rule = SpecialRule::kNearClipped;
  double epsilon = 0x1p-23;  // added to |g| in relative errors
  double small_value = 0x1p-14;
  double small_atol = 0x1p-30;
  double rtol = 0x1p-20;
  double largest_finite = 3.4028234663852886e38;  // of the device's dtype
  // Units in the last place: |t - g| * 2^(mantissa_bits - exponent of g), the exponent not below
  // min_exponent.
  int mantissa_bits = 23, min_exponent = -126;
  double ulp_limit = 32;
};

struct PrecheckMeasures {
  std::uint64_t num_special = 0, num_special_mismatches = 0;
  std::uint64_t num_small = 0, num_small_errors = 0;    // |d| > small_atol
  std::uint64_t num_normal = 0, num_normal_errors = 0;  // relative error > rtol
  std::uint64_t num_below_1e2 = 0, num_below_1e3 = 0,
                num_below_1e4 = 0;  // relative error < 1/100, … over all elements
  std::uint64_t num_target_greater = 0, num_target_less = 0;
  std::uint64_t num_unequal = 0;  // NaN is unequal to everything, -0 equals 0
  double normal_sum_sq_diff = 0, normal_max_relative = 0, normal_sum_relative = 0;
  double max_abs_diff = 0, max_abs_target = 0, max_abs_golden = 0;  // NaN when any element's is
  double max_ulp = 0, sum_ulp = 0;                                  // the same
  std::uint64_t num_ulp_above = 0;
};

// Two tensors as distributions, and relative errors with two meanings of a golden value of zero.
struct DivergenceMeasures {
  // Of exp(x - max) over all elements, and of exp(g - max_golden) * ((t - max_target) - (g - max_golden)).
  double max_target = 0, max_golden = 0, sum_exp_target = 0, sum_exp_golden = 0, sum_exp_diff = 0;
  // Of elements with |g| above float32's machine epsilon; the others count as zero.
  double max_abs = 0, sum_abs = 0, max_relative = 0, sum_relative = 0;
  // |d| / |g| of all elements: 0 / 0 counts as 0, x / 0 is infinite.
  double max_any_relative = 0;
  std::uint64_t num_below_1e3 = 0, num_below_5e3 = 0;

  // Kullback-Leibler divergence of softmax(target) from softmax(golden), in single precision; never negative.
  double SoftmaxDivergence() const;
};

struct MeasureOptions {
  // What changes the answer.
  Groups groups = Group::kDiff | Group::kStats;
  Relative relative = Relative::kFloor;
  double relative_floor = 1e-12;
  double rtol = -1, atol = -1;  // negative: torch.testing.assert_close's default for the two dtypes
  std::uint64_t ulp_threshold = 1;
  double error_above = 0;       // of kErrors
  bool real_part_only = false;  // of complex numbers; otherwise both parts count as elements
  bool as_float32 = false;      // numbers are rounded to float32 before anything is measured
  PrecheckOptions precheck;
  std::array<double, 6> thresholds = {1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6};  // of kThresholds
  // What only changes the speed.
  int num_threads = 0;  // 0: one per core
};

// One tensor. "finite" extremes leave out NaN and infinities; Max()/Min() give the other flavour.
struct TensorStats {
  std::uint64_t num_elements = 0;
  std::uint64_t num_nan = 0, num_pos_inf = 0, num_neg_inf = 0, num_zero = 0, num_denormal = 0;
  double finite_min = 0, finite_max = 0;  // 0 when nothing is finite; see num_finite()
  double finite_sum = 0, finite_sum_sq = 0;
  double centered_sum_sq = 0;  // sum of (x - mean)^2 over finite elements; not measured in pairs
  std::uint32_t crc32 = 0;     // of the raw bytes; only when asked for

  std::uint64_t num_finite() const { return num_elements - num_nan - num_pos_inf - num_neg_inf; }
  // As torch reduces: NaN wins, infinities count. NaN for an empty tensor.
  double Max() const;
  double Min() const;
  double Mean() const;
  double Norm() const;
  double MaxAbs() const;
  double Std() const;  // with N - 1; NaN with fewer than two elements or anything not finite
};

// One pair. Elements that are not finite on either side take part in the counts of special values only; for
// every sum, extreme and count below that they stand as zero on both sides.
struct PairMeasures {
  std::uint64_t num_elements = 0;
  // kDiff
  double dot = 0, sum_sq_target = 0, sum_sq_golden = 0;
  double sum_sq_diff = 0;
  double max_abs_diff = 0;
  std::uint64_t max_abs_diff_index = 0;  // first element that has it
  double max_abs_diff_target = 0, max_abs_diff_golden = 0;
  std::uint64_t num_both_nan = 0, num_both_same_inf = 0, num_opposite_inf = 0;
  std::uint64_t num_nan_target_only = 0, num_nan_golden_only = 0;   // NaN against a number or an infinity
  std::uint64_t num_inf_target_only = 0, num_inf_golden_only = 0;   // infinity against a finite number
  std::uint64_t first_special_mismatch = kNoIndex;                  // its index, kNoIndex when there is none
  double special_mismatch_target = 0, special_mismatch_golden = 0;  // the values there
  // kStats
  TensorStats target, golden;
  // kRelative
  double max_relative = 0, sum_relative = 0;
  bool relative_has_nan = false;  // half precision divides 0 by 0
  // < 0.001, < 0.005; under kFloor only with kDetails
  std::uint64_t num_relative_below_1e3 = 0, num_relative_below_5e3 = 0;
  // kClose
  double rtol = 0, atol = 0;    // the ones used
  std::uint64_t num_close = 0;  // finite elements, and equal special values
  // kUlp
  bool has_ulp = false;
  std::uint64_t max_ulp = 0;
  // kDetails; those of ULPs with kUlp
  double sum_abs_diff = 0, sum_diff = 0;
  std::uint64_t num_target_greater = 0, num_target_less = 0;
  std::uint64_t num_ulp_above = 0;
  double sum_ulp = 0;
  // kThresholds: elements with |d| above each of MeasureOptions::thresholds
  std::array<std::uint64_t, 6> num_abs_above{};
  // kErrors; special values that disagree count as an infinite difference
  double min_abs_diff = std::numeric_limits<double>::infinity();
  std::uint64_t num_error_above = 0;
  // kPrecheck
  PrecheckMeasures precheck;
  // kDivergence
  DivergenceMeasures divergence;

  std::uint64_t num_special() const;  // positions that are not finite on at least one side
  std::uint64_t num_special_mismatches() const;
  double Cosine() const;  // both all zero: 1; one all zero: 0; NaN when a square overflowed
  double Rmse() const;
  double MeanRelative() const;
  // kDetails
  double MeanAbsDiff() const;
  double Bias() const;
  double MeanUlp() const;
  // By value: NaN equals NaN here, -0 equals 0.
  std::uint64_t num_unequal() const {
    return num_target_greater + num_target_less + num_special_mismatches();
  }
};

struct StatsOptions {
  bool crc32 = false;
  int num_threads = 0;
  bool real_part_only = false, as_float32 = false;  // as in MeasureOptions; crc32 is of the stored bytes
  bool zeros = true;                                // TensorStats::num_zero and num_denormal
};

// Fails when the shapes differ in their number of elements, or when a file changed while it was read.
Result<PairMeasures> MeasurePair(const TensorView& target, const TensorView& golden,
                                 const MeasureOptions& options);
Result<TensorStats> MeasureTensor(const TensorView& tensor, const StatsOptions& options);
std::uint32_t Crc32(std::span<const std::byte> bytes, std::uint32_t crc = 0);  // zlib's

// Single elements of a pair, in one pass: those that differ most, and where along the axes the error lies.
// Worst first: NaN and infinities on one side only before everything else, then by |t - g|, then by index.
// Equal elements are not among them, and neither are two NaNs. The parts of a complex number count as two.
struct RankedElement {
  std::uint64_t index = 0;  // in C order
  bool is_imaginary = false;
  double target = 0, golden = 0;
  double abs_diff = 0;               // exact for 64-bit integers too; NaN or infinite where specials disagree
  std::optional<std::uint64_t> ulp;  // of the coarser of two float types; none where a side is not finite
  std::string target_text, golden_text;  // of 64-bit integers: all their digits
};
struct Concentration {
  enum class Kind { kOneElement, kRange, kSpread } kind = Kind::kSpread;
  std::size_t axis = 0;               // of kRange, in the target's shape
  std::uint64_t first = 0, last = 0;  // of kRange: positions along the axis, both included
  double share = 0;                   // of the whole that lies there
  bool of_specials = false;  // the whole is the number of special values that disagree, not squared error
};
struct ElementDifferences {
  std::uint64_t num_numbers = 0, num_different = 0;
  std::vector<RankedElement> worst;
  std::optional<Concentration> concentration;  // none: nothing differs
};
struct ElementOptions {
  std::size_t num_worst = 10;
  int num_threads = 0;  // 0: one per core
  std::stop_token stop;
  std::function<void(std::uint64_t bytes_done)> on_progress;  // one at a time
};
// Fails as MeasurePair does, and with kCancelled when it was stopped.
Result<ElementDifferences> CompareElements(const TensorView& target, const TensorView& golden,
                                           const ElementOptions& options);
// The elements [first, first + count) as numbers, for whoever writes them down in another type. REQUIRES:
// they are not complex.
void ReadNumbers(const TensorView& tensor, std::uint64_t first, std::size_t count, float* out);
void ReadNumbers(const TensorView& tensor, std::uint64_t first, std::size_t count, double* out);

// Many at once. Work is one queue of chunks over all pairs, so that one huge pair and many tiny ones both
// keep every core busy, and memory stays bounded by the chunks in flight.
struct LoadedPair {
  TensorView target, golden;
};
struct MeasureProgress {
  std::uint64_t items_done = 0, bytes_done = 0;
};
struct BatchHooks {
  std::stop_token stop;  // the rest is left undone when it is asked to stop
  std::function<void(const MeasureProgress&)> on_progress;  // from worker threads, one at a time
};
using LoadPair = std::function<Result<LoadedPair>(std::size_t index)>;  // called concurrently
// Called once for each index, in index order, one at a time.
using PairSink = std::function<void(std::size_t index, const Result<PairMeasures>& measures)>;
void MeasurePairs(std::size_t num_pairs, const LoadPair& load, const MeasureOptions& options,
                  const PairSink& sink, const BatchHooks& hooks = {});

using LoadTensor = std::function<Result<TensorView>(std::size_t index)>;
using StatsSink = std::function<void(std::size_t index, const Result<TensorStats>& stats)>;
void MeasureTensors(std::size_t num_tensors, const LoadTensor& load, const StatsOptions& options,
                    const StatsSink& sink, const BatchHooks& hooks = {});

// The instruction set in use, e.g. "AVX3"; VERNIER_TARGET in the environment forces one ("PLAIN" is the plain
// loop). Another name is ignored here; the command refuses it.
std::string_view ActiveTargetName();
// Those that can be forced on this machine, best first.
std::vector<std::string_view> TargetNames();

struct Tolerance {
  double rtol = 0, atol = 0;
};
// torch.testing.assert_close's: per dtype, the larger of the two sides'.
Tolerance DefaultTolerance(Dtype target, Dtype golden);

}  // namespace vernier

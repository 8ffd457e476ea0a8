// What is known of one value of a call on both sides, in the few numbers that the verdict needs of it.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <tuple>

#include "measure/sketch.h"
#include "vernier/measure.h"

namespace vernier {

enum class Role : std::uint8_t { kInput, kParameter, kOutput, kGradient };

// What one side recorded of a value. Views live as long as the recording.
struct Value {
  // No statistic says this: it is nobody's mask value, as the lowest number of a type is, and no denormal,
  // which equals 0 in programs that flush those.
  static constexpr double kUnknown = -0x1.5a17c3e9b2d4fp-1000;

  enum class Kind : std::uint8_t { kNone, kTensor, kPlain } kind = Kind::kNone;
  bool is_float = false;
  bool is_half = false;    // 16 bits or fewer
  bool is_eighth = false;  // 8 bits
  std::string_view dtype, shape;
  double num_elements = 0;
  double max = kUnknown, min = kUnknown, mean = kUnknown, norm = kUnknown;
  std::string_view text;         // of a plain one
  std::string_view checksum;     // empty: none
  std::uint64_t num_masked = 0;  // elements that a sketch left out: NaN, infinities and mask values
};

// What of the two sides was compared.
enum class Compared : std::uint8_t { kTensors, kStatistics, kChecksums };

struct Facts {
  enum Flag : std::uint32_t {
    kMatched = 1,
    kTensor = 2,
    kPlain = 4,
    kDiffers = 8,  // a plain one that is not the same, or that one side does not have
    kHalf = 16,    // on either side
    kFloat = 32,
    kMixed = 64,  // of different dtypes
    kOtherShape = 128,
    kHuge = 256,       // holds mask values
    kMaskMoved = 512,  // and not at the same elements
    kMeasured = 1024,  // `error` is known
    kChecked = 2048,   // by checksum alone: an error is 0 or unknown
    // By the statistics of both sides:
    kLocal = 4096,       // the extremes are the same, so only some elements differ
    kMeanKept = 8192,    // the means are the same up to rounding
    kShuffled = 16384,   // all four are the same, the checksums are not: the values changed places
    kOtherType = 32768,  // a plain one that names another dtype; no kDiffers
    kDrowned = 65536,    // infinite on both sides, so that sums tell nothing, and sums are all that is known
    kNan = 524288,       // NaN on both sides, and only statistics are known: they hide the rest
    kEighth = 1048576,   // 8 bits, on either side
    kWhole = 262144,     // every element was compared, or is the same by checksum
    kGoldenHasMore = 131072  // said of a call's first value: the golden gives the call an argument more
  };

  float error = 0;  // relative to the golden's size; infinite where special values disagree
  float loose = 0;  // what its statistics show of the error, whatever the order of its elements
  float gap = 0;    // norm of the difference, or the most that the statistics show of it; infinite: unknown
  float norm = 0;   // of the golden; infinite: not finite
  float own_norm = 0;  // of the target
  float num_elements = 0;
  std::uint32_t flags = 0;
  Role role = Role::kInput;

  bool Has(Flag flag) const { return (flags & flag) != 0; }
  bool TellsOtherArgument() const { return (Has(kDiffers) && role != Role::kOutput) || Has(kGoldenHasMore); }
};

// By which a value is known again at other calls.
using Signature = std::tuple<float, float, float>;
inline Signature SignatureOf(const Facts& facts) { return {facts.own_norm, facts.norm, facts.error}; }

// Rounding of one element of 16 bits, and of float32.
inline constexpr double kHalfEpsilon = 4e-3, kSingleEpsilon = 1.2e-7;

// Mask values are no measure of a tensor's size.
inline constexpr double kMaskMagnitude = 1e30;

// `golden` null: the value has no partner. `measures`: of the tensors themselves, where they were read;
// `estimate`: from their sketches, where both have one.
Facts FactsOf(Role role, const Value& target, const Value* golden, const PairMeasures* measures,
              const SketchEstimate* estimate, Compared by);

}  // namespace vernier

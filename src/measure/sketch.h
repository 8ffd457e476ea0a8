// A sketch: 64 signed sums of a tensor's elements, from which the distance of two tensors can be estimated
// without either of them. The definition is part of a file format (docs/formats/): two recordings are
// comparable because every element goes to the same sum with the same sign in both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vernier {

inline constexpr std::size_t kSketchSums = 64;       // and elements of a block, which go to different sums
inline constexpr double kSketchLargest = 1e30;       // magnitudes above count as 0, as NaN and infinities do
inline constexpr std::size_t kFewestSketchSums = 8;  // after folding

// The hash behind signs and places: a counter in, 64 bits out.
constexpr std::uint64_t SketchMix(std::uint64_t counter) {
  std::uint64_t z = (counter + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
// Of the block of elements 64 * `block` and up. Bit l of the signs set: element l is subtracted. It goes to
// sum l ^ turn.
constexpr std::uint64_t SketchSigns(std::uint64_t block) { return SketchMix(2 * block); }
constexpr std::size_t SketchTurn(std::uint64_t block) { return SketchMix(2 * block + 1) % kSketchSums; }

// 8, 16, 32 or 64 sums.
constexpr bool IsSketchSize(std::uint64_t num_sums) {
  return num_sums >= kFewestSketchSums && num_sums <= kSketchSums && (num_sums & (num_sums - 1)) == 0;
}

// What is kept of one tensor.
struct Sketch {
  std::vector<double> numbers;  // of complex numbers all real parts, then as many imaginary ones
  bool whole = false;           // the numbers are the elements themselves, of which there are few
  bool is_complex = false;
  std::uint64_t num_bad = 0;  // that counted as 0: of complex numbers each part

  std::size_t size() const { return numbers.size() / (is_complex ? 2 : 1); }
};

// With fewer sums. REQUIRES: not whole; IsSketchSize(num_sums), num_sums <= size()
Sketch Folded(const Sketch& sketch, std::size_t num_sums);

struct SketchEstimate {
  double error_norm = 0;      // |target - golden|; exact for whole tensors
  double relative_error = 0;  // that over |golden|; 0 / 0 is 0
  double cosine = 1;
  // More than half of the error's energy is in one of 32 sums or more, so that it is likely in one element.
  bool is_in_one_sum = false;
};
// Of two tensors of the same shape and dtype. `norms` are of all that was sketched, in double; without them
// the sketches' own are used, which are right to 9 % at 64 sums. Nothing where the two cannot be held against
// each other: one is whole and the other not, or they have another number of elements.
struct SketchNorms {
  double target = 0, golden = 0;
  bool coarse = false;  // of a few digits: they serve the relative error, and not the cosine
};
std::optional<SketchEstimate> EstimateDifference(const Sketch& target, const Sketch& golden,
                                                 std::optional<SketchNorms> norms);

}  // namespace vernier

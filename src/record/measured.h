// What is written about the elements of one tensor, from what was measured of them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "measure/summary.h"
#include "vernier/record.h"

namespace vernier {

// A statistic as the texts of the document. Short, and without memory of its own, because a step has a
// million of them.
class StatisticText {
 public:
  std::string_view view() const { return {text_, size_}; }
  static StatisticText Null();
  static StatisticText OfBool(bool value);
  template <class T>
  static StatisticText OfInteger(T value);  // of 64 bits
  static StatisticText OfDouble(double value);

 private:
  static StatisticText Copy(std::string_view text);
  std::uint8_t size_ = 0;
  char text_[27];  // "-2.2250738585072014e-308" has 24 bytes
};

struct Measured {
  std::array<StatisticText, 4> statistics;  // Max, Min, Mean, Norm
  std::uint64_t digest = 0;                 // CRC-32 or xor
  bool has_digest = false;                  // false: null
  bool not_finite = false;                  // holds NaN or an infinity
};

// Everything null: no elements, or none that can be read.
Measured NothingMeasured();
// torch squares in float, where the squares of the smallest numbers are rounded coarsely or vanish: `sum_sq`
// of a tensor that has no others. REQUIRES: `summary` is of this tensor
void RoundSmallSquares(const StridedTensor& tensor, Summary& summary);
// Which sums the pass over a tensor must compute for this mode.
// `sketch_sums` as in RecorderOptions; there is no sketch where there are no statistics.
SummaryRequest RequestFor(Dtype dtype, SummaryMode mode, bool high_precision, std::size_t sketch_sums);
// What a device has written of a sketch: kSketchSums doubles, the number of bad elements, and a word that is
// not looked at. `sketch_sums` as in RecorderOptions. REQUIRES: of a dtype that is not complex
std::shared_ptr<const Sketch> SketchFrom(std::span<const std::uint64_t, VN_SKETCH_WORDS> words,
                                         std::uint64_t num_elements, std::size_t sketch_sums);
// The rules of docs/formats/msprobe_dump.md. REQUIRES: at least one element
Measured ApplyRules(const Summary& summary, Dtype dtype, bool is_scalar, SummaryMode mode,
                    bool high_precision);

}  // namespace vernier

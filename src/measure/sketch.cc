#include "measure/sketch.h"

#include <algorithm>
#include <cmath>

namespace vernier {
namespace {

constexpr std::size_t kEnoughToPlace = 32;  // sums, to say that an error is in one of them

// An element as a sum would take it.
double Counted(double value, bool is_element) {
  return !is_element || std::abs(value) <= kSketchLargest ? value : 0;
}

double Norm(const Sketch& sketch) {
  double sum_sq = 0;
  for (const double number : sketch.numbers) {
    const double value = Counted(number, sketch.whole);
    sum_sq += value * value;
  }
  return std::sqrt(sum_sq);
}

double Quotient(double error, double norm) { return error == 0 ? 0 : error / norm; }

// Of two directions t / |t| and g / |g| the difference has the square 2 - 2 cosine. Estimated so, and not
// from |t - g|, what tensors of different length differ by is no error of their angle: a tensor that is
// merely scaled has the cosine 1.
double CosineOf(const Sketch& target, const Sketch& golden, const SketchNorms& norms) {
  if (norms.target == 0 && norms.golden == 0) return 1;
  if (norms.target == 0 || norms.golden == 0) return 0;
  double sum_sq = 0;
  for (std::size_t i = 0; i < target.numbers.size(); ++i) {
    const double apart = Counted(target.numbers[i], target.whole) / norms.target -
                         Counted(golden.numbers[i], golden.whole) / norms.golden;
    sum_sq += apart * apart;
  }
  return std::clamp(1 - sum_sq / 2, -1.0, 1.0);
}

}  // namespace

Sketch Folded(const Sketch& sketch, std::size_t num_sums) {
  Sketch folded = sketch;
  const std::size_t parts = sketch.is_complex ? 2 : 1, before = sketch.size();
  folded.numbers.assign(parts * num_sums, 0);
  for (std::size_t part = 0; part < parts; ++part) {
    for (std::size_t i = 0; i < before; ++i)
      folded.numbers[part * num_sums + i % num_sums] += sketch.numbers[part * before + i];
  }
  return folded;
}

std::optional<SketchEstimate> EstimateDifference(const Sketch& target, const Sketch& golden,
                                                 std::optional<SketchNorms> norms) {
  if (target.whole != golden.whole || target.is_complex != golden.is_complex) return std::nullopt;
  if (target.size() != golden.size()) {
    if (target.whole) return std::nullopt;
    const std::size_t size = std::min(target.size(), golden.size());
    return target.size() > size ? EstimateDifference(Folded(target, size), golden, norms)
                                : EstimateDifference(target, Folded(golden, size), norms);
  }
  double sum_sq = 0, largest = 0;
  for (std::size_t i = 0; i < target.numbers.size(); ++i) {
    const double difference =
        Counted(target.numbers[i], target.whole) - Counted(golden.numbers[i], golden.whole);
    sum_sq += difference * difference;
    largest = std::max(largest, difference * difference);
  }
  const SketchNorms own{Norm(target), Norm(golden)};
  if (target.whole || !norms) norms = own;
  SketchEstimate estimate;
  estimate.error_norm = std::sqrt(sum_sq);
  estimate.relative_error = Quotient(estimate.error_norm, norms->golden);
  if (norms->coarse) norms = own;
  estimate.cosine = CosineOf(target, golden, *norms);
  estimate.is_in_one_sum = (target.whole || target.size() >= kEnoughToPlace) && largest > sum_sq / 2;
  return estimate;
}

}  // namespace vernier

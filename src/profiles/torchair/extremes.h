// Minimum, maximum and a little more of one tensor, as NumPy gives them: exact, in the tensor's own type.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "vernier/dtype.h"
#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier::torchair {

// One number of any type. `dtype` says which of the members holds it.
struct AnyNumber {
  Dtype dtype = Dtype::kF64;
  std::complex<double> number;  // floats and complex numbers
  std::uint64_t bits = 0;       // integers and bool; two's complement

  bool is_nan() const { return number.real() != number.real() || number.imag() != number.imag(); }
};

struct Extremes {
  AnyNumber min, max;
  std::uint64_t num_elements = 0;
  double sum = 0, sum_sq = 0;  // only where they are asked for
  std::uint32_t crc32 = 0;     // the same; of the bytes in plain order
};

struct ExtremesRequest {
  bool sums = false, crc32 = false;
};

// `dtype` is what NumPy reads the elements as: float32 for bfloat16, float64 for 8-bit floats.
Extremes FindExtremes(const TensorView& tensor, Dtype dtype, const ExtremesRequest& request);

// The type of an array that holds numbers of both, numpy.promote_types().
Dtype Promoted(Dtype a, Dtype b);
bool HoldsNan(Dtype dtype);

// Appends a number in the bytes of `dtype`. REQUIRES: Promoted(number.dtype, dtype) == dtype
void AppendAs(const AnyNumber& number, Dtype dtype, std::string& out);

}  // namespace vernier::torchair

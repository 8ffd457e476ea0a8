// Complex numbers by their size.
#pragma once

#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

// The magnitudes of a complex tensor, in double; any other tensor as it is.
Result<TensorView> MagnitudesOf(TensorView tensor);

}  // namespace vernier

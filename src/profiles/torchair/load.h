// One tensor of either side, ready to be measured.
#pragma once

#include <string>

#include "profiles/torchair/match.h"
#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier::torchair {

struct LoadedTensor {
  TensorView view;
  std::string dtype;  // as reports show it, "torch.float32"
  std::string note;   // why a storage layout was left as it is; mostly empty
};

Result<LoadedTensor> LoadTensor(const TensorRef& ref);

// The tensor as shrinking would leave it: its minimum and maximum.
Result<LoadedTensor> Shrunk(const LoadedTensor& tensor);

}  // namespace vernier::torchair

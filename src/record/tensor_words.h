// A tensor as the program hands it over: words of 64 bits, laid out in c_api.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "measure/strided.h"
#include "vernier/record.h"
#include "vernier/result.h"

namespace vernier {

struct TensorWords {
  std::int64_t address = 0;  // the slot of a deferred tensor
  std::uint64_t storage = 0;
  std::int64_t version = 0;
  std::optional<Dtype> dtype;  // nothing: one that we do not know
  std::uint32_t flags = 0;
  std::span<const std::int64_t> shape, strides;
  std::uint64_t num_elements = 0;
  std::int64_t offset = 0;              // of kPlaced
  std::int64_t device = 0, stream = 0;  // of kOnDevice

  bool Has(TensorFlags flag) const { return (flags & flag) != 0; }
  // Whether there are elements in memory.
  bool readable() const {
    return dtype && !Has(kNoData) && !Has(kDeferred) && num_elements > 0 && address != 0;
  }
  // REQUIRES: readable()
  StridedTensor strided() const {
    return {*dtype, reinterpret_cast<const std::byte*>(address), shape, strides};
  }
  std::uint64_t num_bytes() const { return dtype ? num_elements * ItemBytes(*dtype) : 0; }
};

// Takes one tensor from the front of `words`, checked.
Result<TensorWords> TakeTensor(std::span<const std::int64_t>& words);

}  // namespace vernier

// One HDF5 file of recorded module calls: a group for each step, a dataset for each tensor, named by its key.
// docs/formats/hdf5.md draws it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/hdf5.h"
#include "vernier/read.h"

namespace vernier::xray {

// One tensor. `step` has no value for what lies in no group with a number for its name.
struct Item {
  std::optional<std::int64_t> step;
  std::string_view key;   // in the name of the tensor
  std::size_t index = 0;  // in dump.tensors()
};

struct Recording {
  static Result<Recording> Open(const std::string& path, int num_threads);

  const TensorInfo& info(const Item& item) const { return dump.tensors()[item.index]; }

  Dump dump;
  std::vector<Item> items;  // step by step, in the order of creation
  std::int64_t rank = 0;
  std::string version;  // of the package that wrote it; empty: not said
  std::vector<Hdf5Object>
      objects;  // their attributes, in the order of `items`; empty names where there are none
};

// Whether a path is a file of that format.
bool IsHdf5File(const std::string& path);

}  // namespace vernier::xray

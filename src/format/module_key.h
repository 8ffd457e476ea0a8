// Keys of tensors in HDF5 recordings: "blocks.0.norm1.LayerNorm.0.forward_output.0".
#pragma once

#include <string_view>

namespace vernier {

// A key taken apart; one without a category is all path.
struct ModuleKey {
  std::string_view path;        // "blocks.0.norm1"; empty: the model itself
  std::string_view class_name;  // "LayerNorm"
  std::string_view call;        // "0"; empty: not said
  std::string_view category;    // "forward_output"
  std::string_view index;       // "0", "weight", "1.mask"
};
ModuleKey SplitModuleKey(std::string_view key);

bool IsDecimal(std::string_view text);

}  // namespace vernier

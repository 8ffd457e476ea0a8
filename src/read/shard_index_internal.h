// The index of a checkpoint that is spread over several files: model.safetensors.index.json. See
// docs/formats/safetensors.md.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

struct ShardedTensor {
  std::string name;
  std::string shard;  // the file, relative to the folder of the index
};

bool IsShardIndexName(std::string_view file_name);  // ends in .index.json
bool LooksLikeShardIndex(std::span<const std::byte> bytes);

// In the order of the index. Fails with kNotADump when `file` is JSON of another kind.
Result<std::vector<ShardedTensor>> ParseShardIndex(const FileRef& file);

// An error when `shard` leaves the folder of its index: a checkpoint from a stranger must not name files
// elsewhere.
Result<Done> CheckShardPath(std::string_view shard);

}  // namespace vernier

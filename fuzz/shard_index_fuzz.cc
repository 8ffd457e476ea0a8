#include "read/shard_index_internal.h"

#include "fuzz_entries.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  const vernier::FileRef file = vernier::FuzzFile(data, size_bytes);
  const auto tensors = vernier::ParseShardIndex(file);
  if (!tensors) return 0;
  for (const vernier::ShardedTensor& tensor : *tensors)
    static_cast<void>(vernier::CheckShardPath(tensor.shard));
  return 0;
}

#include "format/atb_bin.h"

#include "fuzz_entries.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  const vernier::FileRef file = vernier::FuzzFile(data, size_bytes);
  vernier::LoadAll(vernier::ListAtbBin(file), file);
  return 0;
}

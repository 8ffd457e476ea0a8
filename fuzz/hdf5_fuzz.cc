#include "format/hdf5.h"

#include "fuzz_entries.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  const vernier::FileRef file = vernier::FuzzFile(data, size_bytes);
  vernier::LoadAll(vernier::ListHdf5(file), file);
  static_cast<void>(vernier::ListHdf5Attributes(file));
  return 0;
}

// --mapping: yaml.
#include "fuzz_file.h"
#include "read/name_mapping.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  using namespace vernier;
  const auto mapping = ReadNameMapping(FuzzPath("mapping.yaml", data, size_bytes));
  if (mapping) UnknownNames(*mapping, {}, {});
  return 0;
}

#include "format/zip.h"

#include "core/mapped_file.h"
#include "fuzz_entries.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  const vernier::FileRef file = vernier::FuzzFile(data, size_bytes);
  const auto members = vernier::ListZip(file);
  if (!members) return 0;
  for (const vernier::ZipMember& member : *members) {
    if (vernier::StoredBytes(file, member).size() != member.stored_bytes) __builtin_trap();
    static_cast<void>(vernier::UnzipMember(file, member));
  }
  return 0;
}

// The bytes as a file, and as the pickle inside of one: a mutation rarely keeps a zip archive whole.
#include "format/pt.h"

#include "core/mapped_file.h"
#include "format/zip.h"
#include "fuzz_entries.h"

namespace {

vernier::FileRef AsPickleOfArchive(const std::uint8_t* data, std::size_t size_bytes) {
  static const vernier::Bytes storage(64);
  vernier::ZipLayout zip;
  zip.Add("x/data.pkl", {reinterpret_cast<const std::byte*>(data), size_bytes});
  zip.Add("x/data/0", storage);
  vernier::Bytes file;
  for (const std::span<const std::byte> piece : zip.Finish())
    file.insert(file.end(), piece.begin(), piece.end());
  return vernier::MappedFile::FromBytes(std::move(file), "fuzz");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  const vernier::FileRef file = vernier::FuzzFile(data, size_bytes);
  vernier::LoadAll(vernier::ListPt(file), file);
  const vernier::FileRef archive = AsPickleOfArchive(data, size_bytes);
  vernier::LoadAll(vernier::ListPt(archive), archive);
  return 0;
}

#include "format/npz.h"

#include "fuzz_entries.h"

namespace {

vernier::Result<vernier::Entries> List(const vernier::FileRef& file) {
  VN_ASSIGN_OR_RETURN(const std::vector<vernier::ZipMember> members, vernier::ListZip(file));
  return vernier::ListNpz(file, members);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  const vernier::FileRef file = vernier::FuzzFile(data, size_bytes);
  vernier::LoadAll(List(file), file);
  return 0;
}

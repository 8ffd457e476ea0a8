// Tables that are read back: csv as it is, xlsx by the bytes of one, and its sheet alone.
#include "format/csv.h"
#include "format/xlsx.h"
#include "format/zip.h"
#include "fuzz_entries.h"
#include "fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  using namespace vernier;
  std::size_t num_cells = 0;
  const auto count = [&](std::span<const TableCell> cells) {
    num_cells += cells.size();
    return num_cells < 100'000;
  };
  const FileRef file = FuzzFile(data, size_bytes);
  if (LooksLikeZip(file->bytes())) {
    static_cast<void>(ReadXlsx(file, count).has_value());
  } else {
    ReadCsv(FuzzText(data, size_bytes), count);
  }
  return 0;
}

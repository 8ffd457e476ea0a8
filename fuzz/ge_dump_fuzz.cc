// Dump files of graph mode: the header, the layouts, the packed types.
#include "format/ge_dump.h"

#include "fuzz_entries.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  using namespace vernier;
  const FileRef file = FuzzFile(data, size_bytes);
  LoadAll(ListGeDump(file), file);
  const Result<GeDump> dump = ParseGeDump(file->bytes());
  if (!dump) return 0;
  for (const auto* tensors : {&dump->inputs, &dump->outputs}) {
    for (const GeTensor& tensor : *tensors) {
      for (const GeForm form : {GeForm::kPlainOrder, GeForm::kStored}) {
        const Result<GeTensorView> loaded = LoadGeTensor(file, tensor, form);
        if (!loaded || loaded->view.source == nullptr || loaded->view.num_elements == 0) continue;
        // The end, where a layout would leave its file first.
        constexpr std::uint64_t kElements = 4096;
        const std::uint64_t count = std::min(kElements, loaded->view.num_elements);
        Bytes out(static_cast<std::size_t>(count) * ItemBytes(loaded->view.dtype));
        loaded->view.source->Read(loaded->view.num_elements - count, static_cast<std::size_t>(count),
                                  out.data());
      }
    }
  }
  return 0;
}

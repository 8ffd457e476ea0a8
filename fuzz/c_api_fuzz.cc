// The JSON, texts and words that callers of the C API hand over. The first byte chooses the call; the others
// are its argument. Words are taken from the same bytes, without tensors that would point into nowhere.
#include <cstring>
#include <string>
#include <vector>

#include "fuzz_file.h"
#include "vernier/c_api.h"

namespace vernier {
namespace {

VnRecorder* OpenRecorder() {
  VnRecorder* recorder = nullptr;
  if (VnRecorderOpen(R"({"threads": 1, "min_free_bytes": 0, "identity": true})", &recorder) != VN_OK)
    std::abort();
  return recorder;
}

// One recorder for all runs, a folder for each.
void Record(const char* text, size_t num_bytes) {
  static VnRecorder* const recorder = OpenRecorder();
  static const std::string begin = R"({"folder": ")" + (FuzzFolder() / "step0").string() +
                                   R"(", "file": "dump.json", "header": {"task": "statistics"}})";
  VnRecorderBegin(recorder, begin.c_str());
  VnRecorderStack(recorder, 1, text, num_bytes);
  uint32_t seen = 0;
  VnRecorderPut(recorder, text, num_bytes, text, num_bytes, nullptr, 0, 1, 0, &seen);
  VnRecorderPut(recorder, "A.0.forward", 11, text, num_bytes, nullptr, 0, -1, 0, &seen);
  VnRecorderConstruct(recorder, text, num_bytes, text, num_bytes, -1);
  VnRecorderState(recorder, text, num_bytes);
  VnRecorderEnd(recorder);
}

}  // namespace
}  // namespace vernier

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  using namespace vernier;
  if (size_bytes == 0) return 0;
  const std::string text(FuzzText(data + 1, size_bytes - 1));
  switch (data[0] % 5) {
    case 0: {
      VnOutcome* outcome = nullptr;
      // Paths of the fuzzer's choice would be read and written.
      const bool has_path = text.find('/') != std::string::npos || text.find('\\') != std::string::npos ||
                            text.find("output") != std::string::npos;
      if (!has_path) VnCompareRecordings(text.c_str(), nullptr, &outcome);
      VnCloseOutcome(outcome);
      break;
    }
    case 1: {
      VnRecorder* recorder = nullptr;
      VnRecorderOpen(text.c_str(), &recorder);
      VnCloseRecorder(recorder);
      break;
    }
    case 2:
      Record(text.data(), text.size());
      break;
    case 3: {
      VnDump* dump = nullptr;
      if (VnOpenDump(FuzzPath("x.pt", data + 1, size_bytes - 1).c_str(), nullptr, &dump) == VN_OK) {
        for (size_t i = 0; i <= VnDumpCount(dump); ++i) {
          VnTensorInfo info;
          VnLoaded* loaded = nullptr;
          if (VnDumpInfo(dump, i, &info) == VN_OK && info.num_bytes < (1 << 20)) VnDumpLoad(dump, i, &loaded);
          VnCloseLoaded(loaded);
        }
      }
      VnCloseDump(dump);
      break;
    }
    default: {
      int64_t shape[3] = {}, strides[3] = {};
      std::memcpy(shape, text.data(), std::min(sizeof shape, text.size()));
      const std::vector<float> memory(64);
      const VnTensor tensor{memory.data(), text.c_str() + std::min<size_t>(24, text.size()), data[0] % 4,
                            shape, data[0] % 2 ? strides : nullptr};
      // What is larger than the memory behind it is the caller's mistake.
      uint64_t num_elements = 1;
      for (const int64_t size : shape)
        if (size < 0 || size > 4 || (num_elements *= static_cast<uint64_t>(size)) > 64) return 0;
      VnTable* row = nullptr;
      VnStats(&tensor, nullptr, &row);
      VnCloseTable(row);
    }
  }
  return 0;
}

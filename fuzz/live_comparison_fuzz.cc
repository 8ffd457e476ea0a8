// A reference and a call that is compared with each of its records, with a zero byte between them.
#include "record/live_comparison.h"

#include <algorithm>

#include "fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  using namespace vernier;
  const std::string_view text = FuzzText(data, size_bytes);
  const std::size_t end = std::min(text.find('\0'), size_bytes);
  FuzzPath("dump.json", data, end);
  LiveComparison live(3);
  if (!live.BeginStep(FuzzFolder())) return 0;
  const std::string_view parts = text.substr(std::min(end + 1, size_bytes));
  for (const char* name : {"A", "A", "B.backward", "Distributed.c", "D.parameters_grad"}) {
    const auto verdict = live.Compare(name, parts, 0, "live");
    if (verdict && verdict->stop && verdict->says.empty()) __builtin_trap();
  }
  if (live.Summary().says.empty()) __builtin_trap();
  return 0;
}

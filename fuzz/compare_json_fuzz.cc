// compare.json of msprobe's command, notes behind # included.
#include "fuzz_file.h"
#include "profiles/msprobe/settings.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  using namespace vernier;
  msprobe::Log log([](LogLevel, std::string_view) {});
  CompareRequest request;
  const auto path = FuzzPath("compare.json", data, size_bytes);
  const auto read = msprobe::ReadCompareJson(path.string(), request, log);
  if (read && (request.target.empty() || request.golden.empty())) std::abort();
  return 0;
}

// dump.json of an operator recording, which becomes Python files.
#include "fuzz_file.h"
#include "xray_ops/jprof.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  using namespace vernier;
  xray_ops::JprofOptions options;
  options.dump_json = FuzzPath("dump.json", data, size_bytes);
  options.output = FuzzFolder() / "pytests";
  options.blacklist = xray_ops::Blacklist::Shipped();
  static_cast<void>(xray_ops::GenerateTests(options, {}));
  return 0;
}

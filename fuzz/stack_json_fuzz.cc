// stack.json and construct.json beside a dump.
#include "fuzz_file.h"
#include "profiles/msprobe/context.h"
#include "profiles/msprobe/stack.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  using namespace vernier;
  constexpr const char* kRecord = "Functional.relu.0.forward";
  const auto path = FuzzPath("stack.json", data, size_bytes);
  if (const auto stacks = msprobe::StackFile::Open(path)) {
    stacks->ListText(kRecord);
    stacks->Problem(kRecord);
    stacks->Lines(kRecord);
  }
  FuzzPath("construct.json", data, size_bytes);
  RankOutcome outcome;
  outcome.culprit.emplace().record = kRecord;
  msprobe::AddContext(FuzzFolder() / "dump.json", outcome);
  return 0;
}

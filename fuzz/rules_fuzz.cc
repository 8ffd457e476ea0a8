// --rules: what is accepted must give finite thresholds.
#include <cmath>

#include "fuzz_file.h"
#include "profiles/msprobe/row.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  using namespace vernier;
  for (const auto generation : {msprobe::Generation::kClassic, msprobe::Generation::kCurrent}) {
    const auto rules = msprobe::RulesOf(generation, FuzzText(data, size_bytes), "rules.json");
    if (rules && !std::isfinite(rules->Threshold("culprit_growth"))) std::abort();
  }
  return 0;
}

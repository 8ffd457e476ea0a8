// Compiles kernels-inl.h for every instruction set and picks one at run time.
#include "measure/kernels_internal.h"

#include <atomic>
#include <cstdlib>

// Scalable vectors cannot be held in the structs of kernels-inl.h; fixed-size NEON serves those machines.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "measure/kernels.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "measure/kernels-inl.h"

#if HWY_ONCE
namespace vernier::internal {
HWY_EXPORT(Table);

namespace {

std::atomic<const Kernels*> active{nullptr};

const Kernels* Best() {
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return HWY_DYNAMIC_DISPATCH(Table)();
}

const Kernels* Named(std::string_view name) {
  if (name == PlainKernels().name) return &PlainKernels();
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name != hwy::TargetName(target)) continue;
    hwy::SetSupportedTargetsForTest(target);
    const Kernels* table = Best();
    hwy::SetSupportedTargetsForTest(0);
    return table;
  }
  return nullptr;
}

}  // namespace

std::vector<std::string_view> AvailableTargets() {
  std::vector<std::string_view> names;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets())
    names.push_back(hwy::TargetName(target));
  names.push_back(PlainKernels().name);
  return names;
}

bool ForceTarget(std::string_view name) {
  const Kernels* table = name.empty() ? Best() : Named(name);
  if (table != nullptr) active.store(table);
  return table != nullptr;
}

const Kernels& ActiveKernels() {
  if (const Kernels* table = active.load(std::memory_order_acquire)) return *table;
  const char* forced = std::getenv("VERNIER_TARGET");
  const Kernels* table = forced != nullptr ? Named(forced) : nullptr;
  if (table == nullptr) table = Best();
  active.store(table, std::memory_order_release);
  return *table;
}

}  // namespace vernier::internal
#endif

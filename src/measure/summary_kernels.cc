// Compiles summary-inl.h for every instruction set; the plain loops beside them.
#include "measure/summary_kernels_internal.h"

#include <atomic>
#include <bit>
#include <string_view>
#include <type_traits>

#include "measure/kernels_internal.h"

// As in kernels.cc.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "measure/summary_kernels.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "measure/summary-inl.h"

#if HWY_ONCE
namespace vernier::internal {
HWY_EXPORT(SummaryTable);

namespace {

template <class T>
auto PlainLoad(const T* x, std::size_t i) {
  if constexpr (std::is_same_v<T, Float16>) {
    return plain::HalfToFloat(plain::LoadAt<T>(x, i).bits);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(plain::LoadAt<T>(x, i).bits) << 16);
  } else {
    return plain::LoadAt<T>(x, i);
  }
}
template <class T>
using PlainWork = decltype(PlainLoad<T>(nullptr, 0));

template <class T>
void PlainSum(const T* x, std::size_t n, SumLanes& lanes) {
  for (std::size_t i = 0; i < n; ++i) {
    const double value = PlainLoad(x, i);
    lanes.sum[i % kNumSumLanes] += value;
    lanes.sum_sq[i % kNumSumLanes] += value * value;
  }
}

template <class T>
void PlainRange(const T* x, std::size_t n, Range<PlainWork<T>>& range) {
  for (std::size_t i = 0; i < n; ++i) {
    const PlainWork<T> value = PlainLoad(x, i);
    if (value < range.min) range.min = value;
    if (value > range.max) range.max = value;
  }
}

std::uint64_t PlainXor(const std::byte* bytes, std::size_t num_bytes) {
  std::uint64_t result = 0;
  for (std::size_t i = 0; i < num_bytes; ++i) {
    result ^= static_cast<std::uint64_t>(bytes[i]) << (8 * (i % sizeof result));
  }
  return result;
}

const SummaryKernels* Named(std::string_view name) {
  if (name == PlainKernels().name) return &PlainSummaryKernels();
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name != hwy::TargetName(target)) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    const SummaryKernels* table = HWY_DYNAMIC_DISPATCH(SummaryTable)();
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    return table;
  }
  return &PlainSummaryKernels();
}

}  // namespace

const SummaryKernels& PlainSummaryKernels() {
  static constexpr SummaryKernels kTable = {"PLAIN",
                                            PlainSum<float>,
                                            PlainSum<double>,
                                            PlainSum<Float16>,
                                            PlainSum<BFloat16>,
                                            PlainRange<float>,
                                            PlainRange<double>,
                                            PlainRange<Float16>,
                                            PlainRange<BFloat16>,
                                            PlainRange<std::int8_t>,
                                            PlainRange<std::uint8_t>,
                                            PlainRange<std::int16_t>,
                                            PlainRange<std::uint16_t>,
                                            PlainRange<std::int32_t>,
                                            PlainRange<std::uint32_t>,
                                            PlainRange<std::int64_t>,
                                            PlainRange<std::uint64_t>,
                                            PlainXor};
  return kTable;
}

const SummaryKernels& ActiveSummaryKernels() {
  static std::atomic<const Kernels*> chosen{nullptr};
  static std::atomic<const SummaryKernels*> table{nullptr};
  const Kernels* const wanted = &ActiveKernels();
  if (chosen.load(std::memory_order_acquire) == wanted) return *table.load(std::memory_order_relaxed);
  const SummaryKernels* const found = Named(wanted->name);
  table.store(found, std::memory_order_relaxed);
  chosen.store(wanted, std::memory_order_release);
  return *found;
}

}  // namespace vernier::internal
#endif

// Kernels on the bits that files hold: loading and widening, rounding to half precision, units in the last
// place. Compiled once for each instruction set by kernels.cc, before the loops that load with it.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "measure/kernels_internal.h"
#include "measure/plain_kernels_internal.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::internal {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using VF = hn::Vec<DF>;
using DU = hn::RebindToUnsigned<DF>;
using D64 = hn::CappedTag<double, kNumLanes>;
using V64 = hn::Vec<D64>;

// Widest registers of T, for what needs no lanes: extremes and counts come out the same in any order.
template <class T>
using DWide = hn::CappedTag<T, 64 / sizeof(T)>;

// Calls body(lane) for the first lane of each group that fits a register.
template <class Body>
HWY_INLINE void ForEachLaneGroup(Body&& body) {
  const D64 d;
  for (std::size_t lane = 0; lane < kNumLanes; lane += hn::Lanes(d)) body(lane);
}

HWY_INLINE std::size_t WholeLanes(std::size_t n) { return n - n % kNumLanes; }

// The x86 sets from AVX2 on convert halves in hardware, exactly as IEEE 754 says; elsewhere we do it with
// integers.
#define VN_HAVE_HALF_CONVERSION \
  (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL)

HWY_INLINE VF RoundToHalf(VF value) {
  const DF d;
#if VN_HAVE_HALF_CONVERSION
  return hn::PromoteTo(d, hn::DemoteTo(hn::Rebind<hwy::float16_t, DF>(), value));
#else
  const DU du;
  const auto bits = hn::BitCast(du, value);
  const auto sign = hn::And(bits, hn::Set(du, 0x80000000u));
  const auto magnitude = hn::AndNot(sign, bits);
  const VF positive = hn::BitCast(d, magnitude), half = hn::Set(d, 0.5f);
  const VF subnormal = hn::Sub(hn::Add(positive, half), half);
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
  const auto rounded = hn::And(hn::Add(hn::Add(magnitude, hn::Set(du, 0xfffu)), odd), hn::Set(du, ~0x1fffu));
  VF result = hn::IfThenElse(hn::Lt(positive, hn::Set(d, 0x1p-14f)), subnormal, hn::BitCast(d, rounded));
  const VF infinity = hn::BitCast(d, hn::Set(du, 0x7f800000u));
  result = hn::IfThenElse(hn::Gt(result, hn::Set(d, 65504.0f)), infinity, result);
  result = hn::IfThenElse(hn::IsNaN(value), value, result);
  return hn::BitCast(d, hn::Or(hn::BitCast(du, result), sign));
#endif
}

template <class D>
HWY_INLINE hn::Vec<D> HalvesToFloat(D d, hn::Vec<hn::Rebind<std::uint16_t, D>> halves) {
#if VN_HAVE_HALF_CONVERSION
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), halves));
#else
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::PromoteTo(du, halves);
  const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7fffu)));
  const auto scaled = hn::BitCast(du, hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f)));
  const auto exponent = hn::Set(du, 0x7c00u);
  const auto special =
      hn::IfThenElseZero(hn::Eq(hn::And(bits, exponent), exponent), hn::Set(du, 0x7f800000u));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
  return hn::BitCast(d, hn::Or(hn::Or(scaled, special), sign));
#endif
}

// Of halves, which may lie at any address: their member may not be named there.
template <class T>
const std::uint16_t* BitsOf(const T* from) {
  return reinterpret_cast<const std::uint16_t*>(from);
}

// Stored elements in registers of D, widened where they are narrower.
template <class D, class T>
HWY_INLINE hn::Vec<D> LoadAs(D d, const T* from) {
  constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    return hn::LoadU(d, from);
  } else if constexpr (kIsHalf && sizeof(hn::TFromD<D>) > sizeof(float)) {
    return hn::PromoteTo(d, LoadAs(hn::Rebind<float, D>(), from));
  } else if constexpr (std::is_same_v<T, Float16>) {
    return HalvesToFloat(d, LoadAs(hn::Rebind<std::uint16_t, D>(), BitsOf(from)));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(LoadAs(du, BitsOf(from))));
  } else {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D>(), from));
  }
}

template <class T, class W>
void Widen(const void* in, std::size_t n, W* out) {
  const DWide<W> d;
  const std::size_t step = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + step <= n; i += step) hn::StoreU(LoadAs(d, static_cast<const T*>(in) + i), d, out + i);
  plain::Widen<T>(in, i, n, out);
}

// The distances on plain::OnNumberLine, in lanes as wide as the stored bits or wider.
template <class D, class Bits>
HWY_INLINE hn::Vec<D> UlpDistance(D du, const Bits* t, const Bits* g) {
  const hn::RebindToSigned<D> di;
  constexpr int kSignBit = 8 * sizeof(Bits) - 1, kTopBit = 8 * sizeof(hn::TFromD<D>) - 1;
  const auto on_number_line = [&](const Bits* at) HWY_ATTR {
    const auto bits = LoadAs(du, at);
    const auto magnitude_bits = hn::Set(du, (hn::TFromD<D>{1} << kSignBit) - 1);
    const auto magnitude = hn::BitCast(di, hn::And(bits, magnitude_bits));
    const auto negative = hn::ShiftRight<kTopBit>(hn::BitCast(di, hn::ShiftLeft<kTopBit - kSignBit>(bits)));
    return hn::Sub(hn::Xor(magnitude, negative), negative);
  };
  const auto x = on_number_line(t), y = on_number_line(g);
  return hn::Sub(hn::BitCast(du, hn::Max(x, y)), hn::BitCast(du, hn::Min(x, y)));
}

// Distances fit 32 bits without sign for both widths; their sum over a block is kept as low and high halves
// so that a 32-bit lane cannot overflow.
template <class Bits>
void Ulp(const void* t, const void* g, std::size_t n, std::uint64_t threshold, UlpCounts& out) {
  const DU du;
  const auto *a = static_cast<const Bits*>(t), *b = static_cast<const Bits*>(g);
  const auto limit =
      hn::Set(du, static_cast<std::uint32_t>(threshold > 0xffffffffu ? 0xffffffffu : threshold));
  auto max = hn::Zero(du), low = max, high = max;
  std::uint64_t above = 0;
  const std::size_t step = hn::Lanes(du);
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    const auto distance = UlpDistance(du, a + i, b + i);
    max = hn::Max(max, distance);
    above += hn::CountTrue(du, hn::Gt(distance, limit));
    low = hn::Add(low, hn::And(distance, hn::Set(du, 0xffffu)));
    high = hn::Add(high, hn::ShiftRight<16>(distance));
  }
  HWY_ALIGN std::uint32_t lanes[3][16];
  hn::Store(max, du, lanes[0]);
  hn::Store(low, du, lanes[1]);
  hn::Store(high, du, lanes[2]);
  for (std::size_t k = 0; k < step; ++k) {
    plain::KeepMax(lanes[0][k], out.max);
    out.sum += lanes[1][k] + (static_cast<std::uint64_t>(lanes[2][k]) << 16);
  }
  out.above += above;
  plain::Ulp<Bits>(t, g, i, n, threshold, out);
}

template <class Bits>
std::uint64_t MaxUlp(const void* t, const void* g, std::size_t n) {
  const DWide<Bits> du;
  const auto *a = static_cast<const Bits*>(t), *b = static_cast<const Bits*>(g);
  auto max = hn::Zero(du);
  const std::size_t step = hn::Lanes(du);
  std::size_t i = 0;
  for (; i + step <= n; i += step) max = hn::Max(max, UlpDistance(du, a + i, b + i));
  HWY_ALIGN Bits lanes[64 / sizeof(Bits)];
  hn::Store(max, du, lanes);
  std::uint64_t largest = plain::MaxUlp<Bits>(t, g, i, n);
  for (std::size_t k = 0; k < step; ++k) plain::KeepMax(lanes[k], largest);
  return largest;
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::internal
HWY_AFTER_NAMESPACE();

// Kernels on the bits that files hold: widening, rounding to half precision, units in the last place.
// Compiled once for each instruction set by kernels.cc.
#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "measure/kernels_internal.h"
#include "measure/plain_kernels_internal.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::internal {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using VF = hn::Vec<DF>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;

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

void WidenF16(const void* in, std::size_t n, float* out) {
  const DF d;
  const hn::Rebind<std::uint16_t, DF> d16;
  const auto* from = static_cast<const std::uint16_t*>(in);
  const std::size_t step = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    const auto halves = hn::LoadU(d16, from + i);
#if VN_HAVE_HALF_CONVERSION
    hn::StoreU(hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, DF>(), halves)), d, out + i);
#else
    const DU du;
    const auto bits = hn::PromoteTo(du, halves);
    const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7fffu)));
    const auto scaled = hn::BitCast(du, hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f)));
    const auto exponent = hn::Set(du, 0x7c00u);
    const auto special =
        hn::IfThenElseZero(hn::Eq(hn::And(bits, exponent), exponent), hn::Set(du, 0x7f800000u));
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
    hn::StoreU(hn::BitCast(d, hn::Or(hn::Or(scaled, special), sign)), d, out + i);
#endif
  }
  plain::WidenF16(in, i, n, out);
}

void WidenBF16(const void* in, std::size_t n, float* out) {
  const DF d;
  const DU du;
  const hn::Rebind<std::uint16_t, DF> d16;
  const auto* from = static_cast<const std::uint16_t*>(in);
  const std::size_t step = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, from + i)));
    hn::StoreU(hn::BitCast(d, bits), d, out + i);
  }
  plain::WidenBF16(in, i, n, out);
}

// Distances on the number line fit 32 bits without sign for both widths; their sum over a block is kept as
// low and high halves so that a 32-bit lane cannot overflow.
struct UlpCounter {
  explicit UlpCounter(std::uint64_t threshold)
      : limit(hn::Set(DU(), static_cast<std::uint32_t>(threshold > 0xffffffffu ? 0xffffffffu : threshold))),
        max(hn::Zero(DU())),
        low(max),
        high(max) {}
  template <int kSignBit>
  static HWY_INLINE hn::Vec<DI> OnNumberLine(hn::Vec<DU> bits) {
    const DI di;
    const auto magnitude = hn::BitCast(di, hn::And(bits, hn::Set(DU(), (1u << kSignBit) - 1)));
    const auto negative = hn::ShiftRight<31>(hn::BitCast(di, hn::ShiftLeft<31 - kSignBit>(bits)));
    return hn::Sub(hn::Xor(magnitude, negative), negative);
  }
  HWY_INLINE void Add(hn::Vec<DI> x, hn::Vec<DI> y) {
    const DU du;
    const auto distance = hn::Sub(hn::BitCast(du, hn::Max(x, y)), hn::BitCast(du, hn::Min(x, y)));
    max = hn::Max(max, distance);
    above += hn::CountTrue(du, hn::Gt(distance, limit));
    low = hn::Add(low, hn::And(distance, hn::Set(du, 0xffffu)));
    high = hn::Add(high, hn::ShiftRight<16>(distance));
  }
  HWY_INLINE void Finish(UlpCounts& out) const {
    const DU du;
    HWY_ALIGN std::uint32_t lanes[3][16];
    hn::Store(max, du, lanes[0]);
    hn::Store(low, du, lanes[1]);
    hn::Store(high, du, lanes[2]);
    for (std::size_t i = 0; i < hn::Lanes(du); ++i) {
      out.max = lanes[0][i] > out.max ? lanes[0][i] : out.max;
      out.sum += lanes[1][i] + (static_cast<std::uint64_t>(lanes[2][i]) << 16);
    }
    out.above += above;
  }
  hn::Vec<DU> limit, max, low, high;
  std::uint64_t above = 0;
};

void Ulp16(const void* t, const void* g, std::size_t n, std::uint64_t threshold, UlpCounts& out) {
  const DU du;
  const hn::Rebind<std::uint16_t, DU> d16;
  const auto *a = static_cast<const std::uint16_t*>(t), *b = static_cast<const std::uint16_t*>(g);
  UlpCounter counter(threshold);
  const std::size_t step = hn::Lanes(du);
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    counter.Add(UlpCounter::OnNumberLine<15>(hn::PromoteTo(du, hn::LoadU(d16, a + i))),
                UlpCounter::OnNumberLine<15>(hn::PromoteTo(du, hn::LoadU(d16, b + i))));
  }
  counter.Finish(out);
  plain::Ulp<std::uint16_t>(t, g, i, n, threshold, out);
}

void Ulp32(const void* t, const void* g, std::size_t n, std::uint64_t threshold, UlpCounts& out) {
  const DU du;
  const auto *a = static_cast<const std::uint32_t*>(t), *b = static_cast<const std::uint32_t*>(g);
  UlpCounter counter(threshold);
  const std::size_t step = hn::Lanes(du);
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    counter.Add(UlpCounter::OnNumberLine<31>(hn::LoadU(du, a + i)),
                UlpCounter::OnNumberLine<31>(hn::LoadU(du, b + i)));
  }
  counter.Finish(out);
  plain::Ulp<std::uint32_t>(t, g, i, n, threshold, out);
}

template <class Bits>
std::uint64_t MaxUlp(const void* t, const void* g, std::size_t n) {
  const hn::CappedTag<Bits, 64 / sizeof(Bits)> du;
  const hn::RebindToSigned<decltype(du)> di;
  const auto magnitude_bits =
      hn::Set(du, static_cast<Bits>(std::numeric_limits<hwy::MakeSigned<Bits>>::max()));
  const auto *a = static_cast<const Bits*>(t), *b = static_cast<const Bits*>(g);
  const auto on_number_line = [&](const Bits* at) HWY_ATTR {
    const auto bits = hn::LoadU(du, at);
    const auto magnitude = hn::BitCast(di, hn::And(bits, magnitude_bits));
    const auto negative = hn::ShiftRight<8 * sizeof(Bits) - 1>(hn::BitCast(di, bits));
    return hn::Sub(hn::Xor(magnitude, negative), negative);
  };
  auto max = hn::Zero(du);
  const std::size_t step = hn::Lanes(du);
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    const auto x = on_number_line(a + i), y = on_number_line(b + i);
    max = hn::Max(max, hn::Sub(hn::BitCast(du, hn::Max(x, y)), hn::BitCast(du, hn::Min(x, y))));
  }
  HWY_ALIGN Bits lanes[64 / sizeof(Bits)];
  hn::Store(max, du, lanes);
  std::uint64_t largest = plain::MaxUlp<Bits>(t, g, i, n);
  for (std::size_t k = 0; k < step; ++k) largest = lanes[k] > largest ? lanes[k] : largest;
  return largest;
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::internal
HWY_AFTER_NAMESPACE();

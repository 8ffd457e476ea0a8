// The loop behind DivergenceMeasures, compiled once for each instruction set by kernels.cc.
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "measure/kernels_internal.h"
#include "measure/plain_kernels_internal.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::internal {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// plain::ExpOfNegative, step by step.
HWY_INLINE VF ExpOfNegative(VF x) {
  using C = plain::ExpConstants;
  const DF d;
  const hn::RebindToSigned<DF> di;
  const VF round = hn::Set(d, C::kRound);
  const VF n = hn::Sub(hn::Add(hn::Mul(x, hn::Set(d, C::kLog2E)), round), round);
  const VF r = hn::Sub(hn::Sub(x, hn::Mul(n, hn::Set(d, C::kLn2High))), hn::Mul(n, hn::Set(d, C::kLn2Low)));
  VF y = hn::Set(d, C::kPolynomial[0]);
  for (std::size_t i = 1; i < 6; ++i) y = hn::Add(hn::Mul(y, r), hn::Set(d, C::kPolynomial[i]));
  y = hn::Add(hn::Add(hn::Mul(y, hn::Mul(r, r)), r), hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  return hn::IfThenElseZero(hn::Ge(x, hn::Set(d, C::kLowest)), hn::Mul(y, hn::BitCast(d, exponent)));
}

// Of a whole block at first: floats fill a register twice as well as the sums that follow.
HWY_INLINE void ExpBlock(const float* x, std::size_t whole, float max, float* HWY_RESTRICT out) {
  const DF d;
  const VF largest = hn::Set(d, max);
  const std::size_t step = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + step <= whole; i += step)
    hn::StoreU(ExpOfNegative(hn::Sub(hn::LoadU(d, x + i), largest)), d, out + i);
  for (; i < whole; ++i) out[i] = plain::ExpOfNegative(plain::LoadAt<float>(x, i) - max);
}

void Divergence(const float* t, const float* g, std::size_t n, float max_t, float max_g,
                DivergenceLanes& out) {
  const D64 d64;
  const std::size_t whole = WholeLanes(n);
  alignas(64) float exp_t[kBlockElements];
  alignas(64) float exp_g[kBlockElements];
  ExpBlock(t, whole, max_t, exp_t);
  ExpBlock(g, whole, max_g, exp_g);
  const V64 zero = hn::Zero(d64), epsilon = hn::Set(d64, 0x1p-23);
  const V64 t1 = hn::Set(d64, 0.001), t5 = hn::Set(d64, 0.005);
  ForEachLaneGroup([&](std::size_t lane) HWY_ATTR {
    V64 sum_t = zero, sum_g = zero, sum_diff = zero, sum_abs = zero, sum_relative = zero;
    V64 max_abs = zero, max_relative = zero, max_any = zero;
    std::uint64_t below_1e3 = 0, below_5e3 = 0;
    for (std::size_t i = lane; i < whole; i += kNumLanes) {
      const V64 a = LoadAs(d64, t + i), b = LoadAs(d64, g + i);
      const V64 weight = LoadAs(d64, exp_g + i);
      const V64 d = hn::Sub(a, b), magnitude = hn::Abs(d), size = hn::Abs(b);
      sum_t = hn::Add(sum_t, LoadAs(d64, exp_t + i));
      sum_g = hn::Add(sum_g, weight);
      sum_diff = hn::Add(sum_diff, hn::Mul(weight, hn::Sub(b, a)));
      const V64 relative = hn::IfThenZeroElse(hn::Eq(magnitude, zero), hn::Div(magnitude, size));
      max_any = hn::Max(max_any, relative);
      below_1e3 += hn::CountTrue(d64, hn::Lt(relative, t1));
      below_5e3 += hn::CountTrue(d64, hn::Lt(relative, t5));
      const auto counts = hn::Gt(size, epsilon);
      const V64 counted = hn::IfThenElseZero(counts, magnitude);
      const V64 counted_relative = hn::IfThenElseZero(counts, relative);
      sum_abs = hn::Add(sum_abs, counted);
      sum_relative = hn::Add(sum_relative, counted_relative);
      max_abs = hn::Max(max_abs, counted);
      max_relative = hn::Max(max_relative, counted_relative);
    }
    hn::Store(sum_t, d64, out.exp_t.lane + lane);
    hn::Store(sum_g, d64, out.exp_g.lane + lane);
    hn::Store(sum_diff, d64, out.exp_diff.lane + lane);
    hn::Store(sum_abs, d64, out.abs.lane + lane);
    hn::Store(sum_relative, d64, out.relative.lane + lane);
    plain::KeepMax(hn::GetLane(hn::MaxOfLanes(d64, max_abs)), out.max_abs);
    plain::KeepMax(hn::GetLane(hn::MaxOfLanes(d64, max_relative)), out.max_relative);
    plain::KeepMax(hn::GetLane(hn::MaxOfLanes(d64, max_any)), out.max_any_relative);
    out.num_below_1e3 += below_1e3;
    out.num_below_5e3 += below_5e3;
  });
  plain::Divergence(t, g, whole, n, max_t, max_g, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::internal
HWY_AFTER_NAMESPACE();

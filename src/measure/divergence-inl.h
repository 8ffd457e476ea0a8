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

// Several registers at a time, each step for all of them: an exponential is one long chain, and alone it
// would wait out the latency of every link. They are those whose elements plain::DivergenceUnit adds up
// first.
constexpr std::size_t kWays = plain::DivergenceUnit::kWays,
                      kBetweenWays = plain::DivergenceUnit::kBetweenWays;
struct Ways {
  VF way[kWays];
};
template <class Step>
HWY_INLINE void ForEachWay(const Step& step) {
  for (std::size_t k = 0; k < kWays; ++k) step(k);
}

// plain::ExpOfNegative, step by step.
HWY_INLINE void ExpOfNegative(const Ways& x, Ways& out) {
  using C = plain::ExpConstants;
  const DF d;
  const hn::RebindToSigned<DF> di;
  const VF round = hn::Set(d, C::kRound);
  Ways n, r, y;
  ForEachWay([&](std::size_t k) HWY_ATTR { n.way[k] = hn::Mul(x.way[k], hn::Set(d, C::kLog2E)); });
  ForEachWay([&](std::size_t k) HWY_ATTR { n.way[k] = hn::Sub(hn::Add(n.way[k], round), round); });
  ForEachWay([&](std::size_t k)
                 HWY_ATTR { r.way[k] = hn::Sub(x.way[k], hn::Mul(n.way[k], hn::Set(d, C::kLn2High))); });
  ForEachWay([&](std::size_t k) HWY_ATTR {
    r.way[k] = hn::Sub(r.way[k], hn::Mul(n.way[k], hn::Set(d, C::kLn2Low)));
    y.way[k] = hn::Set(d, C::kPolynomial[0]);
  });
  for (std::size_t i = 1; i < 6; ++i) {
    ForEachWay([&](std::size_t k) HWY_ATTR {
      y.way[k] = hn::Add(hn::Mul(y.way[k], r.way[k]), hn::Set(d, C::kPolynomial[i]));
    });
  }
  ForEachWay([&](std::size_t k)
                 HWY_ATTR { y.way[k] = hn::Add(hn::Mul(y.way[k], hn::Mul(r.way[k], r.way[k])), r.way[k]); });
  ForEachWay([&](std::size_t k) HWY_ATTR {
    const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n.way[k]), hn::Set(di, 127)));
    const VF value = hn::Mul(hn::Add(y.way[k], hn::Set(d, 1.0f)), hn::BitCast(d, exponent));
    out.way[k] = hn::IfThenElseZero(hn::Ge(x.way[k], hn::Set(d, C::kLowest)), value);
  });
}

// plain::WeightOfNegative, step by step.
HWY_INLINE void WeightOfNegative(const Ways& x, Ways& out) {
  using C = plain::ExpConstants;
  const DF d;
  const hn::RebindToUnsigned<DF> du;
  const VF round = hn::Set(d, C::kRound);
  Ways f, shifted, power;
  ForEachWay([&](std::size_t k) HWY_ATTR { f.way[k] = hn::Mul(x.way[k], hn::Set(d, C::kLog2E)); });
  ForEachWay([&](std::size_t k) HWY_ATTR { shifted.way[k] = hn::Add(f.way[k], round); });
  ForEachWay([&](std::size_t k) HWY_ATTR {
    f.way[k] = hn::Sub(f.way[k], hn::Sub(shifted.way[k], round));
    power.way[k] = hn::Set(d, plain::WeightConstants::kPolynomial[0]);
  });
  for (std::size_t i = 1; i < 6; ++i) {
    ForEachWay([&](std::size_t k) HWY_ATTR {
      power.way[k] =
          hn::Add(hn::Mul(power.way[k], f.way[k]), hn::Set(d, plain::WeightConstants::kPolynomial[i]));
    });
  }
  ForEachWay([&](std::size_t k) HWY_ATTR {
    const auto scaled =
        hn::Add(hn::BitCast(du, power.way[k]), hn::ShiftLeft<23>(hn::BitCast(du, shifted.way[k])));
    out.way[k] = hn::IfThenElseZero(hn::Ge(x.way[k], hn::Set(d, C::kLowest)), hn::BitCast(d, scaled));
  });
}

#if HWY_TARGET != HWY_SCALAR

// Sums of floats in the eight lanes of Lanes, several registers where one is too small.
class LaneSum {
 public:
  static constexpr std::size_t kHalf = hn::MaxLanes(D64()), kGroups = kNumLanes / kHalf;

  // `place`: of the first element of the first register in its unit.
  HWY_INLINE void Add(const Ways& values, std::size_t place) {
    const hn::Rebind<float, D64> half;
    const VF sum = hn::Add(hn::Add(values.way[0], values.way[1]), hn::Add(values.way[2], values.way[3]));
    V64& low = sums_[place / kHalf % kGroups];
    low = hn::Add(low, hn::PromoteTo(D64(), hn::LowerHalf(half, sum)));
    V64& high = sums_[(place / kHalf + 1) % kGroups];
    high = hn::Add(high, hn::PromoteTo(D64(), hn::UpperHalf(half, sum)));
  }
  HWY_INLINE void StoreTo(Lanes& out) const {
    for (std::size_t i = 0; i < kGroups; ++i) hn::Store(sums_[i], D64(), out.lane + i * kHalf);
  }
  HWY_INLINE LaneSum() {
    for (V64& sum : sums_) sum = hn::Zero(D64());
  }

 private:
  V64 sums_[kGroups];
};

template <bool kNear>
HWY_INLINE void DivergenceOf(const float* t, const float* g, std::size_t n,
                             const DivergenceParameters& parameters, DivergenceLanes& out) {
  const DF d;
  constexpr std::size_t kStep = hn::MaxLanes(DF()), kUnit = plain::DivergenceUnit::kElements;
  const std::size_t whole = n - n % kUnit;
  const VF zero = hn::Zero(d), one = hn::Set(d, 1.0f), epsilon = hn::Set(d, 0x1p-23f);
  const VF max_t = hn::Set(d, parameters.max_t), max_g = hn::Set(d, parameters.max_g);
  const VF max_diff = hn::Set(d, parameters.max_t - parameters.max_g);
  VF max_abs = zero, max_relative = zero, max_any = zero;
  LaneSum sum_t, sum_g, sum_diff, sum_abs, sum_relative;
  for (std::size_t unit = 0; unit < whole; unit += kUnit) {
    for (std::size_t place = 0; place < kBetweenWays; place += kStep) {
      const float *from_t = t + unit + place, *from_g = g + unit + place;
      Ways b, diff, from_max, apart, exp_t, exp_g, weighted, counted, counted_relative;
      ForEachWay([&](std::size_t k) HWY_ATTR {
        b.way[k] = hn::LoadU(d, from_g + k * kBetweenWays);
        diff.way[k] = hn::Sub(hn::LoadU(d, from_t + k * kBetweenWays), b.way[k]);
        from_max.way[k] = hn::Sub(b.way[k], max_g);
      });
      if constexpr (kNear) {
        WeightOfNegative(from_max, exp_g);
        ForEachWay([&](std::size_t k) HWY_ATTR {
          const VF x = apart.way[k] = hn::Sub(diff.way[k], max_diff);
          const VF cubic = hn::Add(hn::Set(d, 0.5f), hn::Mul(x, hn::Set(d, 0.16666667f)));
          exp_t.way[k] = hn::Mul(exp_g.way[k], hn::Add(one, hn::Mul(x, hn::Add(one, hn::Mul(x, cubic)))));
        });
      } else {
        ExpOfNegative(from_max, exp_g);
        ForEachWay([&](std::size_t k) HWY_ATTR {
          const VF from_max_t = hn::Sub(hn::LoadU(d, from_t + k * kBetweenWays), max_t);
          apart.way[k] = hn::Sub(from_max_t, from_max.way[k]);
          from_max.way[k] = from_max_t;
        });
        ExpOfNegative(from_max, exp_t);
      }
      ForEachWay([&](std::size_t k) HWY_ATTR {
        const VF magnitude = hn::Abs(diff.way[k]), size = hn::Abs(b.way[k]);
        const VF relative = hn::IfThenZeroElse(hn::Eq(magnitude, zero), hn::Div(magnitude, size));
        const auto counts = hn::Gt(size, epsilon);
        counted.way[k] = hn::IfThenElseZero(counts, magnitude);
        counted_relative.way[k] = hn::IfThenElseZero(counts, relative);
        weighted.way[k] = hn::IfThenZeroElse(hn::Eq(exp_g.way[k], zero), hn::Mul(exp_g.way[k], apart.way[k]));
        max_any = hn::Max(max_any, relative);
        max_abs = hn::Max(max_abs, counted.way[k]);
        max_relative = hn::Max(max_relative, counted_relative.way[k]);
      });
      sum_t.Add(exp_t, place);
      sum_g.Add(exp_g, place);
      sum_diff.Add(weighted, place);
      sum_abs.Add(counted, place);
      sum_relative.Add(counted_relative, place);
    }
  }
  sum_t.StoreTo(out.exp_t);
  sum_g.StoreTo(out.exp_g);
  sum_diff.StoreTo(out.exp_diff);
  sum_abs.StoreTo(out.abs);
  sum_relative.StoreTo(out.relative);
  plain::KeepMax(hn::GetLane(hn::MaxOfLanes(d, max_abs)), out.max_abs);
  plain::KeepMax(hn::GetLane(hn::MaxOfLanes(d, max_relative)), out.max_relative);
  plain::KeepMax(hn::GetLane(hn::MaxOfLanes(d, max_any)), out.max_any_relative);
  plain::Divergence(t, g, whole, n, parameters, out);
}

void Divergence(const float* t, const float* g, std::size_t n, const DivergenceParameters& parameters,
                DivergenceLanes& out) {
  parameters.near ? DivergenceOf<true>(t, g, n, parameters, out)
                  : DivergenceOf<false>(t, g, n, parameters, out);
}

#else  // registers of one lane have no halves

void Divergence(const float* t, const float* g, std::size_t n, const DivergenceParameters& parameters,
                DivergenceLanes& out) {
  plain::Divergence(t, g, 0, n, parameters, out);
}

#endif

template <class T>
void RelativeOfGolden(const T* t, const T* g, std::size_t n, RelativeLanes& out) {
  const D64 d64;
  const V64 zero = hn::Zero(d64), t1 = hn::Set(d64, 0.001), t5 = hn::Set(d64, 0.005);
  V64 max = zero;
  const std::size_t step = hn::Lanes(d64);
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    const V64 b = LoadAs(d64, g + i), magnitude = hn::Abs(hn::Sub(LoadAs(d64, t + i), b));
    const V64 relative = hn::IfThenZeroElse(hn::Eq(magnitude, zero), hn::Div(magnitude, hn::Abs(b)));
    max = hn::Max(max, relative);
    out.num_below_1e3 += hn::CountTrue(d64, hn::Lt(relative, t1));
    out.num_below_5e3 += hn::CountTrue(d64, hn::Lt(relative, t5));
  }
  plain::KeepMax(hn::GetLane(hn::MaxOfLanes(d64, max)), out.max);
  plain::RelativeOfGolden(t, g, i, n, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::internal
HWY_AFTER_NAMESPACE();

// One chunk of a pair: block by block through the kernels that the caller's groups name.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "measure/accumulate_internal.h"
#include "measure/plain_kernels_internal.h"

namespace vernier::internal {
namespace {

static_assert(std::tuple_size_v<decltype(MeasureOptions::thresholds)> == kNumAbsThresholds);

constexpr double kDoubleEpsilon = 0x1p-52, kFloatEpsilon = 0x1p-23;

bool IsFloatType(Dtype dtype) { return Class(dtype) == DtypeClass::kFloat; }
bool IsWideInteger(Dtype dtype) { return dtype == Dtype::kI64 || dtype == Dtype::kU64; }

void PlanRelative(Dtype target, Dtype golden, Relative definition, PairPlan& plan) {
  if (definition == Relative::kFloor) {
    plan.relative = RelativeKind::kFloor;
    return;
  }
  if (definition == Relative::kOfGolden) {
    plan.relative = RelativeKind::kOfGolden;
    return;
  }
  const bool current = definition == Relative::kAtLeastFloat32;
  const bool both_float = IsFloatType(target) && IsFloatType(golden);
  if (!both_float || plan.work_double) {
    plan.relative = RelativeKind::kDouble;
    plan.epsilon = kDoubleEpsilon;
  } else if (!current && target == Dtype::kF16 && golden == Dtype::kF16) {
    plan.relative = RelativeKind::kHalf;
  } else {
    plan.relative = RelativeKind::kOwnType;
    plan.epsilon = current ? kFloatEpsilon : kDoubleEpsilon;
  }
}

template <class W>
double AbsDiff(const W* t, const W* g, std::size_t i) {
  return std::abs(static_cast<double>(plain::LoadAt<W>(t, i)) - static_cast<double>(plain::LoadAt<W>(g, i)));
}

// The first element of a block whose difference is `max`. The kernel gives the maximum without its place;
// looking for it once a chunk costs less than carrying an index through the loop.
template <class W>
void FindWorst(const W* t, const W* g, std::size_t n, std::uint64_t first, double max,
               PairMeasures& measures) {
  for (std::size_t i = 0; i < n; ++i) {
    if (AbsDiff(t, g, i) != max) continue;
    measures.max_abs_diff_index = first + i;
    measures.max_abs_diff_target = plain::LoadAt<W>(t, i);
    measures.max_abs_diff_golden = plain::LoadAt<W>(g, i);
    return;
  }
}

void AddDiff(const PairLanes& lanes, PairMeasures& measures) {
  measures.dot += lanes.dot.Sum();
  measures.sum_sq_target += lanes.sq_t.Sum();
  measures.sum_sq_golden += lanes.sq_g.Sum();
  measures.sum_sq_diff += lanes.sq_d.Sum();
}

void AddRelative(const RelativeLanes& lanes, PairMeasures& measures) {
  measures.sum_relative += lanes.sum.Sum();
  plain::KeepMax(lanes.max, measures.max_relative);
  measures.relative_has_nan |= lanes.has_nan;
  measures.num_relative_below_1e3 += lanes.num_below_1e3;
  measures.num_relative_below_5e3 += lanes.num_below_5e3;
}

template <class Bits>
void AddUlpOneByOne(const void* t, const void* g, std::size_t n, const bool* special, std::uint64_t threshold,
                    PairMeasures& measures) {
  for (std::size_t i = 0; i < n; ++i) {
    if (special != nullptr && special[i]) continue;
    const std::uint64_t distance = plain::UlpDistance(plain::LoadAt<Bits>(t, i), plain::LoadAt<Bits>(g, i));
    measures.max_ulp = std::max(measures.max_ulp, distance);
    measures.num_ulp_above += distance > threshold;
    measures.sum_ulp += static_cast<double>(distance);
  }
}

// Special positions are zero on both sides here as well, and so have no distance.
template <class Bits>
void AddUlpByKernel(const UlpKernels& kernels, const void* t, const void* g, std::size_t n,
                    const bool* special, const MeasureOptions& options, PairMeasures& measures) {
  Bits target[kBlockElements], golden[kBlockElements];
  if (special != nullptr) {
    for (std::size_t i = 0; i < n; ++i) {
      const auto keep = static_cast<Bits>(special[i] - 1);
      target[i] = plain::LoadAt<Bits>(t, i) & keep;
      golden[i] = plain::LoadAt<Bits>(g, i) & keep;
    }
    t = target;
    g = golden;
  }
  if (!options.groups.Has(Group::kDetails)) {
    measures.max_ulp = std::max(measures.max_ulp, kernels.max(t, g, n));
    return;
  }
  UlpCounts counts;
  kernels.all(t, g, n, options.ulp_threshold, counts);
  measures.max_ulp = std::max(measures.max_ulp, counts.max);
  measures.num_ulp_above += counts.above;
  measures.sum_ulp += static_cast<double>(counts.sum);
}

// On the stored bits, since widening changes the distance between neighbours. `special` is null when all is
// finite.
void AddUlp(const PairPlan& plan, const Kernels& kernels, std::uint64_t first, std::size_t n,
            const bool* special, PairMeasures& measures) {
  const void* t = plan.target.data + plan.target.OffsetBytes(first);
  const void* g = plan.golden.data + plan.golden.OffsetBytes(first);
  switch (plan.ulp_bits) {
    case 8:
      return AddUlpOneByOne<std::uint8_t>(t, g, n, special, plan.options.ulp_threshold, measures);
    case 16:
      return AddUlpByKernel<std::uint16_t>(kernels.ulp16, t, g, n, special, plan.options, measures);
    case 32:
      return AddUlpByKernel<std::uint32_t>(kernels.ulp32, t, g, n, special, plan.options, measures);
    case 64:
      return AddUlpOneByOne<std::uint64_t>(t, g, n, special, plan.options.ulp_threshold, measures);
  }
}

__int128 WideAt(const Reader& reader, std::uint64_t index) {
  const std::byte* at = reader.data + reader.OffsetBytes(index);
  return reader.number == Dtype::kU64 ? static_cast<__int128>(plain::LoadAt<std::uint64_t>(at, 0))
                                      : static_cast<__int128>(plain::LoadAt<std::int64_t>(at, 0));
}

// 64-bit integers that double rounds to the same value may still differ: counts and the worst element are
// exact.
void AddExactIntegers(const PairPlan& plan, std::uint64_t first, std::size_t n, PairMeasures& measures) {
  for (std::uint64_t i = first; i < first + n; ++i) {
    const __int128 t = WideAt(plan.target, i), g = WideAt(plan.golden, i), d = t > g ? t - g : g - t;
    const double magnitude = static_cast<double>(d);
    measures.num_close +=
        d == 0 || magnitude <= measures.atol + measures.rtol * std::abs(static_cast<double>(g));
    measures.num_target_greater += t > g;
    measures.num_target_less += t < g;
    measures.min_abs_diff = std::min(measures.min_abs_diff, magnitude);
    measures.num_error_above += d != 0 && magnitude > plan.options.error_above;
    if (magnitude > measures.max_abs_diff || (i == 0 && d == 0)) {
      measures.max_abs_diff = magnitude;
      measures.max_abs_diff_index = i;
      measures.max_abs_diff_target = static_cast<double>(t);
      measures.max_abs_diff_golden = static_cast<double>(g);
    }
  }
}

unsigned PartsOf(const PairPlan& plan) {
  const Groups groups = plan.options.groups;
  return (groups.Has(Group::kStats) ? kPartStats : 0u) |
         (plan.relative == RelativeKind::kFloor ? kPartRelative : 0u) |
         (groups.Has(Group::kClose) ? kPartClose : 0u) | (groups.Has(Group::kErrors) ? kPartErrors : 0u);
}

template <class W>
class ChunkMeasurer {
 public:
  ChunkMeasurer(const PairPlan& plan, const Kernels& kernels, const TypedKernels<W>& typed)
      : plan_(plan),
        kernels_(kernels),
        typed_(typed),
        groups_(plan.options.groups),
        parameters_{
            plan.options.relative_floor, plan.options.rtol, plan.options.atol, plan.options.error_above, {}},
        pair_kernel_(typed.pair[PartsOf(plan)]) {
    measures_.rtol = plan.options.rtol;
    measures_.atol = plan.options.atol;
    measures_.has_ulp = plan.ulp_bits != 0;
  }

  PairMeasures Run(std::uint64_t first, std::uint64_t count) {
    measures_.num_elements = count;
    worst_block_ = first;
    for (std::uint64_t done = 0; done < count; done += kBlockElements) {
      const bool is_last = count - done <= kBlockElements;
      LookAhead(first + done + (is_last ? 0 : kBlockElements));
      AddBlock(first + done, BlockSize(done, count));
    }
    if (count > 0 && !plan_.exact_integers) LookAtWorst(BlockSize(worst_block_ - first, count));
    return measures_;
  }

 private:
  static std::size_t BlockSize(std::uint64_t done, std::uint64_t count) {
    return static_cast<std::size_t>(std::min<std::uint64_t>(kBlockElements, count - done));
  }

  void LookAhead(std::uint64_t next) {
    const auto at = [&](const Reader& reader) {
      return reader.source == nullptr ? reader.data + reader.OffsetBytes(next) : nullptr;
    };
    const auto step = [](const Reader& reader) {
      return reader.source == nullptr ? ItemBytes(reader.number) : 0;
    };
    parameters_.next = {at(plan_.target), at(plan_.golden), step(plan_.target), step(plan_.golden)};
  }

  SpecialBlock<W>& Scratch() {
    if (!special_block_) special_block_ = std::make_unique<SpecialBlock<W>>();
    return *special_block_;
  }

  void LookAtWorst(std::size_t n) {
    const W* t = ReadBlock(plan_.target, worst_block_, n, kernels_, target_buffer_);
    const W* g = ReadBlock(plan_.golden, worst_block_, n, kernels_, golden_buffer_);
    PairMeasures counted_already;
    if (measures_.num_special() > 0) {
      ZeroSpecials(t, g, n, worst_block_, Scratch(), counted_already);
      t = Scratch().target;
      g = Scratch().golden;
    }
    FindWorst(t, g, n, worst_block_, measures_.max_abs_diff, measures_);
  }

  void AddBlock(std::uint64_t first, std::size_t n) {
    const W* t = ReadBlock(plan_.target, first, n, kernels_, target_buffer_);
    const W* g = ReadBlock(plan_.golden, first, n, kernels_, golden_buffer_);
    PairLanes lanes;
    pair_kernel_(t, g, n, parameters_, lanes);
    const bool* special = nullptr;
    // Squares tell for free whether anything is not finite; huge doubles raise a false alarm and change
    // nothing.
    const bool is_finite = std::isfinite(lanes.sq_t.Sum() + lanes.sq_g.Sum());
    if (groups_.Has(Group::kPrecheck))
      AddPrecheckBlock(t, g, n, is_finite, typed_, plan_.options.precheck, measures_.precheck);
    if (is_finite) {
      if (groups_.Has(Group::kStats)) AddStats(lanes, n);
    } else {
      if (groups_.Has(Group::kStats)) {
        AddStatsBlock(t, n, typed_, StatsParts{}, measures_.target);
        AddStatsBlock(g, n, typed_, StatsParts{}, measures_.golden);
      }
      ZeroSpecials(t, g, n, first, Scratch(), measures_);
      t = Scratch().target;
      g = Scratch().golden;
      special = Scratch().special;
      lanes = PairLanes{};
      pair_kernel_(t, g, n, parameters_, lanes);
    }
    AddDiff(lanes, measures_);
    AddRelative(plan_.relative == RelativeKind::kFloor ? lanes.relative : OtherRelative(t, g, n), measures_);
    if (groups_.Has(Group::kThresholds))
      typed_.thresholds(t, g, n, plan_.options.thresholds.data(), measures_.num_abs_above.data());
    if (groups_.Has(Group::kUlp)) AddUlp(plan_, kernels_, first, n, special, measures_);
    if (groups_.Has(Group::kDetails)) AddDetails(t, g, n);
    if constexpr (std::is_same_v<W, float>) {
      if (groups_.Has(Group::kDivergence)) AddDivergence(t, g, n, lanes);
    }
    if (plan_.exact_integers) return AddExactIntegers(plan_, first, n, measures_);
    if (const double max = lanes.max_abs_d.Max(); max > measures_.max_abs_diff) {
      measures_.max_abs_diff = max;
      worst_block_ = first;
    }
    measures_.num_close += lanes.num_close;
    if (groups_.Has(Group::kErrors)) AddErrors(lanes, t, g, n, special);
  }

  // Special positions are zero on both sides, and are no difference of zero unless they agree.
  void AddErrors(const PairLanes& lanes, const W* t, const W* g, std::size_t n, const bool* special) {
    measures_.num_error_above += lanes.num_above;
    double& min = measures_.min_abs_diff;
    if (special == nullptr) {
      min = std::min(min, lanes.min_abs_d);
      return;
    }
    for (std::size_t i = 0; i < n; ++i) {
      if (!special[i]) min = std::min(min, AbsDiff(t, g, i));
    }
    if (measures_.num_both_nan + measures_.num_both_same_inf > 0) min = 0;
  }

  void AddDetails(const W* t, const W* g, std::size_t n) {
    DetailLanes lanes;
    typed_.details(t, g, n, parameters_.floor, lanes);
    measures_.sum_abs_diff += lanes.abs_d.Sum();
    measures_.sum_diff += lanes.d.Sum();
    if (plan_.relative == RelativeKind::kFloor) {
      measures_.num_relative_below_1e3 += lanes.num_below_1e3;
      measures_.num_relative_below_5e3 += lanes.num_below_5e3;
    }
    if (plan_.exact_integers) return;  // counted by AddExactIntegers
    measures_.num_target_greater += lanes.greater;
    measures_.num_target_less += lanes.less;
  }

  void AddDivergence(const float* t, const float* g, std::size_t n, const PairLanes& block) {
    DivergenceParameters parameters{static_cast<float>(block.max_t), static_cast<float>(block.max_g)};
    parameters.near =
        block.max_abs_d.Max() + std::abs(block.max_t - block.max_g) <= DivergenceParameters::kNearDistance;
    DivergenceLanes lanes;
    kernels_.divergence(t, g, n, parameters, lanes);
    DivergenceMeasures next;
    next.max_target = block.max_t;
    next.max_golden = block.max_g;
    next.sum_exp_target = lanes.exp_t.Sum();
    next.sum_exp_golden = lanes.exp_g.Sum();
    next.sum_exp_diff = lanes.exp_diff.Sum();
    next.max_abs = lanes.max_abs;
    next.sum_abs = lanes.abs.Sum();
    next.max_relative = lanes.max_relative;
    next.sum_relative = lanes.relative.Sum();
    // A verdict may hang on the last digit: only what is surely better than another block, and surely below
    // the lower threshold, is passed over. Float is off by less than kSlack.
    constexpr double kSlack = 1 + 0x1p-20, kThreshold = 0.001;
    const double worst = static_cast<double>(lanes.max_any_relative) * kSlack;
    if (worst >= kThreshold || (worst > 0 && worst >= measures_.divergence.max_any_relative)) {
      RelativeLanes exact;
      kernels_.f32.relative_of_golden(t, g, n, exact);
      next.max_any_relative = exact.max;
      next.num_below_1e3 = exact.num_below_1e3;
      next.num_below_5e3 = exact.num_below_5e3;
    } else {
      next.num_below_1e3 = next.num_below_5e3 = n;
    }
    Merge(measures_.divergence, next);
  }

  void AddStats(const PairLanes& lanes, std::size_t n) {
    Merge(measures_.target, FiniteStats(n, lanes.min_t, lanes.max_t, lanes.sum_t, lanes.sq_t));
    Merge(measures_.golden, FiniteStats(n, lanes.min_g, lanes.max_g, lanes.sum_g, lanes.sq_g));
  }

  RelativeLanes OtherRelative(const W* t, const W* g, std::size_t n) const {
    RelativeLanes lanes;
    if (plan_.relative == RelativeKind::kOwnType) typed_.relative_own(t, g, n, plan_.epsilon, lanes);
    if (plan_.relative == RelativeKind::kDouble) typed_.relative_double(t, g, n, plan_.epsilon, lanes);
    if (plan_.relative == RelativeKind::kOfGolden) typed_.relative_of_golden(t, g, n, lanes);
    if constexpr (std::is_same_v<W, float>) {
      if (plan_.relative == RelativeKind::kHalf) kernels_.relative_half(t, g, n, lanes);
    }
    return lanes;
  }

  const PairPlan& plan_;
  const Kernels& kernels_;
  const TypedKernels<W>& typed_;
  const Groups groups_;
  PairParameters parameters_;
  void (*const pair_kernel_)(const W*, const W*, std::size_t, const PairParameters&, PairLanes&);
  PairMeasures measures_;
  std::uint64_t worst_block_ = 0;  // first number of the block with the largest difference so far
  std::unique_ptr<SpecialBlock<W>> special_block_;
  alignas(64) W target_buffer_[kBlockElements];
  alignas(64) W golden_buffer_[kBlockElements];
};

template <class W>
void KeepFirstMismatch(const W* t, const W* g, std::size_t n, std::uint64_t first, PairMeasures& measures) {
  if (measures.first_special_mismatch != kNoIndex) return;
  for (std::size_t i = 0; i < n; ++i) {
    const W a = plain::LoadAt<W>(t, i), b = plain::LoadAt<W>(g, i);
    if ((std::isfinite(a) && std::isfinite(b)) || a == b || (a != a && b != b)) continue;
    measures.first_special_mismatch = first + i;
    measures.special_mismatch_target = a;
    measures.special_mismatch_golden = b;
    return;
  }
}

}  // namespace

template <class W>
void ZeroSpecials(const W* t, const W* g, std::size_t n, std::uint64_t first, SpecialBlock<W>& block,
                  PairMeasures& measures) {
  // Without branches: masks full of -inf are everyday data.
  constexpr W kMax = std::numeric_limits<W>::max();
  std::uint32_t both_nan = 0, same_inf = 0, opposite_inf = 0, nan_t_only = 0, nan_g_only = 0, inf_t_only = 0,
                inf_g_only = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const W a = plain::LoadAt<W>(t, i), b = plain::LoadAt<W>(g, i);
    const bool nan_t = a != a, nan_g = b != b, inf_t = std::abs(a) > kMax, inf_g = std::abs(b) > kMax;
    const bool special = nan_t | nan_g | inf_t | inf_g;
    block.special[i] = special;
    block.target[i] = special ? W(0) : a;
    block.golden[i] = special ? W(0) : b;
    both_nan += nan_t & nan_g;
    same_inf += inf_t & (a == b);
    opposite_inf += inf_t & inf_g & (a != b);
    nan_t_only += nan_t & !nan_g;
    nan_g_only += nan_g & !nan_t;
    inf_t_only += inf_t & !inf_g & !nan_g;
    inf_g_only += inf_g & !inf_t & !nan_t;
  }
  measures.num_both_nan += both_nan;
  measures.num_both_same_inf += same_inf;
  measures.num_opposite_inf += opposite_inf;
  measures.num_nan_target_only += nan_t_only;
  measures.num_nan_golden_only += nan_g_only;
  measures.num_inf_target_only += inf_t_only;
  measures.num_inf_golden_only += inf_g_only;
  if (measures.num_special_mismatches() > 0) KeepFirstMismatch(t, g, n, first, measures);
}
template void ZeroSpecials(const float*, const float*, std::size_t, std::uint64_t, SpecialBlock<float>&,
                           PairMeasures&);
template void ZeroSpecials(const double*, const double*, std::size_t, std::uint64_t, SpecialBlock<double>&,
                           PairMeasures&);

Result<PairPlan> PlanPair(const TensorView& target, const TensorView& golden, const MeasureOptions& options) {
  if (target.num_elements != golden.num_elements) {
    return Error{ErrorCode::kShapeMismatch, "",
                 ShapeText(target.shape) + " against " + ShapeText(golden.shape)};
  }
  PairPlan plan;
  plan.options = options;
  const Tolerance tolerance = DefaultTolerance(target.dtype, golden.dtype);
  if (options.rtol < 0) plan.options.rtol = tolerance.rtol;
  if (options.atol < 0) plan.options.atol = tolerance.atol;
  const bool complex_target = Class(target.dtype) == DtypeClass::kComplex;
  const bool complex_golden = Class(golden.dtype) == DtypeClass::kComplex;
  plan.is_complex = (complex_target || complex_golden) && !options.real_part_only;
  plan.target = MakeReader(target, {options.real_part_only, options.as_float32, complex_golden});
  plan.golden = MakeReader(golden, {options.real_part_only, options.as_float32, complex_target});
  plan.work_double = !FitsFloat(plan.target) || !FitsFloat(plan.golden);
  plan.exact_integers = IsWideInteger(target.dtype) && IsWideInteger(golden.dtype) && !options.as_float32;
  if (options.groups.Has(Group::kRelative)) {
    // By the stored types: the real part of a complex number is no float32 to the reference.
    PlanRelative(target.dtype, golden.dtype, options.relative, plan);
  }
  if (options.groups.Has(Group::kUlp) && target.dtype == golden.dtype && IsFloatType(target.dtype)) {
    plan.ulp_bits = static_cast<int>(8 * ItemBytes(target.dtype));
  }
  return plan;
}

PairMeasures MeasurePairChunk(const PairPlan& plan, const Kernels& kernels, std::uint64_t first,
                              std::uint64_t count) {
  if (plan.work_double) return ChunkMeasurer<double>(plan, kernels, kernels.f64).Run(first, count);
  return ChunkMeasurer<float>(plan, kernels, kernels.f32).Run(first, count);
}

// exp(x) for x <= 0, with nothing but additions and products: the same bits on every machine.
static double ExpOfNegative(double x) {
  constexpr double kLowest = -700, kLn2 = 0.6931471805599453;
  if (!(x > kLowest)) return 0;
  const double n = std::nearbyint(x / kLn2), r = x - n * kLn2;
  constexpr int kNumTerms = 18;
  double sum = 1;
  for (int i = kNumTerms; i > 0; --i) sum = 1 + r / i * sum;
  return std::ldexp(sum, static_cast<int>(n));
}

void Merge(DivergenceMeasures& m, const DivergenceMeasures& next) {
  const bool is_first = m.sum_exp_golden == 0;
  const double max_target = is_first ? next.max_target : std::max(m.max_target, next.max_target);
  const double max_golden = is_first ? next.max_golden : std::max(m.max_golden, next.max_golden);
  // The sums of one part, of the distances to the maxima of both.
  const auto moved = [&](const DivergenceMeasures& part) {
    const double scale_target = ExpOfNegative(part.max_target - max_target);
    const double scale_golden = ExpOfNegative(part.max_golden - max_golden);
    const double shift = (part.max_target - max_target) - (part.max_golden - max_golden);
    DivergenceMeasures sums;
    sums.sum_exp_target = part.sum_exp_target * scale_target;
    sums.sum_exp_golden = part.sum_exp_golden * scale_golden;
    sums.sum_exp_diff =
        scale_golden == 0 ? 0 : (part.sum_exp_diff + part.sum_exp_golden * shift) * scale_golden;
    return sums;
  };
  const DivergenceMeasures before = is_first ? DivergenceMeasures() : moved(m), after = moved(next);
  m.sum_exp_target = before.sum_exp_target + after.sum_exp_target;
  m.sum_exp_golden = before.sum_exp_golden + after.sum_exp_golden;
  m.sum_exp_diff = before.sum_exp_diff + after.sum_exp_diff;
  m.max_target = max_target;
  m.max_golden = max_golden;
  m.max_abs = std::max(m.max_abs, next.max_abs);
  m.max_relative = std::max(m.max_relative, next.max_relative);
  m.max_any_relative = std::max(m.max_any_relative, next.max_any_relative);
  using D = DivergenceMeasures;
  AddMembers(m, next, &D::sum_abs, &D::sum_relative, &D::num_below_1e3, &D::num_below_5e3);
}

void Merge(PairMeasures& m, const PairMeasures& next) {
  if (next.max_abs_diff > m.max_abs_diff || m.num_elements == 0) {
    m.max_abs_diff = next.max_abs_diff;
    m.max_abs_diff_index = next.max_abs_diff_index;
    m.max_abs_diff_target = next.max_abs_diff_target;
    m.max_abs_diff_golden = next.max_abs_diff_golden;
  }
  if (m.first_special_mismatch == kNoIndex) {
    m.first_special_mismatch = next.first_special_mismatch;
    m.special_mismatch_target = next.special_mismatch_target;
    m.special_mismatch_golden = next.special_mismatch_golden;
  }
  using M = PairMeasures;
  AddMembers(m, next, &M::num_elements, &M::dot, &M::sum_sq_target, &M::sum_sq_golden, &M::sum_sq_diff,
             &M::sum_abs_diff, &M::sum_diff, &M::num_both_nan, &M::num_both_same_inf, &M::num_opposite_inf,
             &M::num_nan_target_only, &M::num_nan_golden_only, &M::num_inf_target_only,
             &M::num_inf_golden_only, &M::sum_relative, &M::num_relative_below_1e3,
             &M::num_relative_below_5e3, &M::num_close, &M::num_target_greater, &M::num_target_less,
             &M::num_ulp_above, &M::sum_ulp, &M::num_error_above);
  Merge(m.target, next.target);
  Merge(m.golden, next.golden);
  m.max_relative = std::max(m.max_relative, next.max_relative);
  m.min_abs_diff = std::min(m.min_abs_diff, next.min_abs_diff);
  m.relative_has_nan |= next.relative_has_nan;
  m.rtol = next.rtol;
  m.atol = next.atol;
  m.has_ulp = next.has_ulp;
  m.max_ulp = std::max(m.max_ulp, next.max_ulp);
  for (std::size_t i = 0; i < m.num_abs_above.size(); ++i) m.num_abs_above[i] += next.num_abs_above[i];
  Merge(m.precheck, next.precheck);
  if (next.divergence.sum_exp_golden > 0) Merge(m.divergence, next.divergence);
}

}  // namespace vernier::internal

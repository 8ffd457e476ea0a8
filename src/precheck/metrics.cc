#include "precheck/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

namespace vernier::precheck {
namespace {

// Values of a float or double tensor, divided by `divisor`, as To.
template <class To>
TensorView Converted(const TensorView& view, Dtype to, double divisor) {
  const auto values = std::make_shared<std::vector<To>>(view.num_elements);
  const auto convert = [&](auto type) {
    using From = typename decltype(type)::type;
    for (std::size_t i = 0; i < values->size(); ++i) {
      From value;
      std::memcpy(&value, view.data + i * sizeof(From), sizeof(From));
      (*values)[i] = static_cast<To>(divisor == 1 ? value : value / divisor);
    }
  };
  view.dtype == Dtype::kF64 ? convert(std::type_identity<double>{}) : convert(std::type_identity<float>{});
  TensorView converted = view;
  converted.dtype = to;
  converted.data = reinterpret_cast<const std::byte*>(values->data());
  converted.owner = values;
  converted.file = nullptr;
  return converted;
}

}  // namespace

ComparedPair ComparedPair::Of(const PairOfTensors& pair) {
  ComparedPair compared{pair.bench, pair.device, pair.device_dtype, false};
  if (pair.device_dtype == Dtype::kBF16 && pair.bench.dtype == Dtype::kF64)
    compared.bench = Converted<float>(pair.bench, Dtype::kF32, 1);
  compared.in_double = compared.bench.dtype == Dtype::kF64 || compared.device.dtype == Dtype::kF64;
  return compared;
}

Result<Metrics> Metrics::Measure(const JudgeSettings& settings, const ComparedPair& pair, Standard standard,
                                 bool everything) {
  Metrics metrics;
  metrics.rules_ = settings.rules;
  metrics.thresholds_ = settings.thresholds;
  metrics.pair_ = pair;
  MeasureOptions& options = metrics.options_;
  options.groups = Group::kDiff | Group::kPrecheck;
  options.num_threads = settings.num_threads;
  options.precheck =
      OptionsOf(*settings.rules, settings.thresholds, standard, pair.device_dtype, pair.bench.dtype);
  options.precheck.ulp = everything || standard == Standard::kUlp;
  options.precheck.ranges = standard == Standard::kBenchmark || standard == Standard::kAbsolute ||
                            standard == Standard::kAccumulative;
  options.precheck.duals = everything || standard == Standard::kBinary || standard == Standard::kDual1000;
  metrics.has_duals_ = options.precheck.duals;
  VN_ASSIGN_OR_RETURN(metrics.measures_, MeasurePair(pair.device, pair.bench, options));
  return metrics;
}

double Metrics::Rmse() const {
  constexpr double kLittle = 0.0001;
  const double mean = p().normal_sum_sq_diff / n();
  return std::sqrt(mean * (n() / (static_cast<double>(p().num_normal) + kLittle) + kLittle));
}

double Metrics::MeanRelative() const {
  return p().num_normal == 0 ? 0 : p().normal_sum_relative / static_cast<double>(p().num_normal);
}

double Metrics::Balance() const {
  const auto greater = static_cast<double>(p().num_target_greater);
  return std::abs(greater - static_cast<double>(p().num_target_less)) / n();
}

double Metrics::InfNanErrorRate() const {
  if (thresholds_ == Thresholds::kPeer) return Share(p().num_special_mismatches, p().num_special);
  return static_cast<double>(p().num_special_mismatches) / n();
}

double Metrics::ShareBelow(int k) {
  if (!has_duals_) {
    MeasureOptions options = options_;
    options.precheck.ulp = options.precheck.ranges = false;
    options.precheck.duals = true;
    const Result<PairMeasures> measured = MeasurePair(pair_.device, pair_.bench, options);
    if (!measured) return std::numeric_limits<double>::quiet_NaN();  // it could be measured a moment ago
    const PrecheckMeasures& duals = measured->precheck;
    measures_.precheck.num_below_1e2 = duals.num_below_1e2;
    measures_.precheck.num_below_1e3 = duals.num_below_1e3;
    measures_.precheck.num_below_1e4 = duals.num_below_1e4;
    has_duals_ = true;
  }
  const std::uint64_t below = k == 100    ? p().num_below_1e2
                              : k == 1000 ? p().num_below_1e3
                                          : p().num_below_1e4;
  return static_cast<double>(below) / n();
}

double Metrics::Severity() const {
  const double error = MaxAbs(), size = p().max_abs_golden;
  if (!std::isfinite(error) || !std::isfinite(size)) return std::numeric_limits<double>::infinity();
  return size > 0 ? error / size : error;
}

double Metrics::MeasuredCosine() const {
  const PairMeasures& m = measures_;
  if (m.num_special() > 0) return std::numeric_limits<double>::quiet_NaN();
  const auto cosine = [](const PairMeasures& of) {
    return of.dot / (std::sqrt(of.sum_sq_target) * std::sqrt(of.sum_sq_golden));
  };
  if (std::isfinite(m.sum_sq_target) && std::isfinite(m.sum_sq_golden) && std::isfinite(m.dot))
    return cosine(m);
  // Squares of doubles beyond 1e154 overflow: the same with each side divided by its largest value.
  MeasureOptions options;
  options.groups = Groups(Group::kDiff);
  const Result<PairMeasures> scaled =
      MeasurePair(Converted<double>(pair_.device, Dtype::kF64, p().max_abs_target),
                  Converted<double>(pair_.bench, Dtype::kF64, p().max_abs_golden), options);
  return scaled ? cosine(*scaled) : std::numeric_limits<double>::quiet_NaN();
}

Metrics::Gate Metrics::Cosine() const {
  if (measures_.num_elements == 1) return {{}, true, "one element: cosine not defined"};
  const double nearly_zero = rules_->Number("gates.nearly_zero");
  const bool device_zero = p().max_abs_target <= nearly_zero, bench_zero = p().max_abs_golden <= nearly_zero;
  if (device_zero && bench_zero) return {{}, true, "both sides are zero"};
  if (device_zero) return {{}, false, "device is all zero"};
  if (bench_zero) return {{}, false, "bench is all zero"};
  const double cosine = std::clamp(MeasuredCosine(), -1.0, 1.0);
  if (std::isnan(cosine)) return {cosine, true, "cosine not defined: NaN or inf present"};
  return {cosine, cosine > rules_->Number("gates.cosine")};
}

Metrics::Gate Metrics::MaxAbsGate() const {
  const double limit = rules_->Number("gates.max_abs");
  return {MaxAbs(), MaxAbs() < (pair_.in_double ? limit : static_cast<float>(limit))};
}

}  // namespace vernier::precheck

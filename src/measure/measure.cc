#include "vernier/measure.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "measure/kernels_internal.h"

namespace vernier {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

double Mean(double sum, std::uint64_t count) { return count == 0 ? kNan : sum / static_cast<double>(count); }

}  // namespace

double TensorStats::Max() const {
  if (num_elements == 0 || num_nan > 0) return kNan;
  if (num_pos_inf > 0) return kInf;
  return num_finite() > 0 ? finite_max : -kInf;
}

double TensorStats::Min() const {
  if (num_elements == 0 || num_nan > 0) return kNan;
  if (num_neg_inf > 0) return -kInf;
  return num_finite() > 0 ? finite_min : kInf;
}

double TensorStats::Mean() const {
  if (num_elements == 0 || num_nan > 0 || (num_pos_inf > 0 && num_neg_inf > 0)) return kNan;
  if (num_pos_inf > 0) return kInf;
  if (num_neg_inf > 0) return -kInf;
  return finite_sum / static_cast<double>(num_elements);
}

double TensorStats::Norm() const {
  if (num_nan > 0) return kNan;
  return num_pos_inf + num_neg_inf > 0 ? kInf : std::sqrt(finite_sum_sq);
}

double TensorStats::MaxAbs() const {
  if (num_elements == 0 || num_nan > 0) return kNan;
  return num_pos_inf + num_neg_inf > 0 ? kInf : std::max(std::abs(finite_min), std::abs(finite_max));
}

double TensorStats::Std() const {
  if (num_elements < 2 || num_finite() != num_elements) return kNan;
  return std::sqrt(centered_sum_sq / static_cast<double>(num_elements - 1));
}

std::uint64_t PairMeasures::num_special_mismatches() const {
  return num_opposite_inf + num_nan_target_only + num_nan_golden_only + num_inf_target_only +
         num_inf_golden_only;
}

std::uint64_t PairMeasures::num_special() const {
  return num_both_nan + num_both_same_inf + num_special_mismatches();
}

double PairMeasures::Cosine() const {
  if (sum_sq_target == 0 && sum_sq_golden == 0) return 1;
  if (sum_sq_target == 0 || sum_sq_golden == 0) return 0;
  // The root of the product gives exactly 1 for equal tensors; two roots where the product leaves the range
  // of double.
  const double product = sum_sq_target * sum_sq_golden;
  const double norms =
      std::isnormal(product) ? std::sqrt(product) : std::sqrt(sum_sq_target) * std::sqrt(sum_sq_golden);
  const double cosine = dot / norms;
  return std::isnan(cosine) ? kNan : std::clamp(cosine, -1.0, 1.0);
}

double PairMeasures::Rmse() const { return std::sqrt(Mean(sum_sq_diff, num_elements)); }
double PairMeasures::MeanAbsDiff() const { return Mean(sum_abs_diff, num_elements); }
double PairMeasures::MeanRelative() const { return Mean(sum_relative, num_elements); }
double PairMeasures::Bias() const { return Mean(sum_diff, num_elements); }
double PairMeasures::MeanUlp() const { return Mean(sum_ulp, num_elements); }

double DivergenceMeasures::SoftmaxDivergence() const {
  if (sum_exp_golden <= 0 || sum_exp_target <= 0) return 0;
  // ln p - ln q of an element is its difference less what is the same for all of them.
  const double divergence =
      -sum_exp_diff / sum_exp_golden - (std::log(sum_exp_golden) - std::log(sum_exp_target));
  // Rounded, because logarithms differ in their last bit from one machine to the next.
  return std::max(0.0f, static_cast<float>(divergence));
}

std::string_view ActiveTargetName() { return internal::ActiveKernels().name; }
std::vector<std::string_view> TargetNames() { return internal::AvailableTargets(); }

Tolerance DefaultTolerance(Dtype target, Dtype golden) {
  const auto one = [](Dtype dtype) -> Tolerance {
    switch (dtype) {
      case Dtype::kF64:
      case Dtype::kC128:
        return {1e-7, 1e-7};
      case Dtype::kF32:
      case Dtype::kC64:
        return {1.3e-6, 1e-5};
      case Dtype::kF16:
        return {1e-3, 1e-5};
      case Dtype::kBF16:
        return {1.6e-2, 1e-5};
      default:
        return {0, 0};  // integers, bool and 8-bit floats: equal
    }
  };
  const Tolerance a = one(target), b = one(golden);
  return {std::max(a.rtol, b.rtol), std::max(a.atol, b.atol)};
}

}  // namespace vernier

// The numbers that gates and standards are judged by, from what was measured.
#pragma once

#include <optional>
#include <string_view>

#include "precheck/judge.h"
#include "vernier/measure.h"

namespace vernier::precheck {

// A pair as it is compared: a bfloat16 device is compared in float32, both sides.
struct ComparedPair {
  TensorView bench, device;
  Dtype device_dtype = Dtype::kF32;
  bool in_double = false;  // the wider of the two stored precisions

  static ComparedPair Of(const PairOfTensors& pair);
};

class Metrics {
 public:
  // `everything`: also what the standard has no use for; otherwise the shares of the gates are measured when
  // they are asked for, which most outputs never are.
  static Result<Metrics> Measure(const JudgeSettings& settings, const ComparedPair& pair, Standard standard,
                                 bool everything);

  double SmallValueErrorRatio() const { return Share(p().num_small_errors, p().num_small); }
  double Rmse() const;
  double MaxRelative() const { return p().normal_max_relative; }
  double MeanRelative() const;
  double Balance() const;
  double InfNanErrorRate() const;
  double RelativeErrorRate() const { return Share(p().num_normal_errors, p().num_normal); }
  double AbsoluteErrorRate() const { return Share(p().num_small_errors, p().num_small); }
  double MaxUlp() const { return p().max_ulp; }
  double MeanUlp() const { return p().sum_ulp / n(); }
  double UlpShare() const { return static_cast<double>(p().num_ulp_above) / n(); }
  double BinaryErrorRate() const {  // REQUIRES: measured for the binary standard, or everything
    return static_cast<double>(p().num_unequal) / n();
  }
  double MaxAbs() const { return p().max_abs_diff; }
  double ShareBelow(int k);  // of relative errors below 1/k; k: 100, 1000, 10000
  // The error beside the size of the bench's values.
  double Severity() const;

  struct Gate {
    std::optional<double> value;
    bool passes = false;
    std::string_view remark = {};
  };
  Gate Cosine() const;
  Gate MaxAbsGate() const;
  Gate DualGate(int k) { return {ShareBelow(k), ShareBelow(k) > 1 - 1.0 / k}; }

 private:
  const PrecheckMeasures& p() const { return measures_.precheck; }
  double n() const { return static_cast<double>(measures_.num_elements); }
  static double Share(std::uint64_t some, std::uint64_t all) {
    return all == 0 ? 0 : static_cast<double>(some) / static_cast<double>(all);
  }
  double MeasuredCosine() const;

  const Rules* rules_ = nullptr;
  Thresholds thresholds_ = Thresholds::kManual;
  ComparedPair pair_;
  MeasureOptions options_;
  bool has_duals_ = false;
  PairMeasures measures_;
};

}  // namespace vernier::precheck

#include "precheck/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "precheck/metrics.h"

namespace vernier::precheck {
namespace {

std::string TorchName(Dtype dtype) { return "torch." + std::string(Name(dtype)); }

// Only values of one class can be compared.
enum class Comparable { kFloat, kTruth, kInteger, kNever };
Comparable ComparableClass(Dtype dtype) {
  switch (Class(dtype)) {
    case DtypeClass::kFloat:
      return Comparable::kFloat;
    case DtypeClass::kBool:
      return Comparable::kTruth;
    case DtypeClass::kComplex:
      return Comparable::kNever;
    default:
      return dtype == Dtype::kU8 ? Comparable::kTruth : Comparable::kInteger;
  }
}

// A row in the making: the cells of one pair of tensors, gate after gate.
class TensorJudge {
 public:
  TensorJudge(const JudgeSettings& settings, std::string_view api, const PairOfTensors& pair)
      : settings_(settings), api_(api), pair_(pair) {}

  Result<DetailsRow> Judge() {
    row_[Detail::kBenchDtype] = TorchName(pair_.bench.dtype);
    row_[Detail::kDeviceDtype] = TorchName(pair_.device_dtype);
    row_[Detail::kShape] = ShapeTuple(pair_.device.shape);
    if (pair_.bench.shape != pair_.device.shape)
      return Mismatch("shape", ShapeTuple(pair_.bench.shape), ShapeTuple(pair_.device.shape));
    const Comparable device = ComparableClass(pair_.device_dtype);
    // Both sides become float32 where the device has bfloat16.
    const Comparable bench =
        pair_.device_dtype == Dtype::kBF16 && ComparableClass(pair_.bench.dtype) != Comparable::kNever
            ? Comparable::kFloat
            : ComparableClass(pair_.bench.dtype);
    if (device == Comparable::kNever && bench == Comparable::kNever)
      return Skip(fmt::format("{}: complex numbers are not supported", TorchName(pair_.device_dtype)));
    if (bench != device)
      return Mismatch("dtype", TorchName(pair_.bench.dtype), TorchName(pair_.device_dtype));
    if (pair_.device.num_elements == 0) return Skip("no elements");
    return bench == Comparable::kFloat ? JudgeFloats() : JudgeIntegers();
  }

 private:
  Result<DetailsRow> Mismatch(std::string_view what, const std::string& bench, const std::string& device) {
    const DetailsRow mismatch = MismatchRow(what, bench, device);
    row_.status = mismatch.status;
    row_.message = mismatch.message;
    row_.failed_by = mismatch.failed_by;
    row_.severity = mismatch.severity;
    return row_;
  }
  Result<DetailsRow> Skip(std::string_view reason) {
    row_.status = Verdict::kSkip;
    row_.Say(reason);
    return row_;
  }

  Result<DetailsRow> JudgeIntegers() {
    MeasureOptions options;
    options.groups = Group::kDiff | Group::kDetails;
    options.num_threads = settings_.num_threads;
    VN_ASSIGN_OR_RETURN(const PairMeasures measures, MeasurePair(pair_.device, pair_.bench, options));
    if (std::find(settings_.quantised.begin(), settings_.quantised.end(), api_) != settings_.quantised.end())
      return JudgeQuantised(measures.max_abs_diff);
    const double rate =
        static_cast<double>(measures.num_unequal()) / static_cast<double>(measures.num_elements);
    row_[Detail::kBinary] = rate;
    row_.Say(fmt::format("{}: binary comparison only", Name(pair_.bench.dtype)));
    row_.severity = rate;
    if (rate != 0) Fail(Verdict::kError, fmt::format("binary error rate {:.4g}", rate));
    return row_;
  }

  Result<DetailsRow> JudgeQuantised(double max_abs) {
    const double limit = settings_.rules->Number("gates.quantised_max_abs");
    row_[Detail::kMaxAbs] = max_abs;
    row_.Say(fmt::format("quantised output: max abs error {} (limit {})", ShortestText(max_abs),
                         ShortestText(limit)));
    row_.severity = max_abs;
    if (!(max_abs <= limit)) Fail(Verdict::kError, fmt::format("max abs error {:.4g}", max_abs));
    return row_;
  }

  Result<DetailsRow> JudgeFloats() {
    const Dtype device = pair_.device_dtype;
    const bool has_standard = HasStandards(device) || IsFloat8(device);
    const Standard standard =
        StandardOf(*settings_.rules, settings_.policy, api_, device, pair_.has_float8_inputs);
    VN_ASSIGN_OR_RETURN(Metrics metrics, Metrics::Measure(settings_, ComparedPair::Of(pair_),
                                                          has_standard ? standard : Standard::kDual1000,
                                                          /*everything=*/false));
    row_.severity = metrics.Severity();
    if (has_standard) {
      FillStandard(standard, metrics);
    } else {
      row_.Say(fmt::format("dtype {}: no new-standard metrics", TorchName(device)));
    }
    PassGates(metrics);
    return row_;
  }

  void FillStandard(Standard standard, Metrics& m) {
    switch (standard) {
      case Standard::kBenchmark:
        row_[Detail::kBalance] = m.Balance();
        row_[Detail::kRmse] = m.Rmse();
        row_[Detail::kSmallValue] = m.SmallValueErrorRatio();
        row_[Detail::kMaxRelative] = m.MaxRelative();
        row_[Detail::kMeanRelative] = m.MeanRelative();
        return;
      case Standard::kAccumulative:
        row_[Detail::kBalance] = m.Balance();
        [[fallthrough]];
      case Standard::kAbsolute:
        row_[Detail::kInfNan] = m.InfNanErrorRate();
        row_[Detail::kRelative] = m.RelativeErrorRate();
        row_[Detail::kAbsolute] = m.AbsoluteErrorRate();
        return;
      case Standard::kUlp:
        row_[Detail::kMaxUlp] = m.MaxUlp();
        row_[Detail::kMeanUlp] = m.MeanUlp();
        row_[Detail::kUlpShare] = m.UlpShare();
        return;
      case Standard::kBinary:
        row_[Detail::kBinary] = m.BinaryErrorRate();
        return;
      case Standard::kDual1000:
        row_[Detail::kDual1000] = m.ShareBelow(1000);
        return;
    }
  }

  void PassGates(Metrics& m) {
    const Metrics::Gate cosine = m.Cosine();
    if (cosine.value) row_[Detail::kCosine] = *cosine.value;
    if (!cosine.remark.empty()) row_.Say(cosine.remark);
    if (!cosine.passes) {
      row_.Say("cosine not above 0.99: error, remaining checks left out");
      // A sum that is zero in exact arithmetic, as the gradient of a bias before a softmax.
      if (cosine.value && m.MaxAbsGate().passes)
        row_.Say(
            fmt::format("largest difference {:.3g}: both sides may be nothing but rounding", m.MaxAbs()));
      return Fail(Verdict::kError,
                  cosine.value ? fmt::format("cosine {:.6g}, max abs error {:.3g}", *cosine.value, m.MaxAbs())
                               : std::string(cosine.remark));
    }
    const Metrics::Gate max_abs = m.MaxAbsGate();
    row_[Detail::kMaxAbs] = *max_abs.value;
    if (max_abs.passes) return row_.Say("max abs error below 0.001: pass, remaining checks left out");
    const bool is_16_bit = pair_.device_dtype == Dtype::kF16 || pair_.device_dtype == Dtype::kBF16;
    if (is_16_bit && !PassDual(m, Detail::kDual100, 100)) {
      row_.Say("dual-100 not met: error, remaining checks left out");
      return FailDual(Verdict::kError, m, 100);
    }
    const bool thousand = PassDual(m, Detail::kDual1000, 1000);
    if (is_16_bit) {
      row_.Say(thousand ? "dual-1000 met: pass" : "dual-1000 not met: warning");
      if (!thousand) FailDual(Verdict::kWarning, m, 1000);
      return;
    }
    const bool ten_thousand = PassDual(m, Detail::kDual10000, 10000);
    if (!thousand) {
      row_.Say("dual-1000 not met: error");
      return FailDual(Verdict::kError, m, 1000);
    }
    row_.Say(ten_thousand ? "dual-10000 met: pass" : "dual-10000 not met: warning");
    if (!ten_thousand) FailDual(Verdict::kWarning, m, 10000);
  }

  bool PassDual(Metrics& m, Detail column, int k) {
    const Metrics::Gate gate = m.DualGate(k);
    row_[column] = *gate.value;
    return gate.passes;
  }

  void FailDual(Verdict verdict, Metrics& m, int k) {
    Fail(verdict, fmt::format("dual-{} {:.6g}, max abs error {:.3g}", k, m.ShareBelow(k), m.MaxAbs()));
  }

  void Fail(Verdict verdict, std::string by) {
    row_.status = verdict;
    row_.failed_by = std::move(by);
  }

  const JudgeSettings& settings_;
  std::string_view api_;
  const PairOfTensors& pair_;
  DetailsRow row_;
};

void AddGate(std::vector<NamedCell>& cells, const std::string& name, const char* key,
             const Metrics::Gate& gate) {
  cells.emplace_back(name + '.' + key, gate.value ? Cell(*gate.value) : Cell());
  cells.emplace_back(name + ".pass", Cell(gate.passes));
}

}  // namespace

Result<DetailsRow> JudgeTensors(const JudgeSettings& settings, std::string_view api,
                                const PairOfTensors& pair) {
  return TensorJudge(settings, api, pair).Judge();
}

DetailsRow JudgePlain(std::string_view bench_type, std::string_view device_type, bool are_equal) {
  DetailsRow row;
  row[Detail::kBenchDtype] = std::string(bench_type);
  row[Detail::kDeviceDtype] = std::string(device_type);
  row[Detail::kBinary] = are_equal ? 0.0 : 1.0;
  if (are_equal) return row;
  row.status = Verdict::kError;
  row.severity = 1;
  row.failed_by = "values differ";
  row.Say("the values differ");
  return row;
}

DetailsRow SkippedRow(std::string_view reason) {
  DetailsRow row;
  row.status = Verdict::kSkip;
  row.message = reason;
  return row;
}

DetailsRow MismatchRow(std::string_view what, std::string_view bench, std::string_view device) {
  DetailsRow row;
  row.status = Verdict::kError;
  row.Say(fmt::format("{}: bench {}, device {}: cannot be compared", what, bench, device));
  row.failed_by = fmt::format("{} differs", what);
  row.severity = std::numeric_limits<double>::infinity();
  return row;
}

Result<Verdict> JudgeDropout(const JudgeSettings& settings, const PairOfTensors& pair) {
  const StatsOptions options{false, settings.num_threads};
  const std::uint64_t count = pair.bench.num_elements;
  if (static_cast<double>(count) < settings.rules->Number("gates.dropout_least_elements"))
    return Verdict::kPass;
  VN_ASSIGN_OR_RETURN(const TensorStats bench, MeasureTensor(pair.bench, options));
  VN_ASSIGN_OR_RETURN(const TensorStats device, MeasureTensor(pair.device, options));
  const double zeros = static_cast<double>(bench.num_zero) - static_cast<double>(device.num_zero);
  const double limit = settings.rules->Number("gates.dropout_share");
  return std::abs(zeros) / static_cast<double>(count) < limit ? Verdict::kPass : Verdict::kError;
}

Result<std::vector<NamedCell>> AllMetrics(const JudgeSettings& settings, const PairOfTensors& pair) {
  if (pair.bench.shape != pair.device.shape) {
    return Error{ErrorCode::kShapeMismatch, "",
                 ShapeTuple(pair.device.shape) + " against " + ShapeTuple(pair.bench.shape)};
  }
  if (pair.bench.num_elements == 0) return Error{ErrorCode::kBadArgument, "bench", "no elements"};
  const auto is_float = [](Dtype dtype) { return Class(dtype) == DtypeClass::kFloat; };
  if (!is_float(pair.bench.dtype) || !is_float(pair.device.dtype)) {
    return Error{ErrorCode::kDtypeMismatch, "", "expected floating-point numbers"};
  }
  const ComparedPair compared = ComparedPair::Of(pair);
  VN_ASSIGN_OR_RETURN(Metrics benchmark, Metrics::Measure(settings, compared, Standard::kBenchmark, true));
  VN_ASSIGN_OR_RETURN(const Metrics absolute,
                      Metrics::Measure(settings, compared, Standard::kAbsolute, false));
  VN_ASSIGN_OR_RETURN(const Metrics accumulative,
                      Metrics::Measure(settings, compared, Standard::kAccumulative, false));
  std::vector<NamedCell> cells = {
      {"benchmark.small_value_err_ratio", benchmark.SmallValueErrorRatio()},
      {"benchmark.max_rel_error", benchmark.MaxRelative()},
      {"benchmark.mean_rel_error", benchmark.MeanRelative()},
      {"benchmark.rmse", benchmark.Rmse()},
      {"benchmark.eb", benchmark.Balance()},
      {"absolute_threshold.inf_nan_error_ratio", absolute.InfNanErrorRate()},
      {"absolute_threshold.rel_err_ratio", absolute.RelativeErrorRate()},
      {"absolute_threshold.abs_err_ratio", absolute.AbsoluteErrorRate()},
      {"ulp_compare.max_ulp_error", benchmark.MaxUlp()},
      {"ulp_compare.mean_ulp_error", benchmark.MeanUlp()},
      {"ulp_compare.ulp_error_proportion", benchmark.UlpShare()},
      {"thousandth_threshold.rel_err_thousandth", benchmark.ShareBelow(1000)},
      {"binary_consistency.error_rate", benchmark.BinaryErrorRate()},
      {"accumulative_error_compare.inf_nan_error_ratio", accumulative.InfNanErrorRate()},
      {"accumulative_error_compare.rel_err_ratio", accumulative.RelativeErrorRate()},
      {"accumulative_error_compare.abs_err_ratio", accumulative.AbsoluteErrorRate()},
      {"accumulative_error_compare.eb", accumulative.Balance()},
  };
  for (const int k : {100, 1000, 10000})
    AddGate(cells, fmt::format("dual_{}", k), "ratio", benchmark.DualGate(k));
  AddGate(cells, "cosine", "value", benchmark.Cosine());
  AddGate(cells, "max_abs_err", "value", benchmark.MaxAbsGate());
  return cells;
}

std::vector<std::string> CellTexts(const DetailsRow& row, std::string_view name, int precision) {
  std::vector<std::string> texts;
  for (const DetailsRow::Value& value : row.cells) {
    if (const double* number = std::get_if<double>(&value)) {
      texts.push_back(std::isnan(*number) ? "nan" : fmt::format("{:.{}f}", *number, precision));
    } else {
      const std::string* text = std::get_if<std::string>(&value);
      texts.push_back(text != nullptr ? *text : " ");
    }
  }
  texts[At(Detail::kName)] = name;
  texts[At(Detail::kStatus)] = Name(row.status);
  texts[At(Detail::kMessage)] = row.message.empty() ? " " : row.message;
  return texts;
}

std::string ShapeTuple(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace vernier::precheck

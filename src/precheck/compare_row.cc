#include "precheck/compare_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "core/python_text.h"
#include "precheck/csv_rows.h"

namespace vernier::precheck {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// What a standard reads of a row, and what it is called. In the order of Standard.
struct StandardFacts {
  ColumnName name;
  std::vector<Detail> needs;
};
const StandardFacts& FactsOf(Standard standard) {
  static const StandardFacts facts[] = {
      {{"benchmark comparison", "标杆比对法"},
       {Detail::kSmallValue, Detail::kRmse, Detail::kMaxRelative, Detail::kMeanRelative}},
      {{"ULP error comparison", "ULP误差比对法"}, {Detail::kMeanUlp, Detail::kUlpShare}},
      {{"absolute threshold", "绝对阈值法"}, {Detail::kInfNan, Detail::kRelative, Detail::kAbsolute}},
      {{"dual-1000 metric", "双千指标法"}, {Detail::kDual1000}},
      {{"binary consistency", "二进制一致法"}, {Detail::kBinary}},
      {{"accumulative error", "累积误差比对法"},
       {Detail::kInfNan, Detail::kRelative, Detail::kAbsolute, Detail::kBalance}},
  };
  return facts[static_cast<std::size_t>(standard)];
}

// Tried in this order when the cells of the right one are blank.
constexpr Standard kFillOrder[] = {Standard::kBenchmark, Standard::kUlp, Standard::kAbsolute,
                                   Standard::kDual1000, Standard::kBinary};

struct BenchmarkMetric {
  Detail from;
  Compared ratio, result;
  const char* limit;  // key below compare.L0
  const char* name;
  bool counts;  // for the verdict
};
// clang-format off
constexpr BenchmarkMetric kBenchmarkMetrics[] = {
    {Detail::kSmallValue,   Compared::kSmallValueRatio,   Compared::kSmallValueResult,   "small_value",   "error ratio in small value range", true},
    {Detail::kRmse,         Compared::kRmseRatio,         Compared::kRmseResult,         "rmse",          "RMSE",                             true},
    {Detail::kMaxRelative,  Compared::kMaxRelativeRatio,  Compared::kMaxRelativeResult,  "max_relative",  "maximum relative error",           true},
    {Detail::kMeanRelative, Compared::kMeanRelativeRatio, Compared::kMeanRelativeResult, "mean_relative", "mean relative error",              true},
    {Detail::kBalance,      Compared::kBalanceRatio,      Compared::kBalanceResult,      "balance",       "error balance",                    false},
};

struct RateMetric {
  Detail from;
  Compared shown, result;
  const char* name;
};
constexpr RateMetric kAbsoluteRates[] = {
    {Detail::kInfNan,   Compared::kInfNan,   Compared::kInfNanResult,   "INF/NaN error rate"},
    {Detail::kRelative, Compared::kRelative, Compared::kRelativeResult, "relative error rate"},
    {Detail::kAbsolute, Compared::kAbsolute, Compared::kAbsoluteResult, "absolute error rate"},
};
constexpr RateMetric kBalance = {Detail::kBalance, Compared::kBalanceRatio, Compared::kBalanceResult, "error balance"};
constexpr RateMetric kBinaryRate = {Detail::kBinary, Compared::kBinary, Compared::kBinaryResult, "binary consistency error rate"};
constexpr RateMetric kDual1000 = {Detail::kDual1000, Compared::kDual1000, Compared::kDual1000Result, "dual-1000 metric"};
// clang-format on

class RowComparison {
 public:
  RowComparison(const Rules& rules, std::string_view api, const DetailCells& npu, const DetailCells& gpu,
                std::optional<Dtype> dtype)
      : rules_(rules), api_(api), npu_(npu), gpu_(gpu), dtype_(dtype.value_or(Dtype::kF32)) {}

  ComparedRow Compare(Standard standard, Header header) {
    row_.verdict = Verdict::kPass;
    row_.cells[At(Compared::kAlgorithm)] = NameOf(FactsOf(standard).name, header);
    switch (standard) {
      case Standard::kBenchmark:
        CompareBenchmark();
        break;
      case Standard::kUlp:
        CompareUlp();
        break;
      case Standard::kAbsolute:
        for (const RateMetric& rate : kAbsoluteRates)
          JudgeRate(rate, [](double value) { return value == 0; });
        break;
      case Standard::kAccumulative: {
        for (const RateMetric& rate : kAbsoluteRates)
          JudgeRate(rate, [](double value) { return value == 0; });
        const double limit = rules_.NumberFor("compare.balance", dtype_);
        JudgeRate(kBalance, [limit](double value) { return value <= limit; });
        break;
      }
      case Standard::kBinary:
        JudgeRate(kBinaryRate, [](double value) { return value == 0; });
        break;
      case Standard::kDual1000: {
        const double limit = rules_.Number("compare.dual_1000");
        JudgeRate(kDual1000, [limit](double value) { return value > limit; });
        break;
      }
    }
    row_.message = remarks_ + errors_;
    return row_;
  }

  // A cell that has no number, which ends the judging of this row. Where two devices are compared a blank
  // cell counts as 0.
  std::optional<std::string> Unreadable(Standard standard) const {
    const bool compares = standard == Standard::kBenchmark || standard == Standard::kUlp;
    for (const Detail column : FactsOf(standard).needs) {
      if (auto problem = Unreadable("npu", npu_, column, compares)) return problem;
      const bool reads_gpu = compares && !(standard == Standard::kUlp && IsFloat8(dtype_));
      if (auto problem = reads_gpu ? Unreadable("gpu", gpu_, column, true) : std::nullopt) return problem;
    }
    return std::nullopt;
  }

 private:
  static std::optional<std::string> Unreadable(std::string_view side, const DetailCells& row, Detail column,
                                               bool may_be_blank) {
    const std::string_view name = kDetailColumns[At(column)].english;
    if (IsBlank(row[column]) && may_be_blank) return std::nullopt;
    if (IsBlank(row[column])) return fmt::format("{} is blank in the {} file", name, side);
    if (ParsePythonFloat(row[column])) return std::nullopt;
    return fmt::format("{} in the {} file: expected a number, found '{}'", name, side, row[column]);
  }
  static double NumberOf(const DetailCells& row, Detail column) {
    return IsBlank(row[column]) ? 0 : ParsePythonFloat(row[column]).value_or(kNan);
  }

  void Set(Compared column, double value) { AppendPythonFloat(value, row_.cells[At(column)]); }
  void Show(Compared column, Detail from) { row_.cells[At(column)] = IsBlank(npu_[from]) ? "0" : npu_[from]; }
  void SetVerdict(Compared column, bool passes) {
    row_.cells[At(column)] = Name(passes ? Verdict::kPass : Verdict::kError);
  }
  void Remark(std::string_view name, std::string_view what) {
    remarks_ += (remarks_.empty() ? "" : "\n") + fmt::format("{}: {}", name, what);
  }
  void Fail(std::string_view name, const std::string& what) {
    row_.verdict = Verdict::kError;
    const bool is_first = remarks_.empty() && errors_.empty();
    errors_ += (is_first ? "" : "\n") + fmt::format("ERROR: {} {}", name, what);
    row_.failed_by += (row_.failed_by.empty() ? "" : ", ") + std::string(name);
  }

  // Whether values that are not finite are the same on both sides; nothing: both are finite.
  std::optional<bool> SameSpecials(double npu, double gpu, std::string_view name) {
    if (std::isfinite(npu) && std::isfinite(gpu)) return std::nullopt;
    const bool same = npu == gpu || (std::isnan(npu) && std::isnan(gpu));
    Remark(name, same ? "inf or nan on both sides, same sign" : "inf or nan on one side only");
    return same;
  }

  void CompareBenchmark() {
    const int level = LevelOf(rules_, api_);
    const double floor = rules_.NumberFor("compare.floor", dtype_);
    for (const BenchmarkMetric& metric : kBenchmarkMetrics) {
      const double npu = NumberOf(npu_, metric.from), gpu = NumberOf(gpu_, metric.from);
      const double limit = rules_.Number(fmt::format("compare.L{}.{}", level, metric.limit));
      const std::optional<bool> same = SameSpecials(npu, gpu, metric.name);
      const double ratio = same ? kNan : std::abs(npu) / std::max(std::abs(gpu), floor);
      const bool passes = same ? *same : ratio <= limit;
      Set(metric.ratio, ratio);
      SetVerdict(metric.result, passes);
      if (passes || !metric.counts) continue;
      Fail(metric.name, same ? std::string("is inf or nan on one side only")
                             : fmt::format("ratio {} is above {}", PythonFloat(ratio), limit));
    }
  }

  void CompareUlp() {
    const double mean = NumberOf(npu_, Detail::kMeanUlp), share = NumberOf(npu_, Detail::kUlpShare);
    constexpr const char* kName = "ULP error";
    const double limit_16_bit = rules_.Number("compare.ulp.share_16_bit");
    Show(Compared::kUlpShare, Detail::kUlpShare);
    if (IsFloat8(dtype_)) return JudgeUlp(share < limit_16_bit, kName, share, kNan);
    Show(Compared::kMeanUlp, Detail::kMeanUlp);
    const double gpu_mean = NumberOf(gpu_, Detail::kMeanUlp), gpu_share = NumberOf(gpu_, Detail::kUlpShare);
    const std::optional<bool> same_mean = SameSpecials(mean, gpu_mean, "mean ULP error");
    const std::optional<bool> same_share =
        SameSpecials(share, gpu_share, "proportion of ULP errors greater than the threshold");
    Set(Compared::kUlpRatio,
        same_share ? kNan : share / std::max(gpu_share, rules_.NumberFor("compare.floor", dtype_)));
    if (same_mean.value_or(true) && same_share.value_or(true)) {
      const bool is_float32 = dtype_ == Dtype::kF32;
      const bool small = is_float32 ? mean < rules_.Number("compare.ulp.mean_float32") ||
                                          share < rules_.Number("compare.ulp.share_float32")
                                    : share < limit_16_bit;
      return JudgeUlp(small || share < gpu_share, kName, share, gpu_share);
    }
    SetVerdict(Compared::kUlpResult, false);
    Fail(kName, "is inf or nan on one side only");
  }

  void JudgeUlp(bool passes, const char* name, double share, double gpu_share) {
    SetVerdict(Compared::kUlpResult, passes);
    if (passes) return;
    Fail(name, std::isnan(gpu_share)
                   ? fmt::format("is above the threshold in a share of {} of the elements", share)
                   : fmt::format("is above the threshold in a share of {} of the elements, on the gpu in {}",
                                 share, gpu_share));
  }

  template <class Passes>
  void JudgeRate(const RateMetric& metric, const Passes& is_good) {
    const double value = NumberOf(npu_, metric.from);
    const bool passes = is_good(value);
    row_.cells[At(metric.shown)] = npu_[metric.from];
    SetVerdict(metric.result, passes);
    if (!passes) Fail(metric.name, fmt::format("is {}", npu_[metric.from]));
  }

  const Rules& rules_;
  std::string_view api_;
  const DetailCells &npu_, &gpu_;
  Dtype dtype_;
  ComparedRow row_;
  std::string remarks_, errors_;
};

bool HasZero(std::string_view shape) {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const bool starts = i == 0 || shape[i - 1] == '(' || shape[i - 1] == ' ' || shape[i - 1] == ',';
    const bool ends = i + 1 == shape.size() || shape[i + 1] == ',' || shape[i + 1] == ')';
    if (shape[i] == '0' && starts && ends) return true;
  }
  return false;
}

bool AllBlank(const DetailCells& row, Standard standard) {
  return std::ranges::all_of(FactsOf(standard).needs, [&](Detail column) { return IsBlank(row[column]); });
}
bool AllFilled(const DetailCells& row, Standard standard) {
  return std::ranges::none_of(FactsOf(standard).needs, [&](Detail column) { return IsBlank(row[column]); });
}

}  // namespace

ComparedRow SkippedComparison(std::string_view name, std::string_view reason) {
  ComparedRow row;
  row.message = reason;
  row.cells[At(Compared::kName)] = name;
  row.cells[At(Compared::kResult)] = Name(Verdict::kSkip);
  row.cells[At(Compared::kMessage)] = reason;
  return row;
}

ComparedRow CompareRow(const Rules& rules, Policy policy, Header header, std::string_view api,
                       const DetailCells& npu, const DetailCells& gpu) {
  const std::string_view name = npu[Detail::kName], dtype_text = npu[Detail::kDeviceDtype];
  const std::string own_message(IsBlank(npu[Detail::kMessage]) ? "" : npu[Detail::kMessage]);
  const auto skip = [&](const std::string& reason) {
    return SkippedComparison(name, own_message.empty() ? reason : own_message);
  };
  if (IsBlank(dtype_text)) return skip("no dtype: the output was not compared");
  const std::optional<Dtype> dtype = ParseDtype(dtype_text);
  if (dtype && (*dtype == Dtype::kF64 || Class(*dtype) == DtypeClass::kComplex))
    return skip(fmt::format("dtype {}: no new-standard metrics", dtype_text));
  if (HasZero(npu[Detail::kShape])) return skip("no elements");

  // Inputs of 8-bit floats cannot be seen here. Without the rule for blank cells below, a filled relative
  // error rate gives them away.
  Standard standard = StandardOf(rules, policy, api, dtype, false);
  if (policy != Policy::kManual && standard != Standard::kAccumulative && !IsBlank(npu[Detail::kRelative]))
    standard = StandardOf(rules, policy, api, dtype, true);
  std::string filled_instead;
  if (policy == Policy::kManual && AllBlank(npu, standard)) {
    const auto* found = std::find_if(std::begin(kFillOrder), std::end(kFillOrder),
                                     [&](Standard other) { return AllFilled(npu, other); });
    if (found == std::end(kFillOrder))
      return SkippedComparison(name, own_message.empty() ? "no metric is filled" : own_message);
    filled_instead = fmt::format("judged by {}: the cells of {} are blank", FactsOf(*found).name.english,
                                 FactsOf(standard).name.english);
    standard = *found;
  }
  RowComparison comparison(rules, api, npu, gpu, dtype);
  if (const auto problem = comparison.Unreadable(standard)) return SkippedComparison(name, *problem);
  ComparedRow row = comparison.Compare(standard, header);
  if (!filled_instead.empty()) row.message = filled_instead + (row.message.empty() ? "" : "\n" + row.message);
  row.cells[At(Compared::kName)] = name;
  row.cells[At(Compared::kResult)] = Name(row.verdict);
  row.cells[At(Compared::kMessage)] = row.message;
  return row;
}

}  // namespace vernier::precheck

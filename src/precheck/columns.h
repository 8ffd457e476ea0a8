// The columns of the pre-check's files: their English names, which are the manual's, and those of the tool it
// describes. Both are read; --header chooses which are written.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

namespace vernier::precheck {

enum class Header { kEnglish, kChinese };
inline constexpr std::string_view kHeaderNames[] = {"en", "zh"};

struct ColumnName {
  std::string_view english, chinese;
};

// accuracy_checking_details_*.csv
enum class Detail : std::size_t {
  kName,
  kBenchDtype,
  kDeviceDtype,
  kShape,
  kCosine,
  kMaxAbs,
  kDual100,
  kDual1000,
  kDual10000,
  kBinary,
  kBalance,
  kRmse,
  kSmallValue,
  kMaxRelative,
  kMeanRelative,
  kInfNan,
  kRelative,
  kAbsolute,
  kMaxUlp,
  kMeanUlp,
  kUlpShare,
  kStatus,
  kMessage,
};
inline constexpr std::size_t kNumDetails = 23;
// clang-format off
inline constexpr ColumnName kDetailColumns[kNumDetails] = {
    {"API name", "API Name"},
    {"Bench Dtype", "Bench Dtype"},
    {"DEVICE Dtype", "DEVICE Dtype"},
    {"Shape", "Shape"},
    {"Cosine similarity", "余弦相似度"},
    {"Maximum absolute error", "最大绝对误差"},
    {"Dual-100 metric", "双百指标"},
    {"Dual-1000 metric", "双千指标"},
    {"Dual-10000 metric", "双万指标"},
    {"Binary consistency error rate", "二进制一致错误率"},
    {"Error balance", "误差均衡性"},
    {"Root-mean-square error (RMSE)", "均方根误差"},
    {"Error ratio in small value range", "小值域错误占比"},
    {"Maximum relative error", "相对误差最大值"},
    {"Mean relative error", "相对误差平均值"},
    {"inf/nan error rate", "inf/nan错误率"},
    {"Relative error rate", "相对误差错误率"},
    {"Absolute error rate", "绝对误差错误率"},
    {"Maximum ULP error", "ULP误差最大值"},
    {"Mean ULP error", "ULP误差平均值"},
    {"Proportion of ULP errors greater than the threshold", "ULP误差大于阈值占比"},
    {"Status", "Status"},
    {"Message", "Message"},
};

// accuracy_checking_result_*.csv; api_precision_compare_result_*.csv has the other spelling of the first.
inline constexpr std::size_t kNumResults = 4;
inline constexpr ColumnName kResultColumns[kNumResults] = {
    {"API name", "API name"},
    {"Forward Test Success", "Forward Test Success"},
    {"Backward Test Success", "Backward Test Success"},
    {"Message", "Message"},
};
inline constexpr ColumnName kCompareResultColumns[kNumResults] = {
    {"API name", "API Name"},
    {"Forward Test Success", "Forward Test Success"},
    {"Backward Test Success", "Backward Test Success"},
    {"Message", "Message"},
};

// api_precision_compare_details_*.csv
enum class Compared : std::size_t {
  kName,
  kSmallValueRatio, kSmallValueResult,
  kRmseRatio, kRmseResult,
  kMaxRelativeRatio, kMaxRelativeResult,
  kMeanRelativeRatio, kMeanRelativeResult,
  kBalanceRatio, kBalanceResult,
  kInfNan, kInfNanResult,
  kRelative, kRelativeResult,
  kAbsolute, kAbsoluteResult,
  kBinary, kBinaryResult,
  kMeanUlp, kUlpShare, kUlpRatio, kUlpResult,
  kDual1000, kDual1000Result,
  kResult,
  kAlgorithm,
  kMessage,
};
inline constexpr std::size_t kNumCompared = 28;
inline constexpr ColumnName kComparedColumns[kNumCompared] = {
    {"API name", "API Name"},
    {"Error ratio in small value range", "小值域错误比值"},
    {"Error determination result in small value range", "小值域判定结果"},
    {"RMSE ratio", "均方根误差比值"},
    {"RMSE determination result", "均方根误差判定结果"},
    {"Maximum relative error ratio", "相对误差最大值比值"},
    {"Maximum relative error determination result", "相对误差最大值判定结果"},
    {"Mean relative error ratio", "相对误差平均值比值"},
    {"Mean relative error determination result", "相对误差平均值判定结果"},
    {"Error balance ratio", "误差均衡性比值"},
    {"Error balance determination result", "误差均衡性判定结果"},
    {"INF/NaN error rate", "inf/nan错误率"},
    {"INF/NaN determination result", "inf/nan判定结果"},
    {"Relative error rate", "相对误差错误率"},
    {"Relative error determination result", "相对误差判定结果"},
    {"Absolute error rate", "绝对误差错误率"},
    {"Absolute error determination result", "绝对误差判定结果"},
    {"Binary consistency error rate", "二进制一致错误率"},
    {"Binary consistency error rate determination result", "二进制一致错误率判定结果"},
    {"Mean ULP error", "ULP误差平均值"},
    {"Proportion of ULP errors greater than the threshold", "ULP误差大于阈值占比"},
    {"Ratio of ULP error greater than the threshold", "ULP误差大于阈值占比比值"},
    {"ULP error determination result", "ULP误差判定结果"},
    {"Dual-1000 metric", "双千指标"},
    {"Dual-1000 metric determination result", "双千指标判定结果"},
    {"Comparison result", "比对结果"},
    {"Comparison algorithm", "比对算法"},
    {"Message", "Message"},
};
// clang-format on

constexpr std::size_t At(Detail column) { return static_cast<std::size_t>(column); }
constexpr std::size_t At(Compared column) { return static_cast<std::size_t>(column); }
constexpr std::string_view NameOf(const ColumnName& column, Header header) {
  return header == Header::kEnglish ? column.english : column.chinese;
}

}  // namespace vernier::precheck

#include "precheck/call.h"

#include <fmt/format.h>

#include <cmath>

#include "core/json_cursor.h"
#include "core/json_writer.h"
#include "core/text.h"
#include "precheck/standards.h"

namespace vernier::precheck {
namespace {

constexpr std::size_t kNumWorstShown = 10;

void AppendMember(std::string_view key, std::string_view text, std::string& out) {
  AppendJsonString(key, out);
  out += ':';
  AppendJsonString(text, out);
  out += ',';
}

// [1, 2] of element number `flat`.
std::string IndexText(std::uint64_t flat, const Shape& shape) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    const auto size = static_cast<std::uint64_t>(shape[axis]);
    index[axis] = static_cast<std::int64_t>(flat % size);
    flat /= size;
  }
  return ShapeText(index);
}

double UlpOf(const RankedElement& element, const PrecheckOptions& options) {
  const double g = element.golden;
  if (!std::isfinite(g) || !std::isfinite(element.target)) return std::numeric_limits<double>::quiet_NaN();
  const int exponent = g == 0 ? 0 : std::max(std::ilogb(g), options.min_exponent);
  return std::ldexp(std::abs(element.target - g), options.mantissa_bits - exponent);
}

bool IsBad(Verdict verdict) { return verdict == Verdict::kError || verdict == Verdict::kWarning; }

}  // namespace

Verdict CallAnswer::verdict() const {
  const Verdict both[] = {forward, backward};
  return RollUp(both);
}

std::string ToJson(const CallAnswer& answer) {
  std::string json = "{";
  AppendMember("forward", Name(answer.forward), json);
  AppendMember("backward", Name(answer.backward), json);
  AppendMember("message", answer.message, json);
  AppendMember("failed_by", answer.failed_by, json);
  AppendMember("shown", answer.shown, json);
  json += "\"severity\":";
  AppendJsonFloat(answer.severity, json);
  json += ",\"rows\":[";
  for (const std::vector<std::string>& row : answer.rows) {
    json += &row == answer.rows.data() ? "[" : ",[";
    for (const std::string& cell : row) {
      if (&cell != row.data()) json += ',';
      AppendJsonString(cell, json);
    }
    json += ']';
  }
  return json + "]}";
}

Result<CallAnswer> AnswerFromJson(std::string_view json, std::string_view name) {
  CallAnswer answer;
  JsonCursor cursor(json);
  std::string buffer;
  const auto take_verdict = [&](Verdict& verdict) {
    const std::optional<Verdict> parsed = ParseVerdict(cursor.TakeString(buffer));
    if (!parsed) cursor.Fail(JsonError::kUnknownChoice);
    verdict = parsed.value_or(Verdict::kNone);
  };
  cursor.ForEachMember([&](std::string_view key, bool) {
    if (key == "forward") return take_verdict(answer.forward);
    if (key == "backward") return take_verdict(answer.backward);
    if (key == "message") return void(answer.message = cursor.TakeString(buffer));
    if (key == "failed_by") return void(answer.failed_by = cursor.TakeString(buffer));
    if (key == "shown") return void(answer.shown = cursor.TakeString(buffer));
    if (key == "severity") return void(answer.severity = cursor.TakeNumber());
    if (key == "skipped" || key == "failed") {
      const Verdict verdict = key == "failed" ? Verdict::kError : Verdict::kSkip;
      answer = UncheckedCall(name, verdict, cursor.TakeString(buffer));
      return;
    }
    if (key != "rows") return cursor.Skip();
    cursor.ForEachElement([&] {
      std::vector<std::string>& row = answer.rows.emplace_back();
      cursor.ForEachElement([&] { row.emplace_back(cursor.TakeString(buffer)); });
      if (row.size() != kNumDetails) cursor.Fail(JsonError::kOutOfRange);
    });
  });
  if (!cursor.ok()) return Error{ErrorCode::kBadHeader, "answer of the worker", cursor.problem()};
  return answer;
}

CallAnswer UncheckedCall(std::string_view name, Verdict verdict, std::string_view reason) {
  CallAnswer answer;
  answer.forward = verdict;
  answer.backward = verdict == Verdict::kSkip ? Verdict::kSkip : Verdict::kNone;
  answer.message = reason;
  if (verdict == Verdict::kError) {
    answer.failed_by = reason;
    answer.severity = std::numeric_limits<double>::infinity();
  }
  DetailsRow row = SkippedRow(reason);
  row.status = verdict;
  answer.rows.push_back(CellTexts(row, std::string(name) + ".forward.output.0", 0));
  return answer;
}

void CheckedCall::Begin(std::string_view full_name, std::string_view api) {
  full_name_ = full_name;
  api_ = api;
  answer_ = {};
  last_row_.reset();
  for (const std::size_t side : {0u, 1u}) {
    num_rows_[side] = 0;
    statuses_[side].clear();
    skip_message_[side].clear();
  }
}

Result<Done> CheckedCall::Tensors(Direction direction, const PairOfTensors& pair) {
  VN_ASSIGN_OR_RETURN(DetailsRow row, JudgeTensors(settings_, api_, pair));
  const std::string name =
      fmt::format("{}.{}.output.{}", full_name_, kDirectionNames[static_cast<std::size_t>(direction)],
                  num_rows_[static_cast<std::size_t>(direction)]);
  Row(direction, std::move(row));
  return explains_ ? Explain(name, pair) : Done{};
}

void CheckedCall::Row(Direction direction, DetailsRow row) {
  const auto side = static_cast<std::size_t>(direction);
  const std::string name =
      fmt::format("{}.{}.output.{}", full_name_, kDirectionNames[side], num_rows_[side]++);
  statuses_[side].push_back(row.status);
  if (row.status == Verdict::kSkip && skip_message_[side].empty()) skip_message_[side] = row.message;
  const bool is_worse = answer_.failed_by.empty() || row.severity > answer_.severity;
  if (IsBad(row.status) && is_worse) {
    answer_.failed_by = fmt::format("{} {}: {}", kDirectionNames[side], num_rows_[side] - 1, row.failed_by);
    answer_.severity = row.severity;
  }
  answer_.rows.push_back(CellTexts(row, name, precision_));
  last_row_ = std::move(row);
}

Result<Done> CheckedCall::Dropout(Direction direction, const PairOfTensors& pair) {
  VN_ASSIGN_OR_RETURN(const Verdict verdict, JudgeDropout(settings_, pair));
  statuses_[static_cast<std::size_t>(direction)].push_back(verdict);
  last_row_ = DetailsRow{};
  last_row_->status = verdict;
  if (verdict == Verdict::kError && answer_.failed_by.empty()) {
    answer_.failed_by = "another share of zeros than the bench";
    answer_.severity = 1;
  }
  return Done{};
}

Result<Done> CheckedCall::Input(std::string_view name, const TensorView& input) {
  VN_ASSIGN_OR_RETURN(const TensorStats stats, MeasureTensor(input, {false, settings_.num_threads}));
  std::string specials;
  if (stats.num_nan > 0) specials += fmt::format(", {} NaN", stats.num_nan);
  if (const auto inf = stats.num_pos_inf + stats.num_neg_inf; inf > 0)
    specials += fmt::format(", {} inf", inf);
  const std::string range = stats.num_finite() == 0
                                ? std::string("nothing finite")
                                : fmt::format("{:.9g} ... {:.9g}", stats.finite_min, stats.finite_max);
  answer_.shown += fmt::format("  {:<24} {:<10} {:<18} {}{}\n", name, Name(input.dtype),
                               ShapeText(input.shape), range, specials);
  return Done{};
}

Result<Done> CheckedCall::Explain(std::string_view row_name, const PairOfTensors& pair) {
  answer_.shown += fmt::format("{}: {}{}{}\n", row_name, Name(last_row_->status),
                               last_row_->failed_by.empty() ? "" : ", ", last_row_->failed_by);
  const bool can_rank = pair.bench.shape == pair.device.shape &&
                        Class(pair.bench.dtype) != DtypeClass::kComplex &&
                        Class(pair.device.dtype) != DtypeClass::kComplex;
  if (!can_rank) return Done{};
  ElementOptions looked;
  looked.num_worst = kNumWorstShown;
  looked.num_threads = settings_.num_threads;
  VN_ASSIGN_OR_RETURN(const ElementDifferences differences, CompareElements(pair.device, pair.bench, looked));
  const std::vector<RankedElement>& worst = differences.worst;
  const PrecheckOptions options =
      OptionsOf(*settings_.rules, settings_.thresholds, Standard::kUlp, pair.device_dtype, pair.bench.dtype);
  const bool has_ulp = HasStandards(pair.device_dtype);
  if (!worst.empty())
    answer_.shown += fmt::format("  {:<18} {:>16} {:>16} {:>12} {:>10}\n", "index", "got", "want",
                                 "difference", has_ulp ? "ULP" : "");
  for (const RankedElement& element : worst) {
    answer_.shown += fmt::format("  {:<18} {:>16.9g} {:>16.9g} {:>12.3g} {:>10}\n",
                                 IndexText(element.index, pair.device.shape), element.target, element.golden,
                                 std::abs(element.target - element.golden),
                                 has_ulp ? fmt::format("{:.4g}", UlpOf(element, options)) : "");
  }
  return Done{};
}

CallAnswer CheckedCall::Finish() {
  answer_.forward = verdict(Direction::kForward);
  answer_.backward = verdict(Direction::kBackward);
  if (answer_.forward == Verdict::kSkip) {
    answer_.message = skip_message_[0];
  } else if (answer_.backward == Verdict::kSkip) {
    answer_.message = skip_message_[1];
  } else {
    answer_.message = answer_.failed_by;
  }
  return std::move(answer_);
}

}  // namespace vernier::precheck

#include "vernier/judge.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

#include "core/text.h"

namespace vernier {
namespace {

struct Question {
  const JudgedPair& pair;
  const JudgeOptions& options;

  bool DtypesDiffer() const { return pair.target->dtype != pair.golden->dtype; }
};

std::string DtypeNote(const Question& q) {
  if (!q.DtypesDiffer()) return "";
  return fmt::format("dtype {} against {}", Name(q.pair.target->dtype), Name(q.pair.golden->dtype));
}

// As few digits as tell the stored value from its neighbours: those of a float, unless it is a double or an
// integer.
std::string ValueText(double value, Dtype dtype) {
  const bool is_short = Class(dtype) == DtypeClass::kFloat && dtype != Dtype::kF64;
  if (!is_short || value != value) return ShortestText(value);
  return fmt::format("{}", static_cast<float>(value));
}

std::string WorstText(const Question& q) {
  const std::optional<WorstElement> worst = WorstOf(*q.pair.measures);
  if (!worst) return "";
  return fmt::format("; worst at {}: got {}, want {}", IndexText(worst->index, q.pair.target->shape),
                     ValueText(worst->got, q.pair.target->dtype),
                     ValueText(worst->want, q.pair.golden->dtype));
}

std::string DifferText(std::uint64_t count, std::uint64_t of) {
  return fmt::format("{} of {} element{} differ{}", count, of, of == 1 ? "" : "s", count == 1 ? "s" : "");
}

bool ShapeDiffers(const Question& q) { return q.pair.target->shape != q.pair.golden->shape; }
std::string SayShape(const Question& q) {
  return fmt::format("shape {} against {}", ShapeText(q.pair.target->shape), ShapeText(q.pair.golden->shape));
}

bool CannotRead(const Question& q) { return q.pair.error != nullptr; }
std::string SayError(const Question& q) { return q.pair.error->Message(); }

bool HasDamage(const Question& q) { return q.pair.target->damage || q.pair.golden->damage; }
std::string SayDamage(const Question& q) {
  return (q.pair.target->damage ? q.pair.target : q.pair.golden)->damage->Message();
}

bool DtypeFails(const Question& q) { return q.options.check_dtype && q.DtypesDiffer(); }

bool SpecialMismatch(const Question& q) { return q.pair.measures->num_special_mismatches() > 0; }
std::string SaySpecial(const Question& q) {
  const PairMeasures& m = *q.pair.measures;
  struct Kind {
    std::uint64_t count;
    std::string_view says;
  };
  const std::array kinds = {Kind{m.num_nan_target_only, "NaN only in target"},
                            Kind{m.num_nan_golden_only, "NaN only in golden"},
                            Kind{m.num_inf_target_only, "infinite only in target"},
                            Kind{m.num_inf_golden_only, "infinite only in golden"},
                            Kind{m.num_opposite_inf, "infinite with opposite signs"}};
  std::string text;
  for (const Kind& kind : kinds) {
    if (kind.count == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kind.count, kind.says);
  }
  return fmt::format("{} in NaN or infinity ({}){}", DifferText(m.num_special_mismatches(), m.num_elements),
                     text, WorstText(q));
}

bool NotClose(const Question& q) { return q.pair.measures->num_close < q.pair.measures->num_elements; }
std::string SayNotClose(const Question& q) {
  const PairMeasures& m = *q.pair.measures;
  return fmt::format("{} by more than rtol {}, atol {}{}",
                     DifferText(m.num_elements - m.num_close, m.num_elements), ShortestText(m.rtol),
                     ShortestText(m.atol), WorstText(q));
}

bool Always(const Question&) { return true; }

struct RuleRow {
  JudgeRule rule;
  bool (*applies)(const Question&);
  std::string (*says)(const Question&);
};
// clang-format off
constexpr RuleRow kRules[] = {
    {{"unreadable", Status::kError, "a side is damaged"},                                     HasDamage,       SayDamage},
    {{"shape",      Status::kFail,  "the shapes differ"},                                     ShapeDiffers,    SayShape},
    {{"unreadable", Status::kError, "a side could not be read or measured"},                  CannotRead,      SayError},
    {{"dtype",      Status::kFail,  "the dtypes differ, with --check-dtype"},                 DtypeFails,      DtypeNote},
    {{"nan_inf",    Status::kFail,  "an element is NaN or infinite on one side only"},        SpecialMismatch, SaySpecial},
    {{"tolerance",  Status::kFail,  "an element differs by more than atol + rtol * |golden|"}, NotClose,       SayNotClose},
    {{"close",      Status::kPass,  "otherwise"},                                             Always,          DtypeNote},
};
// clang-format on

}  // namespace

std::span<const std::string_view> RunVerdictNames() {
  static constexpr std::string_view kNames[] = {"identical", "noise", "diverged", "unknown"};
  return kNames;
}

std::string_view Name(RunVerdict verdict) { return RunVerdictNames()[static_cast<std::size_t>(verdict)]; }

std::string_view Name(Status status) {
  constexpr std::string_view kNames[] = {"pass", "fail", "error", "unmatched"};
  return kNames[static_cast<std::size_t>(status)];
}

Verdict Judge(const JudgedPair& pair, const JudgeOptions& options) {
  const Question question{pair, options};
  const RuleRow* row = std::begin(kRules);
  while (!row->applies(question)) ++row;  // the last one always does
  return {row->rule.status, row->rule.key, row->says(question)};
}

std::span<const JudgeRule> JudgeRules() {
  static const auto rules = [] {
    std::array<JudgeRule, std::size(kRules)> only_rules{};
    for (std::size_t i = 0; i < std::size(kRules); ++i) only_rules[i] = kRules[i].rule;
    return only_rules;
  }();
  return rules;
}

std::optional<WorstElement> WorstOf(const PairMeasures& m) {
  if (m.num_special_mismatches() > 0) {
    return WorstElement{m.first_special_mismatch, m.special_mismatch_target, m.special_mismatch_golden};
  }
  if (!(m.max_abs_diff > 0)) return std::nullopt;
  return WorstElement{m.max_abs_diff_index, m.max_abs_diff_target, m.max_abs_diff_golden};
}

std::string IndexText(std::uint64_t index, const Shape& shape) {
  Shape position(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    const auto dim = static_cast<std::uint64_t>(shape[i]);
    if (dim == 0) break;
    position[i] = static_cast<std::int64_t>(index % dim);
    index /= dim;
  }
  return ShapeText(position);
}

}  // namespace vernier

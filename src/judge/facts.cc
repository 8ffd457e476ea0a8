#include "judge/facts.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>

namespace vernier {
namespace {

// Of one element, that a mean of shares may be off by: a softmax in 16 bits misses it by more, nearly always.
constexpr double kMeanRoundings = 2;
constexpr std::string_view kDevices[] = {"cpu", "cuda", "hpu", "mlu", "mps", "musa", "npu", "xla", "xpu"};

bool Known(double statistic) { return statistic != Value::kUnknown; }

double Ratio(double difference, double size) {
  if (!std::isfinite(difference) || std::isnan(size)) return HUGE_VAL;
  if (difference == 0) return 0;
  return size == 0 ? HUGE_VAL : difference / size;
}

bool IsHuge(double value) {
  return Known(value) && std::isfinite(value) && std::fabs(value) > kMaskMagnitude;
}
bool IsHuge(const Value& value) { return IsHuge(value.max) || IsHuge(value.min); }

bool Same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool HoldsBooleans(const Value& value) {
  return value.dtype.ends_with("bool") || value.dtype.ends_with("Bool");
}

struct Distance {
  double error = 0, gap = 0;
};

// The largest magnitude that a statistic of a finite size shows; beside −inf, as in a mask, the rest still
// counts.
double SizeOf(const Value& value) {
  double size = 0;
  for (const double extreme : {value.max, value.min}) {
    if (Known(extreme) && std::isfinite(extreme)) size = std::fmax(size, std::fabs(extreme));
  }
  return size;
}

// Or the most that it can be, where its squares were too small to be summed; 0: not known.
double NormOf(const Value& value) {
  if (Known(value.norm) && value.norm != 0) return value.norm;
  return SizeOf(value) * std::sqrt(std::fmax(1, value.num_elements));
}

// The largest of what the four statistics show. A mean is measured against the root mean square, since it may
// be zero up to rounding itself.
Distance FromStatistics(const Value& t, const Value& g) {
  Distance distance;
  const double size = std::fmax(SizeOf(g), !g.is_float && HoldsBooleans(g) ? 1 : 0);
  const auto see = [&](double a, double b, double scale, double spread) {
    if (!Known(a) || !Known(b) || Same(a, b)) return;
    const double difference = std::fabs(a - b);
    distance.error = std::fmax(distance.error, Ratio(difference, scale));
    distance.gap = std::fmax(distance.gap, std::isfinite(difference) ? difference * spread : HUGE_VAL);
  };
  see(t.max, g.max, size, 1);
  see(t.min, g.min, size, 1);
  // Sums of finite elements may overflow in the type that they were summed in, and tell nothing then.
  const bool overflown =
      std::isfinite(t.max) && std::isfinite(g.max) && (!std::isfinite(t.norm) || !std::isfinite(g.norm));
  if (overflown) return distance;
  see(t.norm, g.norm, std::fabs(g.norm), 1);
  const double root = std::sqrt(std::fmax(1, g.num_elements));
  if (Known(g.norm) && g.norm != 0 && std::isfinite(g.norm)) see(t.mean, g.mean, g.norm / root, root);
  return distance;
}

// Rounding moves every element, the largest and the smallest among them.
bool IsLocal(const Value& t, const Value& g) {
  return t.is_float && t.dtype == g.dtype && !t.is_half && t.max == g.max && t.min == g.min &&
         std::isfinite(t.max) && std::isfinite(t.min);
}

// Equal sums of other values are no accident; equal extremes are, and so are sums that were rounded to 16
// bits.
bool AreSumsKept(const Value& t, const Value& g) {
  return Known(t.mean) && Known(t.norm) && Same(t.mean, g.mean) && Same(t.norm, g.norm) && !t.is_half;
}

bool IsMeanKept(const Value& t, const Value& g) {
  const double epsilon = t.is_half || g.is_half ? kHalfEpsilon : kSingleEpsilon;
  return Known(t.mean) && Known(g.mean) &&
         std::fabs(t.mean - g.mean) <= kMeanRoundings * epsilon * std::fabs(g.mean);
}

Distance FromTensors(const PairMeasures& m) {
  if (m.num_special_mismatches() > 0) return {HUGE_VAL, HUGE_VAL};
  const double gap = std::sqrt(m.sum_sq_diff);
  return {Ratio(gap, std::sqrt(m.sum_sq_golden)), std::isnan(gap) ? HUGE_VAL : gap};
}

// The lowest number of a type, as masks are filled with, is another one in another type.
bool IsMaskText(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number < -kMaskMagnitude;
}

bool StartsWithAny(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.starts_with(word); });
}

bool IsTypeText(std::string_view text) {
  constexpr std::string_view kModule = "torch.";
  return text.starts_with(kModule) &&
         StartsWithAny(text.substr(kModule.size()),
                       {"float", "bfloat", "int", "uint", "bool", "complex", "quint", "qint"});
}

// Where a tensor lies is no part of what is computed.
bool IsDeviceText(std::string_view text) {
  const std::string_view kind = text.substr(0, text.find(':'));
  return std::any_of(std::begin(kDevices), std::end(kDevices),
                     [&](std::string_view one) { return kind == one; });
}

bool IsSameText(std::string_view a, std::string_view b) {
  return a == b || (IsMaskText(a) && IsMaskText(b)) || (IsDeviceText(a) && IsDeviceText(b));
}

float Clamped(double value) {
  return std::isnan(value) ? std::numeric_limits<float>::infinity() : static_cast<float>(value);
}

}  // namespace

Facts FactsOf(Role role, const Value& target, const Value* golden, const PairMeasures* measures,
              const SketchEstimate* estimate, Compared by) {
  Facts facts;
  facts.role = role;
  const auto set = [&](Facts::Flag flag, bool on) { facts.flags |= on ? std::uint32_t{flag} : 0; };
  set(Facts::kTensor, target.kind == Value::Kind::kTensor);
  set(Facts::kPlain, target.kind == Value::Kind::kPlain);
  set(Facts::kFloat, target.is_float);
  set(Facts::kHalf, target.is_half || (golden != nullptr && golden->is_half));
  set(Facts::kEighth, target.is_eighth || (golden != nullptr && golden->is_eighth));
  set(Facts::kHuge, IsHuge(target) || (golden != nullptr && IsHuge(*golden)));
  facts.num_elements = static_cast<float>(golden ? golden->num_elements : target.num_elements);
  facts.own_norm = Clamped(NormOf(target));
  if (golden == nullptr) return facts;
  set(Facts::kMatched, true);
  if (!facts.Has(Facts::kTensor) || golden->kind != Value::Kind::kTensor) {
    const bool same = target.kind == golden->kind && IsSameText(target.text, golden->text);
    const bool types = IsTypeText(target.text) && IsTypeText(golden->text);
    set(Facts::kDiffers, !same && !types);
    set(Facts::kOtherType, !same && types);
    set(Facts::kPlain, golden->kind == Value::Kind::kPlain);
    return facts;
  }
  set(Facts::kMixed, target.dtype != golden->dtype);
  set(Facts::kOtherShape, target.shape != golden->shape);
  facts.norm = Clamped(NormOf(*golden));
  if (facts.Has(Facts::kOtherShape)) return facts;
  if (facts.Has(Facts::kMixed) && by == Compared::kChecksums) by = Compared::kStatistics;  // of other bytes
  // Checksums of two kinds tell no more than a missing one.
  const bool comparable = !target.checksum.empty() && target.checksum.size() == golden->checksum.size();
  if (by == Compared::kChecksums && !comparable) by = Compared::kStatistics;
  set(Facts::kDrowned, by != Compared::kTensors && std::isinf(target.norm) && std::isinf(golden->norm));
  set(Facts::kNan, by == Compared::kStatistics && std::isnan(target.max) && std::isnan(golden->max));
  const bool has_statistics = Known(target.max) && Known(golden->max);
  set(Facts::kLocal, has_statistics && IsLocal(target, *golden));
  set(Facts::kMeanKept, IsMeanKept(target, *golden));
  if (by == Compared::kChecksums) {
    const bool same = target.checksum == golden->checksum;
    set(Facts::kWhole, same);
    set(Facts::kMeasured, true);
    set(Facts::kChecked, true);
    facts.error = facts.loose = facts.gap = same ? 0 : std::numeric_limits<float>::infinity();
    // Statistics beside the checksum tell how far apart they are; equal ones tell that it is little. Of masks
    // they tell nothing.
    if (!same && has_statistics) {
      const Distance distance = FromStatistics(target, *golden);
      const bool sized = !facts.Has(Facts::kHuge);
      set(Facts::kShuffled, sized && distance.error == 0 && AreSumsKept(target, *golden));
      facts.loose = Clamped(sized ? distance.error : 0);
      facts.error = std::fmax(facts.loose, std::numeric_limits<float>::min());
      facts.gap = Clamped(distance.gap);
    }
    return facts;
  }
  if (by == Compared::kTensors && measures == nullptr) return facts;
  if (by == Compared::kStatistics && !has_statistics) return facts;
  Distance distance = by == Compared::kTensors ? FromTensors(*measures) : FromStatistics(target, *golden);
  // A sketch knows the size of the difference; the statistics only that there is one.
  const bool has_sketch = by == Compared::kStatistics && estimate != nullptr;
  if (has_sketch && estimate->error_norm > 0 && std::isfinite(distance.error) &&
      std::isfinite(estimate->relative_error)) {
    distance = {estimate->relative_error, estimate->error_norm};
  }
  if (has_sketch && facts.Has(Facts::kHuge) && !facts.Has(Facts::kMixed))
    set(Facts::kMaskMoved, target.num_masked != golden->num_masked);
  set(Facts::kMeasured, true);
  set(Facts::kWhole, by == Compared::kTensors);
  facts.error = facts.loose = Clamped(distance.error);
  facts.gap = Clamped(distance.gap);
  if (by == Compared::kTensors && has_statistics)
    facts.loose = std::fmin(facts.error, Clamped(FromStatistics(target, *golden).error));
  if (by == Compared::kTensors && facts.Has(Facts::kHuge) && !facts.Has(Facts::kMixed)) {
    const double largest = std::fmax(std::fabs(golden->max), std::fabs(golden->min));
    const double moved = measures->max_abs_diff;
    set(Facts::kMaskMoved, moved > kMaskMagnitude && std::isfinite(moved) && moved > largest / 2);
  }
  return facts;
}

}  // namespace vernier

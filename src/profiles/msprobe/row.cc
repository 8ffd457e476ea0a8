#include "profiles/msprobe/row.h"

#include <cmath>

#include "core/python_text.h"

namespace vernier::msprobe {
namespace {

// clang-format off
constexpr Profile kProfiles[] = {
    //                      name       shape  renum. undir. axes   early  relative                   record strict paths  both
    {Generation::kClassic, "classic", true,  false, false, false, false, Relative::kMsprobeClassic, false, true,  true,  true},
    {Generation::kCurrent, "current", false, true,  true,  true,  true,  Relative::kMsprobeCurrent, true,  false, false, false},
};
// clang-format on

}  // namespace

const Profile& ProfileOf(Generation generation) { return kProfiles[static_cast<std::size_t>(generation)]; }

std::optional<double> NumericOf(const Value& value) {
  if (value.is_number()) return value.number;
  if (value.kind == Value::Kind::kBool || value.text.empty()) return std::nullopt;
  const char first = value.text.front();
  if (first == 'N' && value.text != "Nan") return std::nullopt;  // N/A and None, the common texts
  return ParsePythonFloat(value.text);
}

std::optional<double> FractionOf(const Value& value) {
  if (value.kind != Value::Kind::kText) return value.is_number() ? std::optional(value.number) : std::nullopt;
  if (!value.text.ends_with('%')) return std::nullopt;
  const auto percent = ParsePythonFloat(value.text.substr(0, value.text.size() - 1));
  return percent ? std::optional(*percent / 100) : std::nullopt;
}

}  // namespace vernier::msprobe

#include "profiles/msprobe/row.h"

#include <cmath>

#include "core/python_text.h"
#include "profiles/msprobe/rules_shipped.h"

namespace vernier::msprobe {
namespace {

// clang-format off
constexpr Profile kProfiles[] = {
    //                      name       shape  renum. undir. axes   early  relative                   record strict paths  both
    {Generation::kClassic, "classic", true,  false, false, false, false, Relative::kStoredType, false, true,  true,  true},
    {Generation::kCurrent, "current", false, true,  true,  true,  true,  Relative::kAtLeastFloat32, true,  false, false, false},
};
// clang-format on

}  // namespace

const Profile& ProfileOf(Generation generation) { return kProfiles[static_cast<std::size_t>(generation)]; }

Result<Rules> RulesOf(Generation generation, std::optional<std::string_view> overrides,
                      std::string_view file_name) {
  const std::string_view shipped[] = {generation == Generation::kClassic ? kClassicRules : kCurrentRules};
  return Rules::Make(shipped, overrides, file_name);
}

std::string_view Name(Mode mode) {
  static constexpr std::string_view kNames[] = {"real data", "statistics", "MD5"};
  return kNames[static_cast<std::size_t>(mode)];
}

Status ResultRow::status() const {
  if (bad_record) return Status::kError;
  if (fails()) return Status::kFail;
  return matched ? Status::kPass : Status::kUnmatched;
}

std::optional<double> NumericOf(const Cell& value) {
  if (value.is_number()) return value.number;
  if (value.kind != Cell::Kind::kText || value.text.empty()) return std::nullopt;
  const char first = value.text.front();
  if (first == 'N' && value.text != "Nan") return std::nullopt;  // N/A and None, the common texts
  return ParsePythonFloat(value.text);
}

std::optional<double> FractionOf(const Cell& value) {
  const bool has_number = value.is_number() || value.kind == Cell::Kind::kShown;
  return has_number ? std::optional(value.number) : std::nullopt;
}

}  // namespace vernier::msprobe

// Pairs of keys that mean the same tensor, each with the rule that made it.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "profiles/xray/recording.h"
#include "vernier/match.h"
#include "vernier/result.h"

namespace vernier::xray {

enum class KeyRule { kExact, kClass, kOrder, kPosition };
inline constexpr std::size_t kNumKeyRules = 4;
std::string_view Name(KeyRule rule);  // "exact", …

struct KeyPair {
  std::size_t target = 0, golden = 0;  // in Recording::items
  KeyRule rule = KeyRule::kExact;
};

struct KeyPairing {
  std::vector<KeyPair> pairs;                            // in the golden's order
  std::vector<std::size_t> only_target, only_golden;     // of the steps that both have
  std::vector<std::int64_t> target_steps, golden_steps;  // that only one side has
};

// Only steps that both sides have are looked at. Without a mode: equal keys; then keys that differ in nothing
// but class name and call number, where only one of each side is left; then what is left, of the same parent
// path, category and shape, in order. kExact stops after the first. kPosition pairs line by line, and fails
// when a step has not as many lines on both sides.
Result<KeyPairing> MatchKeys(const Recording& target, const Recording& golden, std::optional<MatchMode> mode);

}  // namespace vernier::xray

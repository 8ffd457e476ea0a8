// match: two indexes -> Pairs with the rule that made them, and what found no partner.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

// kAuto tries exact names first, then fuzzy for what is left over.
enum class MatchRule { kExact, kFuzzy, kPosition, kRenamed };
std::string_view Name(MatchRule rule);  // "exact", …

struct Pair {
  std::size_t target = 0, golden = 0;  // indexes into the two lists
  MatchRule rule = MatchRule::kExact;
};

struct Pairing {
  std::vector<Pair> pairs;  // in target order
  std::vector<std::size_t> only_target, only_golden;
};

enum class MatchMode { kExact, kFuzzy, kPosition };

struct MatchOptions {
  MatchMode mode = MatchMode::kExact;
  // {OLD, NEW}: OLD in a target name becomes NEW before anything is matched.
  std::vector<std::pair<std::string, std::string>> renames;
};

// kExact: equal names; a name that occurs several times pairs in order of occurrence. kFuzzy: exact first, then names
// that are equal when every run of digits and common wrappers ("module.", "model.", "_orig_mod.") are ignored, only
// where that is unambiguous or both sides have the same number of candidates, which then pair in order. kPosition:
// the i-th with the i-th; fails when the counts differ.
Result<Pairing> Match(std::span<const TensorInfo> target, std::span<const TensorInfo> golden,
                      const MatchOptions& options);

}  // namespace vernier

// match: two indexes -> Pairs with the rule that made them, and what found no partner.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

enum class MatchRule { kExact, kRenamed, kFuzzy, kPosition };
inline constexpr std::size_t kNumMatchRules = 4;
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
  // {OLD, NEW}: OLD in a target name becomes NEW before anything is matched, wherever that does not cut a
  // number in two ("layer.1" is not part of "layer.10"). Applied one after the other. OLD must not be empty.
  std::vector<std::pair<std::string, std::string>> renames;
  // {target name, golden name}: whole names, looked at before the renames.
  std::vector<std::pair<std::string, std::string>> mapping;
};

// A name with OLD replaced by NEW as MatchOptions::renames says. REQUIRES: OLD is not empty
std::string Renamed(std::string name, const std::vector<std::pair<std::string, std::string>>& renames);
Result<Done> CheckRenames(const std::vector<std::pair<std::string, std::string>>& renames);
// The failure of matching by position when the counts differ.
Result<Done> CheckEqualCounts(std::size_t num_target, std::size_t num_golden, std::string_view things);

// kExact: equal names; a name that occurs several times pairs in order of occurrence. kRenamed in the result
// says that the names are equal since a rename.
//
// kFuzzy: exact first; then, for what is left over, names that are equal when less and less of them counts:
//   1. without the wrappers' components: module, model, _orig_mod, …
//   2. and without letter case and kind of separator: "Block/1/Weight" is "block.1.weight"
//   3. and without the call counter, the number beside "forward" or "backward"
// Names that become the same pair in order, and only when both sides have as many of them. Other numbers
// always count, so that "layer.1" never meets "layer.10".
//
// kPosition: the i-th with the i-th; fails when the counts differ.
//
// Takes time linear in the names' bytes and depends on their order alone.
Result<Pairing> Match(std::span<const TensorInfo> target, std::span<const TensorInfo> golden,
                      const MatchOptions& options);

}  // namespace vernier

#include "vernier/match.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <unordered_map>

#include "match/fuzzy_internal.h"

namespace vernier {
namespace {

using Indexes = std::vector<std::size_t>;
using Names = std::vector<std::string>;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool CutsANumber(std::string_view text, std::size_t begin, std::size_t end) {
  const auto joins_digits = [text](std::size_t at) {
    return at > 0 && at < text.size() && IsDigit(text[at - 1]) && IsDigit(text[at]);
  };
  return joins_digits(begin) || joins_digits(end);
}

std::string Replaced(const std::string& text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    if (CutsANumber(text, at, at + from.size())) {
      ++at;
      continue;
    }
    out.append(text, done, at - done).append(to);
    done = at += from.size();
  }
  return out.append(text, done);
}

Names NamesOf(std::span<const TensorInfo> tensors) {
  Names names;
  names.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) names.push_back(tensor.name);
  return names;
}

enum class GroupRule { kAsManyAsPossible, kOnlyEqualCounts };

// Pairs the leftovers of both sides whose keys are equal, in order, and takes them off the leftovers.
class Matcher {
 public:
  Matcher(std::size_t num_target, std::size_t num_golden) {
    pairing_.only_target.resize(num_target);
    pairing_.only_golden.resize(num_golden);
    std::iota(pairing_.only_target.begin(), pairing_.only_target.end(), std::size_t{0});
    std::iota(pairing_.only_golden.begin(), pairing_.only_golden.end(), std::size_t{0});
  }

  // key(side, index) is the text that counts; rule(target index) the reason to record.
  template <class TargetKey, class GoldenKey, class RuleOf>
  void PairEqual(const TargetKey& target_key, const GoldenKey& golden_key, GroupRule group_rule,
                 const RuleOf& rule) {
    std::unordered_map<std::string, std::pair<Indexes, Indexes>> groups;
    groups.reserve(pairing_.only_golden.size());
    for (const std::size_t i : pairing_.only_golden) groups[golden_key(i)].second.push_back(i);
    for (const std::size_t i : pairing_.only_target) {
      if (const auto group = groups.find(target_key(i)); group != groups.end())
        group->second.first.push_back(i);
    }
    std::vector<bool> used_target(NumIndexes(pairing_.only_target)),
        used_golden(NumIndexes(pairing_.only_golden));
    for (const auto& [key, group] : groups) {
      const auto& [targets, goldens] = group;
      if (group_rule == GroupRule::kOnlyEqualCounts && targets.size() != goldens.size()) continue;
      for (std::size_t i = 0; i < std::min(targets.size(), goldens.size()); ++i) {
        pairing_.pairs.push_back({targets[i], goldens[i], rule(targets[i])});
        used_target[targets[i]] = used_golden[goldens[i]] = true;
      }
    }
    std::erase_if(pairing_.only_target, [&](std::size_t i) { return used_target[i]; });
    std::erase_if(pairing_.only_golden, [&](std::size_t i) { return used_golden[i]; });
  }

  Pairing Finish() && {
    std::sort(pairing_.pairs.begin(), pairing_.pairs.end(),
              [](const Pair& a, const Pair& b) { return a.target < b.target; });
    return std::move(pairing_);
  }

 private:
  static std::size_t NumIndexes(const Indexes& sorted) { return sorted.empty() ? 0 : sorted.back() + 1; }
  Pairing pairing_;
};

Result<Pairing> MatchByPosition(std::size_t num_target, std::size_t num_golden) {
  VN_RETURN_IF_ERROR(CheckEqualCounts(num_target, num_golden, "tensors"));
  Pairing pairing;
  for (std::size_t i = 0; i < num_target; ++i) pairing.pairs.push_back({i, i, MatchRule::kPosition});
  return pairing;
}

}  // namespace

std::string_view Name(MatchRule rule) {
  constexpr std::string_view kNames[kNumMatchRules] = {"exact", "renamed", "fuzzy", "position"};
  return kNames[static_cast<std::size_t>(rule)];
}

std::string Renamed(std::string name, const std::vector<std::pair<std::string, std::string>>& renames) {
  for (const auto& [from, to] : renames) name = Replaced(name, from, to);
  return name;
}

Result<Done> CheckRenames(const std::vector<std::pair<std::string, std::string>>& renames) {
  for (const auto& [from, to] : renames) {
    if (from.empty()) return Error{ErrorCode::kBadArgument, "rename", "there is nothing in front of =" + to};
  }
  return Done{};
}

Result<Done> CheckEqualCounts(std::size_t num_target, std::size_t num_golden, std::string_view things) {
  if (num_target == num_golden) return Done{};
  return Error{ErrorCode::kBadArgument, "--match position",
               "needs equally many " + std::string(things) + " on both sides, but the target has " +
                   std::to_string(num_target) + " and the golden " + std::to_string(num_golden)};
}

Result<Pairing> Match(std::span<const TensorInfo> target, std::span<const TensorInfo> golden,
                      const MatchOptions& options) {
  if (options.mode == MatchMode::kPosition) return MatchByPosition(target.size(), golden.size());
  Names target_names = NamesOf(target);
  const Names golden_names = NamesOf(golden);
  VN_RETURN_IF_ERROR(CheckRenames(options.renames));
  const std::unordered_map<std::string, std::string> mapping(options.mapping.begin(), options.mapping.end());
  for (std::string& name : target_names) {
    const auto mapped = mapping.find(name);
    name = mapped != mapping.end() ? mapped->second : Renamed(std::move(name), options.renames);
  }
  Matcher matcher(target.size(), golden.size());
  matcher.PairEqual([&](std::size_t i) { return target_names[i]; },
                    [&](std::size_t i) { return golden_names[i]; }, GroupRule::kAsManyAsPossible,
                    [&](std::size_t i) {
                      return target_names[i] == target[i].name ? MatchRule::kExact : MatchRule::kRenamed;
                    });
  if (options.mode == MatchMode::kFuzzy) {
    for (const FuzzyKey key : kFuzzyKeys) {
      matcher.PairEqual([&](std::size_t i) { return key(target_names[i]); },
                        [&](std::size_t i) { return key(golden_names[i]); }, GroupRule::kOnlyEqualCounts,
                        [](std::size_t) { return MatchRule::kFuzzy; });
    }
  }
  return std::move(matcher).Finish();
}

}  // namespace vernier

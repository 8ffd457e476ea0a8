#include "profiles/xray/key_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

#include "format/module_key.h"

namespace vernier::xray {
namespace {

using Step = std::optional<std::int64_t>;
using Places = std::vector<std::size_t>;  // in Recording::items

std::map<Step, Places> BySteps(const Recording& recording) {
  std::map<Step, Places> steps;
  for (std::size_t i = 0; i < recording.items.size(); ++i) steps[recording.items[i].step].push_back(i);
  return steps;
}

std::string_view ParentOf(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

// What must agree for a rule, as one text.
std::string ExactText(const Recording&, const Item& item) { return std::string(item.key); }
std::string ClassText(const Recording&, const Item& item) {
  const ModuleKey parts = SplitModuleKey(item.key);
  return fmt::format("{}\n{}\n{}", parts.path, parts.category, parts.index);
}
std::string OrderText(const Recording& recording, const Item& item) {
  const ModuleKey parts = SplitModuleKey(item.key);
  return fmt::format("{}\n{}\n{}", ParentOf(parts.path), parts.category,
                     ShapeText(recording.info(item).shape));
}

struct Rule {
  KeyRule rule;
  std::string (*text)(const Recording& recording, const Item& item);
  bool unique;  // only where one of each side is left
};
constexpr Rule kRules[] = {{KeyRule::kExact, ExactText, false},
                           {KeyRule::kClass, ClassText, true},
                           {KeyRule::kOrder, OrderText, false}};

class StepMatcher {
 public:
  StepMatcher(const Recording& target, const Recording& golden, Places targets, Places goldens,
              KeyPairing& pairing)
      : target_(target),
        golden_(golden),
        targets_(std::move(targets)),
        goldens_(std::move(goldens)),
        pairing_(pairing) {}

  void Apply(const Rule& rule) {
    std::unordered_map<std::string, Places> waiting;
    for (const std::size_t place : targets_)
      waiting[rule.text(target_, target_.items[place])].push_back(place);
    std::unordered_map<std::string, std::size_t> num_goldens, num_used;
    for (const std::size_t place : goldens_) ++num_goldens[rule.text(golden_, golden_.items[place])];
    Places left;
    std::vector<bool> taken(target_.items.size());
    for (const std::size_t place : goldens_) {
      const std::string text = rule.text(golden_, golden_.items[place]);
      const auto found = waiting.find(text);
      std::size_t& used = num_used[text];
      const bool fits = found != waiting.end() && used < found->second.size() &&
                        (!rule.unique || (found->second.size() == 1 && num_goldens[text] == 1));
      if (!fits) {
        left.push_back(place);
        continue;
      }
      const std::size_t partner = found->second[used++];
      taken[partner] = true;
      pairing_.pairs.push_back({partner, place, rule.rule});
    }
    goldens_ = std::move(left);
    std::erase_if(targets_, [&](std::size_t place) { return taken[place]; });
  }

  Result<Done> ByPosition() {
    const std::size_t both = std::min(targets_.size(), goldens_.size());
    if (targets_.size() != goldens_.size()) {
      std::size_t part = 0;
      while (part < both && target_.items[targets_[part]].key == golden_.items[goldens_[part]].key) ++part;
      const auto key = [part](const Recording& recording, const Places& places) {
        return part < places.size() ? std::string(recording.items[places[part]].key) : std::string("nothing");
      };
      return Error{
          ErrorCode::kBadArgument, "--match position",
          fmt::format("the target has {} keys and the golden {}; they part at line {}: {} against {}",
                      targets_.size(), goldens_.size(), part, key(target_, targets_),
                      key(golden_, goldens_))};
    }
    for (std::size_t i = 0; i < both; ++i)
      pairing_.pairs.push_back({targets_[i], goldens_[i], KeyRule::kPosition});
    targets_.clear();
    goldens_.clear();
    return Done{};
  }

  void KeepRest() {
    pairing_.only_target.insert(pairing_.only_target.end(), targets_.begin(), targets_.end());
    pairing_.only_golden.insert(pairing_.only_golden.end(), goldens_.begin(), goldens_.end());
  }

 private:
  const Recording& target_;
  const Recording& golden_;
  Places targets_, goldens_;  // without a partner so far
  KeyPairing& pairing_;
};

}  // namespace

std::string_view Name(KeyRule rule) {
  constexpr std::string_view kNames[] = {"exact", "class", "order", "position"};
  return kNames[static_cast<std::size_t>(rule)];
}

Result<KeyPairing> MatchKeys(const Recording& target, const Recording& golden,
                             std::optional<MatchMode> mode) {
  if (mode == MatchMode::kFuzzy) {
    return Error{ErrorCode::kBadArgument, "--match fuzzy",
                 "exact or position here; without it class names and call numbers may differ"};
  }
  std::map<Step, Places> targets = BySteps(target), goldens = BySteps(golden);
  KeyPairing pairing;
  for (const auto& [step, places] : targets) {
    if (!goldens.contains(step) && step) pairing.target_steps.push_back(*step);
    if (!goldens.contains(step) && !step) pairing.only_target = places;
  }
  for (auto& [step, places] : goldens) {
    const auto found = targets.find(step);
    if (found == targets.end()) {
      if (step) pairing.golden_steps.push_back(*step);
      if (!step) pairing.only_golden = places;
      continue;
    }
    StepMatcher matcher(target, golden, std::move(found->second), std::move(places), pairing);
    if (mode == MatchMode::kPosition) VN_RETURN_IF_ERROR(matcher.ByPosition());
    for (const Rule& rule : kRules) {
      matcher.Apply(rule);
      if (mode == MatchMode::kExact) break;
    }
    matcher.KeepRest();
  }
  std::sort(pairing.pairs.begin(), pairing.pairs.end(),
            [](const KeyPair& a, const KeyPair& b) { return a.golden < b.golden; });
  return pairing;
}

}  // namespace vernier::xray

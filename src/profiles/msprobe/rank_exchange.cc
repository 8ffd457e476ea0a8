// Calls of one kind that the two sides make in another order, where no place tells them apart.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

#include "profiles/msprobe/likeness.h"
#include "profiles/msprobe/rank_verdict.h"

namespace vernier::msprobe {

constexpr std::size_t kMostGiven = 64;  // calls that one tensor tells apart

// The tensors that a call was given.
std::vector<Value> RankVerdict::InputsOf(const Dump& dump, std::uint32_t call, TextArena& arena) {
  std::vector<Value> inputs;
  const Record& record = dump.records()[call];
  for (std::uint32_t row = record.first_row; row < record.first_row + record.num_rows; ++row) {
    if (dump.rows()[row].bad || static_cast<PortState>(dump.rows()[row].state) == PortState::kOutput)
      continue;
    const Value value = ValueOf(dump.Read(dump.rows()[row], arena), arena);
    if (value.kind == Value::Kind::kTensor && value.num_elements >= 2) inputs.push_back(value);
  }
  return inputs;
}

// Each as a text that only the same tensor has.
std::vector<std::string> RankVerdict::InputTextsOf(const Dump& dump, std::uint32_t call) {
  std::vector<std::string> texts;
  TextArena arena;
  for (const Value& value : InputsOf(dump, call, arena)) {
    texts.push_back(fmt::format("{} {} {} {} {} {} {}", value.dtype, value.shape, value.max, value.min,
                                value.mean, value.norm, value.checksum));
  }
  return texts;
}

RankVerdict::Input RankVerdict::InputAt(std::size_t row) const {
  const Facts& facts = facts_[row];
  if (wanted_[row] == kNoRow || static_cast<PortState>(npu_.rows()[row].state) == PortState::kOutput)
    return Input::kSame;
  const double odd = rules_.Threshold("odd_input");
  if (seen_[row]) {
    if (!facts.Has(Facts::kTensor)) return Input::kSame;
    const bool is_odd = facts.Has(Facts::kOtherShape) || (facts.Has(Facts::kMeasured) && facts.error > odd);
    return is_odd ? Input::kOdd : facts.error > 0 ? Input::kDiffers : Input::kSame;
  }
  // Pairs that the table does not have are not measured yet; what was recorded of them tells enough.
  TextArena arena;
  const Value ours = ValueOf(npu_.Read(npu_.rows()[row], arena), arena),
              theirs = ValueOf(bench_.Read(bench_.rows()[wanted_[row]], arena), arena);
  if (ours.kind != Value::Kind::kTensor) return Input::kSame;
  if (ours.shape != theirs.shape) return Input::kOdd;
  if (!HasStatistics(ours, theirs)) return ours.checksum == theirs.checksum ? Input::kSame : Input::kDiffers;
  const double unlikeness = Unlikeness(ours, theirs);
  return unlikeness > odd ? Input::kOdd : unlikeness > 0 ? Input::kDiffers : Input::kSame;
}

// The call of the other pass of the same operation.
class RankVerdict::Twins {
 public:
  explicit Twins(const Calls& calls) : calls_(calls) {
    for (std::uint32_t i = 0; i < calls.size(); ++i) {
      if (calls[i].pass != Pass::kGradient && !calls[i].twin.empty())
        known_[calls[i].pass == Pass::kForward].emplace(calls[i].twin, i);
    }
  }
  std::uint32_t Of(std::uint32_t call) const {
    const auto& others = known_[calls_[call].pass != Pass::kForward];
    const auto found = others.find(calls_[call].twin);
    return found == others.end() ? kNoCall : found->second;
  }

 private:
  const Calls& calls_;
  std::unordered_map<std::string_view, std::uint32_t> known_[2];  // of the backward and of the forward pass
};

void RankVerdict::ExchangeReordered() {
  // Calls that are given something else than their partners, by kind and place: where some are given nothing
  // like it, all of them may have changed places.
  std::map<std::tuple<Pass, std::string_view, std::string_view>, ReorderedGroup> groups;
  const Calls& calls = target_.calls();
  for (std::uint32_t call = 0; call < calls.size(); ++call) {
    if (calls[call].is_module || calls[call].pass == Pass::kGradient) continue;
    if (alignment_.golden_of[call] == kNoCall || alignment_.how[call] == PairedBy::kFused) continue;
    bool differs = false, odd = false;
    for (std::size_t row = first_[call]; row < first_[call + 1] && !odd; ++row) {
      const Input input = InputAt(row);
      odd = input == Input::kOdd;
      differs = differs || input != Input::kSame;
    }
    if (!differs) continue;
    ReorderedGroup& group = groups[{calls[call].pass, calls[call].kind, calls[call].place}];
    group.calls.push_back(call);
    group.any_odd = group.any_odd || odd;
  }
  // Of those that the golden makes alone one may be the partner that another call was given.
  for (std::uint32_t call = 0; call < golden_.calls().size(); ++call) {
    const Call& what = golden_.calls()[call];
    if (!alignment_.IsGoldenAlone(call)) continue;
    const auto group = groups.find({what.pass, what.kind, what.place});
    if (group != groups.end()) group->second.spare.push_back(call);
  }
  std::erase_if(groups, [](const auto& group) {
    return !group.second.any_odd || group.second.calls.size() + group.second.spare.size() < 2;
  });
  if (groups.empty()) return;
  const Twins target_twins(target_.calls()), golden_twins(golden_.calls());
  for (const auto& [where, group] : groups) ExchangeAmong(group, target_twins, golden_twins);
}

// Backward calls change places only where their forward calls are given the same, as two normalisations of
// one tensor are.
bool RankVerdict::MayExchange(std::uint32_t golden, std::uint32_t other, const Twins& twins) const {
  if (golden_.calls()[golden].pass == Pass::kForward) return true;
  const std::uint32_t a = twins.Of(golden), b = twins.Of(other);
  return a != kNoCall && b != kNoCall && InputTextsOf(bench_, a) == InputTextsOf(bench_, b);
}

// In noise no two inputs are the same to the last bit.
void RankVerdict::PairAlike(const Twins& twins, std::vector<std::uint32_t>& left, const ReorderedGroup& group,
                            std::set<std::uint32_t>& taken,
                            std::vector<std::pair<std::uint32_t, std::uint32_t>>& pairs) const {
  constexpr std::size_t kMostAlike = 2000;  // calls of one kind and place; each is held against each
  if (left.empty() || group.calls.size() + group.spare.size() > kMostAlike) return;
  TextArena arena;
  std::map<std::uint32_t, std::vector<Value>> given;
  const auto add = [&](std::uint32_t golden) {
    if (!taken.contains(golden)) given[golden] = InputsOf(bench_, golden, arena);
  };
  for (const std::uint32_t call : group.calls) add(alignment_.golden_of[call]);
  for (const std::uint32_t golden : group.spare) add(golden);
  std::erase_if(left, [&](std::uint32_t call) {
    const std::vector<Value> ours = InputsOf(npu_, call, arena);
    std::uint32_t best = kNoCall;
    std::size_t most = 0;
    if (const auto own = given.find(alignment_.golden_of[call]);
        own != given.end() && !taken.contains(own->first)) {
      most = NumAlike(ours, own->second, kMaybe);  // another one must be surely better
      if (most > 0) best = own->first;
    }
    for (const auto& [golden, theirs] : given) {
      if (taken.contains(golden)) continue;
      const std::size_t alike = NumAlike(ours, theirs, kSurely);
      if (alignment_.target_of[golden] == kNoCall && alike < ours.size()) continue;
      if (alike > most && MayExchange(alignment_.golden_of[call], golden, twins)) best = golden, most = alike;
    }
    if (best == kNoCall) return false;
    taken.insert(best);
    pairs.emplace_back(call, best);
    return true;
  });
}

void RankVerdict::ExchangeAmong(const ReorderedGroup& group, const Twins& target_twins,
                                const Twins& golden_twins) {
  std::unordered_map<std::string, std::vector<std::uint32_t>> given_to;  // what -> calls of the golden
  const auto add = [&](std::uint32_t golden) {
    for (std::string& input : InputTextsOf(bench_, golden)) given_to[std::move(input)].push_back(golden);
  };
  for (const std::uint32_t call : group.calls) add(alignment_.golden_of[call]);
  for (const std::uint32_t golden : group.spare) add(golden);
  std::set<std::uint32_t> taken;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  std::vector<std::uint32_t> left;
  for (const std::uint32_t call : group.calls) {
    std::map<std::uint32_t, std::size_t> num_same;
    const std::vector<std::string> inputs = InputTextsOf(npu_, call);
    for (const std::string& input : inputs) {
      const auto found = given_to.find(input);
      // What all of them are given, as a mask, tells none apart.
      if (found == given_to.end() || found->second.size() > kMostGiven) continue;
      for (const std::uint32_t golden : found->second) num_same[golden] += !taken.contains(golden);
    }
    // A call that has no partner must be given all of it; one that shares an input may well be another call.
    std::erase_if(num_same, [&](const auto& entry) {
      return alignment_.target_of[entry.first] == kNoCall && entry.second < inputs.size();
    });
    auto best = std::max_element(num_same.begin(), num_same.end(),
                                 [](const auto& a, const auto& b) { return a.second < b.second; });
    const auto own = num_same.find(alignment_.golden_of[call]);
    if (own != num_same.end() && own->second == best->second) best = own;
    if (best == num_same.end() || best->second == 0 ||
        !MayExchange(alignment_.golden_of[call], best->first, golden_twins)) {
      left.push_back(call);
    } else {
      taken.insert(best->first);
      pairs.emplace_back(call, best->first);
    }
  }
  PairAlike(golden_twins, left, group, taken, pairs);
  if (pairs.empty()) return;
  // The rest keep their partners, or get in order what has lost its own.
  std::erase_if(left, [&](std::uint32_t call) { return taken.insert(alignment_.golden_of[call]).second; });
  std::vector<std::uint32_t> free;
  for (const std::uint32_t call : group.calls) {
    if (!taken.contains(alignment_.golden_of[call])) free.push_back(alignment_.golden_of[call]);
  }
  for (const std::uint32_t call : left) {
    const auto fits = std::find_if(free.begin(), free.end(), [&](std::uint32_t golden) {
      return MayExchange(alignment_.golden_of[call], golden, golden_twins);
    });
    if (fits == free.end()) continue;  // its partner goes to another call, which parts the two
    pairs.emplace_back(call, *fits);
    free.erase(fits);
  }
  for (const auto& [call, golden] : pairs) {
    if (alignment_.golden_of[call] == golden) continue;
    Repair(call, golden);
    const std::uint32_t ours = target_twins.Of(call), theirs = golden_twins.Of(golden);
    if (ours == kNoCall || alignment_.golden_of[ours] == theirs) continue;
    theirs == kNoCall ? Part(ours) : Repair(ours, theirs);
  }
}

}  // namespace vernier::msprobe

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

// Of pairs that the table does not have, only the shapes are known so far.
bool RankVerdict::IsOddInput(std::size_t row) const {
  const Facts& facts = facts_[row];
  if (wanted_[row] == kNoRow || static_cast<PortState>(npu_.rows()[row].state) == PortState::kOutput)
    return false;
  if (seen_[row])
    return facts.Has(Facts::kTensor) &&
           (facts.Has(Facts::kOtherShape) ||
            (facts.Has(Facts::kMeasured) && facts.error > rules_.Threshold("odd_input")));
  TextArena arena;
  const Leaf ours = npu_.Read(npu_.rows()[row], arena),
             theirs = bench_.Read(bench_.rows()[wanted_[row]], arena);
  return ValueOf(ours, arena).kind == Value::Kind::kTensor && ours.shape != theirs.shape;
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
  struct Group {
    std::vector<std::uint32_t> calls;
    bool any_odd = false;
  };
  std::map<std::tuple<Pass, std::string_view, std::string_view>, Group> groups;
  const Calls& calls = target_.calls();
  for (std::uint32_t call = 0; call < calls.size(); ++call) {
    if (calls[call].is_module || calls[call].pass == Pass::kGradient) continue;
    if (alignment_.golden_of[call] == kNoCall || alignment_.how[call] == PairedBy::kFused) continue;
    bool differs = false, odd = false;
    for (std::size_t row = first_[call]; row < first_[call + 1] && !odd; ++row) {
      odd = IsOddInput(row);
      differs = differs || odd || (facts_[row].role != Role::kOutput && facts_[row].error > 0);
    }
    if (!differs) continue;
    Group& group = groups[{calls[call].pass, calls[call].kind, calls[call].place}];
    group.calls.push_back(call);
    group.any_odd = group.any_odd || odd;
  }
  std::erase_if(groups,
                [](const auto& group) { return !group.second.any_odd || group.second.calls.size() < 2; });
  if (groups.empty()) return;
  const Twins target_twins(target_.calls()), golden_twins(golden_.calls());
  for (const auto& [where, group] : groups) ExchangeAmong(group.calls, target_twins, golden_twins);
}

// Backward calls change places only where their forward calls are given the same, as two normalisations of
// one tensor are.
bool RankVerdict::MayExchange(std::uint32_t golden, std::uint32_t other, const Twins& twins) const {
  if (golden_.calls()[golden].pass == Pass::kForward) return true;
  const std::uint32_t a = twins.Of(golden), b = twins.Of(other);
  return a != kNoCall && b != kNoCall && InputTextsOf(bench_, a) == InputTextsOf(bench_, b);
}

// In noise no two inputs are the same to the last bit.
void RankVerdict::PairAlike(const Twins& twins, std::vector<std::uint32_t>& left,
                            const std::vector<std::uint32_t>& group, std::set<std::uint32_t>& taken,
                            std::vector<std::pair<std::uint32_t, std::uint32_t>>& pairs) const {
  constexpr std::size_t kMostAlike = 2000;  // calls of one kind and place; each is held against each
  if (left.empty() || group.size() > kMostAlike) return;
  TextArena arena;
  std::map<std::uint32_t, std::vector<Value>> given;
  for (const std::uint32_t call : group) {
    const std::uint32_t golden = alignment_.golden_of[call];
    if (!taken.contains(golden)) given[golden] = InputsOf(bench_, golden, arena);
  }
  std::erase_if(left, [&](std::uint32_t call) {
    const std::vector<Value> ours = InputsOf(npu_, call, arena);
    std::uint32_t best = kNoCall;
    std::size_t most = 0;
    if (const auto own = given.find(alignment_.golden_of[call]);
        own != given.end() && !taken.contains(own->first)) {
      most = NumAlike(ours, own->second);
      if (most > 0) best = own->first;
    }
    for (const auto& [golden, theirs] : given) {
      if (taken.contains(golden)) continue;
      const std::size_t alike = NumAlike(ours, theirs);
      if (alike > most && MayExchange(alignment_.golden_of[call], golden, twins)) best = golden, most = alike;
    }
    if (best == kNoCall) return false;
    taken.insert(best);
    pairs.emplace_back(call, best);
    return true;
  });
}

void RankVerdict::ExchangeAmong(const std::vector<std::uint32_t>& group, const Twins& target_twins,
                                const Twins& golden_twins) {
  std::unordered_map<std::string, std::vector<std::uint32_t>> given_to;  // what -> calls of the golden
  for (const std::uint32_t call : group) {
    for (std::string& input : InputTextsOf(bench_, alignment_.golden_of[call]))
      given_to[std::move(input)].push_back(alignment_.golden_of[call]);
  }
  std::set<std::uint32_t> taken;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  std::vector<std::uint32_t> left;
  for (const std::uint32_t call : group) {
    std::map<std::uint32_t, std::size_t> num_same;
    for (const std::string& input : InputTextsOf(npu_, call)) {
      const auto found = given_to.find(input);
      // What all of them are given, as a mask, tells none apart.
      if (found == given_to.end() || found->second.size() > kMostGiven) continue;
      for (const std::uint32_t golden : found->second) num_same[golden] += !taken.contains(golden);
    }
    const auto best = std::max_element(num_same.begin(), num_same.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
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
  for (const std::uint32_t call : group) {
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

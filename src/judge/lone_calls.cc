#include "judge/lone_calls.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

namespace vernier {
namespace {

constexpr std::uint32_t kFarthest = 256;  // calls back that one is looked for which gives just what is wrong

constexpr float kOrder = 1e-6F;  // of a view the squares are summed in another order

bool IsSameNorm(float a, float b) { return a == b || std::fabs(a - b) <= kOrder * std::fabs(b); }

}  // namespace

void LoneCalls::Pass(std::uint32_t call) {
  if (!in_.alignment.IsTargetAlone(call)) {
    ++num_paired_;
    return;
  }
  before_.push_back({call, num_paired_});
  if (before_.size() > kFarthest) before_.pop_front();
}

// What a call is given that differs about as much as anything that it is given.
std::vector<const Facts*> LoneCalls::WrongInputs(std::uint32_t call) const {
  std::vector<const Facts*> wrong;
  float worst = 0;
  for (const Facts& facts : FactsOf(call)) {
    if (facts.role != Role::kOutput) worst = std::fmax(worst, facts.error);
  }
  for (const Facts& facts : FactsOf(call)) {
    if (facts.role != Role::kOutput && facts.error > 0 && facts.error >= worst / 2) wrong.push_back(&facts);
  }
  return wrong;
}

// Whether the target's call `from` gives something of this size. What it did in place, unrecorded, may be.
bool LoneCalls::Gives(std::uint32_t from, float norm) const {
  bool gives_any = false;
  for (const Facts& facts : FactsOf(from)) {
    if (facts.role != Role::kOutput || !facts.Has(Facts::kTensor)) continue;
    gives_any = true;
    if (IsSameNorm(facts.own_norm, norm)) return true;
  }
  return !gives_any && (in_.target[from].is_writer || in_.target[from].is_in_place);
}

// Norms of zeros, of booleans and of infinities are those of many tensors.
bool LoneCalls::IsTelling(const Facts& wrong, float norm) {
  return wrong.Has(Facts::kFloat) && norm > 0 && std::isfinite(norm);
}

// Just this tensor, or the NaN and infinities in it.
bool LoneCalls::GivesJust(std::uint32_t from, const Facts& wrong) const {
  if (!std::isfinite(wrong.own_norm) && std::isfinite(wrong.norm)) return MakesSpecial(from);
  if (!IsTelling(wrong, wrong.own_norm)) return false;
  const std::span<const Facts> all = FactsOf(from);
  return std::any_of(all.begin(), all.end(), [&](const Facts& facts) {
    return facts.role == Role::kOutput && facts.Has(Facts::kFloat) &&
           facts.num_elements == wrong.num_elements && IsSameNorm(facts.own_norm, wrong.own_norm);
  });
}

// NaN or infinities of what is finite.
bool LoneCalls::MakesSpecial(std::uint32_t call) const {
  bool makes = false, takes = false;
  for (const Facts& facts : FactsOf(call)) {
    if (!facts.Has(Facts::kTensor)) continue;
    const bool is_output = facts.role == Role::kOutput, is_finite = std::isfinite(facts.own_norm);
    if (!is_output && !is_finite) return false;
    takes = takes || !is_output;
    makes = makes || (is_output && !is_finite);
  }
  return makes && takes;
}

std::uint32_t LoneCalls::AdditionalBefore(std::uint32_t call) const {
  for (const Facts* wrong : WrongInputs(call)) {
    const auto last = std::find_if(before_.rbegin(), before_.rend(), [&](const Lone& lone) {
      return IsNear(lone) ? Gives(lone.call, wrong->own_norm)
                          : call - lone.call <= kFarthest && GivesJust(lone.call, *wrong);
    });
    if (last == before_.rend()) continue;
    std::uint32_t first = last->call, changes = ChangeOf(first) ? first : kNoCall,
                  special = MakesSpecial(first) ? first : kNoCall;
    for (auto before = std::next(last); before != before_.rend(); ++before) {
      const std::span<const Facts> given = FactsOf(first);
      const bool hands_on = std::any_of(given.begin(), given.end(), [&](const Facts& facts) {
        return facts.role != Role::kOutput && facts.Has(Facts::kTensor) &&
               Gives(before->call, facts.own_norm);
      });
      if (!hands_on) continue;
      first = before->call;
      if (ChangeOf(first)) changes = first;
      if (MakesSpecial(first)) special = first;
    }
    if (!std::isfinite(wrong->own_norm) && special != kNoCall) return special;
    return changes == kNoCall ? first : changes;
  }
  return kNoCall;
}

std::uint32_t LoneCalls::MissingBefore(std::uint32_t call) const {
  const std::uint32_t partner = in_.alignment.golden_of[call];
  const std::vector<const Facts*> wrong = WrongInputs(call);
  std::uint32_t found = kNoCall;
  bool gives_it = false;
  double since = 0;
  for (std::uint32_t g = partner == kNoCall ? 0 : partner; g-- > 0 && partner - g <= kFarthest;) {
    const Call& before = in_.golden[g];
    if (before.is_frame || before.pass == Pass::kGradient) continue;
    if (before.pass != in_.target[call].pass) break;
    const bool is_alone = in_.alignment.IsGoldenAlone(g), is_near = since < rules_.orphan_reach;
    if (is_alone && is_near) {
      found = g;
      gives_it = gives_it || GoldenGives(g, wrong, is_near);
    } else if (is_alone && GoldenGives(g, wrong, is_near)) {
      return g;
    } else if (!is_alone && gives_it) {
      break;
    } else if (!is_alone) {
      // Behind a run of such calls that give something else, only one that gives just that counts.
      since = found == kNoCall ? since + 1 : std::fmax(since + 1, rules_.orphan_reach);
    }
  }
  return gives_it ? found : kNoCall;
}

bool LoneCalls::GoldenGives(std::uint32_t golden, const std::vector<const Facts*>& wrong,
                            bool is_near) const {
  if (!in_.golden_results) return is_near;
  const std::vector<Recordings::Result> results = in_.golden_results(golden);
  if (results.empty()) return is_near && (in_.golden[golden].is_writer || in_.golden[golden].is_in_place);
  const auto gives = [&](const Recordings::Result& result, const Facts& facts) {
    const bool is_just = IsTelling(facts, facts.norm) && result.num_elements == facts.num_elements;
    return IsSameNorm(result.norm, facts.norm) && (is_near || is_just);
  };
  return std::any_of(results.begin(), results.end(), [&](const Recordings::Result& result) {
    return std::any_of(wrong.begin(), wrong.end(), [&](const Facts* facts) { return gives(result, *facts); });
  });
}

// Where nothing follows, nothing shows what such calls have changed.
std::optional<Findings::End> LoneCalls::FindEnd() const {
  const auto has_backward = [](const Calls& calls) {
    return std::any_of(calls.begin(), calls.end(),
                       [](const Call& call) { return call.pass != Pass::kForward; });
  };
  if (has_backward(in_.target) || has_backward(in_.golden)) return {};
  bool is_last = true;
  for (std::uint32_t call = static_cast<std::uint32_t>(in_.target.size()); call-- > 0;) {
    if (in_.target[call].is_module) continue;
    if (!in_.alignment.IsTargetAlone(call)) break;
    const std::optional<double> change = ChangeOf(call);
    // Calls that end with another kind of thing, as a mean, look at the result and do not make it.
    if (std::exchange(is_last, false) && !change && !GivesAsMany(call)) break;
    if (change && !(*change <= kOrder)) return Findings::End{true, call};
  }
  if (!in_.golden_results) return {};
  // The golden's last calls against what the two sides had just before.
  std::uint32_t before = static_cast<std::uint32_t>(in_.golden.size());
  while (before > 0 && (in_.golden[before - 1].is_module || in_.alignment.IsGoldenAlone(before - 1)))
    --before;
  const std::uint32_t partner = before == 0 ? kNoCall : in_.alignment.target_of[before - 1];
  if (partner == kNoCall) return {};
  for (std::uint32_t call = before; call < in_.golden.size(); ++call) {
    if (in_.golden[call].is_module) continue;
    for (const Recordings::Result& result : in_.golden_results(call)) {
      for (const Facts& facts : FactsOf(partner)) {
        if (facts.role == Role::kOutput && facts.Has(Facts::kFloat) &&
            facts.num_elements == result.num_elements && !IsSameNorm(result.norm, facts.norm)) {
          return Findings::End{false, call};
        }
      }
    }
  }
  return {};
}

// How much another norm the target's result has than what the call was given; nothing: the same, or it
// gives another kind of thing.
std::optional<double> LoneCalls::ChangeOf(std::uint32_t index) const {
  const Facts *input = nullptr, *output = nullptr;
  for (const Facts& facts : FactsOf(index)) {
    if (!facts.Has(Facts::kTensor) || !facts.Has(Facts::kFloat)) continue;
    const Facts*& place = facts.role == Role::kOutput ? output : input;
    if (place == nullptr) place = &facts;
  }
  if (input == nullptr || output == nullptr || input->num_elements != output->num_elements) return {};
  if (input->own_norm == output->own_norm) return {};
  return std::fabs(output->own_norm / input->own_norm - 1);
}

// The call gives as many elements as it is given.
bool LoneCalls::GivesAsMany(std::uint32_t index) const {
  float given = 0, gives = -1;
  for (const Facts& facts : FactsOf(index)) {
    if (!facts.Has(Facts::kTensor)) continue;
    float& most = facts.role == Role::kOutput ? gives : given;
    most = std::fmax(most, facts.num_elements);
  }
  return given == gives;
}

// Of the target's first result.
float LoneCalls::GivenNorm(std::uint32_t index) const {
  for (const Facts& facts : FactsOf(index)) {
    if (facts.role == Role::kOutput && facts.Has(Facts::kTensor)) return facts.own_norm;
  }
  return 0;
}

// Only asked where nothing else differs: elsewhere, as between devices, additional calls are too common; and
// where the golden makes calls of its own, it does the same in another way. Many at the end say that the
// golden ends before.
std::optional<LoneCalls::Hook> LoneCalls::FindHook() const {
  for (std::uint32_t call = 0; call < in_.golden.size(); ++call) {
    if (in_.alignment.IsGoldenAlone(call)) return {};
  }
  double num_last = 0;
  for (std::size_t i = in_.target.size(); i > 0 && in_.alignment.golden_of[i - 1] == kNoCall; --i) ++num_last;
  if (num_last > rules_.orphan_reach) return {};
  bool backward = false;
  std::set<std::pair<std::string_view, float>> before;  // what was called and what it gave
  for (std::uint32_t index = 0; index < in_.target.size(); ++index) {
    const Call& call = in_.target[index];
    backward = backward || call.pass == Pass::kBackward;
    if (call.is_module || call.pass != Pass::kForward) continue;
    const float gives = GivenNorm(index);
    if (!backward) before.emplace(call.kind, gives);
    // The same again is what a checkpoint computes a second time.
    if (!backward || in_.alignment.golden_of[index] != kNoCall || before.contains({call.kind, gives}))
      continue;
    const std::optional<double> change = ChangeOf(index);
    if (!change) continue;
    return Hook{index, *change};
  }
  return {};
}

}  // namespace vernier

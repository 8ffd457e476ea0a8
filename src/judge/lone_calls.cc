#include "judge/lone_calls.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

namespace vernier {
namespace {

constexpr std::size_t kFarthest = 256;  // calls that are looked at for one that gives just what is wrong

bool IsSameNorm(float a, float b) {
  constexpr float kOrder = 1e-6F;  // of a view the squares are summed in another order
  return a == b || std::fabs(a - b) <= kOrder * std::fabs(b);
}

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

// Whether the target's call `from` gives something of this size.
bool LoneCalls::GivesJust(std::uint32_t from, float norm) const {
  const std::span<const Facts> all = FactsOf(from);
  return std::any_of(all.begin(), all.end(), [&](const Facts& facts) {
    return facts.role == Role::kOutput && facts.Has(Facts::kTensor) && IsSameNorm(facts.own_norm, norm);
  });
}

// What it did in place, unrecorded, may be of this size too.
bool LoneCalls::Gives(std::uint32_t from, float norm) const {
  const std::span<const Facts> all = FactsOf(from);
  const bool gives_any = std::any_of(all.begin(), all.end(), [](const Facts& facts) {
    return facts.role == Role::kOutput && facts.Has(Facts::kTensor);
  });
  return gives_any ? GivesJust(from, norm) : in_.target[from].is_writer || in_.target[from].is_in_place;
}

// NaN or infinities of what is finite.
bool LoneCalls::MakesSpecial(std::uint32_t call) const {
  bool makes = false;
  for (const Facts& facts : FactsOf(call)) {
    if (!facts.Has(Facts::kTensor) || std::isfinite(facts.own_norm)) continue;
    if (facts.role != Role::kOutput) return false;
    makes = true;
  }
  return makes;
}

std::uint32_t LoneCalls::AdditionalBefore(std::uint32_t call) const {
  for (const Facts* wrong : WrongInputs(call)) {
    const auto last = std::find_if(before_.rbegin(), before_.rend(), [&](const Lone& lone) {
      return IsNear(lone) ? Gives(lone.call, wrong->own_norm) : GivesJust(lone.call, wrong->own_norm);
    });
    if (last == before_.rend()) continue;
    std::uint32_t first = last->call, changes = ChangeOf(first) ? first : kNoCall,
                  special = MakesSpecial(first) ? first : kNoCall;
    for (auto before = std::next(last); before != before_.rend(); ++before) {
      const std::span<const Facts> given = FactsOf(first);
      const bool hands_on = std::any_of(given.begin(), given.end(), [&](const Facts& facts) {
        return facts.role != Role::kOutput && facts.Has(Facts::kTensor) && Gives(before->call, facts.own_norm);
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
  for (std::uint32_t g = partner == kNoCall ? 0 : partner; g-- > 0 && since < kFarthest;) {
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
  return std::any_of(results.begin(), results.end(), [&](const Recordings::Result& result) {
    return std::any_of(wrong.begin(), wrong.end(),
                       [&](const Facts* facts) { return IsSameNorm(result.norm, facts->norm); });
  });
}

// Where nothing follows, nothing shows what such a call has changed.
std::optional<Findings::End> LoneCalls::FindEnd() const {
  const auto last_of = [](const Calls& calls) {
    std::uint32_t last = kNoCall;
    for (std::uint32_t i = 0; i < calls.size(); ++i) {
      if (calls[i].pass != Pass::kForward) return kNoCall;
      if (!calls[i].is_module) last = i;
    }
    return last;
  };
  const std::uint32_t target = last_of(in_.target), golden = last_of(in_.golden);
  if (target == kNoCall || golden == kNoCall) return {};
  if (in_.alignment.IsTargetAlone(target) && ChangeOf(target)) return Findings::End{true, target};
  if (!in_.alignment.IsGoldenAlone(golden) || !in_.golden_results) return {};
  // The golden's last call against what the two sides had just before.
  std::uint32_t before = golden;
  while (before > 0 && (in_.golden[before].is_module || in_.alignment.IsGoldenAlone(before))) --before;
  const std::uint32_t partner = in_.alignment.target_of[before];
  if (partner == kNoCall) return {};
  for (const Recordings::Result& result : in_.golden_results(golden)) {
    for (const Facts& facts : FactsOf(partner)) {
      if (facts.role == Role::kOutput && facts.Has(Facts::kFloat) &&
          facts.num_elements == result.num_elements && facts.norm != result.norm) {
        return Findings::End{false, golden};
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

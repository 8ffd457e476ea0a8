// Calls that one side makes alone: through which of them something wrong came to a call behind them.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "judge/culprit.h"

namespace vernier {

class LoneCalls {
 public:
  // Both must live as long as this.
  LoneCalls(const Recordings& recordings, const CulpritRules& rules) : in_(recordings), rules_(rules) {}

  // A call of the target is done. REQUIRES: told in order
  void Pass(std::uint32_t call);
  // Just before, the target made calls alone.
  bool any() const { return !before_.empty() && IsNear(before_.back()); }

  // The first of those through which something wrong came to `call`; of several that hand it on, the first
  // that changes anything, or the one that makes NaN or infinities. Further back, only one that gives just
  // what is wrong. kNoCall: none gives it.
  std::uint32_t AdditionalBefore(std::uint32_t call) const;
  // The first of the operators that only the golden makes, just before the partner of `call`, where they give
  // what the partner is given and `call` is not.
  std::uint32_t MissingBefore(std::uint32_t call) const;

  struct Hook {
    std::uint32_t call;
    double change;  // of the norm
  };
  // A call that only the target makes once gradients flow, and that changes what it is given: a hook, or a
  // step of an optimizer. Its result may never be seen again.
  std::optional<Hook> FindHook() const;
  std::optional<Findings::End> FindEnd() const;

 private:
  std::span<const Facts> FactsOf(std::uint32_t call) const {
    return in_.facts.subspan(in_.first[call], in_.first[call + 1] - in_.first[call]);
  }
  std::vector<const Facts*> WrongInputs(std::uint32_t call) const;
  struct Lone {
    std::uint32_t call;
    double num_before;  // calls with a partner
  };
  bool IsNear(const Lone& lone) const { return num_paired_ - lone.num_before < rules_.orphan_reach; }
  bool Gives(std::uint32_t from, float norm) const;
  static bool IsTelling(const Facts& wrong, float norm);
  bool GivesJust(std::uint32_t from, const Facts& wrong) const;
  bool MakesSpecial(std::uint32_t call) const;
  bool GoldenGives(std::uint32_t golden, const std::vector<const Facts*>& wrong, bool is_near) const;
  std::optional<double> ChangeOf(std::uint32_t call) const;
  float GivenNorm(std::uint32_t call) const;
  bool GivesAsMany(std::uint32_t call) const;

  const Recordings& in_;
  const CulpritRules& rules_;
  std::deque<Lone> before_;  // the last calls of the target alone
  double num_paired_ = 0;    // calls with a partner so far
};

}  // namespace vernier

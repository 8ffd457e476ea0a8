// What the values of a call prove of it, with everything left out that proves nothing: memory that nobody
// set, masks, sums that cancel, tensors of other sizes, equal values in another order.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "judge/culprit.h"

namespace vernier {

// One value of a call, as far as it can be judged.
struct Judged {
  Role role;
  double error = 0;
  double gap = 0;         // norm of the difference
  double room = 0;        // a result that sums up much more than it is: the size of what it sums up, else 0
  bool excused = false;   // it differs, and that is no reason to blame anybody
  bool shuffled = false;  // the same values stand in other places, and no tie explains that

  bool IsResult() const { return role == Role::kOutput || role == Role::kGradient; }
};

class Evidence {
 public:
  // Both must live as long as this.
  Evidence(const Recordings& recordings, const CulpritRules& rules);

  std::span<const Facts> FactsOf(std::uint32_t call) const {
    return in_.facts.subspan(in_.first[call], in_.first[call + 1] - in_.first[call]);
  }
  bool HasPartner(std::uint32_t call) const { return in_.alignment.golden_of[call] != kNoCall; }
  std::vector<Judged> Of(std::uint32_t call) const;
  // The largest error of what a backward call has kept from its forward call; 0 for other calls.
  double ErrorOfSaved(std::uint32_t call) const;
  // The backward call of the module that got a parameter's gradient; kNoCall: not recorded.
  std::uint32_t BackwardOf(std::uint32_t gradient) const;
  // What differs of a call's inputs is excused from now on, wherever it comes in again.
  void Forgive(std::uint32_t call);
  // Behind the first of the backward pass, and no part of a model that runs once more: a hook, or what works
  // on gradients and weights.
  bool IsOfOptimizer(std::uint32_t call) const;
  std::uint32_t first_backward() const { return first_backward_; }  // the number of calls: none

 private:
  struct Source {
    double norm = 0, num_elements = 0, other_norm = 0, num_other_elements = 0;
    bool is_same = true;
  };

  std::uint32_t FirstTie() const;
  std::uint32_t FirstOtherSize() const;
  Source InputsOf(std::uint32_t call) const;
  Source SourceOf(std::uint32_t call) const;
  bool IsSameQuestion(std::uint32_t call) const;
  bool IsTiny(const Facts& facts, double beside) const;
  bool IsNothing(std::uint32_t call, const Facts& facts) const;
  bool Differs(const Facts& facts) const;
  bool IsForgiven(const Facts& facts) const;
  void FollowNothing();
  Judged JudgedOf(std::uint32_t call, const Facts& facts, const Source& source) const;

  const Recordings& in_;
  const CulpritRules& rules_;
  double largest_gradient_ = 0;  // of a parameter
  double largest_flow_ = 0;      // of what backward calls are given and give
  bool any_half_ = false;        // 16 bits or fewer take part
  std::unordered_map<std::string_view, std::uint32_t> backward_of_;  // modules, by their place
  std::unordered_map<std::string_view, std::uint32_t> forward_of_;   // by twin
  std::unordered_set<std::string_view> backward_twins_;              // of all calls of the backward pass
  std::uint32_t first_backward_;                                     // the number of calls: none
  std::uint32_t first_tie_, first_other_size_;
  std::vector<bool> comes_of_nothing_;  // each of the facts; empty: none does
  std::set<Signature> forgiven_;
};

}  // namespace vernier

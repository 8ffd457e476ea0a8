// Two recordings of one program, made up call by call.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "judge/culprit.h"

namespace vernier {

inline constexpr double kNone = -1;  // no such value

// Two recordings of one program, call by call: the error of what goes in and of what comes out.
class Pairing : public testing::Test {
 protected:
  Facts Tensor(Role role, double error, double norm = 10, double num_elements = 1000) {
    Facts facts;
    facts.role = role;
    facts.flags = Facts::kTensor | Facts::kFloat | Facts::kMatched | Facts::kMeasured;
    facts.error = facts.loose = static_cast<float>(error);
    facts.gap = static_cast<float>(error * norm);
    facts.norm = facts.own_norm = static_cast<float>(norm);
    facts.num_elements = static_cast<float>(num_elements);
    return facts;
  }
  Call& Add(std::string kind, double in, double out, Pass pass = Pass::kForward) {
    Call call;
    call.kind = texts_.emplace_back(kind);
    call.name = texts_.emplace_back(kind + '.' + std::to_string(calls_.size()));
    call.is_product = kind == "linear";
    call.pass = pass;
    calls_.push_back(call);
    first_.back() = facts_.size();
    if (in != kNone) facts_.push_back(Tensor(Role::kInput, in));
    if (out != kNone)
      facts_.push_back(Tensor(pass == Pass::kGradient ? Role::kGradient : Role::kOutput, out));
    first_.push_back(facts_.size());
    return calls_.back();
  }
  void Reset() {
    calls_.clear();
    facts_.clear();
    first_ = {0};
  }
  void Same(std::string kind, int count) {
    for (int i = 0; i < count; ++i) Add(kind, 0, 0);
  }
  Facts& Input() { return facts_[first_[first_.size() - 2]]; }
  Facts& Output() { return facts_.back(); }
  Findings Find() {
    alignment_.golden_of.resize(calls_.size());
    alignment_.how.assign(calls_.size(), PairedBy::kName);
    alignment_.target_of.resize(calls_.size());
    alignment_.is_target_fused.resize(calls_.size());
    alignment_.is_golden_fused.resize(calls_.size());
    for (std::uint32_t i = 0; i < calls_.size(); ++i) {
      const bool alone = i == alone_ || also_alone_.contains(i);
      alignment_.golden_of[i] = alone ? kNoCall : i;
      alignment_.target_of[i] = alone ? kNoCall : i;
      if (alone) alignment_.how[i] = PairedBy::kNothing;
      alignment_.is_golden_fused[i] = alone;  // `calls_` stands for both sides; the golden has none there
    }
    return FindCulprit({calls_, calls_, alignment_, facts_, first_, {}, follows_noise_},
                       CulpritRules(Rules::Verdict()));
  }

  std::deque<std::string> texts_;
  Calls calls_;
  std::vector<Facts> facts_;
  std::vector<std::size_t> first_{0};
  Alignment alignment_;
  std::uint32_t alone_ = kNoCall;
  std::set<std::uint32_t> also_alone_;
  bool follows_noise_ = false;
};

}  // namespace vernier

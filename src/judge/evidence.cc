#include "judge/evidence.h"

#include <algorithm>
#include <cmath>

namespace vernier {
namespace {

bool IsTensorInput(const Facts& facts) { return facts.role != Role::kOutput && facts.Has(Facts::kTensor); }

}  // namespace

Evidence::Evidence(const Recordings& recordings, const CulpritRules& rules)
    : in_(recordings),
      rules_(rules),
      first_backward_(static_cast<std::uint32_t>(
          std::find_if(recordings.target.begin(), recordings.target.end(),
                       [](const Call& call) { return call.pass != Pass::kForward; }) -
          recordings.target.begin())),
      first_tie_(FirstTie()),
      first_other_size_(FirstOtherSize()) {
  const bool has_backward = std::any_of(in_.target.begin(), in_.target.end(),
                                        [](const Call& call) { return call.pass == Pass::kBackward; });
  if (has_backward) forward_of_.reserve(in_.target.size());
  for (std::uint32_t i = 0; i < in_.target.size(); ++i) {
    const Call& call = in_.target[i];
    if (call.is_module && call.pass == Pass::kBackward) backward_of_.emplace(call.place, i);
    if (call.pass == Pass::kForward && has_backward && !call.twin.empty()) forward_of_.emplace(call.twin, i);
    if (call.pass == Pass::kForward) continue;
    if (call.pass == Pass::kBackward && !call.twin.empty()) backward_twins_.insert(call.twin);
    double& largest = call.pass == Pass::kGradient ? largest_gradient_ : largest_flow_;
    for (const Facts& facts : FactsOf(i)) {
      if (facts.Has(Facts::kTensor) && std::isfinite(facts.norm)) largest = std::fmax(largest, facts.norm);
    }
  }
  any_half_ = std::any_of(in_.facts.begin(), in_.facts.end(),
                          [](const Facts& facts) { return facts.Has(Facts::kHalf); });
  FollowNothing();
}

bool Evidence::Differs(const Facts& facts) const {
  return !facts.Has(Facts::kMeasured) || facts.error > rules_.alarm;
}

bool Evidence::IsOfOptimizer(std::uint32_t call) const {
  const Call& what = in_.target[call];
  return call > first_backward_ && what.pass == Pass::kForward && PathOf(what).empty() &&
         !backward_twins_.contains(what.twin);
}

// Behind the backward pass a program works on gradients: it clips them, averages them, makes weights of them.
// What comes of one that is zero but for rounding differs by any percentage, as it does itself.
void Evidence::FollowNothing() {
  const double largest = std::fmax(largest_gradient_, largest_flow_);
  if (largest == 0) return;
  std::set<Signature> of_nothing, of_something;  // results
  for (std::uint32_t call = first_backward_; call < in_.target.size(); ++call) {
    if (!IsOfOptimizer(call)) continue;
    std::vector<std::size_t> inputs, results;
    for (std::size_t row = in_.first[call]; row < in_.first[call + 1]; ++row) {
      if (!in_.facts[row].Has(Facts::kTensor)) continue;
      (in_.facts[row].role == Role::kOutput ? results : inputs).push_back(row);
    }
    const auto mark = [&](std::size_t row) {
      if (comes_of_nothing_.empty()) comes_of_nothing_.resize(in_.facts.size());
      comes_of_nothing_[row] = true;
    };
    const auto is_of_nothing = [&](std::size_t row) {
      const Facts& facts = in_.facts[row];
      if (!Differs(facts)) return false;
      const Signature signature = SignatureOf(facts);
      const bool is_known = facts.norm > 0 || facts.own_norm > 0;
      return of_nothing.contains(signature) ||
             (is_known && IsTiny(facts, largest) && !of_something.contains(signature));
    };
    std::vector<bool> nothing;
    for (const std::size_t row : inputs) {
      nothing.push_back(is_of_nothing(row));
      if (nothing.back()) mark(row);
    }
    // Of lists the first result comes of the first of each list.
    const std::size_t step = !results.empty() && inputs.size() % results.size() == 0 ? results.size() : 1;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Facts& facts = in_.facts[results[i]];
      bool comes_of_nothing = false;
      for (std::size_t k = i % step; k < inputs.size(); k += step)
        comes_of_nothing = comes_of_nothing || nothing[k];
      if (comes_of_nothing && Differs(facts)) {
        mark(results[i]);
        of_nothing.insert(SignatureOf(facts));
      } else if (Differs(facts)) {
        of_something.insert(SignatureOf(facts));
      }
    }
  }
}

void Evidence::Forgive(std::uint32_t call) {
  for (const Facts& facts : FactsOf(call)) {
    if (IsTensorInput(facts) && Differs(facts)) forgiven_.insert(SignatureOf(facts));
  }
}

bool Evidence::IsForgiven(const Facts& facts) const {
  return !forgiven_.empty() && IsTensorInput(facts) && forgiven_.contains(SignatureOf(facts));
}

// The first call that orders equal values in another way: what follows it may be the same in another order.
std::uint32_t Evidence::FirstTie() const {
  for (std::uint32_t call = 0; call < in_.target.size(); ++call) {
    if (!in_.target[call].is_order || !HasPartner(call)) continue;
    for (const Facts& facts : FactsOf(call)) {
      const bool is_place =
          facts.role == Role::kOutput && facts.Has(Facts::kTensor) && !facts.Has(Facts::kFloat);
      if (is_place && facts.Has(Facts::kMeasured) && facts.error > facts.loose) return call;
    }
  }
  return kNoCall;
}

// From there on the two programs work on tensors of other sizes, and their sums say nothing.
std::uint32_t Evidence::FirstOtherSize() const {
  for (std::uint32_t call = 0; call < in_.target.size(); ++call) {
    if (!HasPartner(call)) continue;
    for (const Facts& facts : FactsOf(call)) {
      if (facts.Has(Facts::kTensor) && facts.Has(Facts::kOtherShape)) return call;
    }
  }
  return kNoCall;
}

// The two largest of what a call is given.
Evidence::Source Evidence::InputsOf(std::uint32_t call) const {
  Source source;
  for (const Facts& facts : FactsOf(call)) {
    if (facts.role != Role::kInput && facts.role != Role::kParameter) continue;
    if (facts.Has(Facts::kTensor) && !(facts.Has(Facts::kMeasured) && facts.error == 0))
      source.is_same = false;
    if (!std::isfinite(facts.norm)) continue;
    if (facts.norm > source.norm) {
      source = {facts.norm, facts.num_elements, source.norm, source.num_elements, source.is_same};
    } else if (facts.norm > source.other_norm) {
      source.other_norm = facts.norm, source.num_other_elements = facts.num_elements;
    }
  }
  return source;
}

std::uint32_t Evidence::BackwardOf(std::uint32_t gradient) const {
  const auto module = backward_of_.find(in_.target[gradient].place);
  return module == backward_of_.end() ? kNoCall : module->second;
}

// What a call sums up; a parameter's gradient sums up what its module was given in the
// backward pass.
Evidence::Source Evidence::SourceOf(std::uint32_t call) const {
  if (in_.target[call].pass != Pass::kGradient) return InputsOf(call);
  const std::uint32_t module = BackwardOf(call);
  return module == kNoCall ? Source() : InputsOf(module);
}

// Given the same, a call must give the same shape; of where, unique and the like it depends on the values.
bool Evidence::IsSameQuestion(std::uint32_t call) const {
  const std::span<const Facts> all = FactsOf(call);
  return HasPartner(call) && in_.target[call].pass == Pass::kForward &&
         in_.alignment.how[call] != PairedBy::kFused && std::any_of(all.begin(), all.end(), IsTensorInput) &&
         std::all_of(all.begin(), all.end(), [](const Facts& facts) {
           return facts.role == Role::kOutput ||
                  (facts.Has(Facts::kMatched) && !facts.Has(Facts::kOtherShape) &&
                   !(facts.Has(Facts::kMeasured) && facts.error > 0) && !facts.Has(Facts::kMixed) &&
                   !facts.TellsOtherArgument() && !facts.Has(Facts::kOtherType));
         });
}

// A gradient that is zero but for rounding, as of a softmax over one element, differs by any percentage.
bool Evidence::IsTiny(const Facts& facts, double beside) const {
  constexpr double kNothingInCommon = 0.5;
  const double size = std::fmax(facts.norm, facts.own_norm);
  return size < rules_.gradient_floor * beside ||
         (any_half_ && facts.error > kNothingInCommon && size < rules_.gradient_floor_half * beside);
}

bool Evidence::IsNothing(std::uint32_t call, const Facts& facts) const {
  const Pass pass = in_.target[call].pass;
  if (pass == Pass::kForward) return false;
  // In noise the side with the coarser kernels shows more of a gradient that is zero.
  if (pass == Pass::kGradient && facts.norm < rules_.gradient_floor * largest_gradient_ &&
      facts.own_norm < rules_.gradient_floor_half * largest_gradient_) {
    return true;
  }
  return IsTiny(facts, pass == Pass::kGradient ? largest_gradient_ : largest_flow_);
}

double Evidence::ErrorOfSaved(std::uint32_t call) const {
  if (in_.target[call].pass != Pass::kBackward) return 0;
  const auto forward = forward_of_.find(in_.target[call].twin);
  if (forward == forward_of_.end()) return 0;
  double largest = 0;
  for (const Judged& value : Of(forward->second)) {
    if (std::isfinite(value.error)) largest = std::fmax(largest, value.error);
  }
  return largest;
}

Judged Evidence::JudgedOf(std::uint32_t call, const Facts& facts, const Source& source) const {
  Judged value{facts.role};
  value.gap = facts.gap;
  const bool tied = call >= first_tie_;
  value.error = facts.Has(Facts::kMaskMoved) ? HUGE_VAL : tied ? facts.loose : facts.error;
  value.shuffled = facts.Has(Facts::kShuffled) && !tied;
  // Gradients are sums over what has other sizes, wherever they were summed up.
  value.excused =
      in_.target[call].pass != Pass::kForward && facts.role != Role::kOutput && call >= first_other_size_;
  if (!value.IsResult() || source.norm == 0 || !std::isfinite(value.gap) || !std::isfinite(value.error))
    return value;
  const double count = std::fmax(1, facts.num_elements);
  const double ratio = source.num_elements / count;
  if (ratio < rules_.sums) return value;
  value.room = std::sqrt(ratio) * source.norm;
  value.excused = value.excused || (facts.role == Role::kOutput && call >= first_other_size_);
  const bool half = facts.Has(Facts::kHalf);
  double roundings = rules_.cancel;
  if (in_.target[call].is_product && in_.target[call].pass == Pass::kForward && source.other_norm > 0) {
    // A matrix product sums up so many products of two elements for each of its own, and not in 16 bits.
    const double depth = std::sqrt(source.num_elements * source.num_other_elements / count);
    value.room = source.norm * source.other_norm / std::sqrt(std::fmax(1, depth));
    if (half && source.is_same) roundings = rules_.rounding_half;
  }
  if (value.gap <= roundings * (half ? kHalfEpsilon : kSingleEpsilon) * value.room) value.error = 0;
  return value;
}

std::vector<Judged> Evidence::Of(std::uint32_t call) const {
  const std::span<const Facts> all = FactsOf(call);
  const Call& what = in_.target[call];
  const Source source = SourceOf(call);
  // What stood in memory that is written over is no evidence, and neither is the rest of it afterwards.
  const Facts* const written =
      what.is_writer && !all.empty() && all[0].role != Role::kOutput ? &all[0] : nullptr;
  const bool unset =
      what.is_unset || (written != nullptr && (!written->Has(Facts::kMeasured) || written->error > 0));
  const bool same_question = IsSameQuestion(call);
  const bool is_fused = in_.alignment.how[call] == PairedBy::kFused;
  const bool other_inputs = std::any_of(all.begin(), all.end(), [](const Facts& facts) {
    return IsTensorInput(facts) && facts.Has(Facts::kOtherShape);
  });
  std::vector<Judged> kept;
  for (const Facts& facts : all) {
    const bool is_output = facts.role == Role::kOutput;
    if (&facts == written || (is_output && unset)) continue;
    if (is_output && what.has_workspace && !facts.Has(Facts::kFloat)) continue;
    if (is_output && facts.Has(Facts::kOtherShape) && same_question && call <= first_other_size_)
      kept.push_back({facts.role, HUGE_VAL, HUGE_VAL});
    if (!facts.Has(Facts::kMeasured)) continue;
    if (facts.Has(Facts::kHuge) && !facts.Has(Facts::kMaskMoved) && !facts.Has(Facts::kChecked)) continue;
    if (IsNothing(call, facts)) continue;
    const std::size_t row = in_.first[call] + static_cast<std::size_t>(&facts - all.data());
    if (!comes_of_nothing_.empty() && comes_of_nothing_[row]) continue;
    kept.push_back(JudgedOf(call, facts, source));
    Judged& value = kept.back();
    // By a checksum alone, another kernel is as different as a fault.
    const bool by_checksum = is_fused && is_output && facts.Has(Facts::kChecked) && std::isinf(facts.error);
    value.excused = value.excused || (is_output && other_inputs) || by_checksum || IsForgiven(facts);
  }
  return kept;
}

}  // namespace vernier

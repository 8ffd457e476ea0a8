#include "judge/culprit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <queue>

namespace vernier {
namespace {

constexpr double kHalfEpsilon = 4e-3, kSingleEpsilon = 1.2e-7;
constexpr std::size_t kRecent = 6;
constexpr double kShare = 0.9;   // of the calls of a class that its usual error covers
constexpr double kReduces = 16;  // so many elements to one result make a sum

// The errors that a class of calls has shown, for their 90th percentile: the lower nine tenths in one heap,
// the rest in another.
class History {
 public:
  void Add(double error) {
    if (lower_.empty() || error <= lower_.top()) {
      lower_.push(error);
    } else {
      upper_.push(error);
    }
    largest_ = std::fmax(largest_, error);
    const std::size_t wanted = static_cast<std::size_t>(kShare * static_cast<double>(size() - 1)) + 1;
    while (lower_.size() > wanted) upper_.push(Taken(lower_));
    while (lower_.size() < wanted) lower_.push(Taken(upper_));
  }
  std::size_t size() const { return lower_.size() + upper_.size(); }
  double largest() const { return largest_; }
  double Usual() const { return lower_.top(); }  // REQUIRES: size() > 0

 private:
  template <class Heap>
  static double Taken(Heap& heap) {
    const double top = heap.top();
    heap.pop();
    return top;
  }

  std::priority_queue<double> lower_;
  std::priority_queue<double, std::vector<double>, std::greater<>> upper_;
  double largest_ = 0;
};

// One value of a call, as far as it can be judged.
struct Judged {
  Role role;
  double error, gap, room;
  bool excused = false;  // it differs, and that is nobody's fault
};

bool IsTensorInput(const Facts& facts) { return facts.role != Role::kOutput && facts.Has(Facts::kTensor); }

class Search {
 public:
  Search(const Recordings& recordings, const CulpritRules& rules) : in_(recordings), rules_(rules) {
    for (const Call& call : in_.target)
      has_operators_ = has_operators_ || (!call.is_module && call.pass != Pass::kGradient);
    for (const Facts& facts : in_.facts) {
      if (facts.role == Role::kGradient && std::isfinite(facts.norm))
        largest_gradient_ = std::fmax(largest_gradient_, facts.norm);
    }
  }

  Findings Run() {
    See();
    for (std::uint32_t call = 0; findings_.beyond_noise && call < in_.target.size() && !findings_.culprit;
         ++call)
      Judge(call);
    if (!findings_.culprit && !any_evidence_) FindHook();
    return findings_;
  }

 private:
  std::span<const Facts> FactsOf(std::uint32_t call) const {
    return in_.facts.subspan(in_.first[call], in_.first[call + 1] - in_.first[call]);
  }
  bool HasPartner(std::uint32_t call) const { return in_.alignment.golden_of[call] != kNoCall; }

  // What of a call can be judged, with sums that cancel taken for what they are.
  std::vector<Judged> Kept(std::uint32_t call) const {
    const std::span<const Facts> all = FactsOf(call);
    double source_norm = 0, source_count = 0;
    for (const Facts& facts : all) {
      if (facts.role != Role::kInput && facts.role != Role::kParameter) continue;
      if (facts.norm > source_norm && std::isfinite(facts.norm))
        source_norm = facts.norm, source_count = facts.num_elements;
    }
    const Call& what = in_.target[call];
    const Facts* const written =
        what.is_writer && !all.empty() && all[0].role != Role::kOutput ? &all[0] : nullptr;
    const bool unset =
        what.is_unset || (written != nullptr && (!written->Has(Facts::kMeasured) || written->error > 0));
    // Given the same, of the same shapes, it must give the same shape.
    const bool same_question = HasPartner(call) && in_.alignment.how[call] != PairedBy::kFused &&
                               std::any_of(all.begin(), all.end(), IsTensorInput) &&
                               std::all_of(all.begin(), all.end(), [](const Facts& facts) {
                                 return facts.role == Role::kOutput ||
                                        (facts.Has(Facts::kMatched) && !facts.Has(Facts::kOtherShape) &&
                                         !facts.Has(Facts::kMixed) && !facts.Has(Facts::kDiffers));
                               });
    const bool other_inputs = std::any_of(all.begin(), all.end(), [](const Facts& facts) {
      return IsTensorInput(facts) && facts.Has(Facts::kOtherShape);
    });
    std::vector<Judged> kept;
    for (const Facts& facts : all) {
      if (facts.role == Role::kOutput && facts.Has(Facts::kOtherShape) && same_question && !unset)
        kept.push_back({facts.role, HUGE_VAL, HUGE_VAL, 0});
      if (!facts.Has(Facts::kMeasured) || &facts == written) continue;
      if (facts.role == Role::kOutput && unset) continue;
      const bool moved = facts.Has(Facts::kMaskMoved);
      if (facts.Has(Facts::kHuge) && !moved && !facts.Has(Facts::kChecked)) continue;
      if (facts.role == Role::kGradient && facts.norm < rules_.gradient_floor * largest_gradient_) continue;
      Judged value{facts.role, moved ? HUGE_VAL : facts.error, facts.gap, 0};
      value.excused = facts.role == Role::kOutput && other_inputs;
      if (facts.role == Role::kOutput && source_norm > 0 && std::isfinite(value.gap) &&
          std::isfinite(value.error)) {
        const double count = std::fmax(1, facts.num_elements);
        if (source_count >= kReduces * count)
          value.room = std::sqrt(std::fmax(1, source_count / count)) * source_norm;
        value.excused = value.excused || (other_sizes_ && value.room > 0);
        const double epsilon = facts.Has(Facts::kHalf) ? kHalfEpsilon : kSingleEpsilon;
        if (value.gap <= rules_.cancel * epsilon * value.room) value.error = 0;
      }
      kept.push_back(value);
    }
    return kept;
  }

  // Is there anything to explain at all?
  void See() {
    for (std::uint32_t call = 0; call < in_.target.size(); ++call) {
      const std::span<const Facts> all = FactsOf(call);
      bool half = false;
      for (const Facts& facts : all) {
        half = half || facts.Has(Facts::kHalf);
        const bool differs = facts.Has(Facts::kDiffers) || (facts.Has(Facts::kMeasured) && facts.error > 0) ||
                             facts.Has(Facts::kOtherShape);
        findings_.any_difference = findings_.any_difference || differs;
        any_evidence_ = any_evidence_ || facts.Has(Facts::kDiffers) || facts.Has(Facts::kOtherShape);
        if (HasPartner(call) && facts.Has(Facts::kDiffers)) findings_.beyond_noise = true;
        if (HasPartner(call) && facts.Has(Facts::kOtherShape) && facts.Has(Facts::kTensor))
          other_sizes_ = true;
      }
      for (const Judged& value : Kept(call)) {
        any_evidence_ = any_evidence_ || value.error > 0;
        if (value.excused) continue;
        if (value.error > (half ? rules_.alarm_half : rules_.alarm)) findings_.beyond_noise = true;
        if (value.role != Role::kInput && value.role != Role::kParameter && value.error > findings_.worst) {
          findings_.worst = value.error;
          findings_.worst_call = call;
        }
      }
    }
  }

  History& HistoryOf(const Call& call, bool product) {
    return histories_[(call.pass != Pass::kForward ? 2 : 0) + (product ? 1 : 0)];
  }

  void Blame(std::uint32_t call, Reason reason, double given, double result, double usual) {
    findings_.culprit = vernier::Blame{call, in_.alignment.golden_of[call], reason, given, result, usual};
  }

  // Something wrong enters at a call and nothing before made it: a call that only one side makes, just
  // before, is the better explanation.
  void BlameEntry(std::uint32_t call, double given, double usual) {
    if (orphan_ != kNoCall) return Blame(orphan_, Reason::kAdditional, made_, given, usual);
    Blame(call, Reason::kInput, made_, given, usual);
    if (const std::uint32_t missing = MissingBefore(call); missing != kNoCall) {
      findings_.culprit->reason = Reason::kMissing;
      findings_.culprit->golden_call = missing;
    }
  }

  // The first of the operators that only the golden makes, just before the partner of a call.
  std::uint32_t MissingBefore(std::uint32_t call) const {
    const std::uint32_t partner = in_.alignment.golden_of[call];
    std::uint32_t found = kNoCall;
    double since = 0;
    for (std::uint32_t g = partner == kNoCall ? 0 : partner; g-- > 0;) {
      const Call& before = in_.golden[g];
      if ((before.is_module && has_operators_) || before.pass == Pass::kGradient) continue;
      if (before.pass != in_.target[call].pass) break;
      if (in_.alignment.IsGoldenAlone(g)) {
        found = g;
      } else if (found != kNoCall || ++since >= rules_.orphan_reach) {
        break;
      }
    }
    return found;
  }

  // A call that only the target makes once gradients flow, and that changes what it is given: a hook, or a
  // step of an optimizer. Its result may never be seen again. Only where nothing else differs: elsewhere, as
  // between devices, additional calls are too common.
  void FindHook() {
    bool backward = false;
    for (std::uint32_t index = 0; index < in_.target.size(); ++index) {
      const Call& call = in_.target[index];
      backward = backward || call.pass == Pass::kBackward;
      if (!backward || HasPartner(index) || call.is_module || call.pass != Pass::kForward) continue;
      const Facts *input = nullptr, *output = nullptr;
      for (const Facts& facts : FactsOf(index)) {
        if (!facts.Has(Facts::kTensor) || !facts.Has(Facts::kFloat)) continue;
        const Facts*& place = facts.role == Role::kOutput ? output : input;
        if (place == nullptr) place = &facts;
      }
      if (input == nullptr || output == nullptr || input->num_elements != output->num_elements) continue;
      if (input->own_norm == output->own_norm) continue;
      return Blame(index, Reason::kAdditional, 0, std::fabs(output->own_norm / input->own_norm - 1), 0);
    }
  }

  // How many values a normalisation takes each of its scales from.
  static double ValuesPerScale(std::span<const Facts> all) {
    double data = 0, scales = 0;
    for (const Facts& facts : all) {
      if (!facts.Has(Facts::kTensor) || facts.num_elements < 2) continue;
      data = std::fmax(data, facts.num_elements);
      scales = scales == 0 ? facts.num_elements : std::fmin(scales, facts.num_elements);
    }
    return scales > 0 ? data / scales : 0;
  }

  void Judge(std::uint32_t index) {
    const Call& call = in_.target[index];
    const bool is_gradient = call.pass == Pass::kGradient;
    const bool is_module = call.is_module && has_operators_ && !is_gradient;
    if (is_module && call.pass == Pass::kForward) return;
    const std::span<const Facts> all = FactsOf(index);
    const std::vector<Judged> kept = Kept(index);
    bool half = false, blind = true, lacks_input = false, mixed = false, differs = false;
    bool huge_input = false, huge_output = false, gives_floats = false;
    for (const Facts& facts : all) {
      const bool is_output = facts.role == Role::kOutput;
      half = half || facts.Has(Facts::kHalf);
      blind = blind && !facts.Has(Facts::kMatched);
      lacks_input = lacks_input ||
                    (facts.role == Role::kInput && facts.Has(Facts::kTensor) && !facts.Has(Facts::kMatched));
      mixed = mixed || facts.Has(Facts::kMixed);
      differs = differs || facts.Has(Facts::kDiffers);
      huge_input = huge_input || (!is_output && facts.Has(Facts::kHuge));
      huge_output = huge_output || (is_output && facts.Has(Facts::kHuge));
      gives_floats = gives_floats || (is_output && facts.Has(Facts::kFloat));
    }
    const bool fused = in_.alignment.how[index] == PairedBy::kFused;
    blind = blind || (lacks_input && !fused);
    const bool product = call.is_product || is_gradient || is_module;
    History& history = HistoryOf(call, product);
    const double prior = half ? rules_.prior_half : product ? rules_.prior_product : rules_.prior_plain;
    const bool learned = history.size() >= rules_.least_seen;
    double tolerance =
        learned ? rules_.factor * history.Usual() : std::fmax(prior, rules_.factor * history.largest());
    unsure_ = unsure_ || blind || mixed || fused;
    if (unsure_) tolerance = std::fmax(tolerance, prior);
    // A spread of few values is itself unsure, and dividing by it makes more of every error.
    double strain = call.is_scaling ? std::fmax(1, rules_.few_values / std::fmax(1, ValuesPerScale(all))) : 1;
    if (call.is_cancelling && call.pass == Pass::kBackward) strain *= rules_.backward_cancel;
    if (call.is_scaling) tolerance *= strain;
    if (call.is_step) tolerance = std::fmax(tolerance, rules_.flips * std::sqrt(made_));

    double given = 0;
    for (const Judged& value : kept) {
      if (value.role == Role::kInput || value.role == Role::kParameter) given = std::fmax(given, value.error);
    }
    if (huge_input || fused) {
      for (const double error : recent_) given = std::fmax(given, error);
    }
    const double unit = learned ? std::fmin(tolerance / rules_.factor, 1e-2) : 0;
    double result = 0, excused = 0;
    for (Judged value : kept) {
      if (value.role == Role::kInput || value.role == Role::kParameter) continue;
      if (value.excused) {
        excused = std::fmax(excused, value.error);
        continue;
      }
      if (value.role == Role::kOutput && value.room > 0 && std::isfinite(value.error) &&
          value.gap <= rules_.cancel * unit * value.room) {
        value.error = std::fmin(value.error, tolerance);
      }
      result = std::fmax(result, value.error);
    }
    if (huge_output) result = std::fmax(result, given);
    if (!blind) {
      if (differs && result > given) return Blame(index, Reason::kArgument, given, result, tolerance);
      if (is_gradient) {
        if (result > std::fmax(rules_.growth * made_, tolerance))
          Blame(index, Reason::kGradient, made_, result, tolerance);
        return;
      }
      if (given > std::fmax(rules_.growth * made_, tolerance) && !is_module) {
        return BlameEntry(index, given, tolerance);
      }
      if (result > tolerance && result > rules_.growth * strain * given)
        return Blame(index, Reason::kOutput, given, result, tolerance);
    }
    if (is_module || is_gradient) return;
    if (in_.alignment.IsTargetAlone(index)) {
      orphan_ = index, since_ = 0;
    } else if (orphan_ != kNoCall && ++since_ >= rules_.orphan_reach) {
      orphan_ = kNoCall;
    }
    made_ = std::fmax(made_, std::fmax(result, excused));
    recent_.push_back(std::fmax(result, excused));
    if (recent_.size() > kRecent) recent_.pop_front();
    if (std::isfinite(result) && gives_floats) history.Add(result);
  }

  const Recordings& in_;
  const CulpritRules& rules_;
  bool has_operators_ = false;
  bool any_evidence_ = false;  // anything differs but memory that nobody set
  bool other_sizes_ = false;   // the two programs were given tensors of other sizes: their sums say nothing
  double largest_gradient_ = 0;
  std::array<History, 4> histories_;
  double made_ = 0;  // the largest error that a call has made so far
  std::deque<double> recent_;
  std::uint32_t orphan_ = kNoCall;  // a call that only the target has, just before
  double since_ = 0;
  bool unsure_ = false;  // a call without a partner came before, or the sides compute in different types
  Findings findings_;
};

}  // namespace

CulpritRules::CulpritRules(const Rules& rules)
    : growth(rules.Threshold("culprit_growth")),
      factor(rules.Threshold("culprit_factor")),
      prior_product(rules.Threshold("prior_product")),
      prior_plain(rules.Threshold("prior_plain")),
      prior_half(rules.Threshold("prior_half")),
      cancel(rules.Threshold("cancel")),
      alarm(rules.Threshold("alarm")),
      alarm_half(rules.Threshold("alarm_half")),
      gradient_floor(rules.Threshold("gradient_floor")),
      orphan_reach(rules.Threshold("orphan_reach")),
      flips(rules.Threshold("flips")),
      few_values(rules.Threshold("few_values")),
      backward_cancel(rules.Threshold("backward_cancel")),
      least_seen(static_cast<std::size_t>(rules.Threshold("least_seen"))) {}

std::string_view Name(Reason reason) {
  constexpr std::string_view kNames[] = {"output", "argument", "input", "additional", "missing", "gradient"};
  return kNames[static_cast<std::size_t>(reason)];
}

Findings FindCulprit(const Recordings& recordings, const CulpritRules& rules) {
  return Search(recordings, rules).Run();
}

}  // namespace vernier

#include "judge/culprit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include "judge/error_history.h"
#include "judge/evidence.h"
#include "judge/lone_calls.h"
#include "judge/look.h"

namespace vernier {
namespace {

constexpr std::size_t kRecent = 6;
constexpr double kNoResult = -1;

// The largest errors of what a call was given and of what it gave.
struct Errors {
  double given = 0, result = 0, excused = 0;
  double inherited = 0;         // of what it has kept from its forward call, or was given and is excused
  bool shuffled = false;        // what it gave holds the same values in other places
  std::size_t num_results = 0;  // that are known
  bool is_judged = false;       // any of them is evidence of how the call computes
};

class Search {
 public:
  Search(const Recordings& recordings, const CulpritRules& rules)
      : in_(recordings),
        rules_(rules),
        evidence_(recordings, rules),
        lone_(recordings, rules),
        largest_result_(recordings.target.size(), kNoResult),
        ahead_(recordings.target.size() + 1) {}

  Findings Run() {
    See();
    if (in_.follows_noise) made_ = std::fmin(rules_.drift, LargestEntry());
    for (std::uint32_t call = 0; call < in_.target.size() && !findings_.culprit; ++call) Judge(call);
    if (!findings_.culprit && !any_evidence_) {
      if (const auto hook = lone_.FindHook()) Blame(hook->call, Reason::kAdditional, 0, hook->change, 0);
    }
    FindWorst();
    findings_.lone_end = lone_.FindEnd();
    return findings_;
  }

 private:
  bool HasPartner(std::uint32_t call) const { return evidence_.HasPartner(call); }
  std::span<const Facts> FactsOf(std::uint32_t call) const { return evidence_.FactsOf(call); }

  // Where few calls compute in another type than their partners, that is a difference and no way of
  // computing.
  bool HasOddTypes() const {
    std::size_t num_mixed = 0, num_paired = 0;
    for (std::uint32_t call = 0; call < in_.target.size(); ++call) {
      const std::span<const Facts> all = FactsOf(call);
      if (evidence_.IsOfOptimizer(call)) continue;
      num_paired += HasPartner(call);
      num_mixed += std::any_of(all.begin(), all.end(), [](const Facts& f) { return f.Has(Facts::kMixed); });
    }
    const double mixed = static_cast<double>(num_mixed), all = static_cast<double>(num_paired);
    return mixed <= rules_.odd_types * all || (mixed <= rules_.odd_calls && 4 * mixed <= all);
  }

  // Is there anything to explain at all?
  void See() {
    odd_types_ = HasOddTypes();
    for (std::uint32_t call = 0; call < in_.target.size(); ++call) {
      const std::span<const Facts> all = FactsOf(call);
      bool half = false;
      for (const Facts& facts : all) {
        half = half || (facts.Has(Facts::kHalf) && !(odd_types_ && facts.Has(Facts::kMixed)));
        const bool differs = facts.Has(Facts::kDiffers) || facts.Has(Facts::kGoldenHasMore) ||
                             facts.Has(Facts::kOtherType) || facts.Has(Facts::kOtherShape);
        const bool is_error = facts.Has(Facts::kMeasured) && facts.error > 0;
        findings_.any_difference = findings_.any_difference || differs || is_error;
        any_evidence_ = any_evidence_ || differs;
      }
      for (const Judged& value : evidence_.Of(call)) {
        any_evidence_ = any_evidence_ || value.error > 0;
        if (value.excused) continue;
        if (value.error > (half ? rules_.alarm_half : rules_.alarm)) findings_.beyond_noise = true;
        if (value.IsResult()) largest_result_[call] = std::fmax(largest_result_[call], value.error);
      }
    }
    LookAhead();
  }

  // The largest error that comes into the forward pass and that no call of it made.
  double LargestEntry() const {
    double largest = 0;
    std::set<Signature> made;
    for (std::uint32_t call = 0; call < evidence_.first_backward(); ++call) {
      for (const Facts& facts : FactsOf(call)) {
        if (!facts.Has(Facts::kMeasured) || !(facts.error > 0)) continue;
        if (facts.role == Role::kOutput) {
          made.insert(SignatureOf(facts));
        } else if (std::isfinite(facts.error) && !made.contains(SignatureOf(facts))) {
          largest = std::fmax(largest, facts.error);
        }
      }
    }
    return largest;
  }

  // What is left to find behind each call, so that a search for it may end early.
  void LookAhead() {
    for (std::uint32_t call = static_cast<std::uint32_t>(in_.target.size()); call-- > 0;) {
      Ahead& ahead = ahead_[call] = ahead_[call + 1];
      if (Follows(call)) ahead.result = std::fmax(ahead.result, largest_result_[call]);
      if (call >= evidence_.first_backward() || !Follows(call)) continue;
      for (const Facts& facts : FactsOf(call)) {
        if (facts.role != Role::kOutput && facts.Has(Facts::kMeasured) && facts.error < rules_.drift)
          ahead.drifting_input = std::fmax(ahead.drifting_input, facts.error);
      }
    }
  }

  // A call that shows what is left of something that came in before it.
  bool Follows(std::uint32_t call) const {
    const Call& what = in_.target[call];
    return !what.is_around && what.pass != Pass::kGradient && !evidence_.IsOfOptimizer(call) &&
           largest_result_[call] != kNoResult;
  }

  bool IsForgotten(const Call& call) const {
    return call.pass == Pass::kBackward && forgotten_twins_.contains(call.twin);
  }

  void FindWorst() {
    const bool any_place = std::any_of(in_.target.begin(), in_.target.end(), [](const Call& call) {
      return !call.is_module && !call.place.empty();
    });
    std::set<std::string_view> of_model;  // kinds of the forward pass
    for (std::uint32_t call = 0; call < evidence_.first_backward(); ++call) {
      of_model.insert(in_.target[call].kind);
    }
    for (std::uint32_t call = 0; call < in_.target.size(); ++call) {
      // An optimizer may make a step of one size of any gradient, also of one that is rounding alone. Where
      // no place tells its calls, what the model calls too is none of them.
      if (evidence_.IsOfOptimizer(call) && (any_place || !of_model.contains(in_.target[call].kind))) continue;
      const double error = largest_result_[call];
      const auto shows = [&](const Forgotten& one) { return call >= one.call && call < one.end; };
      if (error <= findings_.worst || IsForgotten(in_.target[call])) continue;
      if (std::any_of(findings_.forgotten.begin(), findings_.forgotten.end(), shows)) continue;
      findings_.worst = error;
      findings_.worst_call = call;
    }
  }

  void Blame(std::uint32_t call, Reason reason, double given, double result, double usual) {
    findings_.culprit =
        vernier::Blame{call, in_.alignment.golden_of[call], reason, kNoCall, given, result, usual};
  }

  // Calls in which what has come in still shows.
  struct Window {
    std::uint32_t end = kNoCall;
    std::vector<std::uint32_t> entries;  // calls where something comes in
    std::set<std::string_view> twins;    // whose backward calls are given something else too
  };

  void Forget(std::uint32_t call, const Window& window, double given) {
    findings_.forgotten.push_back({call, window.end, given});
    for (const std::uint32_t entry : window.entries) evidence_.Forgive(entry);
    forgotten_until_ = window.end;
    forgotten_twins_.insert(window.twins.begin(), window.twins.end());
  }

  // Something wrong enters at a call and nothing before made it: a call that only one side makes, just
  // before, is the better explanation where it gives what is wrong.
  void BlameEntry(std::uint32_t call, double given, double usual, Reason reason = Reason::kInput) {
    if (const std::uint32_t additional = lone_.AdditionalBefore(call); additional != kNoCall) {
      Blame(additional, Reason::kAdditional, made_, given, usual);
      findings_.culprit->shown = call;
      return;
    }
    Blame(call, reason, made_, given, usual);
    if (const std::uint32_t missing = lone_.MissingBefore(call); missing != kNoCall) {
      findings_.culprit->reason = Reason::kMissing;
      findings_.culprit->golden_call = missing;
      findings_.culprit->shown = call;
    }
  }

  // Something wrong comes in, and a few calls later nothing is left of it, as of a bias before a
  // normalisation: it moves nothing. No end: it stays.
  Window ForgottenAt(std::uint32_t index, double limit) const {
    if (index > evidence_.first_backward()) return {};
    Window window{kNoCall, {index}, {}};
    // One side scales before a product and the other one behind it: so do their gradients.
    const bool by_other_calls =
        lone_.AdditionalBefore(index) != kNoCall || lone_.MissingBefore(index) != kNoCall;
    const auto forgive = [&](const Call& call) {
      if (by_other_calls && !call.twin.empty()) window.twins.insert(call.twin);
    };
    forgive(in_.target[index]);
    std::set<Signature> made;
    const auto see_results = [&](std::uint32_t call) {
      for (const Facts& facts : FactsOf(call)) {
        if (facts.role == Role::kOutput && facts.error > 0) made.insert(SignatureOf(facts));
      }
    };
    see_results(index);
    double near = 0;
    std::size_t num_clean = 0;
    // A wrong result that no later call is given is a result of the program: it has not faded.
    bool is_pending = largest_result_[index] > limit;
    for (std::uint32_t i = index + 1; i < in_.target.size(); ++i) {
      const Call& call = in_.target[i];
      if (!Follows(i)) continue;
      const bool nothing_ahead =
          !by_other_calls && ahead_[i].result <= limit && ahead_[i].drifting_input <= limit;
      if (near >= rules_.orphan_reach && num_clean >= rules_.least_seen && nothing_ahead && !is_pending)
        break;
      if (IsGiven(i, limit)) is_pending = false;
      is_pending = is_pending || (near < rules_.orphan_reach && largest_result_[i] > limit);
      // More may come in there, as another such bias; what differs by more than training drifts is news.
      // Nothing does in the backward pass: what differs there, and was not seen to be made, was made unseen.
      const std::span<const Facts> all = FactsOf(i);
      const bool as_before = by_other_calls && call.kind == in_.target[index].kind;
      const bool enters =
          i < evidence_.first_backward() && std::any_of(all.begin(), all.end(), [&](const Facts& facts) {
            return facts.role != Role::kOutput && facts.Has(Facts::kMeasured) && facts.error > limit &&
                   (facts.error < rules_.drift || as_before) && !made.contains(SignatureOf(facts));
          });
      see_results(i);
      if (enters) {
        forgive(call);
        near = 0;
        window.entries.push_back(i);
      }
      if (near < rules_.orphan_reach) {
        ++near;
        window.end = i + 1;
        forgive(call);
      } else if (call.pass == Pass::kBackward && window.twins.contains(call.twin)) {
        continue;
      } else if (largest_result_[i] > limit) {
        return {};
      } else {
        ++num_clean;
      }
    }
    if (is_pending && !by_other_calls) return {};
    return num_clean >= rules_.least_seen ? window : Window();
  }

  // Something that differs by more than this.
  bool IsGiven(std::uint32_t call, double limit) const {
    const std::span<const Facts> all = FactsOf(call);
    return std::any_of(all.begin(), all.end(), [&](const Facts& facts) {
      return facts.role != Role::kOutput && facts.Has(Facts::kTensor) && facts.error > limit;
    });
  }

  // The call just before that was given a mask, and whose result this one was given.
  std::uint32_t MaskingBefore(std::uint32_t call) const {
    double since = 0;
    while (call-- > 0 && since < rules_.orphan_reach) {
      if (in_.target[call].is_frame) continue;
      const Look look = LookAt(FactsOf(call));
      if (look.masked_output) return look.takes_mask && HasPartner(call) ? call : kNoCall;
      ++since;
    }
    return kNoCall;
  }

  // Every call that is given a result of this one gives the same as its partner, to the last bit, or another
  // mask of which the same holds.
  bool IsHidden(std::uint32_t index) const {
    std::set<Signature> made;
    const auto see_results = [&](std::uint32_t call) {
      for (const Facts& facts : FactsOf(call)) {
        if (facts.role == Role::kOutput && facts.error > 0) made.insert(SignatureOf(facts));
      }
    };
    see_results(index);
    std::size_t num_given = 0;
    for (std::uint32_t i = index + 1; i < in_.target.size(); ++i) {
      const std::span<const Facts> all = FactsOf(i);
      const bool is_given = std::any_of(all.begin(), all.end(), [&](const Facts& facts) {
        return facts.role != Role::kOutput && facts.error > 0 && made.contains(SignatureOf(facts));
      });
      if (!is_given || in_.target[i].is_around) continue;
      if (LookAt(all).only_masks_differ) {
        see_results(i);
      } else if (largest_result_[i] == 0) {
        ++num_given;
      } else {
        return false;
      }
    }
    return num_given > 0;
  }

  // Everything before is the same to the last bit.
  bool IsExact() const { return made_ == 0 && !unsure_ && !lone_.any(); }
  // And there was enough of it, in either pass, to know that calls of this class are computed alike.
  bool IsSettled(const Call& call) const {
    const std::size_t first = IsProduct(call) ? 1 : 0;
    return IsExact() && histories_[first].size() + histories_[first + 2].size() >= rules_.least_seen;
  }
  static bool IsProduct(const Call& call) {
    return call.is_product || call.pass == Pass::kGradient || call.is_around;
  }
  ErrorHistory& HistoryOf(const Call& call) {
    return histories_[(call.pass != Pass::kForward ? 2 : 0) + (IsProduct(call) ? 1 : 0)];
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

  // A spread of few values is itself unsure, and dividing by it makes more of every error; subtracting means
  // leaves little of what the error was small beside.
  double StrainOf(const Call& call, std::span<const Facts> all) const {
    double strain = 1;
    if (call.is_scaling) strain = std::fmax(1, rules_.few_values / std::fmax(1, ValuesPerScale(all)));
    if (call.is_cancelling && call.pass == Pass::kBackward) strain *= rules_.backward_cancel;
    return strain;
  }

  // What a call may show beyond what it was given.
  double ToleranceOf(const Call& call, const Look& look, double strain) {
    const ErrorHistory& history = HistoryOf(call);
    const double prior = half_             ? rules_.prior_half
                         : IsProduct(call) ? rules_.prior_product
                                           : rules_.prior_plain;
    const double rounding = half_ ? rules_.rounding_half * kHalfEpsilon : rules_.rounding * kSingleEpsilon;
    // No rounding of a product leaves its extremes as they are.
    if (look.local && call.is_product && IsExact()) return rounding;
    // Kernels of which any has rounded differently may all do, and some of them more coarsely.
    const double usual = history.size() >= rules_.least_seen ? history.Usual() : history.largest();
    double tolerance = std::fmax(rules_.factor * usual, IsSettled(call) ? rounding : prior);
    if (look.eighth && !IsSettled(call)) tolerance = std::fmax(tolerance, rules_.prior_eighth);
    if (call.is_scaling) tolerance *= strain;
    if (call.is_step) tolerance = std::fmax(tolerance, rules_.flips * std::sqrt(made_));
    return tolerance;
  }

  // What may come in unseen: from what stands between recorded calls anything may come, also a product or,
  // where modules alone are recorded, a decision.
  double EntryToleranceOf(const Call& call, double tolerance) const {
    if (!IsSettled(call)) tolerance = std::fmax(tolerance, half_ ? rules_.prior_half : rules_.prior_unseen);
    if (call.is_module) tolerance = std::fmax(tolerance, rules_.flips * std::sqrt(made_));
    return tolerance;
  }

  Errors ErrorsOf(std::uint32_t index, const Look& look, bool fused, double tolerance) const {
    Errors errors;
    errors.inherited = evidence_.ErrorOfSaved(index);
    // A sum may show the noise of all that it sums up.
    const double noise = IsExact() ? 0 : std::fmin(tolerance / rules_.factor, rules_.coarsest);
    for (const Judged& value : evidence_.Of(index)) {
      if (!value.IsResult()) {
        double& error = value.excused ? errors.inherited : errors.given;
        error = std::fmax(error, value.error);
        continue;
      }
      errors.shuffled = errors.shuffled || value.shuffled;
      ++errors.num_results;
      errors.is_judged = errors.is_judged || !value.excused;
      if (value.excused) {
        errors.excused = std::fmax(errors.excused, value.error);
      } else if (std::isfinite(value.error) && value.gap <= rules_.cancel * noise * value.room) {
        errors.result = std::fmax(errors.result, std::fmin(value.error, tolerance));
      } else {
        errors.result = std::fmax(errors.result, value.error);
      }
    }
    // What goes in is not known: it may have any error that was made just before.
    if (look.masked_input || fused) {
      for (const double error : recent_) errors.given = std::fmax(errors.given, error);
    }
    // What a module gives back may be as wrong as what was made in it.
    if (in_.target[index].is_around) errors.given = std::fmax(errors.given, made_);
    if (look.masked_output) errors.result = std::fmax(errors.result, errors.given);
    return errors;
  }

  double GivenTo(std::uint32_t call) const {
    double given = 0;
    for (const Judged& value : evidence_.Of(call)) {
      if (!value.IsResult() && !value.excused) given = std::fmax(given, value.error);
    }
    return given;
  }

  // Whatever it may cancel; masks and memory that nobody set are left out.
  double LargestOutputOf(std::uint32_t call) const {
    double largest = 0;
    if (in_.target[call].is_unset || in_.target[call].is_writer) return largest;
    for (const Facts& facts : FactsOf(call)) {
      const bool tells = facts.role == Role::kOutput && facts.Has(Facts::kMeasured) &&
                         facts.Has(Facts::kFloat) && !facts.Has(Facts::kHuge) && std::isfinite(facts.error);
      if (tells) largest = std::fmax(largest, facts.error);
    }
    return largest;
  }

  void ForgetHidden(std::uint32_t index, double result) {
    Forget(index, Window{index + 1, {index}, {}}, result);
  }

  // Names this call where one of its arguments differs and explains its result.
  void AccuseArgument(std::uint32_t index, const Look& look, const Errors& errors, double tolerance) {
    const Call& call = in_.target[index];
    // It shows in the result, beyond what rounding does, and beyond the noise where there may be some; of a
    // module it may be about its form alone.
    const bool is_sure = IsSettled(call) && !call.is_module;
    const double shows = is_sure ? rules_.rounding * kSingleEpsilon : tolerance;
    // Where all before is the same, nothing but the argument explains a sum that is off.
    const double result = IsExact() ? std::fmax(errors.result, LargestOutputOf(index)) : errors.result;
    if (look.differs && result > std::fmax(rules_.shows * errors.given, shows)) {
      if (IsHidden(index)) return ForgetHidden(index, result);
      return Blame(index, Reason::kArgument, errors.given, result, tolerance);
    }
    // What it does in place, and nobody recorded, may be anything.
    if (look.differs && errors.num_results == 0 && !call.is_module && call.is_in_place)
      Blame(index, Reason::kArgument, errors.given, HUGE_VAL, tolerance);
  }

  // Names this call, or what came in with it, where its errors say so.
  void Accuse(std::uint32_t index, const Look& look, const Errors& errors, double tolerance, double strain) {
    const double given = errors.given, result = errors.result;
    const Call& call = in_.target[index];
    const double rounding = rules_.rounding * kSingleEpsilon;
    const bool by_mask = look.other_mask && (result > 0 || errors.num_results == 0);
    if (IsExact() && (by_mask || (look.other_index && result > rounding)))
      return IsHidden(index) ? ForgetHidden(index, given) : BlameEntry(index, given, tolerance);
    if (call.pass == Pass::kGradient) {
      if (result <= std::fmax(rules_.growth * made_, tolerance)) return;
      // What comes into its module may be as wrong, and be recorded behind it.
      const std::uint32_t module = evidence_.BackwardOf(index);
      const double flows = module == kNoCall ? 0 : GivenTo(module);
      if (flows * rules_.growth > result) return BlameEntry(module, flows, tolerance);
      return Blame(index, Reason::kGradient, made_, result, tolerance);
    }
    if (given > std::fmax(rules_.growth * made_, EntryToleranceOf(call, tolerance)) && !call.is_frame) {
      // It must show in what the call gives, if that is seen: not as of x + y for y + x.
      const bool is_seen = errors.num_results > 0 && !look.masked_output;
      const double least = IsExact() ? rules_.rounding * kSingleEpsilon : tolerance;
      if (is_seen && result <= least && !errors.shuffled) return;
      const double faded = given <= 1 ? given / rules_.fades : 0;
      const Window window = ForgottenAt(index, std::fmax(std::fmax(rules_.alarm, made_), faded));
      const Reason reason = look.differs ? Reason::kArgument : Reason::kInput;
      return window.end == kNoCall ? BlameEntry(index, given, tolerance, reason)
                                   : Forget(index, window, given);
    }
    double before = std::fmax(given, errors.inherited);
    if (before > 1) before *= before + 2;  // as a square makes of it
    // Statistics show less of an error than there is, of what went in as well.
    const double growth = look.by_statistics && !IsExact() ? rules_.growth_statistics : rules_.growth;
    const bool grew = result > tolerance && result > growth * strain * before;
    if (!grew && !(errors.shuffled && IsSettled(call))) return;
    // Shares of a whole add up to one whatever they are shares of: the mask that hides it is another one.
    if (call.is_share && look.hidden_input && look.keeps_mean) {
      if (const std::uint32_t masking = MaskingBefore(index); masking != kNoCall)
        return Blame(masking, Reason::kInput, made_, result, tolerance);
    }
    Blame(index, Reason::kOutput, given, result, tolerance);
  }

  void Judge(std::uint32_t index) {
    const Call& call = in_.target[index];
    if ((call.is_frame && call.pass == Pass::kForward) || index < forgotten_until_) return;
    if (IsForgotten(call)) return;
    const std::span<const Facts> all = FactsOf(index);
    const Look look = LookAt(all);
    const bool fused = in_.alignment.how[index] == PairedBy::kFused;
    const bool blind = look.blind || (look.lacks_input && !fused);
    const bool is_odd = look.mixed && odd_types_;
    half_ = half_ || (look.half && !is_odd);
    // What a call of the target alone changes shows in what follows.
    const bool alone = in_.alignment.IsTargetAlone(index);
    unsure_ = unsure_ || (blind && !alone) || fused || (look.mixed && !is_odd);
    const double strain = StrainOf(call, all);
    const double tolerance = ToleranceOf(call, look, strain);
    const Errors errors = ErrorsOf(index, look, fused, tolerance);
    // In noise a call is asked only where something is beyond it.
    const bool stands_out = IsSettled(call) && errors.result > rules_.alarm;
    if (!blind) AccuseArgument(index, look, errors, tolerance);
    if (!blind && !IsExplained(index) && (findings_.beyond_noise || stands_out))
      Accuse(index, look, errors, tolerance, strain);
    const bool counts = !call.is_frame && call.pass != Pass::kGradient && index >= forgotten_until_;
    if (!findings_.culprit && counts) Remember(index, look, errors);
  }

  bool IsExplained(std::uint32_t index) const { return findings_.culprit || index < forgotten_until_; }

  void Remember(std::uint32_t index, const Look& look, const Errors& errors) {
    lone_.Pass(index);
    const double made = std::fmax(errors.result, errors.excused);
    made_ = std::fmax(made_, made);
    recent_.push_back(made);
    if (recent_.size() > kRecent) recent_.pop_front();
    if (errors.is_judged && std::isfinite(errors.result) && look.gives_floats)
      HistoryOf(in_.target[index]).Add(errors.result);
  }

  const Recordings& in_;
  const CulpritRules& rules_;
  Evidence evidence_;
  LoneCalls lone_;
  std::vector<double> largest_result_;     // error of each call; kNoResult: it has none that can be judged
  bool any_evidence_ = false;              // anything differs but memory that nobody set
  std::array<ErrorHistory, 4> histories_;  // others and products, of the forward pass and of the others
  struct Ahead {                           // the largest errors from a call on
    double result = kNoResult, drifting_input = 0;
  };
  std::vector<Ahead> ahead_;  // and one behind the last call
  double made_ = 0;           // the largest error that a call has made so far
  std::deque<double> recent_;
  std::uint32_t forgotten_until_ = 0;
  std::set<std::string_view> forgotten_twins_;
  bool odd_types_ = false;
  bool half_ = false;    // 16 bits or fewer took part before
  bool unsure_ = false;  // something was given unseen before, or the sides compute in different types
  Findings findings_;
};

}  // namespace

CulpritRules::CulpritRules(const Rules& rules)
    : growth(rules.Threshold("culprit_growth")),
      growth_statistics(rules.Threshold("culprit_growth_statistics")),
      factor(rules.Threshold("culprit_factor")),
      prior_product(rules.Threshold("prior_product")),
      prior_plain(rules.Threshold("prior_plain")),
      prior_half(rules.Threshold("prior_half")),
      prior_eighth(rules.Threshold("prior_eighth")),
      prior_unseen(rules.Threshold("prior_unseen")),
      rounding(rules.Threshold("rounding")),
      rounding_half(rules.Threshold("rounding_half")),
      cancel(rules.Threshold("cancel")),
      sums(rules.Threshold("sums")),
      coarsest(rules.Threshold("coarsest")),
      shows(rules.Threshold("shows")),
      alarm(rules.Threshold("alarm")),
      alarm_half(rules.Threshold("alarm_half")),
      gradient_floor(rules.Threshold("gradient_floor")),
      gradient_floor_half(rules.Threshold("gradient_floor_half")),
      odd_types(rules.Threshold("odd_types")),
      odd_calls(rules.Threshold("odd_calls")),
      fades(rules.Threshold("fades")),
      drift(rules.Threshold("drift")),
      orphan_reach(rules.Threshold("orphan_reach")),
      flips(rules.Threshold("flips")),
      few_values(rules.Threshold("few_values")),
      backward_cancel(rules.Threshold("backward_cancel")),
      least_seen(static_cast<std::size_t>(std::clamp(rules.Threshold("least_seen"), 1.0, 1e9))) {}

std::string_view Name(Reason reason) {
  constexpr std::string_view kNames[] = {"output", "argument", "input", "additional", "missing", "gradient"};
  return kNames[static_cast<std::size_t>(reason)];
}

Findings FindCulprit(const Recordings& recordings, const CulpritRules& rules) {
  return Search(recordings, rules).Run();
}

}  // namespace vernier

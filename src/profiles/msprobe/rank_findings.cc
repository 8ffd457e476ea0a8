// What a rank's verdict says of itself: how calls were paired, what came from outside, what may be doubted.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "core/text.h"
#include "judge/along.h"
#include "profiles/msprobe/context.h"
#include "profiles/msprobe/rank_verdict.h"

namespace vernier::msprobe {
namespace {

constexpr std::size_t kMaxOutside = 4, kMaxParts = 16;

// Of a tensor that differs by its type or its shape, what differs.
std::string TypeOf(const Value& value) { return std::string(value.dtype); }
std::string ShapeOf(const Value& value) { return std::string(value.shape); }

std::string HaveNoPartner(std::uint64_t count, std::string_view what, std::string_view more = "") {
  return fmt::format("{}{} {} no partner", Plural(count, what), more, count == 1 ? "has" : "have");
}

}  // namespace

std::string RankVerdict::Shortened(const Value& value) {
  if (value.kind == Value::Kind::kNone) return "None";
  if (value.kind == Value::Kind::kPlain) return std::string(value.text);
  return fmt::format("{} {}", value.dtype, value.shape);
}

void RankVerdict::DescribePairing(RankOutcome& outcome) const {
  outcome.num_calls = target_.calls().size() + golden_.calls().size();
  std::map<PairedBy, std::uint64_t> by;
  for (const PairedBy how : alignment_.how) ++by[how];
  for (const PairedBy how : {PairedBy::kName, PairedBy::kPlace, PairedBy::kOrder, PairedBy::kFused}) {
    if (by[how] > 0) outcome.num_calls_paired_by.emplace_back(vernier::Name(how), by[how]);
  }
  for (std::uint32_t i = 0; i < alignment_.golden_of.size(); ++i)
    outcome.num_alone += alignment_.IsTargetAlone(i);
  for (std::uint32_t i = 0; i < alignment_.target_of.size(); ++i)
    outcome.num_alone += alignment_.IsGoldenAlone(i);
  outcome.renames = alignment_.renames;
  const std::size_t most = builder_.job().most_pairs;
  for (std::uint32_t call = 0; call < target_.calls().size() && outcome.pairs.size() < most; ++call) {
    if (alignment_.golden_of[call] == kNoCall || alignment_.how[call] == PairedBy::kName) continue;
    outcome.pairs.push_back({std::string(target_.calls()[call].name),
                             std::string(golden_.calls()[alignment_.golden_of[call]].name),
                             std::string(vernier::Name(alignment_.how[call]))});
  }
}

// Of both sides: the calls behind the last one of the backward pass, and those of them that are alone. None
// where a side has no backward pass.
std::pair<std::uint64_t, std::uint64_t> RankVerdict::BehindBackward() const {
  std::uint64_t alone = 0, all = 0;
  for (const bool is_target : {true, false}) {
    const Calls& calls = (is_target ? target_ : golden_).calls();
    std::size_t first = calls.size();
    while (first > 0 && calls[first - 1].pass == Pass::kForward) --first;
    if (first == 0) return {0, 0};
    all += calls.size() - first;
    for (std::uint32_t i = static_cast<std::uint32_t>(first); i < calls.size(); ++i)
      alone += is_target ? alignment_.IsTargetAlone(i) : alignment_.IsGoldenAlone(i);
  }
  return {alone, all};
}

// What came from outside: how much of each kind there is, and of each those that differ most.
class OutsideTally {
 public:
  enum What : std::uint8_t {
    kEnvironment,
    kInput,
    kArgument,
    kWeight,
    kDtype,
    kShape,
    kMissing,
    kAdditional,
    kReordered,
    kFused,
    kNumWhats
  };

  void Add(What what, std::string name, std::string target, std::string golden, double error,
           std::string where = "", std::string parameter = "") {
    ++counts_[what];
    std::vector<Outside>& kept = first_[what];
    if (kept.size() == kMaxOutside && error <= kept.back().error) return;
    kept.push_back({std::string(kWhats[what]), std::move(name), std::move(target), std::move(golden),
                    std::move(where), error, std::move(parameter)});
    std::stable_sort(kept.begin(), kept.end(),
                     [](const Outside& a, const Outside& b) { return a.error > b.error; });
    if (kept.size() > kMaxOutside) kept.pop_back();
  }
  void MoveTo(RankOutcome& outcome) {
    for (std::size_t i = 0; i < kNumWhats; ++i) {
      if (counts_[i] == 0) continue;
      outcome.num_outside.emplace_back(kWhats[i], counts_[i]);
      for (Outside& outside : first_[i]) outcome.outside.push_back(std::move(outside));
    }
  }

 private:
  static constexpr std::string_view kWhats[] = {
      "setting", "input",        "argument",        "weight",         "dtype",
      "shape",   "missing call", "additional call", "reordered call", "fused call"};
  std::uint64_t counts_[kNumWhats] = {};
  std::vector<Outside> first_[kNumWhats];
};

void RankVerdict::AddSettings(OutsideTally& tally) const {
  const auto ours = EnvironmentOf(npu_.path()), theirs = EnvironmentOf(bench_.path());
  for (const auto& [name, text] : ours) {
    const auto other = theirs.find(name);
    if (other != theirs.end() && other->second != text)
      tally.Add(OutsideTally::kEnvironment, name, text, other->second, 0);
  }
}

// Calls that one side makes alone, and where they stand: before the next one that has a partner.
void RankVerdict::AddLoneCalls(OutsideTally& tally) const {
  const auto each_of = [&](const Calls& calls, const std::vector<std::uint32_t>& partner, auto is_alone,
                           auto name_of, OutsideTally::What what) {
    // A module that is alone is told by the calls in it, where there are any.
    bool lists_modules = true;
    for (std::uint32_t i = 0; i < calls.size(); ++i)
      lists_modules = lists_modules && (calls[i].is_module || !is_alone(i));
    std::uint32_t next = kNoCall;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> alone;  // and the next one that is not
    for (std::uint32_t i = static_cast<std::uint32_t>(calls.size()); i-- > 0;) {
      if (partner[i] != kNoCall && !calls[i].is_around) next = i;
      if (is_alone(i) && (!calls[i].is_module || lists_modules)) alone.emplace_back(i, next);
    }
    for (auto call = alone.rbegin(); call != alone.rend(); ++call) {
      tally.Add(what, std::string(calls[call->first].name), "", "", 0,
                call->second == kNoCall ? "at the end" : fmt::format("before {}", name_of(call->second)));
    }
  };
  each_of(
      target_.calls(), alignment_.golden_of, [&](std::uint32_t i) { return alignment_.IsTargetAlone(i); },
      [&](std::uint32_t i) { return target_.calls()[i].name; }, OutsideTally::kAdditional);
  each_of(
      golden_.calls(), alignment_.target_of, [&](std::uint32_t i) { return alignment_.IsGoldenAlone(i); },
      [&](std::uint32_t i) { return target_.calls()[alignment_.target_of[i]].name; }, OutsideTally::kMissing);
}

void RankVerdict::AddReordered(OutsideTally& tally) const {
  std::uint32_t last = 0;
  for (std::uint32_t call = 0; call < target_.calls().size(); ++call) {
    const Call& what = target_.calls()[call];
    const std::uint32_t partner = alignment_.golden_of[call];
    if (partner == kNoCall || what.is_module || what.pass != Pass::kForward) continue;
    if (alignment_.how[call] == PairedBy::kName) continue;
    if (partner < last) {
      tally.Add(OutsideTally::kReordered, std::string(what.name), "", "", 0,
                fmt::format("as {}", golden_.calls()[partner].name));
    }
    last = std::max(last, partner);
  }
}

void RankVerdict::AddFused(OutsideTally& tally) const {
  for (const FusedRun& run : alignment_.fused) {
    const bool in_target = run.target.size() == 1;
    const Call& one = in_target ? target_.calls()[run.target[0]] : golden_.calls()[run.golden[0]];
    tally.Add(OutsideTally::kFused, std::string(one.name), "", "", 0,
              in_target ? fmt::format("for {} calls of the golden", run.golden.size())
                        : fmt::format("for {} calls of the target", run.target.size()));
  }
}

// Arguments, dtypes and shapes of one value that are not the golden's.
void RankVerdict::AddForm(std::uint32_t call, std::size_t row, OutsideTally& tally) const {
  const Facts& facts = facts_[row];
  if (facts.role != Role::kInput || target_.calls()[call].is_module) return;
  TextArena arena;
  const auto add = [&](OutsideTally::What what, const auto& text_of) {
    const bool has_partner = wanted_[row] != kNoRow;
    const Value ours = ValueOf(npu_.Read(npu_.rows()[row], arena), arena);
    const Value theirs =
        has_partner ? ValueOf(bench_.Read(bench_.rows()[wanted_[row]], arena), arena) : Value();
    tally.Add(what, npu_.NameOf(row), text_of(ours), has_partner ? text_of(theirs) : "", 0, "",
              ParameterName(call, target_.SuffixOf(row)));
  };
  if (facts.Has(Facts::kDiffers) && !facts.Has(Facts::kTensor)) add(OutsideTally::kArgument, Shortened);
  if (facts.Has(Facts::kOtherType)) add(OutsideTally::kDtype, Shortened);
  if (facts.Has(Facts::kMixed)) add(OutsideTally::kDtype, TypeOf);
  if (facts.Has(Facts::kOtherShape) && facts.Has(Facts::kTensor)) add(OutsideTally::kShape, ShapeOf);
}

void RankVerdict::AddValues(OutsideTally& tally) const {
  const std::vector<std::uint32_t> parameters = DifferentParameters();
  bool made = false;  // any call before gave something else, so that an input may come from it
  // Statistics are rounded themselves; a weight is another one where they differ by more.
  const bool by_statistics = builder_.mode() == Mode::kStatistics;
  const double rounding = by_statistics ? rules_.Threshold("rounding") * kSingleEpsilon : 0;
  for (std::uint32_t call = 0; call < target_.calls().size(); ++call) {
    if (alignment_.golden_of[call] == kNoCall) continue;
    for (std::size_t row = first_[call]; row < first_[call + 1]; ++row) {
      const Facts& facts = facts_[row];
      AddForm(call, row, tally);
      if (!facts.Has(Facts::kMeasured) || !(facts.error > rounding)) continue;
      if (facts.role == Role::kParameter && target_.calls()[call].pass == Pass::kForward)
        tally.Add(OutsideTally::kWeight, npu_.NameOf(row), "", "", facts.error);
      const bool is_news = facts.role == Role::kInput && !facts.Has(Facts::kMixed) && !made;
      if (is_news && ParameterOf(static_cast<std::uint32_t>(row), parameters) == kNoRow)
        tally.Add(OutsideTally::kInput, npu_.NameOf(row), "", "", facts.error);
    }
    made = made || std::any_of(FirstOf(call), FirstOf(call + 1), [](const Facts& facts) {
             return facts.role == Role::kOutput && (facts.error > 0 || facts.Has(Facts::kOtherShape));
           });
  }
  TextArena arena;
  for (const auto& [call, row] : golden_arguments_) {
    tally.Add(OutsideTally::kArgument, GoldenArgumentName(call, row), "",
              Shortened(ValueOf(bench_.Read(bench_.rows()[row], arena), arena)), 0, "",
              ParameterName(call, golden_.SuffixOf(row)));
  }
}

void RankVerdict::DescribeOutside(RankOutcome& outcome) const {
  OutsideTally tally;
  AddSettings(tally);
  AddValues(tally);
  AddLoneCalls(tally);
  AddReordered(tally);
  AddFused(tally);
  tally.MoveTo(outcome);
}

// Pairs of tensors that could not be compared, because one side or neither has a file, statistics or a
// checksum of them.
RankVerdict::Unread RankVerdict::NumUnread() const {
  Unread count;
  const auto has_any = [&](const Leaf& leaf, TextArena& arena) {
    if (builder_.mode() == Mode::kReal && leaf.data_name != "-1") return true;
    const Value value = ValueOf(leaf, arena);
    return !value.checksum.empty() || value.max != Value::kUnknown;
  };
  TextArena arena;
  for (std::size_t row = 0; row < facts_.size(); ++row) {
    const Facts& facts = facts_[row];
    if (wanted_[row] == kNoRow || !facts.Has(Facts::kTensor) || !facts.Has(Facts::kMatched)) continue;
    if (facts.Has(Facts::kOtherShape) || facts.num_elements == 0) continue;
    const std::uint32_t call = npu_.rows()[row].record;
    const bool is_fused = alignment_.is_target_fused[call] || alignment_.how[call] == PairedBy::kFused;
    if (is_fused && (facts.Has(Facts::kMeasured) || facts.role != Role::kOutput)) continue;
    const bool is_whole = facts.Has(Facts::kWhole) || builder_.mode() != Mode::kReal;
    if (facts.Has(Facts::kMeasured) && is_whole) continue;
    const Leaf ours = npu_.Read(npu_.rows()[row], arena),
               theirs = bench_.Read(bench_.rows()[wanted_[row]], arena);
    const bool stored = ours.data_name != "-1" || theirs.data_name != "-1";
    if (facts.Has(Facts::kMeasured) && !stored) continue;
    if (facts.Has(Facts::kMeasured)) {
      ++count.by_statistics;
    } else if (!has_any(ours, arena) && !has_any(theirs, arena)) {
      ++count.of_both;
    } else if (facts.Has(Facts::kMixed)) {
      ++count.of_other_types;
    } else {
      ++count.of_one_side;
      continue;
    }
    count.outputs += facts.role == Role::kOutput;
  }
  return count;
}

// Tensors of paired calls that only one of the two gives or is given.
std::uint64_t RankVerdict::NumLoneTensors() const {
  std::uint64_t count = 0;
  std::vector<bool> has_partner(bench_.rows().size());
  for (std::uint32_t call = 0; call < target_.calls().size(); ++call) {
    const bool is_pair = alignment_.golden_of[call] != kNoCall && alignment_.how[call] != PairedBy::kFused;
    for (std::size_t row = first_[call]; is_pair && row < first_[call + 1]; ++row) {
      const Facts& facts = facts_[row];
      if (wanted_[row] != kNoRow) has_partner[wanted_[row]] = true;
      // A partner may be None, or a number.
      const bool is_alone = wanted_[row] == kNoRow || facts.Has(Facts::kDiffers);
      count += facts.Has(Facts::kTensor) && is_alone;
    }
  }
  TextArena arena;
  for (std::uint32_t call = 0; call < golden_.calls().size(); ++call) {
    const std::uint32_t partner = alignment_.target_of[call];
    if (partner == kNoCall || alignment_.how[partner] == PairedBy::kFused) continue;
    const Record& record = bench_.records()[call];
    for (std::uint32_t row = record.first_row; row < record.first_row + record.num_rows; ++row) {
      if (has_partner[row] || bench_.rows()[row].bad) continue;
      count += ValueOf(bench_.Read(bench_.rows()[row], arena), arena).kind == Value::Kind::kTensor;
    }
  }
  return count;
}

// Whether numbers of any pair of tensors are known; true also where there are no such pairs.
bool RankVerdict::AnyMeasured() const {
  bool any_pair = false;
  for (const Facts& facts : facts_) {
    if (facts.Has(Facts::kMeasured) || facts.Has(Facts::kOtherShape)) return true;
    any_pair =
        any_pair || (facts.Has(Facts::kTensor) && facts.Has(Facts::kMatched) && facts.num_elements > 0);
  }
  return !any_pair;
}

void RankVerdict::Describe(const Findings& findings, RankOutcome& outcome) const {
  const bool by_statistics = builder_.mode() == Mode::kStatistics;
  DescribePairing(outcome);
  DescribeOutside(outcome);
  outcome.errors_along = ErrorsAlong(All(), kMaxParts);
  outcome.worst_error = findings.worst;
  if (findings.worst_call != kNoCall) outcome.worst_record = target_.calls()[findings.worst_call].name;
  // What an optimizer calls differs between devices and versions; what the model computed is all there.
  const auto [alone_behind, calls_behind] = BehindBackward();
  outcome.num_alone_behind_backward = alone_behind;
  const std::uint64_t alone_of_model = outcome.num_alone - alone_behind;
  const double alone = static_cast<double>(alone_of_model) /
                       std::fmax(1, static_cast<double>(outcome.num_calls - calls_behind));
  const auto doubt = [&](bool holds, std::string text) {
    if (holds) outcome.doubts.push_back(std::move(text));
  };
  doubt(target_.calls().empty() || outcome.num_alone == outcome.num_calls, "no call has a partner");
  doubt(outcome.num_alone < outcome.num_calls && alone > rules_.Threshold("unmatched_share"),
        fmt::format("{:.0f} % of the calls have no partner", 100 * alone));
  const std::uint64_t num_bad = outcome.num_errors + static_cast<std::uint64_t>(std::count_if(
                                                         bench_.rows().begin(), bench_.rows().end(),
                                                         [](const Row& row) { return row.bad; }));
  doubt(num_bad > 0, fmt::format("{} could not be read", Plural(num_bad, "record")));
  const Unread unread = NumUnread();
  doubt(unread.of_one_side > 0,
        fmt::format("{} could not be measured: {}", Plural(unread.of_one_side, "paired tensor"),
                    builder_.mode() == Mode::kReal ? "a file is missing or damaged"
                                                   : "one side has no numbers of them"));
  doubt(outcome.num_calls > 0 && !AnyMeasured(), "not one pair of tensors could be measured");
  std::uint64_t num_outputs = 0, num_other_shapes = 0, num_nan = 0;
  for (const Facts& facts : facts_) {
    if (facts.role != Role::kOutput || !facts.Has(Facts::kTensor) || !facts.Has(Facts::kMatched)) continue;
    ++num_outputs;
    num_other_shapes += facts.Has(Facts::kOtherShape);
    num_nan += facts.Has(Facts::kNan);
  }
  const std::string other_shapes =
      fmt::format("{} of {} {} a different shape on the two sides and {} not compared", num_other_shapes,
                  Plural(num_outputs, "output"), num_other_shapes == 1 ? "has" : "have",
                  num_other_shapes == 1 ? "was" : "were");
  const std::string nans =
      fmt::format("{} of {} {} NaN on both sides, which hides what else differs: statistics do not tell",
                  num_nan, Plural(num_outputs, "output"), num_nan == 1 ? "holds" : "hold");
  const double many = rules_.Threshold("unmatched_share") * static_cast<double>(num_outputs);
  // What was not compared, or only in part.
  std::vector<std::string> unknown;
  const auto add_unknown = [&](std::uint64_t num, std::string_view what, std::string_view why) {
    if (num > 0) unknown.push_back(fmt::format("{} {}", Plural(num, what), why));
  };
  add_unknown(unread.of_other_types, "tensor",
              "of different dtypes could not be compared: only checksums of them were recorded");
  add_unknown(unread.by_statistics, "stored tensor",
              "could not be read (missing or damaged files): the statistics beside them were compared");
  add_unknown(unread.of_both, "paired tensor", "could not be measured: neither side has numbers of them");
  const bool many_unknown = static_cast<double>(unread.outputs) > many;
  const bool most_shapes_differ = static_cast<double>(num_other_shapes) > many,
             most_are_nan = static_cast<double>(num_nan) > many;
  doubt(most_shapes_differ, other_shapes);
  doubt(most_are_nan, nans);
  for (const std::string& text : unknown) doubt(many_unknown, text);
  if (findings.lone_end && !findings.culprit) {
    const auto& [in_target, call] = *findings.lone_end;
    const std::string_view name = (in_target ? target_ : golden_).calls()[call].name;
    doubt(true, fmt::format("the last call, {}, has no partner and changes the result", name));
  }
  const bool by_checksums = builder_.mode() == Mode::kMd5 && std::isinf(findings.worst);
  doubt(by_checksums && !findings.culprit,
        "checksums differ, and do not tell by how much: no statistics were recorded");
  doubt(npu_.torn() || bench_.torn(), "a recording ends in the middle: what follows is not known");
  const bool unsure = !outcome.doubts.empty();
  if (alone_of_model > 0 && !unsure)
    outcome.doubts.push_back(HaveNoPartner(alone_of_model, "call", fmt::format(" ({:.1f} %)", 100 * alone)));
  if (alone_behind > 0)
    outcome.doubts.push_back(HaveNoPartner(alone_behind, "call", " behind the backward pass"));
  if (!alignment_.fused.empty()) {
    outcome.doubts.push_back(
        fmt::format("{} in place of several: only what goes in and comes out was compared",
                    Plural(alignment_.fused.size(), "fused call")));
  }
  for (const Forgotten& one : findings.forgotten) {
    const std::uint32_t input = WorstInput(one.call);
    outcome.doubts.push_back(fmt::format("{} of {} differs, but nothing that follows does",
                                         input == kNoRow ? "an argument" : PortOf(input),
                                         target_.calls()[one.call].name));
  }
  const std::uint64_t num_lone = NumLoneTensors();
  if (num_lone > 0) outcome.doubts.push_back(HaveNoPartner(num_lone, "tensor", " of paired calls"));
  if (num_other_shapes > 0 && !most_shapes_differ) outcome.doubts.push_back(other_shapes);
  if (num_nan > 0 && !most_are_nan) outcome.doubts.push_back(nans);
  for (const std::string& text : unknown) {
    if (!many_unknown) outcome.doubts.push_back(text);
  }
  std::uint64_t num_plain = 0;
  for (const Facts& facts : facts_)
    num_plain += facts.role == Role::kOutput && facts.Has(Facts::kDiffers) && !facts.Has(Facts::kTensor);
  if (num_plain > 0) {
    outcome.doubts.push_back(fmt::format("{} {} that {} no {}: nobody is judged by that",
                                         Plural(num_plain, "result"), num_plain == 1 ? "differs" : "differ",
                                         num_plain == 1 ? "is" : "are",
                                         num_plain == 1 ? "tensor" : "tensors"));
  }
  const bool all_compared =
      num_lone == 0 && unknown.empty() && num_nan == 0 && outcome.num_alone == 0 && alignment_.fused.empty();
  // What only one side makes proves nothing where the other one is not whole.
  const bool proves = findings.culprit && outcome.num_alone < outcome.num_calls &&
                      !(unsure && (findings.culprit->reason == Reason::kAdditional ||
                                   findings.culprit->reason == Reason::kMissing));
  outcome.verdict = proves                                      ? RunVerdict::kDiverged
                    : unsure                                    ? RunVerdict::kUnknown
                    : findings.worst > rules_.Threshold("lost") ? RunVerdict::kDiverged
                    : findings.any_difference || !golden_arguments_.empty() || !all_compared
                        ? RunVerdict::kNoise
                        : RunVerdict::kIdentical;
  if (!proves) return;
  outcome.culprit = CulpritOf(*findings.culprit);
  if (target_.calls()[findings.culprit->call].is_random)
    outcome.doubts.push_back("it draws random numbers: set the same seed on both sides");
  if (!by_statistics) return;
  const auto is_given = [&](auto holds) {
    const std::uint32_t call = findings.culprit->call;
    return std::any_of(FirstOf(call), FirstOf(call + 1),
                       [&](const Facts& facts) { return facts.role == Role::kInput && holds(facts); });
  };
  if (is_given([](const Facts& facts) { return facts.Has(Facts::kHuge) || facts.Has(Facts::kDrowned); })) {
    outcome.doubts.push_back(
        "its inputs hold mask values, of which statistics tell little: a mask may be the cause");
  } else if (findings.culprit->given == 0 && is_given([](const Facts& facts) {
               return facts.Has(Facts::kTensor) && !facts.Has(Facts::kFloat);
             })) {
    outcome.doubts.push_back(
        "it is given integers or booleans, of which statistics tell little: they may differ");
  }
}

}  // namespace vernier::msprobe

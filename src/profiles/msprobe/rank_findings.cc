// What a rank's verdict says of itself: pairing, what came from outside, the culprit with its evidence.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "core/text.h"
#include "judge/along.h"
#include "profiles/msprobe/context.h"
#include "profiles/msprobe/nan_hunt.h"
#include "profiles/msprobe/rank_verdict.h"
#include "profiles/verdict_screen.h"
#include "vernier/read.h"

namespace vernier::msprobe {
namespace {

constexpr std::size_t kMaxEvidence = 16, kMaxOutside = 4, kMaxParts = 16, kMaxPairs = 1000;
constexpr std::size_t kBefore = 8, kAfter = 2;  // calls around the culprit that are worth recording again

std::string Shortened(const Value& value) {
  if (value.kind == Value::Kind::kNone) return "None";
  if (value.kind == Value::Kind::kPlain) return std::string(value.text);
  return fmt::format("{} {}", value.dtype, value.shape);
}

bool IsFileBeside(std::string_view data_name) {
  return data_name != "-1" && data_name.find('/') == std::string_view::npos;
}

std::string ErrorText(double error) {
  return std::isinf(error) ? "as large as can be" : fmt::format("{:.3g}", error);
}

}  // namespace

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
  for (std::uint32_t call = 0; call < target_.calls().size() && outcome.pairs.size() < kMaxPairs; ++call) {
    if (alignment_.golden_of[call] == kNoCall || alignment_.how[call] == PairedBy::kName) continue;
    outcome.pairs.push_back({std::string(target_.calls()[call].name),
                             std::string(golden_.calls()[alignment_.golden_of[call]].name),
                             std::string(vernier::Name(alignment_.how[call]))});
  }
}

// Where a call without a partner stands: before the next one that has a partner.
std::string RankVerdict::BehindTarget(std::uint32_t call) const {
  const std::vector<std::uint32_t>& partner = alignment_.golden_of;
  while (call < partner.size() && (partner[call] == kNoCall || target_.calls()[call].is_module)) ++call;
  return call == partner.size() ? "at the end" : fmt::format("before {}", target_.calls()[call].name);
}

std::string RankVerdict::BehindGolden(std::uint32_t call) const {
  const std::vector<std::uint32_t>& partner = alignment_.target_of;
  while (call < partner.size() && (partner[call] == kNoCall || golden_.calls()[call].is_module)) ++call;
  return call == partner.size() ? "at the end"
                                : fmt::format("before {}", target_.calls()[partner[call]].name);
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

void RankVerdict::DescribeOutside(RankOutcome& outcome) const {
  enum What {
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
  static constexpr std::string_view kWhats[] = {
      "setting", "input",        "argument",        "weight",         "dtype",
      "shape",   "missing call", "additional call", "reordered call", "fused call"};
  std::uint64_t counts[kNumWhats] = {};
  std::vector<Outside> first[kNumWhats];
  const auto add = [&](What what, std::string name, std::string target, std::string golden, double error,
                       std::string where = "") {
    if (counts[what]++ < kMaxOutside)
      first[what].push_back({std::string(kWhats[what]), std::move(name), std::move(target), std::move(golden),
                             std::move(where), error});
  };
  TextArena arena;
  const auto ours = EnvironmentOf(npu_.path()), theirs = EnvironmentOf(bench_.path());
  for (const auto& [name, text] : ours) {
    const auto other = theirs.find(name);
    if (other != theirs.end() && other->second != text) add(kEnvironment, name, text, other->second, 0);
  }
  const std::vector<std::uint32_t> parameters = DifferentParameters();
  std::uint32_t last = 0;
  bool made = false;  // any call before gave something else, so that an input may come from it
  for (std::uint32_t call = 0; call < target_.calls().size(); ++call) {
    const Call& what = target_.calls()[call];
    const std::uint32_t partner = alignment_.golden_of[call];
    if (partner == kNoCall) {
      if (!what.is_module && alignment_.IsTargetAlone(call))
        add(kAdditional, std::string(what.name), "", "", 0, BehindTarget(call));
      continue;
    }
    if (!what.is_module && what.pass == Pass::kForward && alignment_.how[call] != PairedBy::kName) {
      if (partner < last)
        add(kReordered, std::string(what.name), "", std::string(golden_.calls()[partner].name), 0);
      last = std::max(last, partner);
    }
    for (std::size_t row = first_[call]; row < first_[call + 1]; ++row) {
      const Facts& facts = facts_[row];
      const auto name = [&] { return npu_.NameOf(row); };
      const auto sides = [&](What kind, double error) {
        const Value a = ValueOf(npu_.Read(npu_.rows()[row], arena), arena);
        const Value b = wanted_[row] == kNoRow
                            ? Value()
                            : ValueOf(bench_.Read(bench_.rows()[wanted_[row]], arena), arena);
        add(kind, name(), Shortened(a), wanted_[row] == kNoRow ? "" : Shortened(b), error);
      };
      const bool is_input = facts.role == Role::kInput && !what.is_module;
      if (facts.Has(Facts::kDiffers) && is_input && !facts.Has(Facts::kTensor)) sides(kArgument, 0);
      if (facts.Has(Facts::kOtherType) && is_input) sides(kDtype, 0);
      if (facts.role == Role::kParameter && facts.Has(Facts::kMeasured) && facts.error > 0 &&
          what.pass == Pass::kForward) {
        add(kWeight, name(), "", "", facts.error);
      }
      const bool is_other = facts.Has(Facts::kMeasured) && facts.error > 0 && !facts.Has(Facts::kMixed);
      if (facts.role == Role::kInput && is_other && !made && ParameterOf(row, parameters) == kNoRow)
        add(kInput, name(), "", "", facts.error);
      if (is_input && facts.Has(Facts::kMixed)) sides(kDtype, 0);
      if (is_input && facts.Has(Facts::kOtherShape) && facts.Has(Facts::kTensor)) sides(kShape, 0);
    }
    made = made || std::any_of(FirstOf(call), FirstOf(call + 1), [](const Facts& facts) {
             return facts.role == Role::kOutput && (facts.error > 0 || facts.Has(Facts::kOtherShape));
           });
  }
  for (std::uint32_t call = 0; call < golden_.calls().size(); ++call) {
    if (alignment_.IsGoldenAlone(call) && !golden_.calls()[call].is_module)
      add(kMissing, std::string(golden_.calls()[call].name), "", "", 0, BehindGolden(call));
  }
  for (const FusedRun& run : alignment_.fused) {
    const bool in_target = run.target.size() == 1;
    const Call& one = in_target ? target_.calls()[run.target[0]] : golden_.calls()[run.golden[0]];
    add(kFused, std::string(one.name), "", "", 0,
        in_target ? fmt::format("for {} calls of the golden", run.golden.size())
                  : fmt::format("for {} calls of the target", run.target.size()));
  }
  for (std::size_t i = 0; i < kNumWhats; ++i) {
    if (counts[i] == 0) continue;
    outcome.num_outside.emplace_back(kWhats[i], counts[i]);
    for (Outside& outside : first[i]) outcome.outside.push_back(std::move(outside));
  }
}

std::vector<std::uint32_t> RankVerdict::DifferentParameters() const {
  std::vector<std::uint32_t> rows;
  for (std::uint32_t call = 0; call < target_.calls().size(); ++call) {
    if (target_.calls()[call].pass != Pass::kForward) continue;
    for (std::size_t row = first_[call]; row < first_[call + 1]; ++row) {
      const Facts& facts = facts_[row];
      if (facts.role == Role::kParameter && facts.Has(Facts::kMeasured) && facts.error > 0)
        rows.push_back(static_cast<std::uint32_t>(row));
    }
  }
  return rows;
}

std::uint32_t RankVerdict::ParameterOf(std::uint32_t row, const std::vector<std::uint32_t>& different) const {
  const Facts& facts = facts_[row];
  for (const std::uint32_t parameter : different) {
    const Facts& other = facts_[parameter];
    if (other.own_norm == facts.own_norm && other.norm == facts.norm && other.error == facts.error)
      return parameter;
  }
  return kNoRow;
}

// The input of a call that differs most; kNoRow: none does.
std::uint32_t RankVerdict::WorstInput(std::uint32_t call) const {
  std::uint32_t worst = kNoRow;
  for (std::uint32_t row = static_cast<std::uint32_t>(first_[call]); row < first_[call + 1]; ++row) {
    const Facts& facts = facts_[row];
    if (facts.role == Role::kOutput || !facts.Has(Facts::kMeasured) || facts.error == 0) continue;
    if (worst == kNoRow || facts.error > facts_[worst].error) worst = row;
  }
  return worst;
}

std::string RankVerdict::PortOf(std::uint32_t row) const {
  return row == kNoRow ? "an input" : target_.SuffixOf(row).substr(1);
}

std::string RankVerdict::WhatEntered(std::uint32_t call) const {
  const std::uint32_t worst = WorstInput(call);
  constexpr std::string_view kNobody = "and no call before made it";
  if (worst == kNoRow) return fmt::format("what it is given is wrong, {}: most likely a mask", kNobody);
  const std::string port = PortOf(worst);
  const std::uint32_t parameter = ParameterOf(worst, DifferentParameters());
  if (parameter != kNoRow) return fmt::format("{} is another weight: {}", port, npu_.NameOf(parameter));
  const Facts& facts = facts_[worst];
  const std::string_view guess = facts.Has(Facts::kHuge) || facts.Has(Facts::kDrowned) ? "another mask"
                                 : facts.Has(Facts::kFloat) ? "data, a weight, a mask or a position"
                                                            : "other data, or another mask";
  return fmt::format("{} differs, {}: {}", port, kNobody, guess);
}

void RankVerdict::AddRows(const Blame& blame, Culprit& found) const {
  TextArena arena;
  double worst = -1;
  const Record& record = npu_.records()[blame.call];
  for (std::uint32_t row = record.first_row; row < record.first_row + record.num_rows; ++row) {
    if (npu_.rows()[row].bad) continue;
    const Facts& facts = facts_[row];
    const Leaf ours = npu_.Read(npu_.rows()[row], arena);
    const Leaf theirs = wanted_[row] == kNoRow ? NoLeaf() : bench_.Read(bench_.rows()[wanted_[row]], arena);
    const bool is_plain = !facts.Has(Facts::kTensor);
    if (is_plain && facts.role != Role::kOutput) {
      const Value a = ValueOf(ours, arena), b = ValueOf(theirs, arena);
      const bool one_sided = facts.Has(Facts::kPlain) && !facts.Has(Facts::kMatched);
      if (!one_sided && (!facts.Has(Facts::kMatched) || a.text == b.text)) continue;
      if (found.arguments.size() < kMaxEvidence)
        found.arguments.push_back(
            {"argument", npu_.NameOf(row), Shortened(a), one_sided ? "" : Shortened(b), "", 0});
      continue;
    }
    const bool other_shape = facts.Has(Facts::kOtherShape) && facts.role == Role::kOutput;
    if (other_shape)
      found.evidence.push_back(
          {npu_.NameOf(row), "output", HUGE_VAL, std::string(ours.shape), std::string(theirs.shape)});
    if (!facts.Has(Facts::kMeasured)) continue;
    if (facts.Has(Facts::kHuge) && builder_.mode() == Mode::kStatistics) continue;  // they tell nothing
    if (found.evidence.size() < kMaxEvidence) {
      found.evidence.push_back({npu_.NameOf(row),
                                std::string(msprobe::Name(static_cast<PortState>(npu_.rows()[row].state))),
                                facts.error, CellText(ours.statistics[0]), CellText(theirs.statistics[0])});
    }
    // For an input that is wrong, the input is what to look at.
    const bool shown = (facts.role == Role::kInput) == (blame.reason == Reason::kInput);
    if (builder_.mode() != Mode::kReal || !shown || !(facts.error > worst)) continue;
    if (!IsFileBeside(ours.data_name) || !IsFileBeside(theirs.data_name) || ours.shape != theirs.shape)
      continue;
    const auto path = [](const Dump& dump, std::string_view name) {
      return (dump.path().parent_path() / "dump_tensor_data" / name).string();
    };
    worst = facts.error;
    found.target_file = path(npu_, ours.data_name);
    found.golden_file = path(bench_, theirs.data_name);
  }
}

// Where the worst tensor of a culprit is worst; nothing when its files cannot be read a second time.
static std::string WorstOfFiles(const Culprit& found, int num_threads) {
  if (found.target_file.empty() || found.golden_file.empty()) return {};
  const Result<TensorView> target = LoadTensorFile(found.target_file),
                           golden = LoadTensorFile(found.golden_file);
  if (!target || !golden) return {};
  MeasureOptions options;
  options.groups = Group::kDiff;
  options.num_threads = num_threads;
  const Result<PairMeasures> measures = MeasurePair(*target, *golden, options);
  if (!measures) return {};
  const std::optional<WorstElement> worst = WorstOf(*measures);
  if (!worst) return {};
  return fmt::format("{} {:.4g} / {:.4g}   cosine {:.6g}", IndexText(worst->index, target->shape), worst->got,
                     worst->want, measures->Cosine());
}

std::string RankVerdict::WhyOf(const Blame& blame, const Culprit& found) const {
  const Call& call = target_.calls()[blame.call];
  const std::string random =
      call.is_random ? "; it draws random numbers: set the same seed on both sides" : "";
  const std::string_view others = call.is_product ? "products" : "such calls";
  if (blame.reason == Reason::kOutput || blame.reason == Reason::kArgument) {
    const Special ours = SpecialOf(npu_, call, blame.call);
    const bool theirs =
        blame.golden_call != kNoCall &&
        SpecialOf(bench_, golden_.calls()[blame.golden_call], blame.golden_call).made != Special::kNothing;
    if (ours.made != Special::kNothing && !theirs)
      return "it " + SpecialText(ours) + ", and the golden does not" + random;
  }
  switch (blame.reason) {
    case Reason::kOutput:
      if (std::isinf(blame.result))
        return "its output has another shape, or NaN or infinity where the golden has numbers" + random;
      if (blame.result <= std::numeric_limits<float>::min())
        return "same inputs, another output: the same statistics, another checksum, so its values changed "
               "places" +
               random;
      return (blame.given == 0
                  ? fmt::format("same inputs, another output: error {}", ErrorText(blame.result))
                  : fmt::format("its error {} is {:.3g} times that of its inputs; {} may show {} here",
                                ErrorText(blame.result), blame.result / blame.given, others,
                                ErrorText(blame.usual))) +
             random;
    case Reason::kArgument:
      return found.arguments.empty() ? "the golden gives it an argument more"
                                     : ArgumentText(found.arguments[0], found.record);
    case Reason::kInput:
      return WhatEntered(blame.call);
    case Reason::kAdditional: {
      const Special made = SpecialOf(npu_, call, blame.call);
      return made.made == Special::kNothing
                 ? "only the target makes this call; what follows it is wrong"
                 : fmt::format("only the target makes this call, and it {}", SpecialText(made));
    }
    case Reason::kMissing:
      return fmt::format("only the golden makes this call, before {}", call.name);
    case Reason::kGradient:
      return "a gradient is wrong, and no call before made it: the backward kernel, or a hook";
  }
  return {};
}

Culprit RankVerdict::CulpritOf(const Blame& blame) const {
  const bool missing = blame.reason == Reason::kMissing;
  const Calls& calls = target_.calls();
  const Call& call = missing ? golden_.calls()[blame.golden_call] : calls[blame.call];
  Culprit found;
  found.record = call.name;
  found.reason = vernier::Name(blame.reason);
  found.call = call.kind.substr(call.kind.rfind('.') + 1);
  found.pass = call.pass == Pass::kForward    ? "forward"
               : call.pass == Pass::kBackward ? "backward"
                                              : "gradient";
  found.row = npu_.records()[blame.call].first_row;
  found.given = blame.given;
  found.made = blame.result;
  found.usual = blame.usual;
  if (!missing) AddRows(blame, found);
  found.worst = WorstOfFiles(found, builder_.job().num_threads);
  found.why = WhyOf(blame, found);
  // Those around it, by which a second recording can tell more.
  const auto counts = [&](std::uint32_t i) {
    return calls[i].pass == calls[blame.call].pass && calls[i].is_module == call.is_module;
  };
  std::uint32_t begin = blame.call;
  for (std::size_t seen = 0; begin > 0 && seen < kBefore; --begin) seen += counts(begin - 1);
  std::size_t seen = 0;
  for (std::uint32_t i = begin; i < calls.size() && (i <= blame.call || seen < kAfter); ++i) {
    if (i != blame.call && !counts(i)) continue;
    seen += i > blame.call;
    found.around.emplace_back(calls[i].name);
    if (const std::uint32_t golden = alignment_.golden_of[i]; golden != kNoCall)
      found.golden_around.emplace_back(golden_.calls()[golden].name);
  }
  if (missing) found.golden_around.emplace_back(call.name);
  return found;
}

// Pairs of tensors whose files could not be compared.
std::uint64_t RankVerdict::NumUnread() const {
  if (builder_.mode() != Mode::kReal) return 0;
  std::uint64_t count = 0;
  TextArena arena;
  for (std::size_t row = 0; row < facts_.size(); ++row) {
    const Facts& facts = facts_[row];
    if (wanted_[row] == kNoRow || !facts.Has(Facts::kTensor) || !facts.Has(Facts::kMatched)) continue;
    if (facts.Has(Facts::kMeasured) || facts.Has(Facts::kOtherShape) || facts.num_elements == 0) continue;
    count += npu_.Read(npu_.rows()[row], arena).data_name != "-1";
  }
  return count;
}

void RankVerdict::Describe(const Findings& findings, RankOutcome& outcome) const {
  DescribePairing(outcome);
  DescribeOutside(outcome);
  outcome.errors_along = ErrorsAlong(All(), kMaxParts);
  outcome.worst_error = findings.worst;
  if (findings.worst_call != kNoCall) outcome.worst_record = target_.calls()[findings.worst_call].name;
  // What an optimizer calls differs between devices and versions; what the model computed is all there.
  const auto [alone_behind, calls_behind] = BehindBackward();
  const std::uint64_t alone_of_model = outcome.num_alone - alone_behind;
  const double alone = static_cast<double>(alone_of_model) /
                       std::fmax(1, static_cast<double>(outcome.num_calls - calls_behind));
  const auto doubt = [&](bool holds, std::string text) {
    if (holds) outcome.doubts.push_back(std::move(text));
  };
  doubt(target_.calls().empty() || outcome.num_alone == outcome.num_calls, "no call has a partner");
  doubt(outcome.num_alone < outcome.num_calls && alone > rules_.Threshold("unmatched_share"),
        fmt::format("{:.0f} % of the calls have no partner", 100 * alone));
  doubt(outcome.num_errors > 0, fmt::format("{} could not be read", Plural(outcome.num_errors, "record")));
  const std::uint64_t num_unread = NumUnread();
  doubt(num_unread > 0, fmt::format("{} could not be measured: a file is missing or damaged",
                                    Plural(num_unread, "paired tensor")));
  doubt(npu_.torn() || bench_.torn(), "a recording ends in the middle: what follows is not known");
  const bool unsure = !outcome.doubts.empty();
  if (alone_of_model > 0 && !unsure)
    outcome.doubts.push_back(
        fmt::format("{} ({:.1f} %) have no partner", Plural(alone_of_model, "call"), 100 * alone));
  if (alone_behind > 0)
    outcome.doubts.push_back(
        fmt::format("{} behind the backward pass have no partner", Plural(alone_behind, "call")));
  if (!alignment_.fused.empty()) {
    outcome.doubts.push_back(
        fmt::format("{} on one side and several on the other: only what goes in and comes out was compared",
                    Plural(alignment_.fused.size(), "call")));
  }
  for (const Forgotten& one : findings.forgotten) {
    outcome.doubts.push_back(fmt::format("{} of {} differs, but nothing that follows does",
                                         PortOf(WorstInput(one.call)), target_.calls()[one.call].name));
  }
  const bool all_compared = outcome.num_alone == 0 && alignment_.fused.empty();
  outcome.verdict = findings.culprit                            ? RunVerdict::kDiverged
                    : unsure                                    ? RunVerdict::kUnknown
                    : findings.worst > rules_.Threshold("lost") ? RunVerdict::kDiverged
                    : findings.any_difference || !all_compared  ? RunVerdict::kNoise
                                                                : RunVerdict::kIdentical;
  if (!findings.culprit) return;
  outcome.culprit = CulpritOf(*findings.culprit);
  if (builder_.mode() != Mode::kStatistics) return;
  const auto is_given = [&](auto holds) {
    const std::uint32_t call = findings.culprit->call;
    return std::any_of(FirstOf(call), FirstOf(call + 1),
                       [&](const Facts& facts) { return facts.role == Role::kInput && holds(facts); });
  };
  if (is_given([](const Facts& facts) { return facts.Has(Facts::kHuge) || facts.Has(Facts::kDrowned); })) {
    outcome.doubts.push_back(
        "its inputs hold mask values, of which statistics tell nothing: the mask may be the cause");
  } else if (findings.culprit->given == 0 && is_given([](const Facts& facts) {
               return facts.Has(Facts::kTensor) && !facts.Has(Facts::kFloat);
             })) {
    outcome.doubts.push_back(
        "some of its inputs are integers or booleans, of which statistics tell little: they may differ");
  }
}

// Where ranks meet: collectives by what they are and who takes part, messages by who sends to whom.
std::vector<Meeting> RankVerdict::Meetings() const {
  std::vector<Meeting> meetings;
  for (std::uint32_t call = 0; call < target_.calls().size(); ++call) {
    const Call& what = target_.calls()[call];
    if (!what.is_collective || what.pass != Pass::kForward) continue;
    TextArena arena;
    std::string group, source, destination;
    for (std::size_t row = first_[call]; row < first_[call + 1]; ++row) {
      const std::string suffix = target_.SuffixOf(row);
      const Leaf leaf = npu_.Read(npu_.rows()[row], arena);
      const std::string text = CellText(leaf.statistics[0]);
      if (suffix.ends_with(".group")) group = text;
      if (suffix.ends_with("src")) source = text;
      if (suffix.ends_with("dst")) destination = text;
    }
    const std::string api(what.kind.substr(what.kind.rfind('.') + 1));
    const bool sends = api == "send" || api == "isend", receives = api == "recv" || api == "irecv";
    const std::string own = std::to_string(rank_);
    if (sends || receives) {
      meetings.push_back(
          {call, fmt::format("message {} {} {}", sends ? own : source, receives ? own : destination, group),
           sends, receives});
    } else {
      meetings.push_back({call, api + ' ' + group, true, true});
    }
  }
  return meetings;
}

}  // namespace vernier::msprobe

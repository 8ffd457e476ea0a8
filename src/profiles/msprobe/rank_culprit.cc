// The culprit of a rank: the rows, files and neighbours that show it, and why it is one, in words.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "profiles/msprobe/nan_hunt.h"
#include "profiles/msprobe/rank_verdict.h"
#include "profiles/verdict_screen.h"
#include "vernier/read.h"

namespace vernier::msprobe {
namespace {

constexpr std::size_t kMaxEvidence = 16;
constexpr double kByChecksum = 1e-30;           // an error below this is known by a checksum alone
constexpr std::size_t kBefore = 8, kAfter = 2;  // calls around the culprit that are worth recording again

bool IsFileBeside(std::string_view data_name) {
  return data_name != "-1" && data_name.find('/') == std::string_view::npos;
}

}  // namespace

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
  if (!(facts.norm > 0 || facts.own_norm > 0) || !std::isfinite(facts.norm)) return kNoRow;
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

std::uint32_t RankVerdict::MakerOf(std::uint32_t call, std::uint32_t row) const {
  const Facts& given = facts_[row];
  if (!given.Has(Facts::kTensor) || !(given.own_norm > 0) || !std::isfinite(given.own_norm)) return kNoCall;
  while (call-- > 0) {
    if (target_.calls()[call].is_around) continue;
    const bool makes = std::any_of(FirstOf(call), FirstOf(call + 1), [&](const Facts& facts) {
      return facts.role == Role::kOutput && facts.own_norm == given.own_norm &&
             facts.num_elements == given.num_elements;
    });
    if (makes) return call;
  }
  return kNoCall;
}

// Whether a call of the golden, not long before the partner and not `but`, gives what this row is held
// against.
bool RankVerdict::IsMadeInGolden(std::uint32_t call, std::uint32_t row, std::uint32_t but) const {
  constexpr std::uint32_t kFarthest = 256;
  const std::uint32_t partner = alignment_.golden_of[call];
  for (std::uint32_t g = partner == kNoCall ? 0 : partner; g-- > 0 && partner - g <= kFarthest;) {
    if (golden_.calls()[g].is_around) continue;
    for (const Recordings::Result& result : GoldenResults(g)) {
      if (result.norm == facts_[row].norm && result.num_elements == facts_[row].num_elements) return g != but;
    }
  }
  return false;
}

std::string RankVerdict::PortOf(std::uint32_t row) const {
  const std::string suffix = row == kNoRow ? "" : target_.SuffixOf(row);
  return suffix.empty() ? "an input" : suffix.substr(1);  // values saved by hand have no ports
}

std::string RankVerdict::WhatEntered(std::uint32_t call) const {
  const std::uint32_t worst = WorstInput(call);
  constexpr std::string_view kNobody = "and no recorded call made it";
  if (worst == kNoRow) return fmt::format("what it is given is wrong, {}: most likely a mask", kNobody);
  const std::string port = PortOf(worst);
  const std::uint32_t parameter = ParameterOf(worst, DifferentParameters());
  if (parameter != kNoRow) {
    return fmt::format("{} is a weight that {}: {}", port,
                       std::isfinite(facts_[worst].own_norm) ? "differs" : "holds NaN or infinities",
                       npu_.NameOf(parameter));
  }
  const Facts& facts = facts_[worst];
  TextArena arena;
  const double ours = ValueOf(npu_.Read(npu_.rows()[worst], arena), arena).max;
  if (std::isnan(ours) && std::isfinite(facts.norm)) return fmt::format("{} holds NaN, {}", port, kNobody);
  if (facts.Has(Facts::kMixed)) {
    return fmt::format("{} is {}, the golden's {}, and no recorded call made it so", port,
                       npu_.Read(npu_.rows()[worst], arena).dtype,
                       bench_.Read(bench_.rows()[wanted_[worst]], arena).dtype);
  }
  const std::uint32_t maker = MakerOf(call, worst);
  if (maker != kNoCall && IsMadeInGolden(call, worst, alignment_.golden_of[maker]))
    return fmt::format("{} is what {} gives, and another call's in the golden", port,
                       target_.calls()[maker].name);
  const std::string_view guess = facts.Has(Facts::kHuge) || facts.Has(Facts::kDrowned) ? "another mask"
                                 : facts.Has(Facts::kFloat) ? "data, a weight, a mask or a position"
                                                            : "other data, or another mask";
  return fmt::format("{} differs, {}: {}", port, kNobody, guess);
}

std::string RankVerdict::ParameterName(std::uint32_t call, std::string_view suffix) const {
  constexpr std::string_view kInput = ".input.";
  const Call& what = target_.calls()[call];
  if (what.is_module || !suffix.starts_with(kInput)) return {};
  suffix.remove_prefix(kInput.size());
  std::size_t place = 0;
  const auto [end, error] = std::from_chars(suffix.data(), suffix.data() + suffix.size(), place);
  if (error != std::errc()) return {};
  return std::string(rules_.ParameterOf(what.kind.substr(what.kind.rfind('.') + 1), place));
}

// An argument that the golden alone gives, as the target would name it.
std::string RankVerdict::GoldenArgumentName(std::uint32_t call, std::uint32_t golden_row) const {
  return std::string(target_.calls()[call].name) + golden_.SuffixOf(golden_row);
}

void RankVerdict::AddRows(const Blame& blame, Culprit& found) const {
  TextArena arena;
  for (const auto& [call, row] : golden_arguments_) {
    if (call != blame.call || found.arguments.size() >= kMaxEvidence) continue;
    found.arguments.push_back({"argument", GoldenArgumentName(call, row), "",
                               Shortened(ValueOf(bench_.Read(bench_.rows()[row], arena), arena)), "", 0,
                               ParameterName(call, golden_.SuffixOf(row))});
  }
  const Record& record = npu_.records()[blame.call];
  for (std::uint32_t row = record.first_row; row < record.first_row + record.num_rows; ++row) {
    if (npu_.rows()[row].bad) continue;
    const Facts& facts = facts_[row];
    const Leaf ours = npu_.Read(npu_.rows()[row], arena);
    const Leaf theirs = wanted_[row] == kNoRow ? NoLeaf() : bench_.Read(bench_.rows()[wanted_[row]], arena);
    const bool is_alone = facts.Has(Facts::kTensor) && facts.Has(Facts::kDiffers);
    const bool is_plain = !facts.Has(Facts::kTensor) || is_alone;
    if (is_plain && facts.role != Role::kOutput) {
      if (blame.golden_call == kNoCall) continue;
      const Value a = ValueOf(ours, arena), b = ValueOf(theirs, arena);
      const bool one_sided = !facts.Has(Facts::kMatched) && (facts.Has(Facts::kPlain) || is_alone);
      if (!one_sided && (!facts.Has(Facts::kMatched) || a.text == b.text)) continue;
      if (found.arguments.size() < kMaxEvidence)
        found.arguments.push_back({"argument", npu_.NameOf(row), Shortened(a), one_sided ? "" : Shortened(b),
                                   "", 0, ParameterName(blame.call, target_.SuffixOf(row))});
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
  }
}

void RankVerdict::AddFiles(std::uint32_t call, bool of_inputs, Culprit& found) const {
  if (builder_.mode() != Mode::kReal) return;
  TextArena arena;
  double worst = -1;
  const Record& record = npu_.records()[call];
  for (std::uint32_t row = record.first_row; row < record.first_row + record.num_rows; ++row) {
    const Facts& facts = facts_[row];
    if (wanted_[row] == kNoRow || !facts.Has(Facts::kMeasured) || !(facts.error > worst)) continue;
    if ((facts.role == Role::kInput) != of_inputs) continue;
    const Leaf ours = npu_.Read(npu_.rows()[row], arena),
               theirs = bench_.Read(bench_.rows()[wanted_[row]], arena);
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
  const auto unsigned_nan = [](double value) { return std::isnan(value) ? std::fabs(value) : value; };
  return fmt::format("{} {:.4g} / {:.4g}   cosine {:.6g}", IndexText(worst->index, target->shape),
                     unsigned_nan(worst->got), unsigned_nan(worst->want), measures->Cosine());
}

std::string RankVerdict::WhyOf(const Blame& blame, const Culprit& found) const {
  const Call& call = target_.calls()[blame.call];
  const std::string_view others = call.is_product ? "products" : "such calls";
  if (blame.reason == Reason::kOutput || blame.reason == Reason::kArgument) {
    const Special ours = SpecialOf(npu_, call, blame.call);
    const bool theirs =
        blame.golden_call != kNoCall &&
        SpecialOf(bench_, golden_.calls()[blame.golden_call], blame.golden_call).made != Special::kNothing;
    if (ours.made != Special::kNothing && !theirs)
      return "it " + SpecialText(ours) + ", and the golden does not";
  }
  const auto is_by_checksum = [](const Facts& facts) {
    return facts.role == Role::kOutput && facts.Has(Facts::kChecked) && std::isinf(facts.error);
  };
  switch (blame.reason) {
    case Reason::kOutput:
      if (std::isinf(blame.result) &&
          std::any_of(FirstOf(blame.call), FirstOf(blame.call + 1), is_by_checksum))
        return "same inputs, different checksum";
      if (std::isinf(blame.result))
        return "same inputs, but its output has a different shape, or NaN or infinity on one side only";
      if (blame.result <= std::numeric_limits<float>::min())
        return "same inputs and statistics, different checksum: its values changed places";
      if (IsReplaced(blame.call) && blame.given == 0) {
        return fmt::format("same inputs, different output: error {:.3g}; the golden calls {} here",
                           blame.result, golden_.calls()[blame.golden_call].kind);
      }
      if (blame.given > 0 && blame.given < kByChecksum)
        return fmt::format("error {:.3g}; of its inputs the checksums differ, and nothing else",
                           blame.result);
      return blame.given == 0
                 ? fmt::format("same inputs, different output: error {:.3g}", blame.result)
                 : fmt::format("its error {:.3g} is {:.3g} times that of its inputs; {} may show {:.3g} here",
                               blame.result, blame.result / blame.given, others, blame.usual);
    case Reason::kArgument:
      return found.arguments.empty() ? "one of its arguments differs"
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
      return "a gradient is wrong, and no recorded call made it: the backward kernel, or a hook";
  }
  return {};
}

// Of the calls behind one, the first that are given what it gives.
std::vector<std::uint32_t> RankVerdict::TakersOf(std::uint32_t call) const {
  constexpr std::size_t kMostTakers = 2;
  std::vector<std::uint32_t> takers;
  for (std::uint32_t i = call + 1; i < target_.calls().size() && takers.size() < kMostTakers; ++i) {
    if (target_.calls()[i].is_module != target_.calls()[call].is_module || target_.calls()[i].is_around)
      continue;
    const bool takes = std::any_of(FirstOf(i), FirstOf(i + 1), [&](const Facts& given) {
      return given.role != Role::kOutput && given.own_norm != 0 &&
             std::any_of(FirstOf(call), FirstOf(call + 1), [&](const Facts& gives) {
               return gives.role == Role::kOutput && gives.own_norm == given.own_norm;
             });
    });
    if (takes) takers.push_back(i);
  }
  return takers;
}

// The calls around a culprit, by which a second recording can tell more: those just before and behind it, and
// those in which it shows. Where modules alone were recorded, the one around it as well: what goes wrong
// between two modules is in there.
void RankVerdict::AddAround(const Blame& blame, Culprit& found) const {
  const Calls& calls = target_.calls();
  const bool is_module = blame.reason == Reason::kMissing ? golden_.calls()[blame.golden_call].is_module
                                                          : calls[blame.call].is_module;
  const auto counts = [&](const Call& call) {
    return call.pass == calls[blame.call].pass && call.is_module == is_module && !call.is_around;
  };
  std::set<std::uint32_t> around = {blame.call};
  std::uint32_t begin = blame.call;
  for (std::size_t seen = 0; begin > 0 && seen < kBefore;) seen += counts(calls[--begin]);
  std::size_t seen = 0;
  for (std::uint32_t i = begin; i < calls.size() && (i <= blame.call || seen < kAfter); ++i) {
    if (!counts(calls[i])) continue;
    seen += i > blame.call;
    around.insert(i);
  }
  if (blame.shown != kNoCall) around.insert(blame.shown);
  for (const std::uint32_t taker : TakersOf(blame.call)) around.insert(taker);
  if (is_module) {
    const std::string_view path = PathOf(calls[blame.call]);
    for (std::uint32_t i = blame.call + 1; i < calls.size(); ++i) {
      const std::string_view outer = PathOf(calls[i]);
      const bool is_around = calls[i].is_around && calls[i].pass == calls[blame.call].pass && path != outer &&
                             (outer.empty() || path.starts_with(std::string(outer) + '.'));
      if (!is_around) continue;
      around.insert(i);
      break;
    }
  }
  // What the golden calls alone between them is a part of the answer.
  constexpr std::size_t kMostAlone = 100;
  std::set<std::uint32_t> golden;
  for (const std::uint32_t call : around) {
    found.around.emplace_back(calls[call].name);
    if (alignment_.golden_of[call] != kNoCall) golden.insert(alignment_.golden_of[call]);
  }
  if (blame.reason == Reason::kMissing) golden.insert(blame.golden_call);
  std::size_t num_alone = 0;
  for (std::uint32_t i = golden.empty() ? 0 : *golden.begin(), end = golden.empty() ? 0 : *golden.rbegin();
       i < end && num_alone < kMostAlone; ++i) {
    if (alignment_.target_of[i] == kNoCall && counts(golden_.calls()[i]))
      num_alone += golden.insert(i).second;
  }
  for (const std::uint32_t call : golden) found.golden_around.emplace_back(golden_.calls()[call].name);
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
  // For an input that is wrong, the input is what to look at; for a call of one side, what it left behind.
  const bool is_shown_elsewhere = blame.shown != kNoCall;
  AddFiles(is_shown_elsewhere ? blame.shown : blame.call,
           is_shown_elsewhere || blame.reason == Reason::kInput, found);
  found.worst = WorstOfFiles(found, builder_.job().num_threads);
  found.why = WhyOf(blame, found);
  AddAround(blame, found);
  return found;
}

}  // namespace vernier::msprobe

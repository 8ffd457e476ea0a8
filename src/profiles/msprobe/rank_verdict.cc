#include "profiles/msprobe/rank_verdict.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_set>

#include <fmt/format.h>

#include "core/threads.h"
#include "profiles/msprobe/likeness.h"
#include "profiles/msprobe/meetings.h"
#include "profiles/msprobe/nan_hunt.h"
#include "profiles/msprobe/tree.h"

namespace vernier::msprobe {
namespace {

bool IsPlain(const Leaf& leaf, TextArena& arena) { return ValueOf(leaf, arena).kind == Value::Kind::kPlain; }

bool HasSameNumbers(const Value& a, const Value& b) {
  return a.max == b.max && a.min == b.min && a.mean == b.mean && a.norm == b.norm && a.checksum == b.checksum;
}

struct SeenValue {
  std::uint32_t row = 0;
  Value value;
};

std::size_t NumResults(const Dump& dump, const Record& record) {
  std::size_t count = 0;
  for (std::uint32_t row = record.first_row; row < record.first_row + record.num_rows; ++row)
    count += static_cast<PortState>(dump.rows()[row].state) == PortState::kOutput;
  return count;
}

// The tensors that calls take from outside, each once; an earlier call's result is known by its statistics.
std::vector<SeenValue> OuterInputs(const Dump& dump, const std::vector<std::uint32_t>& calls,
                                   TextArena& arena) {
  std::vector<SeenValue> outer, made;
  const auto is_known = [](const std::vector<SeenValue>& some, const Value& value) {
    return std::any_of(some.begin(), some.end(),
                       [&](const SeenValue& seen) { return HasSameNumbers(seen.value, value); });
  };
  for (const std::uint32_t call : calls) {
    const Record& record = dump.records()[call];
    std::vector<SeenValue> results;
    for (std::uint32_t row = record.first_row; row < record.first_row + record.num_rows; ++row) {
      if (dump.rows()[row].bad) continue;
      const Value value = ValueOf(dump.Read(dump.rows()[row], arena), arena);
      if (value.kind != Value::Kind::kTensor || value.num_elements < 2) continue;
      if (value.max == Value::kUnknown && value.checksum.empty()) continue;
      if (static_cast<PortState>(dump.rows()[row].state) == PortState::kOutput) {
        results.push_back({row, value});
      } else if (!is_known(made, value) && !is_known(outer, value)) {
        outer.push_back({row, value});
      }
    }
    made.insert(made.end(), results.begin(), results.end());
  }
  return outer;
}

struct InputPair {
  const SeenValue* target;
  const SeenValue* golden;
  double unlikeness;
};

// The most alike first. Where the sides have not equally many of a size, only those that are surely the same.
std::vector<InputPair> PairInputs(const std::vector<SeenValue>& ours, const std::vector<SeenValue>& theirs) {
  const auto num_of_size = [](const std::vector<SeenValue>& some, double size) {
    return std::count_if(some.begin(), some.end(),
                         [&](const SeenValue& seen) { return seen.value.num_elements == size; });
  };
  std::vector<InputPair> all, pairs;
  for (const SeenValue& target : ours) {
    const double size = target.value.num_elements;
    const double most = num_of_size(ours, size) == num_of_size(theirs, size) ? HUGE_VAL : kSurely;
    for (const SeenValue& golden : theirs) {
      const double unlikeness = Unlikeness(target.value, golden.value);
      if (unlikeness < most) all.push_back({&target, &golden, unlikeness});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const InputPair& a, const InputPair& b) { return a.unlikeness < b.unlikeness; });
  for (const InputPair& pair : all) {
    const auto is_taken = [&](const InputPair& taken) {
      return taken.target == pair.target || taken.golden == pair.golden;
    };
    if (std::none_of(pairs.begin(), pairs.end(), is_taken)) pairs.push_back(pair);
  }
  return pairs;
}

}  // namespace

RankVerdict::Traces::Traces(const Dump& npu, const Dump& bench, const Settings& settings, const Rules& rules,
                            int num_threads) {
  ThreadPool(num_threads).ForEach(2, [&](std::size_t side) {
    if (side == 0) {
      target = std::make_unique<Trace>(npu, rules, settings.renames);
    } else {
      golden = std::make_unique<Trace>(bench, rules);
    }
  });
}

RankVerdict::RankVerdict(const TableBuilder& builder, const Settings& settings, const RowMatchOptions& match,
                         const Rules& rules)
    : builder_(builder),
      rank_(RankNumber(builder.job().rank)),
      npu_(builder.dumps().npu),
      bench_(builder.dumps().bench),
      rules_(rules),
      traces_(npu_, bench_, settings, rules, builder.job().num_threads),
      target_(*traces_.target),
      golden_(*traces_.golden),
      wanted_(npu_.rows().size(), kNoRow),
      facts_(npu_.rows().size()),
      seen_(npu_.rows().size()) {
  for (const Record& record : npu_.records()) first_.push_back(record.first_row);
  first_.push_back(facts_.size());
  Align(match);
  PairRows();
}

void RankVerdict::Align(const RowMatchOptions& match) {
  AlignInputs inputs{target_.calls(),
                     golden_.calls(),
                     [this](std::uint32_t call) { return target_.SignatureOf(call); },
                     [this](std::uint32_t call) { return golden_.SignatureOf(call); },
                     {},
                     [this](std::uint32_t ours, std::uint32_t theirs) {
                       const std::string tensors = TensorsOf(npu_, ours);
                       return !tensors.empty() && tensors == TensorsOf(bench_, theirs);
                     }};
  if (match.rule != PairRule::kExact) {  // what the user asked for comes first
    inputs.given.assign(target_.calls().size(), kNoCall);
    for (const RowPair& pair : builder_.pairs()) {
      if (pair.bench == kNoRow) continue;
      std::uint32_t& given = inputs.given[npu_.rows()[pair.npu].record];
      if (given == kNoCall) given = bench_.rows()[pair.bench].record;
    }
  }
  alignment_ = AlignCalls(inputs);
}

// The tensors that a call is given and gives, without their values; empty: not of both.
std::string RankVerdict::TensorsOf(const Dump& dump, std::uint32_t call) {
  std::string text;
  bool takes = false, gives = false;
  TextArena arena;
  const Record& record = dump.records()[call];
  for (std::uint32_t row = record.first_row; row < record.first_row + record.num_rows; ++row) {
    if (dump.rows()[row].bad) return {};
    const Value value = ValueOf(dump.Read(dump.rows()[row], arena), arena);
    if (value.kind != Value::Kind::kTensor) continue;
    (static_cast<PortState>(dump.rows()[row].state) == PortState::kOutput ? gives : takes) = true;
    text += fmt::format("{} {} {}\n", static_cast<int>(dump.rows()[row].state), value.dtype, value.shape);
  }
  return takes && gives ? text : "";
}

bool RankVerdict::IsReplaced(std::uint32_t call) const {
  return alignment_.is_replaced[call] && alignment_.golden_of[call] != kNoCall;
}

void RankVerdict::PairRows() {
  for (std::uint32_t call = 0; call < alignment_.golden_of.size(); ++call) PairRowsOf(call);
  for (const FusedRun& run : alignment_.fused) PairFusedInputs(run);
}

// The usual case: both sides have the same rows in the same order.
bool RankVerdict::PairRowsInOrder(std::uint32_t call, std::uint32_t partner) {
  const Record &target = npu_.records()[call], &golden = bench_.records()[partner];
  if (target.num_rows != golden.num_rows) return false;
  const auto suffix = [](const Dump& dump, const Record& record, std::uint32_t row, std::string& name) {
    name.clear();
    dump.AppendName(dump.rows()[row], name);
    std::string_view rest = name;
    if (rest.starts_with(record.name)) rest.remove_prefix(record.name.size());
    return rest;
  };
  for (std::uint32_t i = 0; i < target.num_rows; ++i) {
    const std::uint32_t a = target.first_row + i, b = golden.first_row + i;
    if (npu_.rows()[a].bad || bench_.rows()[b].bad) return false;
    if (suffix(npu_, target, a, target_name_) != suffix(bench_, golden, b, golden_name_)) return false;
  }
  for (std::uint32_t i = 0; i < target.num_rows; ++i) wanted_[target.first_row + i] = golden.first_row + i;
  return true;
}

void RankVerdict::PairRowsOf(std::uint32_t call) {
  const std::uint32_t partner = alignment_.golden_of[call];
  if (partner == kNoCall) return;
  const bool fused = alignment_.how[call] == PairedBy::kFused;
  const bool replaced = IsReplaced(call);
  if (!fused && !replaced && PairRowsInOrder(call, partner)) return;
  std::vector<std::pair<std::string, std::uint32_t>> golden_rows;
  const Record &target = npu_.records()[call], &golden = bench_.records()[partner];
  for (std::uint32_t row = golden.first_row; row < golden.first_row + golden.num_rows; ++row) {
    if (!bench_.rows()[row].bad) golden_rows.emplace_back(golden_.SuffixOf(row), row);
  }
  // A list is not what the last of several calls gives.
  TextArena arena;
  const bool gives_other = fused && NumResults(npu_, target) != NumResults(bench_, golden);
  for (std::uint32_t row = target.first_row; row < target.first_row + target.num_rows; ++row) {
    wanted_[row] = kNoRow;
    if (npu_.rows()[row].bad || gives_other) continue;
    if (fused && static_cast<PortState>(npu_.rows()[row].state) != PortState::kOutput) continue;
    if (replaced && IsPlain(npu_.Read(npu_.rows()[row], arena), arena)) continue;
    const std::string suffix = target_.SuffixOf(row);
    const auto found = std::find_if(golden_rows.begin(), golden_rows.end(),
                                    [&](const auto& entry) { return entry.first == suffix; });
    if (found == golden_rows.end()) continue;
    wanted_[row] = found->second;
    golden_rows.erase(found);
  }
  if (fused || replaced) return;
  PairSameArguments(target, golden_rows, arena);
  for (const auto& [suffix, row] : golden_rows) {
    if (static_cast<PortState>(bench_.rows()[row].state) == PortState::kOutput) continue;
    const Value value = ValueOf(bench_.Read(bench_.rows()[row], arena), arena);
    if (value.kind == Value::Kind::kPlain ||
        (value.kind == Value::Kind::kTensor && !target_.calls()[call].is_module))
      golden_arguments_.push_back({call, row});
  }
}

// An argument may be given by its name on one side and by its place on the other.
void RankVerdict::PairSameArguments(const Record& target,
                                    std::vector<std::pair<std::string, std::uint32_t>>& golden_rows,
                                    TextArena& arena) {
  for (std::uint32_t row = target.first_row; row < target.first_row + target.num_rows && !golden_rows.empty();
       ++row) {
    if (wanted_[row] != kNoRow || npu_.rows()[row].bad) continue;
    const Value ours = ValueOf(npu_.Read(npu_.rows()[row], arena), arena);
    const auto found = std::find_if(golden_rows.begin(), golden_rows.end(), [&](const auto& entry) {
      const Row& theirs = bench_.rows()[entry.second];
      if (theirs.state != npu_.rows()[row].state) return false;
      const Value value = ValueOf(bench_.Read(theirs, arena), arena);
      if (ours.kind != value.kind || ours.kind == Value::Kind::kNone) return false;
      return ours.kind == Value::Kind::kPlain ? ours.text == value.text
                                              : ours.shape == value.shape && ours.dtype == value.dtype;
    });
    if (found == golden_rows.end()) continue;
    wanted_[row] = found->second;
    golden_rows.erase(found);
  }
}

void RankVerdict::PairFusedInputs(const FusedRun& run) {
  TextArena arena;
  const std::vector<SeenValue> ours = OuterInputs(npu_, run.target, arena),
                               theirs = OuterInputs(bench_, run.golden, arena);
  for (const auto& [target, golden, unlikeness] : PairInputs(ours, theirs)) {
    Value as_ours = golden->value;
    as_ours.shape = target->value.shape;
    wanted_[target->row] = golden->row;
    facts_[target->row] = FactsOf(
        RoleOf(static_cast<PortState>(npu_.rows()[target->row].state)), target->value, &as_ours, nullptr,
        nullptr, HasStatistics(target->value, as_ours) ? Compared::kStatistics : Compared::kChecksums);
    seen_[target->row] = true;
  }
}

// What a value is by itself, without its partner.
void RankVerdict::ForgetPartner(std::size_t row) {
  const Facts paired = facts_[row];
  Facts& own = facts_[row] = Facts();
  own.role = paired.role;
  own.own_norm = paired.own_norm;
  own.num_elements = paired.num_elements;
  own.flags = paired.flags & (Facts::kTensor | Facts::kPlain | Facts::kFloat | Facts::kHalf | Facts::kHuge);
}

void RankVerdict::Part(std::uint32_t call) {
  std::uint32_t& golden = alignment_.golden_of[call];
  if (golden != kNoCall && alignment_.target_of[golden] == call) alignment_.target_of[golden] = kNoCall;
  golden = kNoCall;
  alignment_.how[call] = PairedBy::kNothing;
  for (std::size_t row = first_[call]; row < first_[call + 1]; ++row) {
    wanted_[row] = kNoRow;
    seen_[row] = false;
    ForgetPartner(row);
  }
  std::erase_if(golden_arguments_, [&](const GoldenArgument& argument) { return argument.call == call; });
}

void RankVerdict::Repair(std::uint32_t call, std::uint32_t golden) {
  if (alignment_.target_of[golden] != kNoCall) Part(alignment_.target_of[golden]);
  Part(call);
  alignment_.golden_of[call] = golden;
  alignment_.target_of[golden] = call;
  alignment_.how[call] = PairedBy::kOrder;
  PairRowsOf(call);
}

void RankVerdict::See(std::size_t table_row, const ResultRow& row, const Facts& facts) {
  const Status status = row.status();
  ++counts_.num_target;
  counts_.num_matched += row.matched;
  counts_.num_measured += row.measures != nullptr;
  counts_.num_passed += status == Status::kPass;
  counts_.num_failed += status == Status::kFail;
  counts_.num_errors += status == Status::kError;
  if (builder_.mode() == Mode::kReal && row.matched && row.npu.data_name != "-1" && row.measures == nullptr)
    ++counts_.num_not_measured;
  const RowPair& pair = builder_.pairs()[table_row];
  if (status == Status::kFail) failed_.push_back(pair);
  if (pair.bench != wanted_[pair.npu] && seen_[pair.npu]) return;
  const bool is_wanted = wanted_[pair.npu] == kNoRow || (pair.bench == wanted_[pair.npu] && row.matched);
  // The table holds real parts against each other; the verdict looks at the rest of complex numbers too.
  const bool is_half_seen =
      builder_.mode() == Mode::kReal && row.npu.dtype.find("omplex") != std::string_view::npos;
  if (is_wanted) seen_[pair.npu] = !is_half_seen;
  facts_[pair.npu] = facts;
  if (wanted_[pair.npu] == kNoRow) ForgetPartner(pair.npu);
}

std::vector<RowPair> RankVerdict::Rest() {
  ExchangeReordered();
  std::vector<RowPair> rest;
  for (std::uint32_t row = 0; row < wanted_.size(); ++row) {
    if (!seen_[row] && wanted_[row] != kNoRow) rest.push_back({row, wanted_[row]});
  }
  return rest;
}

// An argument that only one side gives is one that differs.
void RankVerdict::MarkOneSided() {
  for (std::uint32_t call = 0; call < alignment_.golden_of.size(); ++call) {
    if (alignment_.golden_of[call] == kNoCall || alignment_.how[call] == PairedBy::kFused) continue;
    if (IsReplaced(call)) continue;  // the two take different arguments
    const Record& record = npu_.records()[call];
    for (std::uint32_t row = record.first_row; row < record.first_row + record.num_rows; ++row) {
      Facts& facts = facts_[row];
      const bool is_argument =
          facts.Has(Facts::kPlain) || (facts.Has(Facts::kTensor) && !target_.calls()[call].is_module);
      if (is_argument && !facts.Has(Facts::kMatched) && facts.role == Role::kInput)
        facts.flags |= Facts::kDiffers;
    }
  }
  for (const GoldenArgument& argument : golden_arguments_) {
    if (first_[argument.call] < first_[argument.call + 1])
      facts_[first_[argument.call]].flags |= Facts::kGoldenHasMore;
  }
}

// The first call that makes NaN or infinities of what it is given, where the golden's makes none.
std::optional<Blame> RankVerdict::FirstSpecial() const {
  std::unordered_set<std::string_view> not_finite;  // twins of forward calls
  for (std::uint32_t call = 0; call < target_.calls().size(); ++call) {
    const Call& what = target_.calls()[call];
    const std::uint32_t partner = alignment_.golden_of[call];
    const bool is_not_finite = std::any_of(FirstOf(call), FirstOf(call + 1), [](const Facts& facts) {
      return facts.Has(Facts::kTensor) && !std::isfinite(facts.own_norm);
    });
    if (!is_not_finite) continue;
    if (what.pass == Pass::kBackward && not_finite.contains(what.twin)) continue;  // it inherits that
    if (what.pass == Pass::kForward && !what.twin.empty()) not_finite.insert(what.twin);
    if (partner == kNoCall || what.is_frame) continue;
    // The golden is known to be finite there; a mask may be infinite in one type and not in another.
    bool may_be = false, masked = false;
    for (std::size_t row = first_[call]; row < first_[call + 1]; ++row) {
      const Facts& facts = facts_[row];
      const bool is_finite = facts.Has(Facts::kMatched) && facts.norm > 0 && std::isfinite(facts.norm);
      may_be = may_be || (facts.role == Role::kOutput && !std::isfinite(facts.own_norm) && is_finite);
      masked = masked || facts.Has(Facts::kHuge);
    }
    if (!may_be) continue;
    const Special special = SpecialOf(npu_, what, call);
    if (special.made == Special::kNothing || (masked && special.made != Special::kNan)) continue;
    if (SpecialOf(bench_, golden_.calls()[partner], partner).made != Special::kNothing) continue;
    Blame blame;
    blame.call = call;
    blame.golden_call = partner;
    blame.result = HUGE_VAL;
    return blame;
  }
  return {};
}

std::vector<Recordings::Result> RankVerdict::GoldenResults(std::uint32_t call) const {
  std::vector<Recordings::Result> results;
  TextArena arena;
  const Record& record = bench_.records()[call];
  for (std::uint32_t row = record.first_row; row < record.first_row + record.num_rows; ++row) {
    if (bench_.rows()[row].bad || static_cast<PortState>(bench_.rows()[row].state) != PortState::kOutput)
      continue;
    const Value value = ValueOf(bench_.Read(bench_.rows()[row], arena), arena);
    if (value.kind != Value::Kind::kTensor) continue;
    const Facts facts =
        vernier::FactsOf(Role::kOutput, value, nullptr, nullptr, nullptr, Compared::kStatistics);
    results.push_back({facts.own_norm, facts.num_elements});
  }
  return results;
}

void RankVerdict::Conclude(RankOutcome& outcome, RankTrace& trace) {
  outcome = std::move(counts_);
  outcome.mode = msprobe::Name(builder_.mode());
  outcome.level = npu_.level();
  outcome.num_failed_otherwise_paired = static_cast<std::uint64_t>(std::count_if(
      failed_.begin(), failed_.end(), [&](const RowPair& pair) { return pair.bench != wanted_[pair.npu]; }));
  MarkOneSided();
  Findings findings = FindCulprit(All(), CulpritRules(rules_));
  const std::optional<Blame> special = FirstSpecial();
  if (!findings.culprit) findings.culprit = special;
  Describe(findings, outcome);
  trace.meetings = MeetingsOf(npu_, target_, rank_);
  if (findings.culprit) trace.culprit_call = findings.culprit->call;
  if (special && findings.culprit && special->call > findings.culprit->call) {
    outcome.doubts.push_back(
        fmt::format("later {} {}; the golden does not", target_.calls()[special->call].name,
                    SpecialText(SpecialOf(npu_, target_.calls()[special->call], special->call))));
  }
}

}  // namespace vernier::msprobe

#include "vernier/compare.h"

#include <fmt/format.h>

#include <numeric>

namespace vernier {
namespace {

// Pairs need not have equal shapes to be measured, only equally many elements: a reshape is then told from a
// real difference.
Result<Done> CheckComparable(const TensorInfo& target, const TensorInfo& golden) {
  for (const TensorInfo* info : {&target, &golden}) {
    if (info->damage) return *info->damage;
  }
  if (target.num_elements == golden.num_elements) return Done{};
  return Error{ErrorCode::kShapeMismatch, target.name,
               ShapeText(target.shape) + " against " + ShapeText(golden.shape)};
}

bool IsBareTensor(const Dump& dump) {
  std::error_code ignored;
  return dump.tensors().size() == 1 && !std::filesystem::is_directory(dump.path(), ignored);
}

class Comparison {
 public:
  Comparison(const Dump& target, const Dump& golden, const Pairing& pairing, const CompareOptions& options,
             const CompareSink& sink)
      : target_(target), golden_(golden), pairing_(pairing), options_(options), sink_(sink) {
    summary_.num_target = target.tensors().size();
    summary_.num_golden = golden.tensors().size();
    summary_.num_only_target = pairing.only_target.size();
    summary_.num_only_golden = pairing.only_golden.size();
    for (const Pair& pair : pairing.pairs) ++summary_.num_matched[static_cast<std::size_t>(pair.rule)];
  }

  Result<CompareSummary> Run(const BatchHooks& hooks) {
    MeasureOptions measure;
    measure.groups = Group::kDiff | Group::kRelative | Group::kClose | Group::kUlp;
    measure.rtol = options_.rtol;
    measure.atol = options_.atol;
    measure.num_threads = options_.num_threads;
    MeasurePairs(
        pairing_.pairs.size(), [this](std::size_t i) { return Load(pairing_.pairs[i]); }, measure,
        [this](std::size_t i, const Result<PairMeasures>& measures) { AddPair(pairing_.pairs[i], measures); },
        hooks);
    if (hooks.stop.stop_requested()) return Error{ErrorCode::kCancelled, "", ""};
    AddOnlyTarget(summary_.num_target);
    for (const std::size_t i : pairing_.only_golden)
      AddUnmatched(nullptr, &golden_.tensors()[i], "only in golden");
    return summary_;
  }

 private:
  Result<LoadedPair> Load(const Pair& pair) const {
    VN_RETURN_IF_ERROR(CheckComparable(target_.tensors()[pair.target], golden_.tensors()[pair.golden]));
    LoadedPair loaded;
    VN_ASSIGN_OR_RETURN(loaded.target, target_.Load(pair.target));
    VN_ASSIGN_OR_RETURN(loaded.golden, golden_.Load(pair.golden));
    return loaded;
  }

  void AddPair(const Pair& pair, const Result<PairMeasures>& measures) {
    AddOnlyTarget(pair.target);
    CompareRow row;
    row.target = &target_.tensors()[pair.target];
    row.golden = &golden_.tensors()[pair.golden];
    row.matched = pair.rule;
    if (measures) {
      row.measures = &*measures;
      ++summary_.num_compared;
    } else {
      if (measures.error().code == ErrorCode::kCancelled) return;
      row.error = &measures.error();
    }
    row.verdict = Judge({row.target, row.golden, row.measures, row.error}, options_.judge);
    if (row.verdict.status == Status::kFail) row.error = nullptr;  // the verdict says it
    Add(row);
  }

  // What is only in target stands where it stands in its file.
  void AddOnlyTarget(std::size_t before) {
    for (; next_only_target_ < pairing_.only_target.size(); ++next_only_target_) {
      const std::size_t index = pairing_.only_target[next_only_target_];
      if (index >= before) return;
      AddUnmatched(&target_.tensors()[index], nullptr, "only in target");
    }
  }

  void AddUnmatched(const TensorInfo* target, const TensorInfo* golden, std::string_view why) {
    const TensorInfo& present = target ? *target : *golden;
    CompareRow row;
    row.target = target;
    row.golden = golden;
    row.verdict = {Status::kUnmatched, "unmatched", std::string(why)};
    if (present.damage) {
      row.error = &*present.damage;
      row.verdict = {Status::kError, "unreadable", std::string(why) + "; " + present.damage->Message()};
    }
    Add(row);
  }

  void Add(const CompareRow& row) {
    summary_.num_passed += row.verdict.status == Status::kPass;
    summary_.num_failed += row.verdict.status == Status::kFail;
    summary_.num_errors += row.verdict.status == Status::kError;
    sink_(row);
  }

  const Dump& target_;
  const Dump& golden_;
  const Pairing& pairing_;
  const CompareOptions& options_;
  const CompareSink& sink_;
  CompareSummary summary_;
  std::size_t next_only_target_ = 0;
};

}  // namespace

std::uint64_t CompareSummary::num_pairs() const {
  return std::accumulate(num_matched.begin(), num_matched.end(), std::uint64_t{0});
}

Status CompareSummary::verdict() const {
  if (num_failed > 0) return Status::kFail;
  return num_errors > 0 || num_passed == 0 ? Status::kError : Status::kPass;
}

std::string CompareSummary::Text() const {
  std::string rules;
  for (std::size_t i = 0; i < num_matched.size(); ++i) {
    if (num_matched[i] == 0) continue;
    rules +=
        fmt::format("{}{} {}", rules.empty() ? " (" : ", ", Name(static_cast<MatchRule>(i)), num_matched[i]);
  }
  if (!rules.empty()) rules += ")";
  std::string text =
      fmt::format("compared {} of {} target / {} golden tensors{}; {} only in target, {} only in golden; ",
                  num_compared, num_target, num_golden, rules, num_only_target, num_only_golden);
  if (num_errors > 0) text += fmt::format("{} could not be judged; ", num_errors);
  return text + fmt::format("{} failed", num_failed);
}

Result<Pairing> PairDumps(const Dump& target, const Dump& golden, const MatchOptions& options) {
  VN_ASSIGN_OR_RETURN(Pairing pairing, Match(target.tensors(), golden.tensors(), options));
  if (!pairing.pairs.empty() || !IsBareTensor(target) || !IsBareTensor(golden)) return pairing;
  MatchOptions by_position;  // nothing else can be meant
  by_position.mode = MatchMode::kPosition;
  return Match(target.tensors(), golden.tensors(), by_position);
}

std::uint64_t NumBytes(const Dump& target, const Dump& golden, const Pairing& pairing) {
  std::uint64_t num_bytes = 0;
  for (const Pair& pair : pairing.pairs) {
    num_bytes += target.tensors()[pair.target].num_bytes() + golden.tensors()[pair.golden].num_bytes();
  }
  return num_bytes;
}

Result<CompareSummary> CompareDumps(const Dump& target, const Dump& golden, const Pairing& pairing,
                                    const CompareOptions& options, const CompareSink& sink,
                                    const BatchHooks& hooks) {
  return Comparison(target, golden, pairing, options, sink).Run(hooks);
}

}  // namespace vernier

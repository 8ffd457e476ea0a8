// Two dumps and their pairing -> measured and judged rows, in order.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "core/threads.h"
#include "profiles/native/native.h"
#include "profiles/row_verdict.h"

namespace vernier::native {
namespace {

constexpr std::size_t kRowsOfABatch = 512;

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

// Scale-free, so that a large tensor's noise does not hide a small one's fault.
double SeverityOf(const CompareRow& row) {
  if (!row.measures) return 0;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const PairMeasures& m = *row.measures;
  if (m.num_special_mismatches() > 0) return kInfinity;
  if (m.sum_sq_diff == 0) return 0;
  const double ratio = m.sum_sq_diff / m.sum_sq_golden;
  return std::isnan(ratio) ? kInfinity : ratio;
}

class Comparison {
 public:
  Comparison(const Dump& target, const Dump& golden, const Pairing& pairing, const CompareRequest& request,
             const CompareHooks& hooks, ResultReports& reports, std::vector<KeptRow>& first_bad,
             WorstPairPicker& worst)
      : target_(target),
        golden_(golden),
        pairing_(pairing),
        request_(request),
        hooks_(hooks),
        reports_(reports),
        first_bad_(first_bad),
        worst_(worst),
        batch_(Columns().size()),
        queue_(
            NumThreads(request.num_threads),
            [this](Piece& piece) { piece.rendered = reports_.Render(piece.batch); },
            [this](Piece&& piece) { return Write(piece); }) {
    for (const Column& column : Columns()) keys_.emplace_back(column.key);
  }

  Result<RankOutcome> Run() {
    VN_ASSIGN_OR_RETURN(const Rules rules, Rules::VerdictWith(request_.rules));
    Count();
    MeasureOptions measure;
    measure.groups = Group::kDiff | Group::kRelative | Group::kClose | Group::kUlp;
    measure.rtol = request_.rtol;
    measure.atol = request_.atol;
    measure.num_threads = request_.num_threads;
    // A report that cannot be written ends the measuring as a request to stop does.
    const std::stop_callback forward(hooks_.stop, [this] { stop_.request_stop(); });
    BatchHooks hooks;
    hooks.stop = stop_.get_token();
    if (hooks_.on_progress) {
      hooks.on_progress = [&](const MeasureProgress& done) {
        hooks_.on_progress({done.items_done, pairing_.pairs.size(), done.bytes_done, num_bytes_});
      };
    }
    MeasurePairs(
        pairing_.pairs.size(),
        [this](std::size_t i) { return LoadPairOf(target_, golden_, pairing_.pairs[i]); }, measure,
        [this](std::size_t i, const Result<PairMeasures>& measures) { AddPair(i, measures); }, hooks);
    if (hooks_.stop.stop_requested()) return Error{ErrorCode::kCancelled, "", ""};
    if (written_) {
      AddOnlyTarget(outcome_.num_target);
      for (const std::size_t i : pairing_.only_golden)
        AddUnmatched(nullptr, &golden_.tensors()[i], "only in golden");
      Push();
      queue_.Finish();
    }
    if (!written_) return written_.error();
    JudgeRows({num_same_}, rules, outcome_);
    return std::move(outcome_);
  }

 private:
  struct Piece {
    ResultBatch batch;
    Result<Done> rendered{Done{}};
  };

  void Count() {
    outcome_.mode = "tensors";
    outcome_.num_target = target_.tensors().size();
    outcome_.num_golden = golden_.tensors().size();
    outcome_.num_matched = pairing_.pairs.size();
    outcome_.num_only_golden = pairing_.only_golden.size();
    std::array<std::uint64_t, kNumMatchRules> by_rule{};
    for (const Pair& pair : pairing_.pairs) {
      ++by_rule[static_cast<std::size_t>(pair.rule)];
      num_bytes_ += target_.tensors()[pair.target].num_bytes() + golden_.tensors()[pair.golden].num_bytes();
    }
    for (std::size_t i = 0; i < by_rule.size(); ++i) {
      if (by_rule[i] > 0) outcome_.num_matched_by.emplace_back(Name(static_cast<MatchRule>(i)), by_rule[i]);
    }
  }

  void AddPair(std::size_t index, const Result<PairMeasures>& measures) {
    const Pair& pair = pairing_.pairs[index];
    AddOnlyTarget(pair.target);
    CompareRow row;
    row.target = &target_.tensors()[pair.target];
    row.golden = &golden_.tensors()[pair.golden];
    row.matched = pair.rule;
    if (measures) {
      row.measures = &*measures;
      ++outcome_.num_measured;
      num_same_ += row.target->dtype == row.golden->dtype && row.target->shape == row.golden->shape &&
                   IsSame(*measures);
    } else {
      if (measures.error().code == ErrorCode::kCancelled) return;
      row.error = &measures.error();
    }
    row.verdict = Judge({row.target, row.golden, row.measures, row.error}, {request_.check_dtype});
    if (row.verdict.status == Status::kFail) row.error = nullptr;  // the verdict says it
    if (measures) worst_.Add(index, row.verdict.status == Status::kFail, SeverityOf(row));
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
    const Status status = row.verdict.status;
    outcome_.num_passed += status == Status::kPass;
    outcome_.num_failed += status == Status::kFail;
    outcome_.num_errors += status == Status::kError;
    for (const Column& column : Columns()) batch_.rows.cells.push_back(column.value(row, batch_.arena));
    batch_.rows.colours.push_back(ColourOf(status));
    batch_.statuses.push_back(status);
    batch_.severities.push_back(SeverityOf(row));
    if (status == Status::kFail && !outcome_.culprit) Blame(row);
    KeepFirstBad(status);
    if (batch_.rows.size() == kRowsOfABatch) Push();
  }

  // A failing row has both sides.
  void Blame(const CompareRow& row) {
    Culprit& found = outcome_.culprit.emplace();
    found.record = row.target->name;
    found.reason = "output";
    found.why = "the first that fails, in the order of the file: " + row.verdict.why;
    found.row = batch_.first_row + batch_.statuses.size() - 1;
  }

  void KeepFirstBad(Status status) {
    if (status != Status::kFail && status != Status::kError) return;
    bool& seen = status == Status::kFail ? seen_failure_ : seen_error_;
    if (std::exchange(seen, true)) return;
    KeptRow row;
    row.status = status;
    row.kept = KeptCells(batch_.rows.row(batch_.rows.size() - 1));
    first_bad_.push_back(std::move(row));
  }

  void Push() {
    const std::uint64_t next = batch_.first_row + batch_.rows.size();
    queue_.Push({std::move(batch_)});
    batch_ = ResultBatch(Columns().size());
    batch_.first_row = next;
  }

  bool Write(Piece& piece) {
    if (hooks_.on_rows) hooks_.on_rows("", keys_, piece.batch.rows, piece.batch.statuses);
    written_ = piece.rendered ? reports_.Take(piece.batch) : piece.rendered;
    if (!written_) stop_.request_stop();
    return written_.has_value();
  }

  const Dump& target_;
  const Dump& golden_;
  const Pairing& pairing_;
  const CompareRequest& request_;
  const CompareHooks& hooks_;
  ResultReports& reports_;
  std::vector<KeptRow>& first_bad_;
  WorstPairPicker& worst_;
  std::vector<std::string> keys_;
  RankOutcome outcome_;
  std::uint64_t num_bytes_ = 0, num_same_ = 0;
  std::size_t next_only_target_ = 0;
  bool seen_failure_ = false, seen_error_ = false;
  std::stop_source stop_;
  Result<Done> written_ = Done{};
  ResultBatch batch_;
  OrderedQueue<Piece> queue_;  // last, because its threads use what is above
};

}  // namespace

Result<LoadedPair> LoadPairOf(const Dump& target, const Dump& golden, const Pair& pair) {
  VN_RETURN_IF_ERROR(CheckComparable(target.tensors()[pair.target], golden.tensors()[pair.golden]));
  LoadedPair loaded;
  VN_ASSIGN_OR_RETURN(loaded.target, target.Load(pair.target));
  VN_ASSIGN_OR_RETURN(loaded.golden, golden.Load(pair.golden));
  return loaded;
}

std::string SummaryText(const RankOutcome& outcome) {
  std::string rules;
  for (const auto& [rule, count] : outcome.num_matched_by)
    rules += fmt::format("{}{} {}", rules.empty() ? " (" : ", ", rule, count);
  if (!rules.empty()) rules += ")";
  std::string text =
      fmt::format("compared {} of {} target / {} golden tensors{}; {} only in target, {} only in golden; ",
                  outcome.num_measured, outcome.num_target, outcome.num_golden, rules,
                  outcome.num_only_target(), outcome.num_only_golden);
  if (outcome.num_errors > 0) text += fmt::format("{} could not be judged; ", outcome.num_errors);
  return text + fmt::format("{} failed", outcome.num_failed);
}

Result<Pairing> PairDumps(const Dump& target, const Dump& golden, const MatchOptions& options) {
  VN_ASSIGN_OR_RETURN(Pairing pairing, Match(target.tensors(), golden.tensors(), options));
  if (!pairing.pairs.empty() || !IsBareTensor(target) || !IsBareTensor(golden)) return pairing;
  MatchOptions by_position;  // nothing else can be meant
  by_position.mode = MatchMode::kPosition;
  return Match(target.tensors(), golden.tensors(), by_position);
}

Result<RankOutcome> CompareDumps(const Dump& target, const Dump& golden, const Pairing& pairing,
                                 const CompareRequest& request, const CompareHooks& hooks,
                                 ResultReports& reports, std::vector<KeptRow>& first_bad,
                                 WorstPairPicker& worst) {
  return Comparison(target, golden, pairing, request, hooks, reports, first_bad, worst).Run();
}

}  // namespace vernier::native

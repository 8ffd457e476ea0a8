#include "profiles/torchair/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "core/threads.h"
#include "profiles/row_verdict.h"
#include "profiles/torchair/load.h"

namespace vernier::torchair {
namespace {

constexpr std::size_t kRowsOfABatch = 512;
constexpr std::string_view kCountsDiffer = "data shape doesn't match.";
constexpr std::string_view kGoldenNotFinite = "golden_data includes NAN or inf.";
constexpr std::string_view kTargetNotFinite = "my_data includes NAN or inf.";

bool FitsFloat32(Dtype dtype) {
  const DtypeClass kind = Class(dtype);
  if (kind == DtypeClass::kFloat) return dtype != Dtype::kF64;
  if (kind == DtypeClass::kComplex) return dtype == Dtype::kC64;
  return ItemBytes(dtype) <= 2;
}

bool IsFinite(const TensorStats& stats) { return stats.num_finite() == stats.num_elements; }

void AddSentence(std::string_view sentence, std::string& reason) {
  reason += (reason.empty() ? "" : " ") + std::string(sentence);
}

// What is known of a pair once it is loaded, until its row is made.
struct PairState {
  Row row;
  std::vector<std::string> warnings;
  // Where no metric can be computed: what can be said of each side alone.
  std::optional<std::pair<TensorStats, TensorStats>> stats;  // target, golden
  std::optional<ExactNumbers> exact;                         // where float32 loses something
};

void Describe(const LoadedTensor& tensor, RowSide& side) {
  side.dtype = tensor.dtype;
  side.shape = ShapeText(tensor.view.shape);
}

void FillStats(const TensorStats& stats, RowSide& side) {
  if (stats.num_elements == 0) return;
  side.max = stats.Max();
  side.min = stats.Min();
  side.mean = stats.Mean();
}

// The order of rows: by the time of the dump file, inputs before outputs, the index as a text.
std::string SortKey(const TensorPair& pair) {
  const TensorRef& target = pair.target;
  return fmt::format("{},{},{}", target.op->name.time, target.output ? "outputs" : "inputs",
                     target.index ? std::to_string(*target.index) : "");
}

class Comparison {
 public:
  Comparison(const Matching& matching, const GraphOptions& options, const CompareHooks& hooks,
             ResultReports& reports)
      : pairs_(matching.pairs),
        options_(options),
        hooks_(hooks),
        reports_(reports),
        columns_(ColumnsOf(options.mode)),
        states_(matching.pairs.size()),
        batch_(columns_.size()),
        queue_(
            NumThreads(options.num_threads),
            [this](Piece& piece) { piece.rendered = reports_.Render(piece.batch); },
            [this](Piece&& piece) { return Write(piece); }) {
    for (const Column& column : columns_) keys_.emplace_back(column.key);
    SortPairs();
  }

  Result<GraphCounts> Run() {
    counts_.outcome.mode = Name(options_.mode);
    counts_.outcome.num_matched = pairs_.size();
    const std::stop_callback forward(hooks_.stop, [this] { stop_.request_stop(); });
    BatchHooks hooks;
    hooks.stop = stop_.get_token();
    const std::size_t tensors_of_an_item = options_.mode == Mode::kDigest ? 2 : 1;
    if (hooks_.on_progress) {
      hooks.on_progress = [&](const MeasureProgress& done) {
        hooks_.on_progress({done.items_done / tensors_of_an_item, pairs_.size(), 0, 0});
      };
    }
    options_.mode == Mode::kDigest ? MeasureDigests(hooks) : Measure(hooks);
    if (hooks_.stop.stop_requested()) return Error{ErrorCode::kCancelled, "", ""};
    if (written_) {
      Push();
      queue_.Finish();
    }
    if (!written_) return written_.error();
    return std::move(counts_);
  }

 private:
  struct Piece {
    ResultBatch batch;
    Result<Done> rendered{Done{}};
  };

  void SortPairs() {
    std::vector<std::string> keys;
    keys.reserve(pairs_.size());
    for (const TensorPair& pair : pairs_) keys.push_back(SortKey(pair));
    order_.resize(pairs_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
  }

  void Measure(const BatchHooks& hooks) {
    MeasureOptions measure;
    measure.groups = Group::kDiff | Group::kStats | Group::kDivergence;
    measure.real_part_only = measure.as_float32 = true;
    measure.num_threads = options_.num_threads;
    MeasurePairs(
        pairs_.size(), [this](std::size_t i) { return Load(i); }, measure,
        [this](std::size_t i, const Result<PairMeasures>& measures) { AddPair(i, measures); }, hooks);
  }

  std::unique_ptr<PairState> StateOf(const TensorPair& pair) const {
    auto state = std::make_unique<PairState>();
    Row& row = state->row;
    row.mode = options_.mode;
    row.token = pair.token;
    row.number = pair.number;
    row.target.path = ShownPath(pair.target);
    row.golden.path = ShownPath(pair.golden);
    row.api_name = pair.target.op->name.op;
    if (pair.doubtful) row.doubt = "The last part of this fused operator has no golden data.";
    return state;
  }

  // Called concurrently. A failure that the state explains is no error of the pair.
  Result<LoadedPair> Load(std::size_t position) {
    const TensorPair& pair = pairs_[order_[position]];
    states_[position] = StateOf(pair);
    PairState& state = *states_[position];
    Result<LoadedTensor> target = LoadTensor(pair.target), golden = LoadTensor(pair.golden);
    if (target) Describe(*target, state.row.target);
    if (golden) Describe(*golden, state.row.golden);
    if (!target) return target.error();
    if (!golden) return golden.error();
    for (const auto& [tensor, ref] : {std::pair{&*target, &pair.target}, {&*golden, &pair.golden}}) {
      if (!tensor->note.empty())
        state.warnings.push_back(fmt::format("{}: compared in the order in which it is stored: {}",
                                             ShownPath(*ref), tensor->note));
    }
    VN_RETURN_IF_ERROR(ShrinkOneSide(pair, *target, *golden, state.row));
    const bool same_count = target->view.num_elements == golden->view.num_elements;
    if (same_count && target->view.num_elements > 0) {
      VN_RETURN_IF_ERROR(MeasureExactly(target->view, golden->view, state));
      return LoadedPair{std::move(target->view), std::move(golden->view)};
    }
    StatsOptions options;
    options.real_part_only = options.as_float32 = true;
    options.num_threads = 1;  // other pairs are measured at the same time
    VN_ASSIGN_OR_RETURN(const TensorStats target_stats, MeasureTensor(target->view, options));
    VN_ASSIGN_OR_RETURN(const TensorStats golden_stats, MeasureTensor(golden->view, options));
    state.stats.emplace(target_stats, golden_stats);
    return Error{ErrorCode::kShapeMismatch, "", ""};
  }

  // What float32 cannot hold is looked at a second time, as it is.
  static Result<Done> MeasureExactly(const TensorView& target, const TensorView& golden, PairState& state) {
    if (FitsFloat32(target.dtype) && FitsFloat32(golden.dtype)) return Done{};
    MeasureOptions options;
    options.groups = Group::kDiff | Group::kRelative;
    options.relative = Relative::kOfGolden;
    options.real_part_only = true;
    options.num_threads = 1;  // other pairs are measured at the same time
    VN_ASSIGN_OR_RETURN(const PairMeasures measures, MeasurePair(target, golden, options));
    state.exact = ExactNumbers::Of(measures);
    return Done{};
  }

  // Where only one side was shrunk, the other is reduced in the same way first.
  static Result<Done> ShrinkOneSide(const TensorPair& pair, LoadedTensor& target, LoadedTensor& golden,
                                    Row& row) {
    const bool target_is = pair.target.shrunk(), golden_is = pair.golden.shrunk();
    if (!target_is && !golden_is) return Done{};
    row.note = target_is && golden_is ? "both sides hold minimum and maximum only"
               : target_is            ? "golden reduced to minimum and maximum to fit the target"
                                      : "target reduced to minimum and maximum to fit the golden";
    if (!target_is) {
      VN_ASSIGN_OR_RETURN(target, Shrunk(target));
      Describe(target, row.target);
    }
    if (!golden_is) {
      VN_ASSIGN_OR_RETURN(golden, Shrunk(golden));
      Describe(golden, row.golden);
    }
    return Done{};
  }

  void AddPair(std::size_t position, const Result<PairMeasures>& measures) {
    if (!measures && measures.error().code == ErrorCode::kCancelled) return;
    const std::unique_ptr<PairState> state = std::move(states_[position]);
    Row& row = state->row;
    if (hooks_.on_log) {
      for (const std::string& warning : state->warnings) hooks_.on_log(LogLevel::kWarning, warning);
    }
    if (measures) {
      row.measures = &*measures;
      row.exact = state->exact ? *state->exact : ExactNumbers::OfFloats(*measures);
      Judge(measures->target, measures->golden, row);
    } else if (state->stats) {
      Judge(state->stats->first, state->stats->second, row);
    } else {
      row.state = Row::State::kFailed;
      row.reason = measures.error().Message();
    }
    if (options_.mode == Mode::kShrunk && !row.note.empty()) {
      for (RowSide* side : {&row.target, &row.golden}) {
        side->first = side->min;
        side->second = side->max;
      }
    }
    if (row.reason == kCountsDiffer) {
      ++counts_.num_counts_differ;
    } else if ((row.target.dtype == "torch.int8") != (row.golden.dtype == "torch.int8") &&
               row.state != Row::State::kFailed) {
      ++counts_.num_one_sided_int8;
    } else {
      Add(row);
    }
  }

  static void Judge(const TensorStats& target, const TensorStats& golden, Row& row) {
    FillStats(target, row.target);
    FillStats(golden, row.golden);
    const bool counts_differ = target.num_elements != golden.num_elements;
    if (counts_differ) AddSentence(kCountsDiffer, row.reason);
    if (!IsFinite(golden)) AddSentence(kGoldenNotFinite, row.reason);
    if (!IsFinite(target)) AddSentence(kTargetNotFinite, row.reason);
    row.state = counts_differ                            ? Row::State::kCountsDiffer
                : !IsFinite(golden) || !IsFinite(target) ? Row::State::kNotFinite
                : target.num_elements == 0               ? Row::State::kEmpty
                                                         : Row::State::kMeasured;
  }

  void MeasureDigests(const BatchHooks& hooks) {
    StatsOptions measure;
    measure.crc32 = true;
    measure.num_threads = options_.num_threads;
    std::optional<Error> problem;  // of the target, until its golden comes
    for (std::size_t i = 0; i < pairs_.size(); ++i) states_[i] = StateOf(pairs_[order_[i]]);
    const auto load = [this](std::size_t i) -> Result<TensorView> {
      const TensorPair& pair = pairs_[order_[i / 2]];
      VN_ASSIGN_OR_RETURN(LoadedTensor loaded, LoadTensor(i % 2 == 0 ? pair.target : pair.golden));
      Row& row = states_[i / 2]->row;
      Describe(loaded, i % 2 == 0 ? row.target : row.golden);
      return std::move(loaded.view);
    };
    const auto add = [&](std::size_t i, const Result<TensorStats>& stats) {
      if (!stats && stats.error().code == ErrorCode::kCancelled) return;
      Row& row = states_[i / 2]->row;
      if (stats) {
        (i % 2 == 0 ? row.target : row.golden).crc32 = stats->crc32;
      } else if (row.reason.empty()) {
        row.reason = stats.error().Message();
      }
      if (i % 2 == 0) return;
      if (row.reason.empty()) {
        row.state = Row::State::kEmpty;  // no metrics
        if (row.target.shape != row.golden.shape) row.reason = kCountsDiffer;
      }
      Add(row);
      states_[i / 2].reset();
    };
    MeasureTensors(2 * pairs_.size(), load, measure, add, hooks);
  }

  void Add(const Row& row) {
    const Status status = row.status();
    RankOutcome& outcome = counts_.outcome;
    outcome.num_measured += row.state != Row::State::kFailed;
    outcome.num_passed += status == Status::kPass;
    outcome.num_failed += status == Status::kFail;
    outcome.num_errors += status == Status::kError;
    counts_.num_same += row.state == Row::State::kEmpty || (row.measures != nullptr && IsSame(*row.measures));
    if (status == Status::kFail && counts_.first_failure.empty()) {
      Culprit& found = outcome.culprit.emplace();
      found.record = row.api_name;
      found.reason = "output";
      found.why = "the first that fails, in the order in which operators ran";
      counts_.first_failure = fmt::format("{} (token {}, {})", row.api_name, row.token,
                                          row.target.path.substr(row.target.path.rfind('/') + 1));
      if (!row.reason.empty()) counts_.first_failure += ": " + row.reason;
    }
    for (const Column& column : columns_) {
      Cell cell = column.value(row, batch_.arena);
      cell.text = batch_.arena.Keep(cell.text);  // the row goes, the batch stays
      batch_.rows.cells.push_back(cell);
    }
    batch_.rows.colours.push_back(options_.highlight ? row.Colour() : RowColour::kNone);
    batch_.statuses.push_back(status);
    batch_.severities.push_back(row.Severity());
    if (batch_.rows.size() == kRowsOfABatch) Push();
  }

  void Push() {
    const std::uint64_t next = batch_.first_row + batch_.rows.size();
    queue_.Push({std::move(batch_)});
    batch_ = ResultBatch(columns_.size());
    batch_.first_row = next;
  }

  bool Write(Piece& piece) {
    if (hooks_.on_rows) hooks_.on_rows(options_.rank, keys_, piece.batch.rows, piece.batch.statuses);
    written_ = piece.rendered ? reports_.Take(piece.batch) : piece.rendered;
    if (!written_) stop_.request_stop();
    return written_.has_value();
  }

  const std::vector<TensorPair>& pairs_;
  const GraphOptions& options_;
  const CompareHooks& hooks_;
  ResultReports& reports_;
  const std::span<const Column> columns_;
  std::vector<std::string> keys_;
  std::vector<std::size_t> order_;                  // of the rows
  std::vector<std::unique_ptr<PairState>> states_;  // of the pairs that are being measured
  GraphCounts counts_;
  std::stop_source stop_;
  Result<Done> written_ = Done{};
  ResultBatch batch_;
  OrderedQueue<Piece> queue_;  // last, because its threads use what is above
};

}  // namespace

Result<GraphCounts> ComparePairs(const Matching& matching, const GraphOptions& options,
                                 const CompareHooks& hooks, ResultReports& reports) {
  return Comparison(matching, options, hooks, reports).Run();
}

}  // namespace vernier::torchair

// Pairs of keys -> measured rows, in order.
#include <fmt/format.h>

#include <cmath>
#include <complex>
#include <limits>

#include "profiles/xray/xray.h"

namespace vernier::xray {
namespace {

constexpr std::size_t kRowsOfABatch = 512;
constexpr double kInf = std::numeric_limits<double>::infinity(),
                 kNan = std::numeric_limits<double>::quiet_NaN();

bool IsComplex(const TensorInfo& info) { return Class(info.dtype) == DtypeClass::kComplex; }
bool IsFloat8(const TensorInfo& info) {
  return Class(info.dtype) == DtypeClass::kFloat && ItemBytes(info.dtype) == 1;
}

double Percent(std::uint64_t part, std::uint64_t all) {
  return all == 0 ? 100 : 100 * static_cast<double>(part) / static_cast<double>(all);
}

PairErrors ErrorsOf(const PairMeasures& m) {
  PairErrors errors;
  if (m.num_elements == 0) return errors;
  // As the formulas say: where a number is not finite, neither are sums over it.
  const std::uint64_t num_nan = m.num_both_nan + m.num_nan_target_only + m.num_nan_golden_only;
  errors.cosine = m.num_special() > 0 ? kNan : m.Cosine();
  errors.rmse = num_nan + m.num_both_same_inf > 0 ? kNan : m.num_special() > 0 ? kInf : m.Rmse();
  errors.percent_close = Percent(m.num_close, m.num_elements);
  errors.num_special_mismatches = m.num_special_mismatches();
  errors.max_error = errors.num_special_mismatches > 0 ? kInf : m.max_abs_diff;
  errors.min_error = m.min_abs_diff;
  errors.mean_relative = m.MeanRelative();
  errors.num_above = m.num_error_above;
  errors.worst = WorstOf(m);
  return errors;
}

std::complex<double> ComplexAt(const TensorView& view, std::uint64_t i) {
  const auto load = [&]<class T>(T value) {
    std::memcpy(&value, view.data + i * sizeof(T), sizeof(T));
    return std::complex<double>(value.real(), value.imag());
  };
  return view.dtype == Dtype::kC64 ? load(std::complex<float>()) : load(std::complex<double>());
}

// Complex numbers have one error each, a magnitude; the kernels see two numbers. `errors`: of these.
void ByMagnitude(const LoadedPair& pair, const MeasureOptions& options, PairErrors& errors) {
  const Tolerance usual = DefaultTolerance(pair.target.dtype, pair.golden.dtype);
  const double rtol = options.rtol < 0 ? usual.rtol : options.rtol,
               atol = options.atol < 0 ? usual.atol : options.atol;
  const std::uint64_t n = pair.target.num_elements;
  std::uint64_t num_close = 0;
  double sum_relative = 0;
  errors.rmse *= std::sqrt(2.0);  // half as many
  errors.max_error = 0;
  errors.min_error = kInf;
  errors.num_above = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::complex<double> t = ComplexAt(pair.target, i), g = ComplexAt(pair.golden, i);
    const auto same = [](double a, double b) { return a == b || (a != a && b != b); };
    const bool is_same = same(t.real(), g.real()) && same(t.imag(), g.imag());
    const bool is_finite = std::isfinite(std::abs(t)) && std::isfinite(std::abs(g));
    const double error = is_same ? 0 : is_finite ? std::abs(t - g) : kInf;
    num_close += is_same || error <= atol + rtol * std::abs(g);
    errors.num_above += error > options.error_above;
    errors.min_error = std::min(errors.min_error, error);
    if (is_finite) sum_relative += error / std::max(std::abs(g), options.relative_floor);
    if (error > errors.max_error) {
      errors.max_error = error;
      errors.worst = WorstElement{i, std::abs(t), std::abs(g)};
    }
  }
  errors.percent_close = Percent(num_close, n);
  errors.mean_relative = sum_relative / static_cast<double>(n);
}

class Measurer {
 public:
  Measurer(const Comparison& comparison, ResultReports& reports,
           const std::function<void(const Row& row)>& on_row)
      : c_(comparison), reports_(reports), on_row_(on_row), batch_(Columns().size()) {
    for (const Column& column : Columns()) keys_.emplace_back(column.key);
    options_.groups = Group::kDiff | Group::kRelative | Group::kClose | Group::kErrors;
    options_.rtol = c_.request.rtol;
    options_.atol = c_.request.atol;
    options_.error_above = c_.limits.above;
    options_.num_threads = c_.request.num_threads;
  }

  Result<Counts> Run() {
    const std::vector<KeyPair>& pairs = c_.pairing.pairs;
    std::uint64_t num_bytes = 0;
    for (const KeyPair& pair : pairs) num_bytes += Target(pair).num_bytes() + Golden(pair).num_bytes();
    // A report that cannot be written ends the measuring as a request to stop does.
    const std::stop_callback forward(c_.hooks.stop, [this] { stop_.request_stop(); });
    BatchHooks hooks;
    hooks.stop = stop_.get_token();
    if (c_.hooks.on_progress) {
      hooks.on_progress = [&](const MeasureProgress& done) {
        c_.hooks.on_progress({done.items_done, pairs.size(), done.bytes_done, num_bytes});
      };
    }
    MeasurePairs(
        pairs.size(), [&](std::size_t i) { return Load(pairs[i]); }, options_,
        [&](std::size_t i, const Result<PairMeasures>& measures) { AddPair(pairs[i], measures); }, hooks);
    if (c_.hooks.stop.stop_requested()) return Error{ErrorCode::kCancelled, "", ""};
    for (const std::size_t place : c_.pairing.only_golden) AddUnmatched(nullptr, &c_.golden.items[place]);
    for (const std::size_t place : c_.pairing.only_target) AddUnmatched(&c_.target.items[place], nullptr);
    Push();
    if (!written_) return written_.error();
    return counts_;
  }

 private:
  const TensorInfo& Target(const KeyPair& pair) const { return c_.target.info(c_.target.items[pair.target]); }
  const TensorInfo& Golden(const KeyPair& pair) const { return c_.golden.info(c_.golden.items[pair.golden]); }

  Result<LoadedPair> Load(const KeyPair& pair) const {
    const TensorInfo &target = Target(pair), &golden = Golden(pair);
    for (const TensorInfo* info : {&target, &golden}) {
      if (info->damage) return *info->damage;
    }
    if (target.shape != golden.shape) {
      return Error{ErrorCode::kShapeMismatch, "",
                   ShapeText(target.shape) + " against " + ShapeText(golden.shape)};
    }
    LoadedPair loaded;
    VN_ASSIGN_OR_RETURN(loaded.target, c_.target.dump.Load(c_.target.items[pair.target].index));
    VN_ASSIGN_OR_RETURN(loaded.golden, c_.golden.dump.Load(c_.golden.items[pair.golden].index));
    return loaded;
  }

  // What the one pass over all pairs does not define for these dtypes. They are rare, and are read again.
  Result<PairErrors> Errors(const KeyPair& pair, const PairMeasures& measures) const {
    PairErrors errors = ErrorsOf(measures);
    if (measures.num_elements == 0) return errors;
    const TensorInfo &target = Target(pair), &golden = Golden(pair);
    if (IsComplex(target) && IsComplex(golden)) {
      VN_ASSIGN_OR_RETURN(const LoadedPair loaded, Load(pair));
      ByMagnitude(loaded, options_, errors);
    } else if (IsFloat8(target) && target.dtype == golden.dtype && options_.rtol < 0 && options_.atol < 0) {
      VN_ASSIGN_OR_RETURN(const LoadedPair loaded, Load(pair));
      MeasureOptions by_ulp = options_;
      by_ulp.groups = Group::kDiff | Group::kUlp | Group::kDetails;
      VN_ASSIGN_OR_RETURN(const PairMeasures m, MeasurePair(loaded.target, loaded.golden, by_ulp));
      errors.percent_close =
          Percent(m.num_elements - m.num_ulp_above - m.num_special_mismatches(), m.num_elements);
    }
    return errors;
  }

  void AddPair(const KeyPair& pair, const Result<PairMeasures>& measures) {
    if (!measures && measures.error().code == ErrorCode::kCancelled) return;
    Row row;
    row.target_item = &c_.target.items[pair.target];
    row.golden_item = &c_.golden.items[pair.golden];
    row.rule = pair.rule;
    const Result<PairErrors> errors =
        measures ? Errors(pair, *measures) : Result<PairErrors>(measures.error());
    if (errors) {
      row.errors = &*errors;
      counts_.num_same += errors->max_error == 0 && errors->num_special_mismatches == 0;
      if (errors->max_error > c_.limits.max_error) row.status = RowStatus::kFail;
      if (Target(pair).dtype != Golden(pair).dtype) row.message = "dtypes differ: compared as promoted";
    } else {
      row.status = errors.error().code == ErrorCode::kShapeMismatch ? RowStatus::kShape : RowStatus::kError;
      row.message = errors.error().Message();
    }
    Add(row);
  }

  void AddUnmatched(const Item* target, const Item* golden) {
    Row row;
    row.target_item = target;
    row.golden_item = golden;
    row.status = RowStatus::kUnmatched;
    Add(row);
  }

  void Add(Row& row) {
    row.index = counts_.num_rows++;
    if (row.target_item) row.target = &c_.target.info(*row.target_item);
    if (row.golden_item) row.golden = &c_.golden.info(*row.golden_item);
    ++counts_.by_status[static_cast<std::size_t>(row.status)];
    const bool fails = row.status == RowStatus::kFail || row.status == RowStatus::kShape;
    if (fails && counts_.first_failing.empty()) counts_.first_failing = row.target_item->key;
    for (const Column& column : Columns()) batch_.rows.cells.push_back(column.value(row, batch_.arena));
    const Status status = StatusOf(row.status);
    batch_.rows.colours.push_back(ColourOf(status));
    batch_.statuses.push_back(status);
    batch_.severities.push_back(row.errors ? row.errors->max_error : 0);
    on_row_(row);
    if (batch_.rows.size() == kRowsOfABatch) Push();
  }

  void Push() {
    if (c_.hooks.on_rows) c_.hooks.on_rows("", keys_, batch_.rows, batch_.statuses);
    if (written_) written_ = reports_.Render(batch_);
    if (written_) written_ = reports_.Take(batch_);
    if (!written_) stop_.request_stop();
    const std::uint64_t next = batch_.first_row + batch_.rows.size();
    batch_ = ResultBatch(Columns().size());
    batch_.first_row = next;
  }

  const Comparison& c_;
  ResultReports& reports_;
  const std::function<void(const Row& row)>& on_row_;
  std::vector<std::string> keys_;
  MeasureOptions options_;
  std::stop_source stop_;
  Result<Done> written_ = Done{};
  ResultBatch batch_;
  Counts counts_;
};

}  // namespace

Result<Counts> CompareKeys(const Comparison& comparison, ResultReports& reports,
                           const std::function<void(const Row& row)>& on_row) {
  return Measurer(comparison, reports, on_row).Run();
}

}  // namespace vernier::xray

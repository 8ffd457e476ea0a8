// Two tensor files, checkpoints, folders or HDF5 files, with our own columns.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cli/arguments.h"
#include "cli/compare.h"
#include "cli/interrupt.h"
#include "cli/screen.h"
#include "core/progress.h"

namespace vernier {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  vernier compare got.npy want.npy\n"
    "  vernier compare run_npu/ run_gpu/ --match fuzzy -o report.xlsx\n"
    "  vernier compare new.safetensors old.pt --rename backbone.=encoder. --rtol 1e-3 --atol 1e-5\n"
    "  vernier compare a/ b/ -q --only failed -o - --format jsonl\n"
    "  vernier compare -tp npu/dump.json -gp gpu/dump.json -o result\n"
    "                        dumps of msprobe; vernier help compare lists the options for them\n\n"
    "Exit status: 0 every pair is close, 1 some are not, 2 could not tell (nothing to compare, or unreadable "
    "tensors\n"
    "and no difference found).\n";

std::string Footer() {
  std::string text = "Columns of a report, and for --sort:\n";
  for (const CompareColumn& column : CompareColumns())
    text += fmt::format("  {:<20}{}\n", column.key, column.help);
  text += "\nVerdicts; the first rule that applies decides:\n";
  for (const JudgeRule& rule : JudgeRules())
    text += fmt::format("  {:<8}{:<12}{}\n", Name(rule.status), rule.key, rule.when);
  return text + "\n" + kExamples;
}

// CLI11's own check would print the largest double there is.
std::string NegativeNumberProblem(const std::string& text) {
  double value = -1;
  return CLI::detail::lexical_cast(text, value) && value >= 0 ? "" : text + " is not a number from 0 up";
}

// "only" and what it keeps, in the order of Status.
constexpr std::string_view kOnly[] = {"passed", "failed", "error", "unmatched"};

struct CompareArgs {
  std::string target, golden;
  MatchArgs match;
  double rtol = -1, atol = -1;
  bool check_dtype = false, strict = false;
  ReportArgs report;
  std::string sort;
  std::vector<std::string> only;
  std::size_t top = 20;
  SpeedArgs speed;

  std::unique_ptr<CLI::App> Declare() {
    auto app = NewApp("compare",
                      "Compare the tensors under two paths: tensor files, checkpoints, folders, HDF5 files.",
                      Footer());
    app->add_option("TARGET", target, "what is under test")->type_name("")->required();
    app->add_option("GOLDEN", golden, "what it should be")->type_name("")->required();
    match.Declare(*app);
    constexpr const char* kJudging = "Judging";
    const CLI::Validator non_negative = CLI::Validator(NegativeNumberProblem, "");
    app->add_option("--rtol", rtol,
                    "allowed |target - golden| is atol + rtol * |golden|; default by dtype, as "
                    "torch.testing.assert_close")
        ->type_name("X")
        ->check(non_negative)
        ->group(kJudging);
    app->add_option("--atol", atol, "see --rtol")->type_name("X")->check(non_negative)->group(kJudging);
    app->add_flag("--check-dtype", check_dtype, "different dtypes fail")->group(kJudging);
    app->add_flag("--strict", strict, "tensors without a partner count as a difference")->group(kJudging);
    report.Declare(*app);
    app->add_option("--sort", sort,
                    "order rows by this column, worst or alphabetically first; default: file order")
        ->type_name("COLUMN")
        ->group("Report");
    app->add_option("--only", only,
                    "leave out the other rows: failed, error, unmatched, passed; may be repeated")
        ->type_name("KIND")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->group("Report");
    app->add_option("--top", top, "rows on the screen, worst first")
        ->type_name("N")
        ->capture_default_str()
        ->group("Report");
    speed.Declare(*app);
    return app;
  }
};

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

// Sorts before any number when bad is large, nothing after everything.
struct SortKey {
  bool missing = true;
  double number = 0;
  std::string text;
};

SortKey KeyOf(const Cell& cell, Good good) {
  const double sign = good == Good::kLarge ? 1 : -1;
  const auto number = [sign](double value) {
    return SortKey{false, std::isnan(value) ? -std::numeric_limits<double>::infinity() : sign * value, {}};
  };
  if (const auto* value = std::get_if<double>(&cell)) return number(*value);
  if (const auto* value = std::get_if<std::uint64_t>(&cell)) return number(static_cast<double>(*value));
  if (const auto* text = std::get_if<std::string>(&cell)) return {text->empty(), 0, *text};
  return {};
}

// Where the rows of a comparison go: streamed to the reports, or kept when they are to be sorted; the worst
// are kept for the screen.
class RowCollector {
 public:
  static Result<RowCollector> Create(const CompareArgs& args) {
    RowCollector collector;
    collector.num_shown_ = args.speed.quiet ? 0 : args.top;
    if (!args.sort.empty()) {
      std::vector<std::string_view> keys;
      for (const CompareColumn& column : CompareColumns()) keys.push_back(column.key);
      VN_ASSIGN_OR_RETURN(collector.sort_column_, Choose("--sort", args.sort, keys));
    }
    for (const std::string& kind : args.only) {
      VN_ASSIGN_OR_RETURN(const std::size_t status, Choose("--only", kind, kOnly));
      collector.wanted_[status] = true;
    }
    if (args.only.empty()) collector.wanted_.fill(true);
    VN_ASSIGN_OR_RETURN(collector.reports_, CreateReports(args.report, CompareColumnKeys()));
    return collector;
  }

  // The first failure of a report is kept; from then on nothing is written.
  Result<Done> Add(const CompareRow& row) {
    KeptRow kept{num_rows_, row.verdict.status, SeverityOf(row), {}};
    const bool wanted = wanted_[static_cast<std::size_t>(kept.status)];
    bool& seen = kept.status == Status::kFail ? seen_failure_ : seen_error_;
    const bool first_bad = (kept.status == Status::kFail || kept.status == Status::kError) && !seen;
    if (!wanted && !first_bad) return Done{};
    kept.cells = CompareCells(row);
    if (first_bad) {
      seen = true;
      first_bad_.push_back(kept);
    }
    if (!wanted) return Done{};
    ++num_rows_;
    if (!sort_column_) VN_RETURN_IF_ERROR(WriteToReports(kept));
    Keep(std::move(kept));
    return Done{};
  }

  Result<CompareScreen> Finish(const CompareSummary& summary) {
    if (sort_column_) {
      SortByColumn();
      for (const KeptRow& row : kept_) VN_RETURN_IF_ERROR(WriteToReports(row));
    } else {
      std::sort(kept_.begin(), kept_.end(), IsWorse);
    }
    kept_.resize(std::min(kept_.size(), num_shown_));
    CompareScreen screen{std::move(kept_), num_rows_, std::move(first_bad_), summary, {}};
    for (ReportFile& report : reports_) {
      VN_RETURN_IF_ERROR(report.Finish());
      if (!report.is_stdout()) screen.written.push_back(report.name());
    }
    return screen;
  }

  bool stdout_is_taken() const {
    return std::any_of(reports_.begin(), reports_.end(),
                       [](const ReportFile& report) { return report.is_stdout(); });
  }

 private:
  Result<Done> WriteToReports(const KeptRow& row) {
    for (ReportFile& report : reports_) VN_RETURN_IF_ERROR(report.Write(row.cells, ColourOf(row.status)));
    return Done{};
  }

  void Keep(KeptRow row) {
    if (!sort_column_ && num_shown_ == 0) return;
    kept_.push_back(std::move(row));
    // Now and then only the worst stay, so that memory does not grow with the rows.
    constexpr std::size_t kSlack = 1000;
    if (sort_column_ || kept_.size() < num_shown_ + kSlack) return;
    std::nth_element(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(num_shown_), kept_.end(),
                     IsWorse);
    kept_.resize(num_shown_);
  }

  void SortByColumn() {
    const Good good = CompareColumns()[*sort_column_].good;
    std::stable_sort(kept_.begin(), kept_.end(), [this, good](const KeptRow& a, const KeptRow& b) {
      const SortKey x = KeyOf(a.cells[*sort_column_], good), y = KeyOf(b.cells[*sort_column_], good);
      return std::tie(x.missing, x.number, x.text) < std::tie(y.missing, y.number, y.text);
    });
  }

  std::vector<ReportFile> reports_;
  std::array<bool, std::size(kOnly)> wanted_{};
  std::optional<std::size_t> sort_column_;
  std::size_t num_shown_ = 0, num_rows_ = 0;
  bool seen_failure_ = false, seen_error_ = false;
  std::vector<KeptRow> kept_, first_bad_;
};

struct Sides {
  Dump target, golden;
};

Result<Sides> OpenSides(const CompareArgs& args) {
  const ReadOptions options{args.speed.num_threads};
  VN_ASSIGN_OR_RETURN(Dump target, Dump::Open(args.target, options));
  VN_ASSIGN_OR_RETURN(Dump golden, Dump::Open(args.golden, options));
  return Sides{std::move(target), std::move(golden)};
}

Result<CompareSummary> CompareSides(const CompareArgs& args, const Sides& sides, RowCollector& collector,
                                    Interrupt& interrupt) {
  VN_ASSIGN_OR_RETURN(const MatchOptions match, args.match.Options());
  VN_ASSIGN_OR_RETURN(const Pairing pairing, PairDumps(sides.target, sides.golden, match));
  CompareOptions options;
  options.rtol = args.rtol;
  options.atol = args.atol;
  options.judge.check_dtype = args.check_dtype;
  options.num_threads = args.speed.num_threads;
  Progress progress(stderr, args.speed.quiet ? ProgressStyle::kQuiet : ProgressStyle::kAuto, "compare",
                    pairing.pairs.size(), NumBytes(sides.target, sides.golden, pairing));
  Result<Done> written = Done{};
  const auto add = [&](const CompareRow& row) {
    if (!written) return;
    written = collector.Add(row);
    if (!written) interrupt.RequestStop();
  };
  BatchHooks hooks;
  hooks.stop = interrupt.token();
  hooks.on_progress = [&](const MeasureProgress& done) { progress.Update(done.items_done, done.bytes_done); };
  Result<CompareSummary> summary = CompareDumps(sides.target, sides.golden, pairing, options, add, hooks);
  if (!written) return written.error();
  return summary;
}

ExitCode CodeOf(const CompareSummary& summary, bool strict) {
  if (strict && summary.num_only_target + summary.num_only_golden > 0) return ExitCode::kDiffers;
  switch (summary.verdict()) {
    case Status::kPass:
      return ExitCode::kSame;
    case Status::kFail:
      return ExitCode::kDiffers;
    default:
      return ExitCode::kCannotTell;
  }
}

Result<ExitCode> Compare(const CompareArgs& args, Interrupt& interrupt) {
  VN_ASSIGN_OR_RETURN(const Sides sides, OpenSides(args));
  VN_ASSIGN_OR_RETURN(RowCollector collector, RowCollector::Create(args));
  VN_ASSIGN_OR_RETURN(const CompareSummary summary, CompareSides(args, sides, collector, interrupt));
  std::FILE* stream = collector.stdout_is_taken() ? stderr : stdout;
  VN_ASSIGN_OR_RETURN(CompareScreen screen, collector.Finish(summary));
  if (args.speed.quiet) screen.first_bad.clear();
  Say(stream, CompareScreenText(screen, ScreenWidth(stream), UseColour(stream)));
  return CodeOf(summary, args.strict);
}

}  // namespace

std::string HelpNativeCompare() {
  CompareArgs args;
  return HelpText(*args.Declare());
}

ExitCode RunNativeCompare(const Args& words) {
  CompareArgs args;
  const auto app = args.Declare();
  if (const auto code = Parse(*app, words)) return *code;
  Interrupt interrupt;
  const Result<ExitCode> code = Compare(args, interrupt);
  if (interrupt.interrupted()) return ExitCode::kInterrupted;
  return code ? *code : Complain(code.error());
}

}  // namespace vernier

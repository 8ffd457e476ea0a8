#include "profiles/xray/family.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "core/text.h"
#include "profiles/family_options.h"
#include "profiles/output_files.h"
#include "profiles/row_verdict.h"
#include "profiles/verdict_screen.h"
#include "profiles/xray/xray.h"

namespace vernier::xray {
namespace {

template <double Limits::*kMember>
Result<Done> TakeLimit(const std::string& name, const std::string& text, Limits& limits) {
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, limits.*kMember);
  if (problem != std::errc() || stop != end || !(limits.*kMember >= 0))
    return Error{ErrorCode::kBadArgument, name + " " + text, "expected a number ≥ 0"};
  return Done{};
}

constexpr OptionRow<Limits> kOptions[] = {
    {{"max_err", "largest |target - golden| that is no Fail; default 0.01"}, TakeLimit<&Limits::max_error>},
    {{"gt", "GtNum counts elements with |target - golden| above this; default 0"}, TakeLimit<&Limits::above>},
};

// A few rows are shown in order, as the guide does; of many only those to look at.
constexpr std::size_t kShownRows = 100;

class ScreenRows {
 public:
  explicit ScreenRows(std::size_t most) : most_(most) {}

  void Add(const Row& row) {
    ++num_rows_;
    num_to_look_at_ += row.status != RowStatus::kGood;
    if (first_.size() < most_) first_.push_back({row.status, ScreenCells(row)});
    if (row.status != RowStatus::kGood && to_look_at_.size() < most_)
      to_look_at_.push_back({row.status, ScreenCells(row)});
  }

  std::string Text() const {
    if (most_ == 0) return "";
    if (num_rows_ <= most_) return ScreenTable(first_);
    const std::span<const ScreenRow> shown = num_to_look_at_ > 0 ? to_look_at_ : first_;
    return ScreenTable(shown) +
           fmt::format("{} of {} rows; --top N shows more, the file has all\n", shown.size(), num_rows_);
  }

 private:
  const std::size_t most_;
  std::uint64_t num_rows_ = 0, num_to_look_at_ = 0;
  std::vector<ScreenRow> first_, to_look_at_;
};

Result<ResultReports> CreateReports(const CompareRequest& request, std::vector<OutputFile> files) {
  ResultReports::Options options;
  for (const Column& column : Columns()) options.columns.push_back({std::string(column.key), column.good});
  options.files = std::move(files);
  options.select = {request.only, request.sort, 0};
  options.num_threads = request.num_threads;
  return ResultReports::Create(std::move(options));
}

std::string StepsText(std::string_view side, std::span<const std::int64_t> steps) {
  if (steps.empty()) return "";
  std::string text;
  for (const std::int64_t step : steps) text += fmt::format("{}{}", text.empty() ? "" : ", ", step);
  return fmt::format("only the {} has step {}: not compared\n", side, text);
}

std::string NotesText(const Recording& target, const Recording& golden, const KeyPairing& pairing) {
  std::string text = StepsText("target", pairing.target_steps) + StepsText("golden", pairing.golden_steps);
  if (target.version != golden.version && !target.version.empty() && !golden.version.empty()) {
    text += fmt::format(
        "the target was written by vernier {}, the golden by {}: the same package on both sides names "
        "modules alike\n",
        Printable(target.version), Printable(golden.version));
  }
  return text;
}

Error NothingMatched(const CompareRequest& request, const Recording& target, const Recording& golden,
                     const KeyPairing& pairing) {
  const auto side = [](std::string_view role, const std::string& path, const Recording& recording) {
    const std::string first =
        recording.items.empty() ? ""
                                : fmt::format(", the first {}", recording.info(recording.items.front()).name);
    return fmt::format("the {} {} has {} keys{}", role, path, recording.items.size(), first);
  };
  std::string detail =
      fmt::format("{}; {}", side("target", request.target, target), side("golden", request.golden, golden));
  if (!pairing.target_steps.empty() || !pairing.golden_steps.empty())
    detail += "; they have no step in common, or no key in one";
  return Error{ErrorCode::kNoPair, "no matched keys",
               detail +
                   "; try --match position, or the pair of files that belongs together, or record both with "
                   "the same package"};
}

std::string CountsText(const Counts& counts, const KeyPairing& pairing) {
  std::uint64_t by_rule[kNumKeyRules] = {};
  for (const KeyPair& pair : pairing.pairs) ++by_rule[static_cast<std::size_t>(pair.rule)];
  std::string rules;
  for (std::size_t i = 0; i < kNumKeyRules; ++i) {
    if (by_rule[i] > 0)
      rules += fmt::format("{}{} {}", rules.empty() ? "" : ", ", Name(static_cast<KeyRule>(i)), by_rule[i]);
  }
  const auto count = [&](RowStatus status) { return counts.by_status[static_cast<std::size_t>(status)]; };
  return fmt::format("{} pairs ({}): {} Fail, {} Shape, {} Error; {} rows Unmatched\n", pairing.pairs.size(),
                     rules, count(RowStatus::kFail), count(RowStatus::kShape), count(RowStatus::kError),
                     count(RowStatus::kUnmatched));
}

RankOutcome OutcomeOf(const Recording& target, const Recording& golden, const KeyPairing& pairing,
                      const Counts& counts, const Rules& rules) {
  RankOutcome outcome;
  outcome.rank = std::to_string(target.rank);
  outcome.mode = "tensors";
  outcome.num_target = target.items.size();
  outcome.num_golden = golden.items.size();
  outcome.num_matched = pairing.pairs.size();
  outcome.num_only_golden = golden.items.size() - pairing.pairs.size();
  for (std::size_t i = 0; i < kNumKeyRules; ++i) {
    const auto rule = static_cast<KeyRule>(i);
    const auto num = std::count_if(pairing.pairs.begin(), pairing.pairs.end(),
                                   [&](const KeyPair& pair) { return pair.rule == rule; });
    if (num > 0) outcome.num_matched_by.emplace_back(Name(rule), num);
  }
  const auto count = [&](RowStatus status) { return counts.by_status[static_cast<std::size_t>(status)]; };
  outcome.num_passed = count(RowStatus::kGood);
  outcome.num_failed = count(RowStatus::kFail) + count(RowStatus::kShape);
  outcome.num_errors = count(RowStatus::kError);
  outcome.num_measured = count(RowStatus::kGood) + count(RowStatus::kFail);
  JudgeRows({counts.num_same, /*fuses=*/true}, rules, outcome);
  if (!counts.first_failing.empty()) {
    Culprit& found = outcome.culprit.emplace();
    found.record = counts.first_failing;
    found.reason = "output";
    found.why = "the first that fails, in the order of the recording";
  }
  return outcome;
}

}  // namespace

std::vector<FamilyColumn> ColumnsHelp() {
  std::vector<FamilyColumn> columns;
  for (const Column& column : Columns())
    columns.push_back({std::string(column.key), std::string(column.help)});
  return columns;
}

std::span<const FamilyOption> Options() {
  static const std::vector<FamilyOption> options = OptionsOf(kOptions);
  return options;
}

Result<CompareOutcome> Compare(const CompareRequest& request, const CompareHooks& hooks) {
  Limits limits;
  VN_RETURN_IF_ERROR(TakeFamilyOptions(request.options, kOptions, "HDF5 recordings", limits));
  VN_ASSIGN_OR_RETURN(const Rules rules, Rules::VerdictWith(request.rules));
  VN_ASSIGN_OR_RETURN(const Recording target, Recording::Open(request.target, request.num_threads));
  VN_ASSIGN_OR_RETURN(const Recording golden, Recording::Open(request.golden, request.num_threads));
  VN_ASSIGN_OR_RETURN(const KeyPairing pairing, MatchKeys(target, golden, request.match));
  if (pairing.pairs.empty()) return NothingMatched(request, target, golden, pairing);
  VN_ASSIGN_OR_RETURN(ReportPlaces places, ReportPlacesOf(request));
  VN_ASSIGN_OR_RETURN(ResultReports reports, CreateReports(request, std::move(places.files)));
  ScreenRows screen(hooks.screen.quiet ? 0 : request.top.value_or(kShownRows));
  VN_ASSIGN_OR_RETURN(const Counts counts, CompareKeys({target, golden, pairing, request, hooks, limits},
                                                       reports, [&](const Row& row) { screen.Add(row); }));
  CompareOutcome outcome;
  outcome.ranks.push_back(OutcomeOf(target, golden, pairing, counts, rules));
  const RankOutcome& found = outcome.ranks.front();
  outcome.verdict = VerdictOf(outcome);
  outcome.status = StatusOf(outcome, request.strict);
  const std::string notes = NotesText(target, golden, pairing) + CountsText(counts, pairing);
  reports.SetFrontPage(notes + VerdictLines(found, /*colour=*/false));
  VN_RETURN_IF_ERROR(reports.Finish());
  outcome.text = screen.Text() + notes + VerdictLines(found, hooks.screen.colour);
  for (const std::filesystem::path& path : reports.paths()) {
    if (!IsStandardOutput(path.string())) outcome.written.push_back(path.string());
  }
  for (const auto& [folder, stamp] : places.folders)
    VN_RETURN_IF_ERROR(WriteSummary(folder, stamp.text(), "xray", outcome));
  return outcome;
}

}  // namespace vernier::xray

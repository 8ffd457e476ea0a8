// Our own verdict on recordings: the lines on the screen, and the summary as JSON.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "core/json_writer.h"
#include "core/text.h"
#include "profiles/msprobe/rank.h"
#include "profiles/msprobe/run.h"

namespace vernier::msprobe {
namespace {

constexpr std::size_t kShownRanks = 4, kShownEvidence = 4;

std::string ErrorText(double error) { return std::isinf(error) ? "different" : fmt::format("{:.3g}", error); }

// All rows of a rank are matched by one rule.
const std::string& RuleOf(const RankOutcome& rank) { return rank.num_matched_by.front().first; }

std::string RankLabel(const RankOutcome& rank) { return rank.rank.empty() ? "" : rank.rank + ": "; }

void AppendRank(const RankOutcome& rank, std::string& text) {
  text += fmt::format(
      "{}{} of {} rows compared by {} ({:.1f} %, {}), {} unmatched, {} failing; {} of {} bench rows have no "
      "partner\n",
      RankLabel(rank), rank.num_matched, rank.num_target, RuleOf(rank), rank.coverage() * 100, rank.mode,
      rank.num_only_target(), rank.num_failed, rank.num_only_golden, rank.num_golden);
  if (rank.num_errors > 0) text += fmt::format("  {} records could not be read\n", rank.num_errors);
  if (rank.torn) text += "  a dump ends in the middle: only the records before that were compared\n";
  if (rank.num_not_measured > 0)
    text += fmt::format(
        "  {} matched rows could not be measured: a file is missing, damaged or of another shape\n",
        rank.num_not_measured);
  if (!rank.culprit) {
    text += rank.num_failed > 0     ? "  outputs differ, but no single call explains it\n"
            : rank.num_matched == 0 ? "  no row has a partner: nothing was compared\n"
                                    : "  what was compared agrees within tolerance\n";
    return;
  }
  const Divergence& found = *rank.culprit;
  text += fmt::format("  first divergence: {} (data row {})\n", Printable(found.record), found.row);
  if (!found.module.empty() && found.module != found.record)
    text += fmt::format("    in         {}\n", Printable(found.module));
  for (std::size_t i = 0; i < std::min(found.arguments.size(), kShownEvidence); ++i) {
    text += fmt::format("    argument   {:<60} differs: {} / {}\n", Printable(found.arguments[i].name),
                        found.arguments[i].target, found.arguments[i].golden);
  }
  // Outputs first: they are what went wrong.
  std::vector<const Evidence*> shown;
  for (const Evidence& evidence : found.evidence) shown.push_back(&evidence);
  std::stable_sort(shown.begin(), shown.end(),
                   [](const Evidence* a, const Evidence* b) { return a->error > b->error; });
  for (std::size_t i = 0; i < std::min(shown.size(), kShownEvidence); ++i) {
    text +=
        fmt::format("    {:<10} {:<60} error {:<10} max {} / {}\n", shown[i]->port, Printable(shown[i]->name),
                    ErrorText(shown[i]->error), shown[i]->target, shown[i]->golden);
  }
  if (const std::string& line = found.called_from.empty() ? found.stack : found.called_from; !line.empty())
    text += fmt::format("    called from {:.160}\n", Printable(line));
}

std::string Quoted(std::string_view text) {
  std::string json;
  AppendJsonString(text, json, JsonText::kUtf8);
  return json;
}

std::string Number(double number) {
  std::string json;
  AppendJsonFloat(number, json, JsonFloat::kQuotedWords);
  return json;
}

// A list with a line for each object, indented by `indent`.
template <class T, class ObjectOf>
std::string ListOf(const std::vector<T>& items, std::size_t indent, const ObjectOf& object_of) {
  std::string json = "[";
  for (const T& item : items) {
    json += &item == items.data() ? "\n" : ",\n";
    json.append(indent, ' ') += object_of(item);
  }
  return json + ']';
}

std::string JsonOf(const DifferentArgument& argument) {
  return fmt::format(R"({{"name": {}, "npu": {}, "bench": {}}})", Quoted(argument.name),
                     Quoted(argument.target), Quoted(argument.golden));
}

std::string JsonOf(const Evidence& evidence) {
  return fmt::format(R"({{"name": {}, "state": {}, "error": {}, "npu_max": {}, "bench_max": {}}})",
                     Quoted(evidence.name), Quoted(evidence.port), Number(evidence.error),
                     Quoted(evidence.target), Quoted(evidence.golden));
}

std::string JsonOf(const RankOutcome& rank);
constexpr auto kJsonOf = [](const auto& item) { return JsonOf(item); };

std::string JsonOf(const Divergence& found) {
  return fmt::format(R"({{"record": {}, "reason": {}, "row": {}, "module": {}, "called_from": {}, "stack": {}, )"
                     R"("different_arguments": {}, "evidence": {}}})",
                     Quoted(found.record), Quoted(found.reason), found.row, Quoted(found.module), Quoted(found.called_from),
                     Quoted(found.stack), ListOf(found.arguments, 6, kJsonOf),
                     ListOf(found.evidence, 6, kJsonOf));
}

std::string JsonOf(const RankOutcome& rank) {
  return fmt::format(
      R"({{"rank": {}, "mode": {}, "rows": {}, "bench_rows": {}, "matched": {}, "unmatched": {}, )"
      R"("bench_unmatched": {}, "matched_by": {}, "coverage_percent": {:.4g}, "failing": {}, )"
      R"("bad_records": {}, "not_measured": {}, "torn": {},)"
      "\n    \"verdict\": {}, \"culprit\": {}}}",
      Quoted(rank.rank), Quoted(rank.mode), rank.num_target, rank.num_golden, rank.num_matched,
      rank.num_only_target(), rank.num_only_golden, Quoted(RuleOf(rank)), rank.coverage() * 100,
      rank.num_failed, rank.num_errors, rank.num_not_measured, rank.torn, Quoted(vernier::Name(rank.verdict)),
      rank.culprit ? JsonOf(*rank.culprit) : "null");
}

// What a row on the screen shows, of the columns that its table has.
struct ShownColumn {
  std::string_view heading;
  TableColumn::Cut cut = TableColumn::Cut::kNever;
};
constexpr ShownColumn kShownColumns[] = {
    {"Result"},
    {"Accuracy Reached or Not"},
    {"NPU Name", TableColumn::Cut::kMiddle},
    {"NPU Dtype"},
    {"NPU Tensor Shape"},
    {"Cosine"},
    {"MaxAbsErr"},
    {"MaxRelativeErr"},
    {"NormRelativeErr"},
    {"NPU max"},
    {"Bench max"},
    {"NPU MD5"},
    {"BENCH MD5"},
    {"Err_message", TableColumn::Cut::kEnd},
};

}  // namespace

std::string ShownRowsText(const RankResult& result, const CompareHooks::Screen& screen) {
  if (result.shown.empty()) return {};
  std::vector<TableColumn> columns;
  std::vector<std::size_t> places;
  for (const ShownColumn& column : kShownColumns) {
    const auto found = std::find(result.columns.begin(), result.columns.end(), column.heading);
    if (found == result.columns.end()) continue;
    columns.push_back({std::string(column.heading), column.cut});
    places.push_back(static_cast<std::size_t>(found - result.columns.begin()));
  }
  RowBlock rows(columns.size());
  for (const KeptRow& row : result.shown) {
    for (const std::size_t place : places) rows.cells.push_back(row.kept.cells()[place]);
    rows.colours.push_back(row.status == Status::kFail ? RowColour::kRed : RowColour::kNone);
  }
  return RankLabel(result.outcome) + (result.outcome.rank.empty() ? "" : "\n") +
         RenderTable(columns, rows, {screen.width, screen.colour, 0}) + '\n';
}

std::string NextCommand(const CompareOutcome& outcome) {
  for (const RankOutcome& rank : outcome.ranks) {
    if (!rank.culprit) continue;
    const Divergence& found = *rank.culprit;
    const auto folder = [](const std::string& json) {
      return (std::filesystem::path(json).parent_path() / "dump_tensor_data").string();
    };
    if (rank.mode == Name(Mode::kReal) && !found.target_file.empty()) {
      return fmt::format("vernier compare {}/{} {}/{}", folder(rank.target), Printable(found.target_file),
                         folder(rank.golden), Printable(found.golden_file));
    }
    return fmt::format("dump {} again on both sides with task \"tensor\" and list [\"{}\"], then compare",
                       Printable(found.record), Printable(found.record));
  }
  return {};
}

int ExitStatus(const CompareOutcome& outcome, bool strict) {
  bool diverged = !outcome.first_differences.empty(), unknown = outcome.num_skipped_ranks > 0 || outcome.ranks.empty();
  for (const RankOutcome& rank : outcome.ranks) {
    diverged = diverged || rank.verdict == RunVerdict::kDiverged;
    unknown = unknown || rank.verdict == RunVerdict::kUnknown;
    if (strict) diverged = diverged || rank.num_failed + rank.num_only_target() + rank.num_only_golden > 0;
  }
  return diverged ? 1 : unknown ? 2 : 0;
}

std::string RankText(const RankOutcome& outcome) {
  std::string text;
  AppendRank(outcome, text);
  return text;
}

std::string VerdictText(const CompareOutcome& outcome) {
  std::string text;
  // Ranks with something to say come first, in their order.
  std::vector<const RankOutcome*> ranks;
  for (const RankOutcome& rank : outcome.ranks) ranks.push_back(&rank);
  std::stable_sort(ranks.begin(), ranks.end(), [](const RankOutcome* a, const RankOutcome* b) {
    return a->culprit.has_value() > b->culprit.has_value();
  });
  for (std::size_t i = 0; i < std::min(ranks.size(), kShownRanks); ++i) AppendRank(*ranks[i], text);
  if (ranks.size() > kShownRanks)
    text += fmt::format("… and {} more ranks; see the file …_summary.json\n", ranks.size() - kShownRanks);
  for (const std::string& difference : outcome.first_differences)
    text += fmt::format("first difference over all ranks: {}\n", difference);
  if (outcome.num_skipped_ranks > 0)
    text += fmt::format("{} ranks were skipped; see the log above\n", outcome.num_skipped_ranks);
  if (!outcome.next.empty()) text += "next: " + outcome.next + '\n';
  return text;
}

std::string VerdictJson(const CompareOutcome& outcome, Generation generation) {
  return fmt::format(
      "{{\n  \"profile\": {},\n  \"status\": {},\n  \"skipped_ranks\": {},\n  \"next\": {},\n  "
      "\"ranks\": {}\n}}\n",
      Quoted(ProfileOf(generation).name), outcome.status, outcome.num_skipped_ranks, Quoted(outcome.next),
      ListOf(outcome.ranks, 3, kJsonOf));
}

}  // namespace vernier::msprobe

// summary.json: what was found, for programs that read it.
#include <fmt/format.h>

#include "core/atomic_file.h"
#include "core/json_writer.h"
#include "profiles/verdict_screen.h"

namespace vernier {
namespace {

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

// A list with a line for each item, indented by `indent`; 0: in one line.
template <class List, class JsonOf>
std::string ListOf(const List& items, std::size_t indent, const JsonOf& json_of) {
  std::string json = "[";
  bool first = true;
  for (const auto& item : items) {
    json += indent > 0 ? (first ? "\n" : ",\n") : (first ? "" : ", ");
    json.append(indent, ' ') += json_of(item);
    first = false;
  }
  return json + ']';
}

constexpr auto kQuoted = [](const std::string& text) { return Quoted(text); };

std::string JsonOf(const RankOutcome& rank);

std::string JsonOf(const Outside& outside) {
  return fmt::format(
      R"({{"what": {}, "name": {}, "parameter": {}, "npu": {}, "bench": {}, "where": {}, "error": {}}})",
      Quoted(outside.what), Quoted(outside.name), Quoted(outside.parameter), Quoted(outside.target),
      Quoted(outside.golden), Quoted(outside.where), Number(outside.error));
}

std::string JsonOf(const Evidence& evidence) {
  return fmt::format(R"({{"name": {}, "state": {}, "error": {}, "npu_max": {}, "bench_max": {}}})",
                     Quoted(evidence.name), Quoted(evidence.port), Number(evidence.error),
                     Quoted(evidence.target), Quoted(evidence.golden));
}
constexpr auto kJsonOf = [](const auto& item) { return JsonOf(item); };

std::string JsonOf(const Culprit& found) {
  return fmt::format(
      R"({{"record": {}, "reason": {}, "why": {}, "call": {}, "pass": {}, "row": {}, "module": {}, )"
      R"("called_from": {}, "stack": {},)"
      "\n      \"input_error\": {}, \"output_error\": {}, \"usual_error\": {}, \"worst\": {},"
      "\n      \"different_arguments\": {}, \"evidence\": {}}}",
      Quoted(found.record), Quoted(found.reason), Quoted(found.why), Quoted(found.call), Quoted(found.pass),
      found.row, Quoted(found.module), Quoted(found.called_from), Quoted(found.stack), Number(found.given),
      Number(found.made), Number(found.usual), Quoted(found.worst), ListOf(found.arguments, 6, kJsonOf),
      ListOf(found.evidence, 6, kJsonOf));
}

std::string Counts(const std::vector<std::pair<std::string, std::uint64_t>>& counts) {
  std::string json = "{";
  for (const auto& [name, count] : counts)
    json += fmt::format("{}{}: {}", json.size() > 1 ? ", " : "", Quoted(name), count);
  return json + '}';
}

std::string RuleOf(const RankOutcome& rank) {
  std::string rules;
  for (const auto& [rule, count] : rank.num_matched_by) rules += (rules.empty() ? "" : ", ") + rule;
  return rules;
}

std::string JsonOf(const RankOutcome& rank) {
  return fmt::format(
      R"({{"rank": {}, "verdict": {}, "mode": {}, "rows": {}, "bench_rows": {}, "matched": {}, "unmatched": {}, )"
      R"("bench_unmatched": {}, "matched_by": {}, "coverage_percent": {:.4g}, "failing": {}, )"
      R"("bad_records": {}, "not_measured": {}, "torn": {},)"
      "\n    \"doubts\": {}, \"victim_of\": {}, \"worst_error\": {}, \"worst_record\": {},"
      "\n    \"calls\": {}, \"calls_unmatched\": {}, \"calls_paired_by\": {}, \"renames\": {}, \"pairs\": {},"
      "\n    \"num_outside\": {}, \"outside\": {},"
      "\n    \"errors_along\": {},\n    \"culprit\": {}}}",
      Quoted(rank.rank), Quoted(Name(rank.verdict)), Quoted(rank.mode), rank.num_target, rank.num_golden,
      rank.num_matched, rank.num_only_target(), rank.num_only_golden, Quoted(RuleOf(rank)),
      rank.coverage() * 100, rank.num_failed, rank.num_errors, rank.num_not_measured, rank.torn,
      ListOf(rank.doubts, 0, kQuoted), Quoted(rank.victim_of), Number(rank.worst_error),
      Quoted(rank.worst_record), rank.num_calls, rank.num_alone, Counts(rank.num_calls_paired_by),
      ListOf(rank.renames, 0,
             [](const auto& names) {
               return fmt::format("[{}, {}]", Quoted(names.first), Quoted(names.second));
             }),
      ListOf(rank.pairs, 6,
             [](const CallPair& pair) {
               return fmt::format(R"({{"npu": {}, "bench": {}, "how": {}}})", Quoted(pair.target),
                                  Quoted(pair.golden), Quoted(pair.how));
             }),
      Counts(rank.num_outside), ListOf(rank.outside, 6, kJsonOf),
      ListOf(
          rank.errors_along, 0,
          [](const auto& part) { return fmt::format("[{}, {}]", Quoted(part.first), Number(part.second)); }),
      rank.culprit ? JsonOf(*rank.culprit) : "null");
}

}  // namespace

std::string SummaryJson(const CompareOutcome& outcome, std::string_view profile) {
  return fmt::format(
      "{{\n  \"profile\": {},\n  \"verdict\": {},\n  \"status\": {},\n  \"skipped_ranks\": {},\n  "
      "\"doubts\": "
      "{},\n  \"next\": {},\n  "
      "\"ranks\": {}\n}}\n",
      Quoted(profile), Quoted(Name(outcome.verdict)), outcome.status, outcome.num_skipped_ranks,
      ListOf(outcome.doubts, 0, kQuoted), ListOf(outcome.next, 0, kQuoted),
      ListOf(outcome.ranks, 3, kJsonOf));
}

Result<Done> WriteSummary(const std::filesystem::path& folder, std::string_view stamp,
                          std::string_view profile, CompareOutcome& outcome) {
  const std::filesystem::path path = folder / fmt::format("compare_result_{}_summary.json", stamp);
  VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  VN_RETURN_IF_ERROR(file.Write(SummaryJson(outcome, profile)));
  VN_RETURN_IF_ERROR(file.Commit());
  outcome.written.push_back(path.string());
  return Done{};
}

}  // namespace vernier

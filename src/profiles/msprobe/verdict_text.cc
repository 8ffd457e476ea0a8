#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/text.h"
#include "profiles/msprobe/run.h"
#include "profiles/msprobe/table.h"

namespace vernier::msprobe {
namespace {

constexpr std::size_t kShownRanks = 4, kShownEvidence = 4, kShownGrowth = 3;

std::string_view ModeName(Mode mode) {
  static constexpr std::string_view kNames[] = {"real data", "statistics", "MD5"};
  return kNames[static_cast<std::size_t>(mode)];
}

std::string ErrorText(double error) { return std::isinf(error) ? "different" : fmt::format("{:.3g}", error); }

std::string RankLabel(const RankSummary& rank) { return rank.rank.empty() ? "" : rank.rank + ": "; }

// The command that looks closer at what was found first.
std::string NextCommand(const RunOutcome& outcome, const Settings& settings) {
  for (const RankSummary& rank : outcome.ranks) {
    if (!rank.first_divergence) continue;
    const Divergence& found = *rank.first_divergence;
    const auto folder = [&](const std::filesystem::path& path) {
      const std::filesystem::path base =
          std::filesystem::is_directory(path) ? path / rank.rank : path.parent_path();
      return (base / "dump_tensor_data").string();
    };
    if (rank.mode == Mode::kReal && !found.npu_file.empty()) {
      return fmt::format("vernier compare {}/{} {}/{}", folder(settings.npu_path), Printable(found.npu_file),
                         folder(settings.bench_path), Printable(found.bench_file));
    }
    return fmt::format("dump {} again on both sides with task \"tensor\" and list [\"{}\"], then compare",
                       Printable(found.api), Printable(found.api));
  }
  return {};
}

void AppendRank(const RankSummary& rank, std::string& text) {
  text += fmt::format(
      "{}{} of {} rows compared by {} ({:.1f} %, {}), {} unmatched, {} failing; {} of {} bench rows have no "
      "partner\n",
      RankLabel(rank), rank.num_matched, rank.num_rows, Name(rank.rule), rank.coverage() * 100,
      ModeName(rank.mode), rank.num_rows - rank.num_matched, rank.num_failing, rank.num_bench_unmatched,
      rank.num_bench_rows);
  if (rank.num_bad_records > 0) text += fmt::format("  {} records could not be read\n", rank.num_bad_records);
  if (rank.torn) text += "  a dump ends in the middle: only the records before that were compared\n";
  if (rank.num_not_measured > 0)
    text += fmt::format("  {} matched rows could not be measured: a file is missing, damaged or different\n",
                        rank.num_not_measured);
  if (!rank.first_divergence) {
    text += "  no record whose inputs agree and whose outputs do not\n";
    return;
  }
  const Divergence& found = *rank.first_divergence;
  text += fmt::format("  first divergence: {} (data row {})\n", Printable(found.api), found.line);
  if (!found.module.empty() && found.module != found.api)
    text += fmt::format("    in         {}\n", Printable(found.module));
  for (std::size_t i = 0; i < std::min(found.arguments.size(), kShownEvidence); ++i) {
    text += fmt::format("    argument   {:<60} differs: {} / {}\n", Printable(found.arguments[i].name),
                        found.arguments[i].npu, found.arguments[i].bench);
  }
  // Outputs first: they are what went wrong.
  std::vector<const Evidence*> shown;
  for (const Evidence& evidence : found.evidence) shown.push_back(&evidence);
  std::stable_sort(shown.begin(), shown.end(),
                   [](const Evidence* a, const Evidence* b) { return a->error > b->error; });
  for (std::size_t i = 0; i < std::min(shown.size(), kShownEvidence); ++i) {
    text += fmt::format("    {:<10} {:<60} error {:<10} max {} / {}\n", Name(shown[i]->state),
                        Printable(shown[i]->name), ErrorText(shown[i]->error), shown[i]->npu_max,
                        shown[i]->bench_max);
  }
  if (const std::string& line = found.user_line.empty() ? found.stack_line : found.user_line; !line.empty())
    text += fmt::format("    called from {:.160}\n", Printable(line));
  if (rank.num_growth > 0) {
    text += fmt::format("  error grows more than 10 times in {} records:", rank.num_growth);
    for (std::size_t i = 0; i < std::min(rank.growth.size(), kShownGrowth); ++i) {
      text += fmt::format("{} {} ({} -> {})", i == 0 ? "" : ",", Printable(rank.growth[i].api),
                          ErrorText(rank.growth[i].input_error), ErrorText(rank.growth[i].output_error));
    }
    text += rank.num_growth > kShownGrowth ? ", …\n" : "\n";
  }
}

void AppendMember(std::string_view key, std::string_view text, std::string& json) {
  json += fmt::format("\"{}\": ", key);
  AppendJsonText(text, json);
}

void AppendDivergence(const Divergence& found, std::string& json) {
  json += "{";
  AppendMember("record", found.api, json);
  json += fmt::format(", \"row\": {}, ", found.line);
  AppendMember("module", found.module, json);
  json += ", ";
  AppendMember("called_from", found.user_line, json);
  json += ", ";
  AppendMember("stack", found.stack_line, json);
  json += ", \"different_arguments\": [";
  for (std::size_t i = 0; i < found.arguments.size(); ++i) {
    json += i == 0 ? "\n      {" : ",\n      {";
    AppendMember("name", found.arguments[i].name, json);
    json += ", ";
    AppendMember("npu", found.arguments[i].npu, json);
    json += ", ";
    AppendMember("bench", found.arguments[i].bench, json);
    json += '}';
  }
  json += "], \"evidence\": [";
  for (std::size_t i = 0; i < found.evidence.size(); ++i) {
    const Evidence& evidence = found.evidence[i];
    json += i == 0 ? "\n      {" : ",\n      {";
    AppendMember("name", evidence.name, json);
    json += ", ";
    AppendMember("state", Name(evidence.state), json);
    json += ", \"error\": ";
    AppendJsonNumber(evidence.error, false, json);
    json += ", ";
    AppendMember("npu_max", evidence.npu_max, json);
    json += ", ";
    AppendMember("bench_max", evidence.bench_max, json);
    json += '}';
  }
  json += "]}";
}

}  // namespace

int ExitStatus(const RunOutcome& outcome) {
  std::uint64_t num_matched = 0, num_failing = 0, num_unsure = outcome.num_skipped_ranks;
  for (const RankSummary& rank : outcome.ranks) {
    num_matched += rank.num_matched;
    num_failing += rank.num_failing;
    num_unsure += rank.num_bad_records + rank.num_not_measured + (rank.torn ? 1 : 0);
  }
  if (num_failing > 0 || !outcome.first_differences.empty()) return 1;
  return num_matched == 0 || num_unsure > 0 ? 2 : 0;
}

std::string VerdictText(const RunOutcome& outcome, const Settings& settings) {
  std::string text;
  // Ranks with something to say come first, in their order.
  std::vector<const RankSummary*> ranks;
  for (const RankSummary& rank : outcome.ranks) ranks.push_back(&rank);
  std::stable_sort(ranks.begin(), ranks.end(), [](const RankSummary* a, const RankSummary* b) {
    return a->first_divergence.has_value() > b->first_divergence.has_value();
  });
  for (std::size_t i = 0; i < std::min(ranks.size(), kShownRanks); ++i) AppendRank(*ranks[i], text);
  if (ranks.size() > kShownRanks)
    text += fmt::format("… and {} more ranks; see summary.json\n", ranks.size() - kShownRanks);
  for (const std::string& difference : outcome.first_differences)
    text += fmt::format("first difference over all ranks: {}\n", difference);
  if (outcome.num_skipped_ranks > 0)
    text += fmt::format("{} ranks were skipped; see the log above\n", outcome.num_skipped_ranks);
  if (const std::string next = NextCommand(outcome, settings); !next.empty()) text += "next: " + next + '\n';
  return text;
}

std::string VerdictJson(const RunOutcome& outcome, const Settings& settings) {
  std::string json = "{\n  ";
  AppendMember("profile", ProfileOf(settings.generation).name, json);
  json += fmt::format(",\n  \"status\": {},\n  \"skipped_ranks\": {},\n  ", ExitStatus(outcome),
                      outcome.num_skipped_ranks);
  AppendMember("next", NextCommand(outcome, settings), json);
  json += ",\n  \"ranks\": [";
  for (std::size_t i = 0; i < outcome.ranks.size(); ++i) {
    const RankSummary& rank = outcome.ranks[i];
    json += i == 0 ? "\n   {" : ",\n   {";
    AppendMember("rank", rank.rank, json);
    json += ", ";
    AppendMember("mode", ModeName(rank.mode), json);
    json += fmt::format(
        ", \"rows\": {}, \"bench_rows\": {}, \"matched\": {}, \"unmatched\": {}, \"bench_unmatched\": {}, ",
        rank.num_rows, rank.num_bench_rows, rank.num_matched, rank.num_rows - rank.num_matched,
        rank.num_bench_unmatched);
    AppendMember("matched_by", Name(rank.rule), json);
    json += fmt::format(
        ", \"coverage_percent\": {:.4g}, \"failing\": {}, \"bad_records\": {}, \"not_measured\": {}, "
        "\"torn\": {},\n    \"first_divergence\": ",
        rank.coverage() * 100, rank.num_failing, rank.num_bad_records, rank.num_not_measured, rank.torn);
    if (rank.first_divergence) {
      AppendDivergence(*rank.first_divergence, json);
    } else {
      json += "null";
    }
    json += fmt::format(",\n    \"num_growth\": {}, \"growth\": [", rank.num_growth);
    for (std::size_t g = 0; g < rank.growth.size(); ++g) {
      json += g == 0 ? "\n      {" : ",\n      {";
      AppendMember("record", rank.growth[g].api, json);
      json += ", \"input_error\": ";
      AppendJsonNumber(rank.growth[g].input_error, false, json);
      json += ", \"output_error\": ";
      AppendJsonNumber(rank.growth[g].output_error, false, json);
      json += '}';
    }
    json += "]}";
  }
  json += "]\n}\n";
  return json;
}

}  // namespace vernier::msprobe

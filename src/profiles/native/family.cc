// The family of plain tensors: what is asked for -> dumps, pairs, rows, a screen.
#include <filesystem>

#include "core/text.h"
#include "profiles/native/native.h"
#include "profiles/output_files.h"
#include "read/name_mapping.h"

namespace vernier::native {
namespace {

constexpr std::size_t kShownRows = 20;

Result<MatchOptions> MatchOptionsOf(const CompareRequest& request) {
  MatchOptions match;
  match.mode = request.match;
  match.renames = request.renames;
  if (!request.mapping.empty()) {
    VN_ASSIGN_OR_RETURN(match.mapping, ReadNameMapping(request.mapping));
  }
  return match;
}

std::string DefaultName(const CompareRequest& request) {
  return "compare_result_" + TimestampNow() + "." + (request.format.empty() ? "csv" : request.format);
}

Result<ResultReports> CreateReports(const CompareRequest& request, bool quiet) {
  ResultReports::Options options;
  for (const Column& column : Columns()) options.columns.push_back({std::string(column.key), column.good});
  for (const std::string& output : request.outputs) {
    const std::string path = IsFolderName(output, request.format)
                                 ? (std::filesystem::path(output) / DefaultName(request)).string()
                                 : output;
    VN_ASSIGN_OR_RETURN(OutputFile file, OutputFileOf(path, request.format));
    options.files.push_back(std::move(file));
  }
  options.select = {request.only, request.sort, quiet ? 0 : request.top.value_or(kShownRows)};
  options.num_threads = request.num_threads;
  return ResultReports::Create(std::move(options));
}

int StatusOf(const RankOutcome& outcome, bool strict) {
  if (strict && outcome.num_only_target() + outcome.num_only_golden > 0) return 1;
  if (outcome.num_failed > 0) return 1;
  return outcome.num_errors > 0 || outcome.num_passed == 0 ? 2 : 0;
}

}  // namespace

bool Recognises(const std::string& path) { return Dump::Open(path).has_value(); }

Result<CompareOutcome> Compare(const CompareRequest& request, const CompareHooks& hooks) {
  if (!request.options.empty()) {
    return Error{ErrorCode::kBadArgument, request.options.begin()->first, "not an option for tensor files"};
  }
  const ReadOptions read{request.num_threads};
  VN_ASSIGN_OR_RETURN(const Dump target, Dump::Open(request.target, read));
  VN_ASSIGN_OR_RETURN(const Dump golden, Dump::Open(request.golden, read));
  VN_ASSIGN_OR_RETURN(ResultReports reports, CreateReports(request, hooks.screen.quiet));
  VN_ASSIGN_OR_RETURN(const MatchOptions match, MatchOptionsOf(request));
  VN_ASSIGN_OR_RETURN(const Pairing pairing, PairDumps(target, golden, match));
  ScreenContent content;
  VN_ASSIGN_OR_RETURN(content.outcome,
                      CompareDumps(target, golden, pairing, request, hooks, reports, content.first_bad));
  content.num_rows = reports.num_rows();
  VN_ASSIGN_OR_RETURN(content.rows, reports.Finish());
  if (hooks.screen.quiet) content.first_bad.clear();
  CompareOutcome outcome;
  for (const std::filesystem::path& path : reports.paths()) {
    if (!IsStandardOutput(path.string())) outcome.written.push_back(path.string());
  }
  outcome.text = ScreenText(content, hooks.screen.width, hooks.screen.colour);
  outcome.status = StatusOf(content.outcome, request.strict);
  outcome.ranks.push_back(std::move(content.outcome));
  return outcome;
}

}  // namespace vernier::native

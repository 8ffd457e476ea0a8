// The family of plain tensors: what is asked for -> dumps, pairs, rows, a screen.
#include <filesystem>

#include "core/text.h"
#include "profiles/native/native.h"
#include "profiles/output_files.h"
#include "profiles/verdict_screen.h"
#include "read/name_mapping.h"

namespace vernier::native {
namespace {

constexpr std::size_t kShownRows = 20;

Result<MatchOptions> MatchOptionsOf(const CompareRequest& request) {
  MatchOptions match;
  match.mode = request.match.value_or(MatchMode::kExact);
  match.renames = request.renames;
  if (!request.mapping.empty()) {
    VN_ASSIGN_OR_RETURN(match.mapping, ReadNameMapping(request.mapping));
  }
  return match;
}

void WarnOfUnknownNames(const MatchOptions& match, const Dump& target, const Dump& golden,
                        const CompareHooks& hooks) {
  if (match.mapping.empty() || !hooks.on_log) return;
  const auto names = [](const Dump& dump) {
    std::unordered_set<std::string> all;
    for (const TensorInfo& tensor : dump.tensors()) all.insert(tensor.name);
    return all;
  };
  const std::string warning = UnknownNames(match.mapping, names(target), names(golden));
  if (!warning.empty()) hooks.on_log(LogLevel::kWarning, warning);
}

Result<ResultReports> CreateReports(const CompareRequest& request, std::vector<OutputFile> files,
                                    bool quiet) {
  ResultReports::Options options;
  for (const Column& column : Columns()) options.columns.push_back({std::string(column.key), column.good});
  options.files = std::move(files);
  options.select = {request.only, request.sort, quiet ? 0 : request.top.value_or(kShownRows)};
  options.num_threads = request.num_threads;
  return ResultReports::Create(std::move(options));
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
  VN_ASSIGN_OR_RETURN(ReportPlaces places, ReportPlacesOf(request));
  VN_ASSIGN_OR_RETURN(ResultReports reports,
                      CreateReports(request, std::move(places.files), hooks.screen.quiet));
  VN_ASSIGN_OR_RETURN(const MatchOptions match, MatchOptionsOf(request));
  WarnOfUnknownNames(match, target, golden, hooks);
  VN_ASSIGN_OR_RETURN(const Pairing pairing, PairDumps(target, golden, match));
  ScreenContent content;
  WorstPairPicker worst;
  VN_ASSIGN_OR_RETURN(content.outcome, CompareDumps(target, golden, pairing, request, hooks, reports,
                                                    content.first_bad, worst));
  content.num_rows = reports.num_rows();
  reports.SetFrontPage(VerdictText(content, /*colour=*/false));
  VN_ASSIGN_OR_RETURN(content.rows, reports.Finish());
  if (hooks.screen.quiet) content.first_bad.clear();
  CompareOutcome outcome;
  for (const std::filesystem::path& path : reports.paths()) {
    if (!IsStandardOutput(path.string())) outcome.written.push_back(path.string());
  }
  outcome.text = ScreenText(content, hooks.screen.width, hooks.screen.colour);
  if (request.worst > 0) {
    std::vector<PairToLookAt> pairs;
    for (const std::size_t i : worst.Picked()) {
      const Pair& pair = pairing.pairs[i];
      const std::string& name = target.tensors()[pair.target].name;
      pairs.push_back(
          {name, name, golden.tensors()[pair.golden].name, [&] { return LoadPairOf(target, golden, pair); }});
    }
    std::string text;
    VN_RETURN_IF_ERROR(LookAtElements(pairs, request, hooks, content.outcome, text));
    if (!hooks.screen.quiet) outcome.text += text;
  }
  outcome.ranks.push_back(std::move(content.outcome));
  outcome.verdict = VerdictOf(outcome);
  outcome.status = StatusOf(outcome, request.strict);
  for (const auto& [folder, stamp] : places.folders)
    VN_RETURN_IF_ERROR(WriteSummary(folder, stamp.text(), "native", outcome));
  return outcome;
}

}  // namespace vernier::native

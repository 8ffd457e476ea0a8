#include "profiles/torchair/family.h"

#include <algorithm>
#include <iterator>

#include "core/paths.h"
#include "core/text.h"
#include "profiles/family_options.h"
#include "profiles/output_files.h"
#include "profiles/torchair/columns.h"
#include "profiles/torchair/run.h"
#include "profiles/torchair/tree.h"

namespace vernier::torchair {
namespace {

template <bool Settings::*kMember>
Result<Done> TakeBool(const std::string& name, const std::string& text, Settings& settings) {
  VN_ASSIGN_OR_RETURN(settings.*kMember, BoolOf(name, text));
  return Done{};
}

Result<Done> TakeRank(const std::string& name, const std::string& text, Settings& settings) {
  settings.rank = NumberOf(text);
  if (settings.rank) return Done{};
  return Error{ErrorCode::kBadArgument, name + " " + text, "expected the number of one rank"};
}

Result<Done> TakeFolder(const std::string&, const std::string& text, Settings& settings) {
  settings.output_folder = text;
  return Done{};
}

// clang-format off
constexpr OptionRow<Settings> kOptions[] = {
    {{"rank",          "compare only this rank"},                                           TakeRank},
    {{"md5",           "true: compare checksums of two GE dumps instead of values"},        TakeBool<&Settings::digests>},
    {{"highlight",     "true: mark rows in colour (xlsx)"},                                 TakeBool<&Settings::highlight>},
    {{"output_folder", "folder for the results, whatever its name"},                        TakeFolder},
    {{"as_msprobe",    "true: a rank that cannot be compared ends the run"},                TakeBool<&Settings::as_msprobe>},
};
// clang-format on

Result<Settings> SettingsOf(const CompareRequest& request, const CompareHooks& hooks) {
  Settings settings;
  settings.target = request.target;
  settings.golden = request.golden;
  VN_RETURN_IF_ERROR(TakeFamilyOptions(request.options, kOptions, "dumps of graph mode", settings));
  VN_ASSIGN_OR_RETURN(settings.rules, Rules::VerdictWith(request.rules));
  if (request.rtol >= 0 || request.atol >= 0 || request.check_dtype) {
    return Error{ErrorCode::kBadArgument, "--rtol, --atol, --check-dtype",
                 "dumps of graph mode are judged by Cosine >= 0.99 and MaxRelativeErr < 0.01"};
  }
  if (request.match.value_or(MatchMode::kExact) != MatchMode::kExact || !request.renames.empty() ||
      !request.mapping.empty()) {
    return Error{ErrorCode::kBadArgument, "--match, --rename, --mapping",
                 "dumps of graph mode are matched by their graph"};
  }
  if (!request.format.empty()) {
    VN_ASSIGN_OR_RETURN(settings.format, ParseFormat(request.format));
  }
  for (const std::string& output : request.outputs) {
    if (IsFolderName(output, "")) {
      if (!settings.output_folder.empty())
        return Error{ErrorCode::kBadArgument, "--output " + output, "only one folder can be given"};
      settings.output_folder = output;
      continue;
    }
    VN_ASSIGN_OR_RETURN(OutputFile file, OutputFileOf(output, request.format));
    settings.outputs.push_back(std::move(file));
  }
  settings.select = {request.only, request.sort, hooks.screen.quiet ? 0 : request.top.value_or(0)};
  settings.strict = request.strict;
  settings.num_threads = request.num_threads;
  return settings;
}

}  // namespace

bool Recognises(const std::string& path) { return HoldsGraph(path); }

Result<CompareOutcome> Compare(const CompareRequest& request, const CompareHooks& hooks) {
  VN_ASSIGN_OR_RETURN(const Settings settings, SettingsOf(request, hooks));
  return Run(settings, hooks);
}

std::span<const FamilyOption> Options() {
  static const std::vector<FamilyOption> options = OptionsOf(kOptions);
  return options;
}

std::vector<FamilyColumn> ColumnsHelp() {
  std::vector<FamilyColumn> all;
  for (const Mode mode : {Mode::kReal, Mode::kShrunk, Mode::kDigest}) {
    for (const Column& column : ColumnsOf(mode)) {
      const auto same = [&](const FamilyColumn& known) { return known.key == column.key; };
      if (std::none_of(all.begin(), all.end(), same))
        all.push_back({std::string(column.key), std::string(column.help)});
    }
  }
  return all;
}

Result<std::vector<CompareRequest>> SplitByRank(const CompareRequest& request) {
  std::vector<CompareRequest> requests;
  if (!request.options.contains("rank") && IsFolder(request.target)) {
    for (const auto& [rank, folder] : RankFolders(Tree(request.target)))
      requests.emplace_back(request).options["rank"] = std::to_string(rank);
  }
  if (requests.empty()) requests.push_back(request);
  return requests;
}

}  // namespace vernier::torchair

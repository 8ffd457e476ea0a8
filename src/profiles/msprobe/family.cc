#include "profiles/msprobe/family.h"

#include <algorithm>
#include <iterator>

#include "core/text.h"
#include "profiles/family_options.h"
#include "profiles/msprobe/columns.h"
#include "profiles/msprobe/run.h"
#include "profiles/msprobe/tree.h"
#include "profiles/output_files.h"

namespace vernier::msprobe {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kGenerations[] = {"classic", "current"};  // in the order of Generation
template <bool Settings::*kMember>
Result<Done> TakeBool(const std::string& name, const std::string& text, Settings& settings) {
  VN_ASSIGN_OR_RETURN(settings.*kMember, BoolOf(name, text));
  return Done{};
}

Result<Done> TakeGeneration(const std::string& name, const std::string& text, Settings& settings) {
  VN_ASSIGN_OR_RETURN(const std::size_t choice, Choose(name, text, kGenerations));
  settings.generation = static_cast<Generation>(choice);
  return Done{};
}

Result<Done> TakeStackPath(const std::string&, const std::string& text, Settings& settings) {
  settings.stack_path = text;
  return Done{};
}

Result<Done> TakeCellMapping(const std::string&, const std::string& text, Settings& settings) {
  settings.cell_mapping = true;
  if (!text.empty()) settings.cell_mapping_path = text;
  return Done{};
}

Result<Done> TakeFolder(const std::string&, const std::string& text, Settings& settings) {
  settings.output_path = text;
  return Done{};
}

// clang-format off
constexpr OptionRow<Settings> kOptions[] = {
    {{"generation",       "current or classic: which of msprobe's two reports is written"},    TakeGeneration},
    {{"output_folder",    "folder for the results, whatever its name"},                        TakeFolder},
    {{"stack_path",       "stack.json to show (classic)"},                                     TakeStackPath},
    {{"stack_mode",       "true: show call stacks of stack_path (classic)"},                   TakeBool<&Settings::show_given_stack>},
    {{"advise",           "false: no advisor file (classic)"},                                 TakeBool<&Settings::advise>},
    {{"highlight",        "true: mark suspicious rows in colour (classic)"},                   TakeBool<&Settings::highlight>},
    {{"diff_analyze",     "true: search the first difference over all ranks"},                 TakeBool<&Settings::diff_analyze>},
    {{"cell_mapping",     "yaml: module path -> module path; empty: Cell is Module"},          TakeCellMapping},
    {{"log_rows",         "true: two log lines for each row of real data"},                    TakeBool<&Settings::log_rows>},
    {{"as_msprobe",       "true: refuse what msprobe refuses, such as a torn recording"},      TakeBool<&Settings::as_msprobe>},
};
// clang-format on

Result<Done> TakeOutputs(const CompareRequest& request, Settings& settings) {
  for (const std::string& output : request.outputs) {
    if (IsFolderName(output, "")) {
      if (!settings.output_path.empty())
        return Error{ErrorCode::kBadArgument, "--output " + output, "only one folder can be given"};
      settings.output_path = output;
      continue;
    }
    VN_ASSIGN_OR_RETURN(OutputFile file, OutputFileOf(output, request.format));
    settings.outputs.push_back(std::move(file));
  }
  if (!request.format.empty()) {
    VN_ASSIGN_OR_RETURN(settings.format, ParseFormat(request.format));
  }
  return Done{};
}

}  // namespace

bool Recognises(const std::string& path) { return HoldsRecordings(path); }

std::span<const FamilyOption> Options() {
  static const std::vector<FamilyOption> options = OptionsOf(kOptions);
  return options;
}

std::vector<FamilyColumn> ColumnsHelp() {
  std::vector<FamilyColumn> all;
  for (const Mode mode : {Mode::kReal, Mode::kStatistics, Mode::kMd5}) {
    for (const Column& column : ColumnsOf(Generation::kCurrent, mode, true, false, true)) {
      const auto same = [&](const FamilyColumn& known) { return known.key == column.heading; };
      if (std::none_of(all.begin(), all.end(), same))
        all.push_back({std::string(column.heading), std::string(column.help)});
    }
  }
  return all;
}

Result<Settings> SettingsOf(const CompareRequest& request, const CompareHooks& hooks) {
  Settings settings;
  settings.generation = Generation::kCurrent;
  VN_RETURN_IF_ERROR(TakeFamilyOptions(request.options, kOptions, "recordings", settings));
  if (request.rtol >= 0 || request.atol >= 0 || request.check_dtype) {
    return Error{ErrorCode::kBadArgument, "--rtol, --atol, --check-dtype",
                 "recordings are judged by the thresholds of --rules"};
  }
  settings.npu_path = request.target;
  settings.bench_path = request.golden;
  settings.match = request.match.value_or(MatchMode::kExact);
  VN_RETURN_IF_ERROR(CheckRenames(request.renames));
  settings.renames = request.renames;
  if (!request.mapping.empty()) settings.data_mapping_path = request.mapping;
  settings.format = settings.generation == Generation::kClassic ? ReportFormat::kXlsx : ReportFormat::kCsv;
  VN_RETURN_IF_ERROR(TakeOutputs(request, settings));
  settings.select = {request.only, request.sort, hooks.screen.quiet ? 0 : request.top.value_or(0)};
  settings.strict = request.strict;
  settings.rules_path = request.rules;
  settings.num_threads = request.num_threads;
  settings.hooks = hooks;
  return settings;
}

Result<CompareOutcome> Compare(const CompareRequest& request, const CompareHooks& hooks) {
  VN_ASSIGN_OR_RETURN(Settings settings, SettingsOf(request, hooks));
  return RunCompare(std::move(settings));
}

Result<Listing> List(const std::string& path) {
  Listing listing;
  listing.columns = {"rank", "name", "dtype", "shape", "max", "min", "mean", "norm", "checksum", "file"};
  for (const fs::path& file : RecordingsUnder(path)) {
    DumpOptions options;
    options.kind = file.filename() == "debug.json" ? DumpKind::kDebug : DumpKind::kDump;
    options.check_values = false;
    VN_ASSIGN_OR_RETURN(const Dump dump, Dump::Open(file, options));
    const std::string rank = fs::path(file).lexically_relative(path).parent_path().string();
    for (std::size_t i = 0; i < dump.rows().size(); ++i) {
      TextArena arena;
      const Leaf leaf = dump.Read(dump.rows()[i], arena);
      const std::string name = dump.NameOf(i);
      const bool has_file = leaf.data_name != "-1" && leaf.data_name != "N/A";
      const Cell cells[] = {rank.empty() || rank == "." ? Cell() : Cell(rank),
                            name,
                            leaf.dtype,
                            leaf.shape,
                            leaf.statistics[0],
                            leaf.statistics[1],
                            leaf.statistics[2],
                            leaf.statistics[3],
                            dump.has_md5() ? Cell(leaf.md5) : Cell(),
                            has_file ? Cell(leaf.data_name) : Cell()};
      listing.rows.emplace_back(cells);
    }
  }
  return listing;
}

Result<std::vector<CompareRequest>> SplitByRank(const CompareRequest& request) {
  std::vector<CompareRequest> requests;
  Log silent([](LogLevel, std::string_view) {});
  VN_ASSIGN_OR_RETURN(const Settings settings, SettingsOf(request, {}));
  std::vector<std::string> lone;  // whoever compares the parts has asked for them alone
  std::vector<StepPair> steps =
      StepsUnder(settings.npu_path, settings.bench_path, settings.output_path, settings.as_msprobe, lone);
  if (steps.empty()) steps.push_back({settings.npu_path, settings.bench_path, settings.output_path, ""});
  for (const StepPair& step : steps) {
    Outcome<StepPlan> plan = PlanStep(step, settings.generation, settings.as_msprobe, silent);
    if (!plan) return std::move(plan).error().error;
    for (const RankJob& job : plan->jobs) {
      CompareRequest& one = requests.emplace_back(request);
      one.target = job.npu_json;
      one.golden = job.bench_json;
      one.outputs.clear();
      if (!job.output.empty()) one.outputs.push_back((job.output / job.label / "").string());
    }
  }
  return requests;
}

}  // namespace vernier::msprobe

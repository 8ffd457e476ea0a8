#include "cli/msprobe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "cli/compare.h"
#include "cli/precheck.h"
#include "cli/screen.h"
#include "core/text.h"
#include "profiles/msprobe/merge.h"
#include "profiles/msprobe/settings.h"

namespace vernier {
namespace {

using msprobe::Outcome;
using msprobe::RunFailure;
using enum OptionValue;

constexpr Option kClassicOptions[] = {
    {"-i", "--input_path", kRequired, true,
     "compare.json: npu_path, bench_path, stack_path, is_print_compare_log"},
    {"-o", "--output_path", kOptional, false, "folder for the results; default ./output"},
    {"-s", "--stack_mode", kNone, false, "show call stacks when compare.json names a stack file"},
    {"-c", "--compare_only", kNone, false, "no advisor"},
    {"-f", "--fuzzy_match", kNone, false, "match records whatever their call numbers"},
    {"-hl", "--highlight", kNone, false, "mark suspicious rows in colour"},
    {"-dm", "--data_mapping", kRequired, false, "yaml: NPU row name -> bench row name"},
    {"-da", "--diff_analyze", kNone, false, "search the first difference over all ranks"},
    {"-cm", "--cell_mapping", kOptional, false, "not for PyTorch"},
    {"-am", "--api_mapping", kOptional, false, "not for PyTorch"},
    {"-lm", "--layer_mapping", kOptional, false, "accepted and ignored"}};

constexpr Option kCurrentOptions[] = {
    {"-tp", "--target_path", kRequired, true,
     "the data under test: dump.json, debug.json or a step directory"},
    {"-gp", "--golden_path", kRequired, true, "what it is compared with"},
    {"-o", "--output_path", kOptional, false, "folder for the results; default ./output"},
    {"-m", "--mode", kRequired, false, "auto, torchair, offline_data, offline_model or atb"},
    {"", "--md5", kNone, false, "torchair: compare checksums of two GE dumps instead of values"},
    {"-hl", "--highlight", kNone, false, "torchair: mark rows in colour (with --xlsx)"},
    {"", "--xlsx", kNone, false, "write xlsx instead of csv"},
    {"-fm", "--fuzzy_match", kNone, false, "match records whatever their call numbers"},
    {"-dm", "--data_mapping", kRequired, false, "yaml: target row name -> golden row name"},
    {"-cm", "--cell_mapping", kOptional, false, "yaml: module path -> module path"},
    {"-da", "--diff_analyze", kNone, false, "search the first difference over all ranks"},
    {"-tensor_log", "--is_print_compare_log", kNone, false, "two log lines for each row of real data"},
    {"-am", "--api_mapping", kOptional, false, "not for PyTorch"},
    {"-lm", "--layer_mapping", kOptional, false, "accepted and ignored"},
    {"", "--rank", kRequired, false, "torchair: only this rank; otherwise accepted and ignored"},
    {"", "--step", kRequired, false, "accepted and ignored"},
    {"", "--consistent_check", kNone, false, "not supported"},
    {"", "--backend", kRequired, false, "not supported"}};

constexpr Option kMergeOptions[] = {
    {"-i", "--input_dir", kRequired, true, "folder of compare results of several ranks (xlsx or csv)"},
    {"-o", "--output_dir", kRequired, true, "folder for the merged result"},
    {"-config", "--config-path", kRequired, true,
     "yaml: api (list of names), compare_index (list of columns)"}};

// What every command line of this file takes besides msprobe's own options.
constexpr Option kTalkOptions[] = {
    {"-q", "--quiet", kNone, false, "errors only"},
    {"", "--log-level", kRequired, false, "debug, info, warning, error or none"}};

constexpr std::string_view kModes[] = {"auto", "offline_data", "torchair", "offline_model", "atb"};
constexpr std::string_view kTorchairOptions[] = {"-m",  "--mode",        "-tp", "--target_path",
                                                 "-gp", "--golden_path", "-o",  "--output_path"};

// Under our own name that mode takes more, but not these; and some nobody else takes.
constexpr std::string_view kNotForTorchair[] = {
    "-fm", "--fuzzy_match",   "-dm",         "--data_mapping",         "-cm",      "--cell_mapping",
    "-da", "--diff_analyze",  "-tensor_log", "--is_print_compare_log", "-am",      "--api_mapping",
    "-lm", "--layer_mapping", "--step",      "--consistent_check",     "--backend"};
constexpr std::string_view kOnlyForTorchair[] = {"--md5", "-hl", "--highlight"};

// Theirs, then those of ours that have no name of theirs.
std::vector<Option> WithOurs(std::span<const Option> theirs, bool of_compare) {
  std::vector<Option> options(theirs.begin(), theirs.end());
  const auto add = [&](Option ours) {
    for (const Option& known : theirs) {
      if (known.name == ours.name) return;
      if (known.short_name == ours.short_name) ours.short_name = "";
    }
    options.push_back(ours);
  };
  for (const CompareOption& row : CompareOptions()) {
    if (of_compare && row.option.name != "--output" && row.option.name != "--family") add(row.option);
  }
  for (const Option& option : kTalkOptions) add(option);
  return options;
}

// One command line that is being worked on.
class MsprobeCommand {
 public:
  MsprobeCommand(std::string_view command, bool as_msprobe) : command_(command), as_msprobe_(as_msprobe) {}

  ExitCode Compare(const Args& args, bool classic) {
    options_ = WithOurs(classic ? std::span<const Option>(kClassicOptions) : kCurrentOptions, true);
    if (const auto code = Start(args)) return *code;
    CompareRequest request;
    request.family = "msprobe";
    if (const Result<Done> taken = TakeCompareOptions(parsed_, request); !taken)
      return BadCommandLine(taken.error().where + ": " + taken.error().detail);
    request.options["generation"] = classic ? "classic" : "current";
    request.options["output_folder"] = parsed_.Get("--output_path", "./output");
    if (parsed_.Has("--diff_analyze")) request.options["diff_analyze"] = "true";
    if (parsed_.Has("--fuzzy_match")) request.match = MatchMode::kFuzzy;
    if (parsed_.Has("--data_mapping")) request.mapping = parsed_.Get("--data_mapping");
    if (parsed_.Has("--xlsx") && request.format.empty()) request.format = "xlsx";
    if (as_msprobe_) request.options["as_msprobe"] = "true";
    msprobe::Log log(logger_->sink());
    const Outcome<Done> filled = classic ? FillClassic(request, log) : FillCurrent(args, request, log);
    if (!filled) return Failed();
    if (!classic && ModeOf() == "torchair") AskForTorchair(request);
    return RunRequest(request, {parsed_.Has("--quiet"), as_msprobe_}, *logger_);
  }

  ExitCode Merge(const Args& args) {
    options_ = WithOurs(kMergeOptions, false);
    if (const auto code = Start(args)) return *code;
    const Outcome<Done> merged =
        msprobe::MergeResults(parsed_.Get("--input_dir"), parsed_.Get("--output_dir"),
                              parsed_.Get("--config-path"), logger_->sink());
    return merged ? ExitCode::kSame : Failed();
  }

 private:
  // The exit code when there is nothing more to do.
  std::optional<ExitCode> Start(const Args& args) {
    if (std::find(args.begin(), args.end(), "-h") != args.end() ||
        std::find(args.begin(), args.end(), "--help") != args.end()) {
      Say(stdout, fmt::format("Usage: {} {} [options]\n\n{}", as_msprobe_ ? "msprobe" : "vernier", command_,
                              OptionsHelp(options_)));
      return ExitCode::kSame;
    }
    Result<ParsedOptions> parsed = ParsedOptions::Parse(args, options_);
    if (!parsed) return BadCommandLine(parsed.error().detail);
    parsed_ = *std::move(parsed);
    return SetLevel();
  }

  // Level and stream of the log: msprobe's own by name, ours quieter and beside the verdict.
  std::optional<ExitCode> SetLevel() {
    int lowest = static_cast<int>(as_msprobe_ ? LogLevel::kInfo : LogLevel::kWarning);
    if (const char* level = std::getenv("MSPROBE_LOG_LEVEL");
        level != nullptr && level[0] >= '0' && level[0] <= '4' && level[1] == 0) {
      lowest = level[0] - '0';
    }
    if (const auto name = parsed_.Find("--log-level")) {
      const auto* found = std::find(std::begin(kLogLevelNames), std::end(kLogLevelNames), *name);
      if (found == std::end(kLogLevelNames))
        return BadCommandLine(fmt::format("--log-level: unknown level '{}'", *name));
      lowest = static_cast<int>(found - kLogLevelNames);
    }
    if (parsed_.Has("--quiet")) lowest = std::max(lowest, static_cast<int>(LogLevel::kError));
    logger_ = std::make_unique<Logger>(as_msprobe_ ? stdout : stderr, lowest);
    return std::nullopt;
  }

  Outcome<Done> FillClassic(CompareRequest& request, msprobe::Log& log) const {
    if (parsed_.Has("--cell_mapping") || parsed_.Has("--api_mapping")) {
      return RunFailure(log, "Argument -cm or -am is not supported in PyTorch framework");
    }
    if (parsed_.Has("--stack_mode")) request.options["stack_mode"] = "true";
    if (parsed_.Has("--compare_only")) request.options["advise"] = "false";
    if (parsed_.Has("--highlight")) request.options["highlight"] = "true";
    return msprobe::ReadCompareJson(parsed_.Get("--input_path"), request, log);
  }

  Outcome<Done> FillCurrent(const Args& args, CompareRequest& request, msprobe::Log& log) const {
    const std::string mode = ModeOf();
    if (std::find(std::begin(kModes), std::end(kModes), mode) == std::end(kModes)) {
      return RunFailure(log, fmt::format("Invalid mode '{}'. Available modes: ['auto', 'offline_data', "
                                         "'torchair', 'offline_model', 'atb']",
                                         mode));
    }
    for (const std::string& word : args) {
      const auto spelled = [&](const Option& option) {
        return word == option.short_name || word == option.name;
      };
      const auto is_in = [&](std::span<const std::string_view> names) {
        return std::find(names.begin(), names.end(), word) != names.end();
      };
      const bool known = mode == "torchair" && as_msprobe_ ? is_in(kTorchairOptions)
                         : mode == "torchair"              ? !is_in(kNotForTorchair)
                         : is_in(kOnlyForTorchair)         ? false
                                                   : std::any_of(options_.begin(), options_.end(), spelled);
      if (word.starts_with('-') && !known)
        return RunFailure(log, fmt::format("Invalid argument '{}' for mode '{}'", word, mode));
    }
    if (mode != "auto" && mode != "offline_data" && mode != "torchair") {
      return RunFailure(log, fmt::format("Mode '{}' is not supported by this version.", mode));
    }
    if (parsed_.Has("--api_mapping"))
      return RunFailure(log, "Argument -am is not supported in PyTorch framework");
    if (parsed_.Has("--consistent_check") || parsed_.Has("--backend")) {
      return RunFailure(log, "Argument --consistent_check is not supported by this version.");
    }
    request.target = parsed_.Get("--target_path");
    request.golden = parsed_.Get("--golden_path");
    if (parsed_.Has("--cell_mapping")) request.options["cell_mapping"] = parsed_.Get("--cell_mapping");
    if (parsed_.Has("--is_print_compare_log")) request.options["log_rows"] = "true";
    return Done{};
  }

  // Under our own name a dump of graph mode is told by its content.
  std::string ModeOf() const {
    const std::string mode = parsed_.Get("--mode", "auto");
    if (as_msprobe_ || mode != "auto") return mode;
    const Family* family = FamilyOf(parsed_.Get("--target_path"));
    return family != nullptr && family->name == "torchair" ? "torchair" : mode;
  }

  // The same request for dumps of graph mode, whose documents put results into the current directory.
  void AskForTorchair(CompareRequest& request) const {
    request.family = "torchair";
    for (const char* other : {"generation", "diff_analyze", "cell_mapping", "log_rows"})
      request.options.erase(other);
    request.options["output_folder"] = parsed_.Get("--output_path", ".");
    if (parsed_.Has("--rank")) request.options["rank"] = parsed_.Get("--rank");
    if (parsed_.Has("--md5")) request.options["md5"] = "true";
    if (parsed_.Has("--highlight")) request.options["highlight"] = "true";
  }

  ExitCode BadCommandLine(std::string_view problem) const {
    Say(stderr,
        fmt::format("{} {}: error: {}\n", as_msprobe_ ? "msprobe" : "vernier", command_, Printable(problem)));
    return ExitCode::kCannotTell;
  }

  // The log has told what went wrong.
  ExitCode Failed() const { return as_msprobe_ ? ExitCode::kDiffers : ExitCode::kCannotTell; }

  std::string_view command_;
  bool as_msprobe_;
  std::vector<Option> options_;
  ParsedOptions parsed_;
  std::unique_ptr<Logger> logger_;
};

bool IsCommand(std::string_view word) {
  return word == "compare" || word == "merge_result" || word == "parse";
}

ExitCode RunCommand(const Args& words, bool classic, bool as_msprobe) {
  const std::string& command = words[0];
  const Args args(words.begin() + 1, words.end());
  if (command == "compare") {
    return MsprobeCommand("compare", as_msprobe).Compare(args, classic);
  }
  if (command == "merge_result") return MsprobeCommand("merge_result", as_msprobe).Merge(args);
  if (IsPrecheckCommand(command)) return RunPrecheckCommand(command, args, as_msprobe);
  if (command == "parse") return RunParseAs(args, as_msprobe);
  if (command == "shrink") return RunShrink(args);
  Say(stderr, fmt::format("msprobe: error: unknown command '{}'; see msprobe --help\n", Printable(command)));
  return ExitCode::kCannotTell;
}

}  // namespace

bool IsMsprobeName(std::string_view program) {
  const std::string_view base = program.substr(program.rfind('/') + 1);
  return base == "msprobe" || base == "msprobe.exe";
}

bool IsMsprobeLine(const Args& words) {
  return !words.empty() &&
         (words[0] == "-f" || words[0] == "--framework" || words[0].starts_with("--framework="));
}

bool IsMsprobeCompare(const Args& args) {
  static constexpr std::string_view kTheirs[] = {"-i",  "--input_path", "-tp", "--target_path",
                                                 "-gp", "--golden_path"};
  return std::any_of(args.begin(), args.end(), [](const std::string& word) {
    const std::string_view name = std::string_view(word).substr(0, word.find('='));
    return std::find(std::begin(kTheirs), std::end(kTheirs), name) != std::end(kTheirs);
  });
}

ExitCode RunMsprobe(const Args& words, bool as_msprobe) {
  constexpr std::size_t kFewestWords = 3;
  const bool asks_for_help = words.empty() || words[0] == "-h" || words[0] == "--help";
  if (asks_for_help || (words.size() < kFewestWords && (IsMsprobeLine(words) || IsCommand(words[0])))) {
    Say(stdout,
        HelpMsprobeCompare() + '\n' + HelpMergeResult() + '\n' + HelpParse() +
            "\nacc_check, multi_acc_check and api_precision_compare explain themselves with --help\n");
    return ExitCode::kSame;
  }
  if (!IsMsprobeLine(words)) return RunCommand(words, false, as_msprobe);
  const std::size_t equals = words[0].find('=');
  const std::string framework = equals == std::string::npos ? words[1] : words[0].substr(equals + 1);
  const Args rest(words.begin() + (equals == std::string::npos ? 2 : 1), words.end());
  if (framework != "pytorch") {
    Say(stderr,
        fmt::format("msprobe: error: argument -f/--framework: '{}' is not supported; expected pytorch\n",
                    Printable(framework)));
    return ExitCode::kCannotTell;
  }
  return RunCommand(rest, true, as_msprobe);
}

ExitCode RunMsprobeCompare(const Args& args) {
  const bool classic = std::any_of(args.begin(), args.end(), [](const std::string& word) {
    return word == "-i" || word == "--input_path" || word.starts_with("--input_path=");
  });
  return MsprobeCommand("compare", false).Compare(args, classic);
}

ExitCode RunMergeResult(const Args& args) { return MsprobeCommand("merge_result", false).Merge(args); }

std::string HelpMsprobeCompare() {
  return "As msprobe spells it, in two generations; the options above may be given beside these:\n\n"
         "  compare -i compare.json [options]\n" +
         OptionsHelp(kClassicOptions) + "\n  compare -tp TARGET -gp GOLDEN [options]\n" +
         OptionsHelp(kCurrentOptions);
}

std::string HelpMergeResult() {
  return "Usage: merge_result -i FOLDER -o FOLDER -config FILE.yaml\n\n" +
         OptionsHelp(WithOurs(kMergeOptions, false));
}

}  // namespace vernier

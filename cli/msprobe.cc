#include "cli/msprobe.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <mutex>

#include "cli/interrupt.h"
#include "cli/msprobe_options.h"
#include "cli/screen.h"
#include "core/progress.h"
#include "core/text.h"
#include "profiles/msprobe/merge.h"
#include "profiles/msprobe/run.h"

namespace vernier {
namespace {

using msprobe::Generation;
using msprobe::LogLevel;
using msprobe::Settings;
using enum OptionValue;

// What every command line of this file takes besides msprobe's own options.
#define VN_OWN_OPTIONS                                                                                \
  {"", "--format", kRequired, false, "csv, xlsx, json or jsonl (jsonl keeps all that was measured)"}, \
      {"", "--rules", kRequired, false, "thresholds and messages of your own (JSON)"},                \
      {"", "--threads", kRequired, false, "number of threads; default: one per core"},                \
      {"-q", "--quiet", kNone, false, "errors only"}, {                                               \
    "", "--log-level", kRequired, false, "debug, info, warning or error"                              \
  }

constexpr MsprobeOption kClassicOptions[] = {
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
    {"-lm", "--layer_mapping", kOptional, false, "accepted and ignored"},
    VN_OWN_OPTIONS};

constexpr MsprobeOption kCurrentOptions[] = {
    {"-tp", "--target_path", kRequired, true,
     "the data under test: dump.json, debug.json or a step directory"},
    {"-gp", "--golden_path", kRequired, true, "what it is compared with"},
    {"-o", "--output_path", kOptional, false, "folder for the results; default ./output"},
    {"-m", "--mode", kRequired, false, "auto, torchair, offline_data, offline_model or atb"},
    {"", "--xlsx", kNone, false, "write xlsx instead of csv"},
    {"-fm", "--fuzzy_match", kNone, false, "match records whatever their call numbers"},
    {"-dm", "--data_mapping", kRequired, false, "yaml: target row name -> golden row name"},
    {"-cm", "--cell_mapping", kOptional, false, "yaml: module path -> module path"},
    {"-da", "--diff_analyze", kNone, false, "search the first difference over all ranks"},
    {"-tensor_log", "--is_print_compare_log", kNone, false, "two log lines for each row of real data"},
    {"-am", "--api_mapping", kOptional, false, "not for PyTorch"},
    {"-lm", "--layer_mapping", kOptional, false, "accepted and ignored"},
    {"", "--rank", kRequired, false, "accepted and ignored"},
    {"", "--step", kRequired, false, "accepted and ignored"},
    {"", "--consistent_check", kNone, false, "not supported"},
    {"", "--backend", kRequired, false, "not supported"},
    VN_OWN_OPTIONS};

constexpr MsprobeOption kMergeOptions[] = {
    {"-i", "--input_dir", kRequired, true, "folder of compare results of several ranks (xlsx or csv)"},
    {"-o", "--output_dir", kRequired, true, "folder for the merged result"},
    {"-config", "--config-path", kRequired, true,
     "yaml: api (list of names), compare_index (list of columns)"},
    {"-q", "--quiet", kNone, false, "errors only"},
    {"", "--log-level", kRequired, false, "debug, info, warning or error"}};

// A verdict fits one screen, however many ranks there are. The last file is the summary.
constexpr std::size_t kMostFilesShown = 6;

std::string WrittenText(std::span<const std::filesystem::path> written) {
  const bool all = written.size() <= kMostFilesShown;
  const std::size_t num_first = all ? written.size() : kMostFilesShown - 2;
  std::string text;
  for (const auto& path : written.first(num_first)) text += "wrote " + path.string() + '\n';
  if (!all) {
    text += fmt::format("wrote {} more beside them\nwrote {}\n", written.size() - num_first - 1,
                        written.back().string());
  }
  return text;
}

constexpr std::string_view kModes[] = {"auto", "offline_data", "torchair", "offline_model", "atb"};
constexpr std::string_view kTorchairOptions[] = {"-m",  "--mode",        "-tp", "--target_path",
                                                 "-gp", "--golden_path", "-o",  "--output_path"};
constexpr std::string_view kLevelNames[] = {"debug", "info", "warning", "error", "none"};
constexpr std::string_view kFormatNames[] = {"csv", "xlsx", "json", "jsonl"};

// Log lines as msprobe writes them: YYYY-MM-DD hh:mm:ss (pid) [LEVEL] text.
class Logger {
 public:
  Logger(std::FILE* stream, int lowest) : stream_(stream), lowest_(lowest) {}

  void operator()(LogLevel level, std::string_view text) {
    static constexpr std::string_view kNames[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
    if (static_cast<int>(level) < lowest_) return;
    const std::lock_guard lock(mutex_);
    Say(stream_,
        fmt::format("{} ({}) [{}] {}\n", Now(), getpid(), kNames[static_cast<int>(level)], OneLine(text)));
  }

 private:
  const std::string& Now() {
    const std::time_t now = std::time(nullptr);
    if (now != second_) {
      second_ = now;
      std::tm local{};
      localtime_r(&now, &local);
      char text[32];
      std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
      now_ = text;
    }
    return now_;
  }

  // What could end or rewrite a line becomes '_', also in its percent-encoded form.
  static std::string OneLine(std::string_view text) {
    static constexpr std::string_view kCharacters = "\n\r\t\b\f\v\x7f";
    static constexpr std::string_view kEncoded[] = {"%08", "%0a", "%0b", "%0c", "%0d", "%7f"};
    std::string line;
    line.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
      const std::string_view rest = text.substr(i, 3);
      const bool encoded = std::find(std::begin(kEncoded), std::end(kEncoded), rest) != std::end(kEncoded);
      line += encoded || kCharacters.find(text[i]) != std::string_view::npos ? '_' : text[i];
      if (encoded) i += 2;
    }
    if (std::any_of(line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }))
      line = Printable(line);
    return line;
  }

  std::FILE* stream_;
  int lowest_;
  std::mutex mutex_;
  std::time_t second_ = 0;
  std::string now_;
};

// One command line that is being worked on.
class MsprobeCommand {
 public:
  MsprobeCommand(std::string_view command, bool as_msprobe) : command_(command), as_msprobe_(as_msprobe) {}

  ExitCode Compare(const Args& args, Generation generation) {
    const auto options = generation == Generation::kClassic ? std::span<const MsprobeOption>(kClassicOptions)
                                                            : std::span<const MsprobeOption>(kCurrentOptions);
    if (WantsHelp(args, options)) return ExitCode::kSame;
    const Result<ParsedOptions> parsed = ParsedOptions::Parse(args, options);
    if (!parsed) return BadCommandLine(parsed.error().detail);
    if (const auto problem = SetLevel(*parsed)) return BadCommandLine(*problem);
    Settings settings;
    settings.generation = generation;
    if (const auto problem = FillOwn(*parsed, settings)) return BadCommandLine(*problem);
    msprobe::Log log(Sink());
    const Result<Done> filled = generation == Generation::kClassic
                                    ? FillClassic(*parsed, settings, log)
                                    : FillCurrent(args, *parsed, settings, log);
    if (!filled) return Failed(filled.error());
    return Run(std::move(settings));
  }

  ExitCode Merge(const Args& args) {
    if (WantsHelp(args, kMergeOptions)) return ExitCode::kSame;
    const Result<ParsedOptions> parsed = ParsedOptions::Parse(args, kMergeOptions);
    if (!parsed) return BadCommandLine(parsed.error().detail);
    if (const auto problem = SetLevel(*parsed)) return BadCommandLine(*problem);
    const Result<Done> merged = msprobe::MergeResults(parsed->Get("--input_dir"), parsed->Get("--output_dir"),
                                                      parsed->Get("--config-path"), Sink());
    return merged ? ExitCode::kSame : Failed(merged.error());
  }

 private:
  bool WantsHelp(const Args& args, std::span<const MsprobeOption> options) const {
    if (std::find(args.begin(), args.end(), "-h") == args.end() &&
        std::find(args.begin(), args.end(), "--help") == args.end()) {
      return false;
    }
    Say(stdout, fmt::format("Usage: {} {} [options]\n\n{}", as_msprobe_ ? "msprobe" : "vernier", command_,
                            OptionsHelp(options)));
    return true;
  }

  // Level and stream of the log: msprobe's own by name, ours quieter and beside the verdict.
  std::optional<std::string> SetLevel(const ParsedOptions& parsed) {
    lowest_ = static_cast<int>(as_msprobe_ ? LogLevel::kInfo : LogLevel::kWarning);
    if (const char* level = std::getenv("MSPROBE_LOG_LEVEL");
        level != nullptr && level[0] >= '0' && level[0] <= '4' && level[1] == 0) {
      lowest_ = level[0] - '0';
    }
    if (const auto name = parsed.Find("--log-level")) {
      const auto* found = std::find(std::begin(kLevelNames), std::end(kLevelNames), *name);
      if (found == std::end(kLevelNames)) return fmt::format("--log-level: there is no level '{}'", *name);
      lowest_ = static_cast<int>(found - kLevelNames);
    }
    quiet_ = parsed.Has("--quiet");
    if (quiet_) lowest_ = std::max(lowest_, static_cast<int>(LogLevel::kError));
    logger_ = std::make_unique<Logger>(as_msprobe_ ? stdout : stderr, lowest_);
    return std::nullopt;
  }

  msprobe::LogSink Sink() {
    return [this](LogLevel level, std::string_view text) { (*logger_)(level, text); };
  }

  static std::optional<std::string> FillOwn(const ParsedOptions& parsed, Settings& settings) {
    settings.output_path = parsed.Get("--output_path", "./output");
    settings.rules_path = parsed.Get("--rules");
    settings.diff_analyze = parsed.Has("--diff_analyze");
    settings.fuzzy = parsed.Has("--fuzzy_match");
    settings.data_mapping_path = parsed.Find("--data_mapping");
    settings.format = settings.generation == Generation::kClassic || parsed.Has("--xlsx")
                          ? ReportFormat::kXlsx
                          : ReportFormat::kCsv;
    if (const auto name = parsed.Find("--format")) {
      const auto* found = std::find(std::begin(kFormatNames), std::end(kFormatNames), *name);
      if (found == std::end(kFormatNames))
        return fmt::format("--format: there is no format '{}'; take csv, xlsx, json or jsonl", *name);
      settings.format = static_cast<ReportFormat>(found - kFormatNames);
    }
    if (const auto threads = parsed.Find("--threads")) {
      char* end = nullptr;
      const long number = std::strtol(threads->c_str(), &end, 10);
      if (*end != 0 || number < 0 || number > 4096)
        return fmt::format("--threads: '{}' is no number of threads", *threads);
      settings.num_threads = static_cast<int>(number);
    }
    return std::nullopt;
  }

  static Result<Done> FillClassic(const ParsedOptions& parsed, Settings& settings, msprobe::Log& log) {
    if (parsed.Has("--cell_mapping") || parsed.Has("--api_mapping")) {
      return msprobe::RunFailure(log, "Argument -cm or -am is not supported in PyTorch framework");
    }
    settings.show_given_stack = parsed.Has("--stack_mode");
    settings.advise = !parsed.Has("--compare_only");
    settings.highlight = parsed.Has("--highlight");
    return msprobe::ReadCompareJson(parsed.Get("--input_path"), settings, log);
  }

  static Result<Done> FillCurrent(const Args& args, const ParsedOptions& parsed, Settings& settings,
                                  msprobe::Log& log) {
    const std::string mode = parsed.Get("--mode", "auto");
    if (std::find(std::begin(kModes), std::end(kModes), mode) == std::end(kModes)) {
      return msprobe::RunFailure(
          log, fmt::format("Invalid mode '{}'. Available modes: ['auto', 'offline_data', 'torchair', "
                           "'offline_model', 'atb']",
                           mode));
    }
    for (const std::string& word : args) {
      if (!word.starts_with('-')) continue;
      const auto spelled = [&](const MsprobeOption& option) {
        return word == option.short_name || word == option.name;
      };
      const bool allowed = mode == "torchair"
                               ? std::find(std::begin(kTorchairOptions), std::end(kTorchairOptions), word) !=
                                     std::end(kTorchairOptions)
                               : std::any_of(std::begin(kCurrentOptions), std::end(kCurrentOptions), spelled);
      if (!allowed)
        return msprobe::RunFailure(log, fmt::format("Invalid argument '{}' for mode '{}'", word, mode));
    }
    if (mode != "auto" && mode != "offline_data") {
      return msprobe::RunFailure(log, fmt::format("Mode '{}' is not supported by this version.", mode));
    }
    if (parsed.Has("--api_mapping"))
      return msprobe::RunFailure(log, "Argument -am is not supported in PyTorch framework");
    if (parsed.Has("--consistent_check") || parsed.Has("--backend")) {
      return msprobe::RunFailure(log, "Argument --consistent_check is not supported by this version.");
    }
    settings.npu_path = parsed.Get("--target_path");
    settings.bench_path = parsed.Get("--golden_path");
    settings.cell_mapping = parsed.Has("--cell_mapping");
    settings.cell_mapping_path = parsed.Find("--cell_mapping");
    settings.log_rows = parsed.Has("--is_print_compare_log");
    return Done{};
  }

  ExitCode Run(Settings settings) {
    const Interrupt interrupt;
    settings.stop = interrupt.token();
    settings.whole_files_only = as_msprobe_;
    std::unique_ptr<Progress> progress;
    settings.on_progress = [&](std::uint64_t done, std::uint64_t total, std::uint64_t bytes) {
      if (!progress)
        progress = std::make_unique<Progress>(stderr, quiet_ ? ProgressStyle::kQuiet : ProgressStyle::kAuto,
                                              "compare", total, 0);
      progress->Update(done, bytes);
      if (done == total) progress.reset();
    };
    const Result<msprobe::RunOutcome> outcome = msprobe::RunCompare(settings, Sink());
    progress.reset();
    if (interrupt.interrupted()) return ExitCode::kInterrupted;
    if (!outcome) return Failed(outcome.error());
    Tell(*outcome, settings);
    return as_msprobe_ ? ExitCode::kSame : static_cast<ExitCode>(msprobe::ExitStatus(*outcome));
  }

  // Our verdict: as log lines among msprobe's, as plain text otherwise.
  void Tell(const msprobe::RunOutcome& outcome, const Settings& settings) {
    if (quiet_) return;
    const std::string text = msprobe::VerdictText(outcome, settings);
    if (!as_msprobe_) {
      return Say(stdout, text + WrittenText(outcome.written));
    }
    for (std::size_t start = 0; start < text.size();) {
      const std::size_t end = text.find('\n', start);
      (*logger_)(LogLevel::kInfo, text.substr(start, end - start));
      start = end + 1;
    }
  }

  ExitCode BadCommandLine(std::string_view problem) const {
    Say(stderr,
        fmt::format("{} {}: error: {}\n", as_msprobe_ ? "msprobe" : "vernier", command_, Printable(problem)));
    return ExitCode::kCannotTell;
  }

  // What went wrong is in the log; the library's own errors are told here.
  ExitCode Failed(const Error& error) {
    const bool told = error.code == ErrorCode::kBadArgument || error.code == ErrorCode::kNotADump;
    if (!told) (*logger_)(LogLevel::kError, error.Message());
    return as_msprobe_ ? ExitCode::kDiffers : ExitCode::kCannotTell;
  }

  std::string_view command_;
  bool as_msprobe_;
  bool quiet_ = false;
  int lowest_ = 1;
  std::unique_ptr<Logger> logger_;
};

ExitCode RunCommand(const Args& words, bool classic, bool as_msprobe) {
  const std::string& command = words[0];
  const Args args(words.begin() + 1, words.end());
  if (command == "compare") {
    return MsprobeCommand("compare", as_msprobe)
        .Compare(args, classic ? Generation::kClassic : Generation::kCurrent);
  }
  if (command == "merge_result") return MsprobeCommand("merge_result", as_msprobe).Merge(args);
  Say(stderr, fmt::format("msprobe: error: there is no command '{}'; take compare or merge_result\n",
                          Printable(command)));
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
  if (words.size() < kFewestWords) {
    Say(stdout, HelpMsprobeCompare() + '\n' + HelpMergeResult());
    return ExitCode::kSame;
  }
  if (!IsMsprobeLine(words)) return RunCommand(words, false, as_msprobe);
  const std::size_t equals = words[0].find('=');
  const std::string framework = equals == std::string::npos ? words[1] : words[0].substr(equals + 1);
  const Args rest(words.begin() + (equals == std::string::npos ? 2 : 1), words.end());
  if (framework != "pytorch") {
    Say(stderr, fmt::format("msprobe: error: argument -f/--framework: '{}' is not supported (take pytorch)\n",
                            Printable(framework)));
    return ExitCode::kCannotTell;
  }
  return RunCommand(rest, true, as_msprobe);
}

ExitCode RunMsprobeCompare(const Args& args) {
  const bool classic = std::any_of(args.begin(), args.end(), [](const std::string& word) {
    return word == "-i" || word == "--input_path" || word.starts_with("--input_path=");
  });
  return MsprobeCommand("compare", false)
      .Compare(args, classic ? Generation::kClassic : Generation::kCurrent);
}

ExitCode RunMergeResult(const Args& args) { return MsprobeCommand("merge_result", false).Merge(args); }

std::string HelpMsprobeCompare() {
  return "msprobe dumps (dump.json, debug.json, step directories), two generations of one command:\n\n"
         "  compare -i compare.json [options]\n" +
         OptionsHelp(kClassicOptions) + "\n  compare -tp TARGET -gp GOLDEN [options]\n" +
         OptionsHelp(kCurrentOptions);
}

std::string HelpMergeResult() {
  return "Usage: merge_result -i FOLDER -o FOLDER -config FILE.yaml\n\n" + OptionsHelp(kMergeOptions);
}

}  // namespace vernier

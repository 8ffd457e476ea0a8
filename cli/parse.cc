// `vernier parse`: dump files of graph mode as files that NumPy and torch read.
#include <fmt/format.h>

#include <memory>

#include "cli/compare.h"
#include "cli/interrupt.h"
#include "cli/msprobe.h"
#include "cli/screen.h"
#include "core/progress.h"
#include "core/text.h"
#include "profiles/torchair/convert.h"

namespace vernier {
namespace {

using enum OptionValue;

constexpr Option kTheirs[] = {
    {"-d", "--dump_path", kRequired, true, "a dump file or a folder of them"},
    {"-t", "--type", kRequired, false, "npy, pt or safetensors (one file for each dump); default pt"},
    {"-o", "--output_path", kOptional, false, "folder for the results; default ./output"}};
constexpr Option kOurs[] = {{"-j", "--threads", kRequired, false, "threads to use; default: one per core"},
                            {"-q", "--quiet", kNone, false, "errors only"}};
constexpr std::string_view kTypes[] = {"npy", "pt", "safetensors"};  // in the order of ConvertTo

std::vector<Option> AllOptions(bool as_msprobe) {
  std::vector<Option> options(std::begin(kTheirs), std::end(kTheirs));
  if (!as_msprobe) options.insert(options.end(), std::begin(kOurs), std::end(kOurs));
  return options;
}

ExitCode BadCommandLine(bool as_msprobe, std::string_view problem) {
  Say(stderr, fmt::format("{} parse: error: {}\n", as_msprobe ? "msprobe" : "vernier", Printable(problem)));
  return ExitCode::kCannotTell;
}

}  // namespace

ExitCode RunParseAs(const Args& args, bool as_msprobe) {
  if (std::find(args.begin(), args.end(), "-h") != args.end() ||
      std::find(args.begin(), args.end(), "--help") != args.end()) {
    Say(stdout, HelpParse());
    return ExitCode::kSame;
  }
  const Result<ParsedOptions> parsed = ParsedOptions::Parse(args, AllOptions(as_msprobe));
  if (!parsed) return BadCommandLine(as_msprobe, parsed.error().detail);
  const auto types = std::span(kTypes).first(as_msprobe ? 2 : std::size(kTypes));
  const Result<std::size_t> type = Choose("--type", parsed->Get("--type", "pt"), types);
  if (!type) return BadCommandLine(as_msprobe, type.error().where + ": " + type.error().detail);
  torchair::ConvertOptions options;
  options.path = parsed->Get("--dump_path");
  const std::string output = parsed->Get("--output_path", "./output");
  options.output_folder = output.empty() ? "./output" : output;
  options.to = static_cast<torchair::ConvertTo>(*type);
  // As msprobe only the folder itself, and everything in it is taken for a dump.
  options.subfolders = !as_msprobe;
  options.every_file = options.tensors_may_fail = as_msprobe;
  if (const auto threads = parsed->Find("--threads")) {
    const Result<int> number = ParseThreads(*threads);
    if (!number) return Complain(number.error());
    options.num_threads = *number;
  }
  const bool quiet = parsed->Has("--quiet");
  Interrupt interrupt;
  options.stop = interrupt.token();
  Logger logger(as_msprobe ? stdout : stderr,
                static_cast<int>(quiet ? LogLevel::kError : LogLevel::kWarning));
  options.on_log = logger.sink();
  std::unique_ptr<Progress> progress;
  options.on_progress = [&](const CompareProgress& done) {
    if (!progress) {
      progress = std::make_unique<Progress>(stderr, quiet ? ProgressStyle::kQuiet : ProgressStyle::kAuto,
                                            "parse", done.num_items, 0);
    }
    progress->Update(done.items_done, 0);
  };
  const Result<torchair::ConvertOutcome> outcome = torchair::ConvertDumps(options);
  progress.reset();
  if (interrupt.interrupted()) return ExitCode::kInterrupted;
  if (!outcome) {
    Complain(outcome.error());
    return as_msprobe ? ExitCode::kDiffers : ExitCode::kCannotTell;
  }
  if (!quiet) {
    Say(stdout, fmt::format("{} dump files -> {} files in {}; {} failed{}\n", outcome->num_files,
                            outcome->num_written, Printable(options.output_folder), outcome->failed.size(),
                            outcome->failed.empty() ? "" : " (convert_failed_file_list.txt)"));
  }
  return outcome->failed.empty() ? ExitCode::kSame : ExitCode::kDiffers;
}

ExitCode RunParse(const Args& args) { return RunParseAs(args, false); }

std::string HelpParse() {
  return "Convert binary dumps of graph mode (GE), and tensor files of ATB (.bin), into files that NumPy and "
         "torch "
         "read.\nTensors stay as they are stored; no layout is undone.\n\n"
         "Usage: parse -d PATH [-t npy|pt|safetensors] [-o FOLDER]\n\n" +
         OptionsHelp(AllOptions(false)) +
         "\nA folder is taken with its subfolders, whose names are kept below the output folder.\n\n"
         "Exit status: 0 everything was converted, 1 some files were not (convert_failed_file_list.txt names "
         "them), 2\n"
         "nothing was.\n";
}

}  // namespace vernier

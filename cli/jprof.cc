// Unit tests from an operator recording.
#include "xray_ops/jprof.h"

#include <fmt/format.h>

#include <array>

#include "cli/arguments.h"
#include "cli/interrupt.h"
#include "cli/screen.h"
#include "core/progress.h"
#include "core/text.h"

namespace vernier {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  cd xray_debug/proc_4711 && vernier jprof --cpu_init --blacklist --factory=load dump.json\n"
    "  vernier jprof --blacklist=mine.txt xray_debug/proc_4711/dump.json -o xray_debug/proc_4711/pytests\n"
    "  pytest --detail_compare_path=xpu.csv proc_4711/pytests --seed 42\n\n"
    "Exit status: 0 every call has its test or is blacklisted, 2 the recording or some of its calls cannot "
    "be "
    "used.\n";

constexpr std::string_view kFactories[] = {"load", "rand"};

struct JprofArgs {
  std::string dump_json, output = "pytests", factory = "load", blacklist;
  bool cpu_init = false, quiet = false;

  std::unique_ptr<CLI::App> Declare() {
    auto app =
        NewApp("jprof", "Turn an operator recording into unit tests, one file for each call.", kExamples);
    app->add_option("DUMP_JSON", dump_json, "what begin_dump() and end_dump() wrote")
        ->type_name("")
        ->required();
    app->add_flag("--cpu_init", cpu_init,
                  "draw inputs on the CPU, so that every device gets the same numbers")
        ->group("Tests");
    // A flag, so that it takes no word behind it: jprof --blacklist dump.json.
    app->add_flag("--blacklist{-}", blacklist,
                  "no tests for operators that cannot be judged: random numbers, views, copies, collectives; "
                  "--blacklist=FILE adds patterns, one a line")
        ->type_name("[=FILE]")
        ->group("Tests");
    app->add_option("--factory", factory,
                    "load: inputs are the saved tensors, and drawn where there are none; rand: all are drawn")
        ->type_name("load|rand")
        ->group("Tests");
    app->add_option("-o,--output", output, "folder of the tests; one that jprof made is replaced")
        ->type_name("FOLDER")
        ->default_str("pytests")
        ->group("Report");
    DeclareQuiet(*app, quiet);
    return app;
  }
};

Result<xray_ops::JprofOptions> OptionsOf(const JprofArgs& args) {
  xray_ops::JprofOptions options;
  options.dump_json = args.dump_json;
  options.output = args.output;
  options.cpu_init = args.cpu_init;
  VN_ASSIGN_OR_RETURN(const std::size_t factory, Choose("--factory", args.factory, kFactories));
  options.load = factory == 0;
  if (args.output.empty()) return Error{ErrorCode::kBadArgument, "-o", "expected a folder"};
  if (args.blacklist.empty()) return options;
  options.blacklist = xray_ops::Blacklist::Shipped();
  if (args.blacklist != "-") VN_RETURN_IF_ERROR(options.blacklist->AddFile(args.blacklist));
  return options;
}

std::string Told(const xray_ops::JprofOutcome& outcome, const std::string& folder) {
  std::string text =
      fmt::format("{} tests for {} calls in {}", outcome.num_tests, outcome.num_calls, Printable(folder));
  if (outcome.num_blacklisted > 0) text += fmt::format("; {} blacklisted", outcome.num_blacklisted);
  if (outcome.num_problems > 0) text += fmt::format("; {} cannot be used", outcome.num_problems);
  return text + "\n";
}

Result<ExitCode> Jprof(const JprofArgs& args, Interrupt& interrupt) {
  VN_ASSIGN_OR_RETURN(const xray_ops::JprofOptions options, OptionsOf(args));
  std::unique_ptr<Progress> progress;
  VN_ASSIGN_OR_RETURN(const xray_ops::JprofOutcome outcome,
                      xray_ops::GenerateTests(options, [&](std::uint64_t done, std::uint64_t total) {
                        if (!progress) {
                          progress = std::make_unique<Progress>(
                              stderr, args.quiet ? ProgressStyle::kQuiet : ProgressStyle::kAuto, "jprof",
                              total, 0);
                        }
                        progress->Update(done, 0);
                        return !interrupt.interrupted();
                      }));
  progress.reset();
  for (const std::string& problem : outcome.problems)
    Complain(fmt::format("{}: {}", Printable(args.dump_json), Printable(problem)));
  if (outcome.num_problems > outcome.problems.size())
    Complain(fmt::format("and {} more such calls", outcome.num_problems - outcome.problems.size()));
  if (!outcome.version.empty()) {
    Say(stderr, fmt::format("vernier: note: recorded by version {}; use the same package on every machine\n",
                            Printable(outcome.version)));
  }
  if (outcome.num_missing > 0) {
    Say(stderr,
        fmt::format("vernier: note: {} of {} saved tensors are missing, the first is {}; their tests are "
                    "skipped until the files are beside the tests\n",
                    outcome.num_missing, outcome.num_files, Printable(outcome.first_missing)));
  }
  if (!args.quiet) Say(stdout, Told(outcome, args.output));
  return outcome.num_problems > 0 ? ExitCode::kCannotTell : ExitCode::kSame;
}

}  // namespace

std::string HelpJprof() {
  JprofArgs args;
  return HelpText(*args.Declare());
}

ExitCode RunJprof(const Args& words) {
  JprofArgs args;
  const auto app = args.Declare();
  if (const auto code = Parse(*app, words)) return *code;
  Interrupt interrupt;
  const Result<ExitCode> code = Jprof(args, interrupt);
  if (interrupt.interrupted()) return ExitCode::kInterrupted;
  return code ? *code : Complain(code.error());
}

}  // namespace vernier

#include "cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/screen.h"
#include "core/text.h"

namespace vernier {
namespace {

// Every spelling of every option, with its dashes.
std::vector<std::string> Spellings(const CLI::App& app) {
  std::vector<std::string> spellings;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) spellings.push_back("--" + name);
    for (const std::string& name : option->get_snames()) spellings.push_back("-" + name);
  }
  return spellings;
}

ExitCode UnexpectedWord(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining();
  const std::string word = rest.empty() ? "" : rest.front();
  const std::string next_step = fmt::format("{} --help", app.get_name());
  if (!word.starts_with('-'))
    return Complain(fmt::format("unexpected argument {}", Printable(word)), next_step);
  const std::vector<std::string> spellings = Spellings(app);
  const std::vector<std::string_view> candidates(spellings.begin(), spellings.end());
  const std::string flag = word.substr(0, word.find('='));
  const std::string_view guess = DidYouMean(flag, candidates);
  return Complain(fmt::format("unknown option {}", Printable(flag)),
                  guess.empty() ? next_step : fmt::format("did you mean {}?", guess));
}

}  // namespace

std::unique_ptr<CLI::App> NewApp(const std::string& command, const std::string& description,
                                 const std::string& examples) {
  auto app = std::make_unique<CLI::App>(description, "vernier " + command);
  app->set_help_flag("-h,--help", "print this help and exit");
  app->footer(examples);
  return app;
}

std::optional<ExitCode> Parse(CLI::App& app, const Args& args) {
  try {
    app.parse(Args(args.rbegin(), args.rend()));  // CLI11 takes them from the back
  } catch (const CLI::CallForHelp&) {
    Say(stdout, HelpText(app));
    return ExitCode::kSame;
  } catch (const CLI::ExtrasError&) {
    return UnexpectedWord(app);
  } catch (const CLI::ParseError& error) {
    return Complain(Printable(error.what()), fmt::format("{} --help", app.get_name()));
  }
  return std::nullopt;
}

void ReportArgs::Declare(CLI::App& app) {
  app.add_option("-o,--output", outputs,
                 "write a report; its ending chooses the format: .csv, .jsonl, .json, .xlsx; - is standard "
                 "output; may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->group("Report");
  app.add_option("--format", format, "format of every report, whatever its ending")
      ->type_name("csv|jsonl|json|xlsx")
      ->group("Report");
}

void DeclareQuiet(CLI::App& app, bool& quiet) {
  app.add_flag("-q,--quiet", quiet, "no progress and no table")->group("Running");
}

void SpeedArgs::Declare(CLI::App& app) {
  app.add_option("-j,--threads", num_threads, "threads to use; 0: one per core")
      ->type_name("N")
      ->check(CLI::Range(0, 4096).description(""))
      ->group("Running");
  DeclareQuiet(app, quiet);
}

}  // namespace vernier

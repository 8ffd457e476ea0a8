#include "cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/screen.h"
#include "core/text.h"

namespace vernier {
namespace {

constexpr std::string_view kMatchModes[] = {"exact", "fuzzy", "position"};  // in the order of MatchMode
constexpr const char* kStdout = "/dev/stdout";

std::string Joined(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

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
    return Complain(fmt::format("{} is one argument too many", Printable(word)), next_step);
  const std::vector<std::string> spellings = Spellings(app);
  const std::vector<std::string_view> candidates(spellings.begin(), spellings.end());
  const std::string flag = word.substr(0, word.find('='));
  const std::string_view guess = DidYouMean(flag, candidates.data(), candidates.size());
  return Complain(fmt::format("there is no option {}", Printable(flag)),
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

void MatchArgs::Declare(CLI::App& app) {
  app.add_option("--match", mode,
                 "exact: equal names. fuzzy: then also without wrappers (module., _orig_mod.), letter "
                 "case, kind of separator and call counter. position: the i-th with the i-th")
      ->type_name("exact|fuzzy|position")
      ->capture_default_str()
      ->group("Matching");
  app.add_option("--rename", renames, "OLD in a target name becomes NEW before matching; may be repeated")
      ->type_name("OLD=NEW")
      ->allow_extra_args(false)
      ->group("Matching");
}

Result<MatchOptions> MatchArgs::Options() const {
  MatchOptions options;
  VN_ASSIGN_OR_RETURN(const std::size_t chosen, Choose("--match", mode, kMatchModes));
  options.mode = static_cast<MatchMode>(chosen);
  for (const std::string& rename : renames) {
    const std::size_t equals = rename.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error{ErrorCode::kBadArgument, "--rename " + rename, "expected OLD=NEW"};
    }
    options.renames.emplace_back(rename.substr(0, equals), rename.substr(equals + 1));
  }
  return options;
}

void ReportArgs::Declare(CLI::App& app) {
  app.add_option("-o,--output", outputs,
                 "write a report; its ending chooses the format: .csv, .jsonl, .json, .xlsx; - is standard "
                 "output; may "
                 "be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->group("Report");
  app.add_option("--format", format, "format of every report, whatever its ending")
      ->type_name("csv|jsonl|json|xlsx")
      ->group("Report");
}

Result<ReportFile> ReportFile::Create(const std::string& output, const std::string& format,
                                      const std::vector<std::string>& columns) {
  ReportFile file;
  file.name_ = output;
  file.is_stdout_ = output == "-" || output == kStdout;
  const std::string path = output == "-" ? kStdout : output;
  const std::string format_name = format.empty() && file.is_stdout_ ? "csv" : format;
  VN_ASSIGN_OR_RETURN(const ReportFormat chosen,
                      format_name.empty() ? FormatOf(path) : ParseFormat(format_name));
  VN_ASSIGN_OR_RETURN(file.writer_, ReportWriter::Create(path, chosen, columns));
  return file;
}

Result<Done> ReportFile::Tolerate(Result<Done> result) {
  if (result || !is_stdout_ || !IsClosedPipe(result.error())) return result;
  closed_ = true;
  return Done{};
}

Result<Done> ReportFile::Write(std::span<const Cell> cells, RowColour colour) {
  return closed_ ? Result<Done>(Done{}) : Tolerate(writer_->Write(cells, colour));
}

Result<Done> ReportFile::Finish() { return closed_ ? Result<Done>(Done{}) : Tolerate(writer_->Finish()); }

Result<std::vector<ReportFile>> CreateReports(const ReportArgs& args,
                                              const std::vector<std::string>& columns) {
  std::vector<ReportFile> reports;
  for (const std::string& output : args.outputs) {
    VN_ASSIGN_OR_RETURN(ReportFile report, ReportFile::Create(output, args.format, columns));
    reports.push_back(std::move(report));
  }
  return reports;
}

void SpeedArgs::Declare(CLI::App& app) {
  app.add_option("-j,--threads", num_threads, "threads to use; 0: one per core")
      ->type_name("N")
      ->check(CLI::Range(0, 4096).description(""))
      ->group("Running");
  app.add_flag("-q,--quiet", quiet, "no progress and no table")->group("Running");
}

Result<std::size_t> Choose(const std::string& option, const std::string& word,
                           std::span<const std::string_view> choices) {
  const auto found = std::find(choices.begin(), choices.end(), word);
  if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
  const std::string_view guess = DidYouMean(word, choices.data(), choices.size());
  return Error{ErrorCode::kBadArgument, option + " " + word,
               guess.empty() ? "choose one of " + Joined(choices) : fmt::format("did you mean {}?", guess)};
}

}  // namespace vernier

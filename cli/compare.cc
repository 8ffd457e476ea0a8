#include "cli/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "cli/arguments.h"
#include "cli/interrupt.h"
#include "cli/msprobe.h"
#include "cli/screen.h"
#include "core/paths.h"
#include "core/progress.h"
#include "core/text.h"
#include "profiles/xray/recording.h"

namespace vernier {
namespace {

using enum OptionValue;

constexpr const char* kExamples =
    "Examples:\n"
    "  vernier compare got.npy want.npy\n"
    "  vernier compare dump_npu/ dump_gpu/ -o result/\n"
    "  vernier compare run_npu/ run_gpu/ --match fuzzy -o report.xlsx\n"
    "  vernier compare got.npy want.npy --worst 10\n"
    "  vernier compare new.safetensors old.pt --rename backbone.=encoder. --rtol 1e-3 --atol 1e-5\n"
    "  vernier compare xpu.h5 gpu.h5 result.csv\n"
    "  vernier compare a/ b/ -q --only failed -o - --format jsonl\n"
    "  vernier compare -tp npu/dump.json -gp gpu/dump.json -o result\n"
    "                        as msprobe spells it; vernier help compare lists those options\n\n"
    "Exit status, by the verdict: 0 IDENTICAL or WITHIN NOISE, 1 DIVERGED, 2 CANNOT TELL or failed.\n";

std::string Footer() {
  std::string text;
  for (const Family& family : Families()) {
    text +=
        fmt::format("--family {}: {}\n\nIts columns, in reports and for --sort:\n", family.name, family.says);
    for (const FamilyColumn& column : family.columns())
      text += fmt::format("  {:<27}{}\n", column.key, column.help);
    if (!family.options().empty()) text += "\nIts own options, set with --option:\n";
    for (const FamilyOption& option : family.options())
      text += fmt::format("  {:<27}{}\n", option.name, option.help);
    text += '\n';
  }
  text += "Verdicts on tensors; the first rule that applies decides:\n";
  for (const JudgeRule& rule : JudgeRules())
    text += fmt::format("  {:<8}{:<12}{}\n", Name(rule.status), rule.key, rule.when);
  return text + "\n" + kExamples;
}

Error Mistake(std::string_view option, std::string_view text, std::string detail) {
  return Error{ErrorCode::kBadArgument, fmt::format("{} {}", option, text), std::move(detail)};
}

// A number ≥ 0.
Result<double> NumberOf(std::string_view option, const std::string& text) {
  double value = -1;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !(value >= 0))
    return Mistake(option, text, "expected a number ≥ 0");
  return value;
}

Result<std::pair<std::string, std::string>> PairOf(std::string_view option, const std::string& text,
                                                   std::string_view form) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return Mistake(option, text, fmt::format("expected {}", form));
  return std::pair{text.substr(0, equals), text.substr(equals + 1)};
}

constexpr std::string_view kMatchModes[] = {"exact", "fuzzy", "position"};  // in the order of MatchMode
constexpr double kMostThreads = 4096, kMostElements = 1e6;

Result<Done> TakeMatch(const std::string& text, CompareRequest& request) {
  VN_ASSIGN_OR_RETURN(const std::size_t chosen, Choose("--match", text, kMatchModes));
  request.match = static_cast<MatchMode>(chosen);
  return Done{};
}
Result<Done> TakeRename(const std::string& text, CompareRequest& request) {
  VN_ASSIGN_OR_RETURN(auto rename, PairOf("--rename", text, "OLD=NEW"));
  request.renames.push_back(std::move(rename));
  return Done{};
}
Result<Done> TakeOption(const std::string& text, CompareRequest& request) {
  VN_ASSIGN_OR_RETURN(auto option, PairOf("--option", text, "NAME=VALUE"));
  request.options.insert_or_assign(option.first, option.second);
  return Done{};
}
constexpr char kMaxErr[] = "max_err", kGt[] = "gt";
template <const char* kName>
Result<Done> TakeNamed(const std::string& text, CompareRequest& request) {
  request.options.insert_or_assign(kName, text);
  return Done{};
}
Result<Done> TakeOnly(const std::string& text, CompareRequest& request) {
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    request.only.push_back(text.substr(start, comma - start));
    start = comma + 1;
  }
  return Done{};
}
Result<Done> TakeTop(const std::string& text, CompareRequest& request) {
  VN_ASSIGN_OR_RETURN(const double number, NumberOf("--top", text));
  request.top = static_cast<std::size_t>(std::min(number, 1e9));
  return Done{};
}
Result<Done> TakeWorst(const std::string& text, CompareRequest& request) {
  VN_ASSIGN_OR_RETURN(const double number, NumberOf("--worst", text));
  request.worst = static_cast<std::size_t>(std::min(number, kMostElements));
  return Done{};
}
Result<Done> TakeThreads(const std::string& text, CompareRequest& request) {
  VN_ASSIGN_OR_RETURN(request.num_threads, ParseThreads(text));
  return Done{};
}
Result<Done> TakeRtol(const std::string& text, CompareRequest& request) {
  VN_ASSIGN_OR_RETURN(request.rtol, NumberOf("--rtol", text));
  return Done{};
}
Result<Done> TakeAtol(const std::string& text, CompareRequest& request) {
  VN_ASSIGN_OR_RETURN(request.atol, NumberOf("--atol", text));
  return Done{};
}
template <auto kMember>
Result<Done> TakeText(const std::string& text, CompareRequest& request) {
  request.*kMember = text;
  return Done{};
}
Result<Done> TakeOutput(const std::string& text, CompareRequest& request) {
  request.outputs.push_back(text);
  return Done{};
}
template <bool CompareRequest::*kMember>
Result<Done> TakeFlag(const std::string&, CompareRequest& request) {
  request.*kMember = true;
  return Done{};
}

using R = CompareRequest;
constexpr std::string_view kMatching = "Matching", kJudging = "Judging", kReport = "Report",
                           kRunning = "Running";
// clang-format off
constexpr CompareOption kOptions[] = {
    {{"", "--family", kRequired, false, "what the two paths hold, see below; default: found from their content"}, "NAME", kMatching, TakeText<&R::family>},
    {{"", "--match", kRequired, false, "exact: equal names. fuzzy: then also without wrappers (module., _orig_mod.), letter case, kind of separator and call counter. position: the i-th with the i-th"}, "exact|fuzzy|position", kMatching, TakeMatch},
    {{"", "--rename", kRequired, false, "OLD in a target name becomes NEW before matching; may be repeated"}, "OLD=NEW", kMatching, TakeRename},
    {{"", "--mapping", kRequired, false, "yaml: target name -> golden name, before matching"}, "FILE", kMatching, TakeText<&R::mapping>},
    {{"", "--rtol", kRequired, false, "allowed |target - golden| is atol + rtol * |golden|; default by dtype, as torch.testing.assert_close"}, "X", kJudging, TakeRtol},
    {{"", "--atol", kRequired, false, "see --rtol"}, "X", kJudging, TakeAtol},
    {{"", "--check-dtype", kNone, false, "different dtypes fail"}, "", kJudging, TakeFlag<&R::check_dtype>},
    {{"", "--strict", kNone, false, "failing rows, and rows without a partner, make the status 1"}, "", kJudging, TakeFlag<&R::strict>},
    {{"", "--rules", kRequired, false, "thresholds and messages of your own (JSON)"}, "FILE", kJudging, TakeText<&R::rules>},
    {{"", "--max-err", kRequired, false, "--family xray: largest |target - golden| that is no Fail; default 0.01"}, "X", kJudging, TakeNamed<kMaxErr>},
    {{"", "--gt", kRequired, false, "--family xray: GtNum counts elements with |target - golden| above X; default 0"}, "X", kJudging, TakeNamed<kGt>},
    {{"-o", "--output", kRequired, false, "write a report; its ending chooses the format: .csv, .jsonl, .json, .xlsx; a folder gets one for each rank; - is standard output; may be repeated"}, "FILE|FOLDER", kReport, TakeOutput},
    {{"", "--format", kRequired, false, "format of every report, whatever its ending: csv, xlsx, json or jsonl (jsonl keeps all that was measured)"}, "csv|jsonl|json|xlsx", kReport, TakeText<&R::format>},
    {{"", "--sort", kRequired, false, "order rows by this column, worst or alphabetically first; default: file order"}, "COLUMN", kReport, TakeText<&R::sort>},
    {{"", "--only", kRequired, false, "leave out the other rows: failed, error, unmatched, passed; may be repeated"}, "KIND", kReport, TakeOnly},
    {{"", "--top", kRequired, false, "rows on the screen, worst first; default: 20 for tensors, none for recordings"}, "N", kReport, TakeTop},
    {{"", "--worst", kRequired, false, "look at the elements of the worst failing pair, or of the culprit's output: the K that differ most, and the axis that the error lies in"}, "K", kReport, TakeWorst},
    {{"", "--option", kRequired, false, "set an option that only one family has, see below; may be repeated"}, "NAME=VALUE", kRunning, TakeOption},
    {{"-j", "--threads", kRequired, false, "threads to use; default: one per core"}, "N", kRunning, TakeThreads},
};

// msprobe's spellings where the rest of the line is ours.
struct Spelling { std::string_view theirs; std::vector<std::string> ours; };
const Spelling kSpellings[] = {
    {"-fm", {"--match", "fuzzy"}},               {"--fuzzy_match", {"--match", "fuzzy"}},
    {"-dm", {"--mapping"}},                      {"--data_mapping", {"--mapping"}},
    {"-da", {"--option", "diff_analyze=true"}},  {"--diff_analyze", {"--option", "diff_analyze=true"}},
    {"-hl", {"--option", "highlight=true"}},     {"--highlight", {"--option", "highlight=true"}},
    {"--xlsx", {"--format", "xlsx"}},            {"--output_path", {"--output"}},
    {"-tensor_log", {"--option", "log_rows=true"}}, {"--is_print_compare_log", {"--option", "log_rows=true"}},
};
// clang-format on

Args InOurWords(const Args& args) {
  Args words;
  for (const std::string& word : args) {
    const auto* row = std::find_if(std::begin(kSpellings), std::end(kSpellings),
                                   [&](const Spelling& known) { return known.theirs == word; });
    if (row == std::end(kSpellings)) {
      words.push_back(word);
    } else {
      words.insert(words.end(), row->ours.begin(), row->ours.end());
    }
  }
  return words;
}

// The command line as CLI11 sees it.
struct CompareArgs {
  CompareRequest request;
  std::string result;
  bool quiet = false;
  std::string log_level;
  std::optional<Error> mistake;

  std::unique_ptr<CLI::App> Declare() {
    auto app = NewApp("compare",
                      "Compare two recordings, or the tensors under two paths: files, checkpoints, folders.",
                      Footer());
    app->add_option("TARGET", request.target, "what is under test")->type_name("")->required();
    app->add_option("GOLDEN", request.golden, "what it should be")->type_name("")->required();
    app->add_option("RESULT", result,
                    "two HDF5 recordings: compare them as --family xray, and write this .csv or .xlsx")
        ->type_name("");
    for (const CompareOption& row : kOptions) Declare(row, *app);
    DeclareQuiet(*app, quiet);
    app->add_option("--log-level", log_level,
                    "how much to log about recordings: debug, info, warning, error or none")
        ->type_name("LEVEL")
        ->group(std::string(kRunning));
    return app;
  }

 private:
  void Declare(const CompareOption& row, CLI::App& app) {
    std::string names(row.option.short_name);
    names += (names.empty() ? "" : ",") + std::string(row.option.name);
    const auto take = [this, &row](const std::string& text) {
      const Result<Done> taken = row.take(text, request);
      if (!taken && !mistake) mistake = taken.error();
    };
    CLI::Option* option = nullptr;
    if (row.option.value == kNone) {
      option = app.add_flag_callback(
          names, [take] { take(""); }, std::string(row.option.help));
    } else {
      const auto take_all = [take](const std::vector<std::string>& texts) {
        for (const std::string& text : texts) take(text);
      };
      option =
          app.add_option_function<std::vector<std::string>>(names, take_all, std::string(row.option.help))
              ->type_name(std::string(row.type))
              ->allow_extra_args(false);
    }
    option->group(std::string(row.group));
  }
};

// A verdict fits one screen, however many ranks there are. The last file is the summary.
constexpr std::size_t kMostFilesShown = 6;

std::string WrittenText(std::span<const std::string> written) {
  const bool all = written.size() <= kMostFilesShown;
  const std::size_t num_first = all ? written.size() : kMostFilesShown - 2;
  std::string text;
  for (const std::string& path : written.first(num_first)) text += "wrote " + Printable(path) + '\n';
  if (!all) {
    text += fmt::format("wrote {} more beside them\nwrote {}\n", written.size() - num_first - 1,
                        Printable(written.back()));
  }
  return text;
}

bool TakesStandardOutput(const CompareRequest& request) {
  return std::any_of(request.outputs.begin(), request.outputs.end(),
                     [](const std::string& output) { return output == "-" || output == "/dev/stdout"; });
}

// Our verdict among msprobe's log lines.
void LogText(std::string_view text, Logger& logger) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    logger(LogLevel::kInfo, text.substr(0, end));
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::span<const CompareOption> CompareOptions() { return kOptions; }

Result<int> ParseThreads(const std::string& text) {
  VN_ASSIGN_OR_RETURN(const double number, NumberOf("--threads", text));
  if (number > kMostThreads) return Mistake("--threads", text, fmt::format("at most {}", kMostThreads));
  return static_cast<int>(number);
}

Result<Done> TakeCompareOptions(const ParsedOptions& parsed, CompareRequest& request) {
  for (const CompareOption& row : kOptions) {
    for (const std::string& text : parsed.All(row.option.key())) VN_RETURN_IF_ERROR(row.take(text, request));
  }
  return Done{};
}

ExitCode RunRequest(const CompareRequest& request, const CompareRun& run, Logger& logger) {
  Interrupt interrupt;
  std::FILE* const stream = TakesStandardOutput(request) ? stderr : stdout;
  std::unique_ptr<Progress> progress;
  CompareHooks hooks;
  hooks.stop = interrupt.token();
  hooks.on_log = logger.sink();
  hooks.on_progress = [&](const CompareProgress& done) {
    if (!progress) {
      progress = std::make_unique<Progress>(stderr, run.quiet ? ProgressStyle::kQuiet : ProgressStyle::kAuto,
                                            "compare", done.num_items, done.num_bytes);
    }
    progress->Update(done.items_done, done.bytes_done);
    if (done.items_done == done.num_items) progress.reset();
  };
  hooks.screen = {ScreenWidth(stream), UseColour(stream), run.quiet};
  const Result<CompareOutcome> outcome = CompareRecordings(request, hooks);
  progress.reset();
  if (interrupt.interrupted()) return ExitCode::kInterrupted;
  if (!outcome) {
    if (run.as_msprobe && !logger.has_error()) logger(LogLevel::kError, outcome.error().Message());
    if (run.as_msprobe) return ExitCode::kDiffers;
    return logger.has_error() ? ExitCode::kCannotTell : Complain(outcome.error());
  }
  if (run.as_msprobe) {
    LogText(outcome->text, logger);
    return ExitCode::kSame;
  }
  if (!outcome->text.empty()) Say(stream, outcome->text + WrittenText(outcome->written));
  return static_cast<ExitCode>(outcome->status);
}

ExitCode RunCompare(const Args& args) {
  if (IsMsprobeCompare(args)) return RunMsprobeCompare(args);
  CompareArgs compare;
  const auto app = compare.Declare();
  if (const auto code = Parse(*app, InOurWords(args))) return *code;
  if (compare.mistake) return Complain(*compare.mistake);
  if (!compare.result.empty()) {
    for (const std::string& path : {compare.request.target, compare.request.golden}) {
      if (compare.request.family.empty() && Exists(path) && !xray::IsHdf5File(path)) {
        return Complain(fmt::format("{}: a third path is for two HDF5 recordings, and {} is none",
                                    Printable(compare.result), Printable(path)),
                        "-o FILE writes a report of anything");
      }
    }
    compare.request.outputs.push_back(compare.result);
    if (compare.request.family.empty()) compare.request.family = "xray";
  }
  int lowest = static_cast<int>(compare.quiet ? LogLevel::kError : LogLevel::kWarning);
  if (!compare.log_level.empty()) {
    const Result<std::size_t> level = Choose("--log-level", compare.log_level, kLogLevelNames);
    if (!level) return Complain(level.error());
    lowest = static_cast<int>(*level);
  }
  Logger logger(stderr, lowest);
  return RunRequest(compare.request, {compare.quiet, false}, logger);
}

std::string HelpCompare() {
  CompareArgs args;
  return HelpText(*args.Declare()) + '\n' + HelpMsprobeCompare();
}

}  // namespace vernier

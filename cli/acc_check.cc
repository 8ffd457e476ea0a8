// `vernier acc_check` and `vernier multi_acc_check`: every recorded API by itself, on a device and on the CPU
// in higher precision. Files and verdicts are ours; a Python interpreter with torch executes the calls.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "cli/interrupt.h"
#include "cli/precheck.h"
#include "cli/screen.h"
#include "core/atomic_file.h"
#include "core/json_cursor.h"
#include "core/mapped_file.h"
#include "core/paths.h"
#include "core/progress.h"
#include "core/text.h"
#include "precheck/run.h"

namespace vernier {
namespace {

using enum OptionValue;
using precheck::RunRequest;
using precheck::RunSummary;
using precheck::Verdict;

constexpr Option kSharedOptions[] = {
    {"-api_info", "--api_info_file", kRequired, true, "dump.json of a recording with level L1 or mix"},
    {"-o", "--out_path", kRequired, false, "folder for the results; default ./"},
    {"-save_error_data", "", kNone, false, "keep inputs and outputs of what did not pass"},
    {"-j", "--jit_compile", kNone, false, "NPU: compile operators, as the recorded run did"},
    {"-d", "--device", kSeveral, false,
     "cpu, cuda:0, npu:1, xpu:0 or a number; default: the first accelerator, else cpu"},
    {"-csv_path", "--result_csv_path", kRequired, false, "go on with an interrupted run: its result CSV"},
    {"-f", "--filter_api", kNone, false, "leave out calls that repeat an earlier one but for values"},
    {"-config", "--config_path", kRequired, false,
     "config.json or .yaml with white_list, black_list, error_data_path"},
    {"", "--policy", kRequired, false,
     "how a standard is chosen for an API: manual (default), per_api, benchmark_first"},
    {"", "--thresholds", kRequired, false, "numbers of the standards: manual (default) or peer"},
    {"", "--header", kRequired, false, "columns in English (en, default) or Chinese (zh)"},
    {"", "--rules", kRequired, false, "JSON file that changes lists or thresholds of rules/precheck_*.json"},
    {"", "--html", kRequired, false, "write the summary as a page"},
    {"-q", "--quiet", kNone, false, "errors only"}};
constexpr Option kSingleOptions[] = {
    {"", "--only", kRequired, false,
     "one API (Functional.softmax.3) or a pattern; shows inputs and worst elements"}};
constexpr Option kMultiOptions[] = {
    {"-n", "--num_splits", kRequired, false,
     "worker processes, 1 to 64 and at most 8 for each device; default 8"},
    {"", "--timeout", kRequired, false, "seconds that one API may take; default 600"}};

constexpr std::size_t kMaxSplits = 64, kDefaultSplits = 8, kMaxPerDevice = 8, kMaxDevices = 8;
constexpr double kDefaultTimeout = 600;

std::vector<Option> OptionsOf(bool multi) {
  std::vector<Option> options(std::begin(kSharedOptions), std::end(kSharedOptions));
  const std::span<const Option> own = multi ? std::span<const Option>(kMultiOptions) : kSingleOptions;
  options.insert(options.end(), own.begin(), own.end());
  return options;
}

std::string HelpOf(bool multi) {
  const char* command = multi ? "multi_acc_check" : "acc_check";
  return fmt::format(
      "Run every recorded API by itself on a device and on the CPU in higher precision, and judge the "
      "outputs{}.\n\n"
      "Usage: vernier {} -api_info dump.json [OPTIONS]\n\n{}\n"
      "VERNIER_PYTHON names the interpreter that executes the APIs; default python3. It needs torch and this "
      "package.\n\n"
      "Examples:\n"
      "  vernier {} -api_info dump/step0/rank0/dump.json -o result\n"
      "  vernier {} -api_info dump/step0/rank0/dump.json -d {}\n\n"
      "Exit status: 0 no API has an error, 1 some have, 2 nothing could be checked, 130 interrupted.\n",
      multi ? ", with several processes" : "", command, OptionsHelp(OptionsOf(multi)), command, command,
      multi ? "cuda:0 cuda:1 -n 16" : "cuda:0 --only Functional.softmax.3");
}

// The interpreter that executes calls.
Result<std::vector<std::string>> PythonCommand() {
  const char* named = std::getenv("VERNIER_PYTHON");
  const std::string python = named != nullptr && *named != '\0' ? named : "python3";
  bool found = python.find('/') != std::string::npos && access(python.c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");
  std::string_view folders = path != nullptr ? path : "";
  while (!found && python.find('/') == std::string::npos && !folders.empty()) {
    const std::size_t colon = folders.find(':');
    found = access(fmt::format("{}/{}", folders.substr(0, colon), python).c_str(), X_OK) == 0;
    folders = colon == std::string_view::npos ? "" : folders.substr(colon + 1);
  }
  if (!found) {
    return Error{ErrorCode::kNotFound, python,
                 "no Python to execute the APIs: set VERNIER_PYTHON to one that has torch and vernier"};
  }
  return std::vector<std::string>{python, "-m", "vernier.precheck.worker"};
}

Result<std::vector<std::string>> DevicesOf(const ParsedOptions& parsed, bool multi) {
  std::vector<std::string> devices = parsed.All("--device");
  if (devices.empty()) return std::vector<std::string>{""};
  std::set<std::string> different(devices.begin(), devices.end());
  if (different.size() != devices.size())
    return Error{ErrorCode::kBadArgument, "-d", "the devices must be different ones"};
  if (devices.size() > kMaxDevices)
    return Error{ErrorCode::kBadArgument, "-d", fmt::format("at most {} devices", kMaxDevices)};
  if (!multi) devices.resize(1);
  return devices;
}

Result<double> NumberOf(const ParsedOptions& parsed, const std::string& option, double otherwise,
                        double least, double most) {
  const std::optional<std::string> text = parsed.Find(option);
  if (!text) return otherwise;
  char* end = nullptr;
  const double number = std::strtod(text->c_str(), &end);
  if (text->empty() || *end != '\0' || !(number >= least && number <= most)) {
    return Error{ErrorCode::kBadArgument, option,
                 fmt::format("{}: expected a number from {} to {}", Printable(*text), least, most)};
  }
  return number;
}

// One command line, from its words to the exit code.
class AccCheck {
 public:
  AccCheck(bool multi, bool as_msprobe)
      : multi_(multi),
        options_(OptionsOf(multi)),
        line_(multi ? "multi_acc_check" : "acc_check", options_, as_msprobe) {}

  ExitCode Run(const Args& args) {
    if (const auto code = line_.Parse(args, HelpOf(multi_))) return *code;
    if (const Result<Done> filled = Fill(); !filled) return line_.Failed(filled.error());
    Interrupt interrupt;
    const Result<RunSummary> summary = Check(interrupt);
    progress_.reset();
    if (!summary) return interrupt.interrupted() ? ExitCode::kInterrupted : line_.Failed(summary.error());
    return Tell(*summary);
  }

 private:
  const ParsedOptions& parsed() const { return line_.parsed(); }
  bool quiet() const { return parsed().Has("--quiet"); }

  Result<Done> Fill() {
    request_.api_info = parsed().Get("--api_info_file");
    if (request_.api_info.extension() != ".json")
      return Error{ErrorCode::kBadArgument, "-api_info",
                   request_.api_info.string() + ": expected a .json file"};
    if (!Exists(request_.api_info)) return MissingPath(request_.api_info);
    if (const auto folder = parsed().Find("--out_path")) request_.folder = *folder;
    if (const auto path = parsed().Find("--result_csv_path")) request_.csv_path = *path;
    if (const auto path = parsed().Find("--config_path")) request_.config = *path;
    request_.save_error_data = parsed().Has("-save_error_data");
    request_.jit_compile = parsed().Has("--jit_compile");
    request_.filter = parsed().Has("--filter_api");
    request_.only = parsed().Get("--only");
    VN_ASSIGN_OR_RETURN(request_.policy, line_.policy());
    VN_ASSIGN_OR_RETURN(request_.header, line_.header());
    VN_ASSIGN_OR_RETURN(
        const std::size_t thresholds,
        Choose("--thresholds", parsed().Get("--thresholds", "manual"), precheck::kThresholdNames));
    request_.thresholds = static_cast<precheck::Thresholds>(thresholds);
    VN_ASSIGN_OR_RETURN(request_.rules, line_.rules());
    if (const auto path = parsed().Find("--rules")) {
      VN_ASSIGN_OR_RETURN(const FileRef file, MappedFile::Open(*path));
      request_.rules_json = TextOf(file);
    }
    VN_ASSIGN_OR_RETURN(request_.devices, DevicesOf(parsed(), multi_));
    if (multi_) VN_RETURN_IF_ERROR(FillMulti());
    VN_ASSIGN_OR_RETURN(request_.python, PythonCommand());
    return Done{};
  }

  Result<Done> FillMulti() {
    VN_ASSIGN_OR_RETURN(request_.timeout_s, NumberOf(parsed(), "--timeout", kDefaultTimeout, 1e-3, 1e9));
    VN_ASSIGN_OR_RETURN(const double asked, NumberOf(parsed(), "--num_splits", kDefaultSplits, 1,
                                                     static_cast<double>(kMaxSplits)));
    const std::size_t most = kMaxPerDevice * request_.devices.size();
    request_.num_parts = std::min(static_cast<std::size_t>(asked), most);
    if (request_.num_parts < static_cast<std::size_t>(asked) && !quiet())
      Say(stderr, fmt::format("warning: -n {}: at most {} processes for each device, {} here\n", asked,
                              kMaxPerDevice, most));
    return Done{};
  }

  Result<RunSummary> Check(Interrupt& interrupt) {
    precheck::RunHooks hooks;
    hooks.stop = interrupt.token();
    hooks.on_log = [&](std::string_view line) {
      if (!quiet()) Say(stderr, fmt::format("{}\n", line));
    };
    hooks.on_start = [&](const auto& result, const auto& details, const auto& error_data) {
      if (quiet() || result.empty()) return;
      Say(stderr, fmt::format("result:  {}\ndetails: {}\n", result.string(), details.string()));
      if (!error_data.empty()) Say(stderr, fmt::format("data of errors: {}\n", error_data.string()));
    };
    hooks.on_progress = [&](std::uint64_t done, std::uint64_t all) {
      if (!progress_) {
        progress_ = std::make_unique<Progress>(stderr, quiet() ? ProgressStyle::kQuiet : ProgressStyle::kAuto,
                                               multi_ ? "Total items" : "Processing", all, 0);
      }
      progress_->Update(done, 0);
    };
    hooks.on_explained = [&](std::string_view name, const precheck::CallAnswer& answer) {
      progress_.reset();
      Say(stdout, fmt::format("{}: {}{}{}\n{}", Printable(name), precheck::Name(answer.verdict()),
                              answer.message.empty() ? "" : ", ", Printable(answer.message), answer.shown));
    };
    return CheckCalls(request_, hooks);
  }

  ExitCode Tell(const RunSummary& summary) {
    if (!quiet()) {
      Say(stdout, precheck::SummaryText(summary, request_));
      if (!summary.result.empty())
        Say(stdout, fmt::format("wrote {}\nwrote {}\n", summary.result.string(), summary.details.string()));
      for (const auto& path : summary.of_devices) Say(stdout, fmt::format("wrote {}\n", path.string()));
    }
    if (summary.interrupted) {
      if (!summary.result.empty()) {
        Say(stderr, fmt::format("interrupted; to go on: vernier {} -api_info {} -csv_path {}\n",
                                multi_ ? "multi_acc_check" : "acc_check", request_.api_info.string(),
                                summary.result.string()));
      }
      return ExitCode::kInterrupted;
    }
    if (const auto path = parsed().Find("--html")) {
      if (const Result<Done> written = WriteHtml(*path, summary); !written)
        return line_.Failed(written.error());
    }
    const bool nothing_judged =
        summary.count(Verdict::kPass) + summary.count(Verdict::kWarning) + summary.count(Verdict::kError) ==
        0;
    if (nothing_judged && summary.num_resumed == 0) return line_.Finished(ExitCode::kCannotTell);
    return line_.Finished(summary.count(Verdict::kError) > 0 ? ExitCode::kDiffers : ExitCode::kSame);
  }

  Result<Done> WriteHtml(const std::string& path, const RunSummary& summary) {
    VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
    VN_RETURN_IF_ERROR(file.Write(precheck::SummaryHtml(summary, request_)));
    VN_RETURN_IF_ERROR(file.Commit());
    if (!quiet()) Say(stdout, fmt::format("wrote {}\n", path));
    return Done{};
  }

  bool multi_;
  std::vector<Option> options_;
  PrecheckLine line_;
  RunRequest request_;
  std::unique_ptr<Progress> progress_;
};

}  // namespace

std::string HelpAccCheck() { return HelpOf(false); }
std::string HelpMultiAccCheck() { return HelpOf(true); }
ExitCode AccCheckOnce(const Args& args, bool as_msprobe) { return AccCheck(false, as_msprobe).Run(args); }
ExitCode AccCheckInParallel(const Args& args, bool as_msprobe) {
  return AccCheck(true, as_msprobe).Run(args);
}
ExitCode RunAccCheck(const Args& args) { return AccCheckOnce(args, false); }
ExitCode RunMultiAccCheck(const Args& args) { return AccCheckInParallel(args, false); }

}  // namespace vernier

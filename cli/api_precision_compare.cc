// `vernier api_precision_compare`: is a device worse than another one?
#include "precheck/compare.h"

#include <fmt/format.h>

#include <memory>

#include "cli/interrupt.h"
#include "cli/precheck.h"
#include "cli/screen.h"
#include "core/progress.h"
#include "core/text.h"

namespace vernier {
namespace {

using enum OptionValue;

constexpr Option kOptions[] = {
    {"-npu", "--npu_csv_path", kRequired, true, "details CSV of the device under test"},
    {"-gpu", "--gpu_csv_path", kRequired, true, "details CSV of the reference device"},
    {"-o", "--out_path", kRequired, false, "folder for the results; default ./"},
    {"", "--policy", kRequired, false,
     "how a standard is chosen for an API: manual (default), per_api, benchmark_first"},
    {"", "--header", kRequired, false, "columns in English (en, default) or Chinese (zh)"},
    {"", "--rules", kRequired, false,
     "JSON file that changes lists, levels or limits of rules/precheck_*.json"},
    {"-q", "--quiet", kNone, false, "errors only"}};

void PrintSummary(const precheck::PrecisionSummary& summary) {
  std::string text =
      fmt::format("{} APIs: {} pass, {} error, {} SKIP; {} rows compared",
                  summary.num_passed + summary.num_failed + summary.num_skipped, summary.num_passed,
                  summary.num_failed, summary.num_skipped, summary.num_rows);
  if (summary.num_without_partner > 0)
    text += fmt::format(", {} without a partner left out", summary.num_without_partner);
  if (summary.num_duplicates > 0)
    text += fmt::format(", {} with several partners skipped", summary.num_duplicates);
  text += '\n';
  for (const precheck::ApiVerdict& api : summary.failed)
    text += fmt::format("  error  {}  {}\n", Printable(api.name), api.failed_by);
  if (summary.num_failed > summary.failed.size())
    text += fmt::format("  ... and {} more\n", summary.num_failed - summary.failed.size());
  text += fmt::format("wrote {}\nwrote {}\n", summary.result.string(), summary.details.string());
  Say(stdout, text);
}

Result<Done> CheckIsCsv(const char* option, const std::filesystem::path& path) {
  if (path.extension() == ".csv") return Done{};
  return Error{ErrorCode::kBadArgument, option, path.string() + ": expected a .csv file"};
}

Result<precheck::PrecisionSummary> Compare(const PrecheckLine& line, Interrupt& interrupt) {
  precheck::PrecisionRequest request;
  request.npu = line.parsed().Get("--npu_csv_path");
  request.gpu = line.parsed().Get("--gpu_csv_path");
  request.folder = line.parsed().Get("--out_path", "./");
  VN_RETURN_IF_ERROR(CheckIsCsv("-npu", request.npu));
  VN_RETURN_IF_ERROR(CheckIsCsv("-gpu", request.gpu));
  VN_ASSIGN_OR_RETURN(request.policy, line.policy());
  VN_ASSIGN_OR_RETURN(request.header, line.header());
  VN_ASSIGN_OR_RETURN(const precheck::Rules rules, line.rules());
  request.rules = &rules;
  const bool quiet = line.parsed().Has("--quiet");
  std::unique_ptr<Progress> progress;
  precheck::PrecisionHooks hooks;
  hooks.stop = interrupt.token();
  hooks.on_progress = [&](std::uint64_t done, std::uint64_t all) {
    if (!progress) {
      progress = std::make_unique<Progress>(stderr, quiet ? ProgressStyle::kQuiet : ProgressStyle::kAuto,
                                            "api_precision_compare", all, 0);
    }
    progress->Update(done, 0);
  };
  std::uint64_t num_warnings = 0;
  hooks.on_warning = [&](std::string_view warning) {
    constexpr std::uint64_t kMaxWarnings = 10;  // the rest is in the closing counts
    if (!quiet && num_warnings++ < kMaxWarnings) Say(stderr, fmt::format("warning: {}\n", warning));
  };
  return precheck::ComparePrecision(request, hooks);
}

}  // namespace

std::string HelpApiPrecisionCompare() {
  return "Judge the outputs of one device against those of another, from what acc_check found on each.\n\n"
         "Usage: vernier api_precision_compare -npu DETAILS.csv -gpu DETAILS.csv [OPTIONS]\n\n" +
         OptionsHelp(kOptions) +
         "\nExamples:\n"
         "  vernier api_precision_compare -npu npu/accuracy_checking_details_20240102030405.csv \\\n"
         "      -gpu gpu/accuracy_checking_details_20240102040506.csv -o result\n\n"
         "Exit status: 0 no API is worse, 1 some are, 2 nothing could be judged.\n";
}

ExitCode ApiPrecisionCompare(const Args& args, bool as_msprobe) {
  PrecheckLine line("api_precision_compare", kOptions, as_msprobe);
  if (const auto code = line.Parse(args, HelpApiPrecisionCompare())) return *code;
  Interrupt interrupt;
  const Result<precheck::PrecisionSummary> summary = Compare(line, interrupt);
  if (interrupt.interrupted()) return ExitCode::kInterrupted;
  if (!summary) return line.Failed(summary.error());
  if (!line.parsed().Has("--quiet")) PrintSummary(*summary);
  if (summary->num_passed + summary->num_failed == 0) return line.Finished(ExitCode::kCannotTell);
  return line.Finished(summary->num_failed > 0 ? ExitCode::kDiffers : ExitCode::kSame);
}

ExitCode RunApiPrecisionCompare(const Args& args) { return ApiPrecisionCompare(args, false); }

}  // namespace vernier

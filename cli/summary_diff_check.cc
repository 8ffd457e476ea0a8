// The unit tests' details of two machines side by side.
#include <fmt/format.h>

#include "cli/arguments.h"
#include "cli/screen.h"
#include "core/text.h"
#include "xray_ops/diff_check.h"

namespace vernier {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  vernier summary_diff_check ./xpu.csv ./gpu.csv ./result.csv\n\n"
    "A row passes when the XPU's own test passed, or when none of its errors is larger than the GPU's: order "
    "by\n"
    "order not more elements, and at most twice the largest error.\n\n"
    "Exit status: 0 nothing fails, 1 some rows are fail, mismatch or error, 2 a file cannot be read or "
    "nothing "
    "could be joined.\n";

constexpr std::size_t kRowsOfAScreen = 40;

struct DiffArgs {
  std::string xpu, gpu, result;
  bool quiet = false;

  std::unique_ptr<CLI::App> Declare() {
    auto app = NewApp("summary_diff_check", "Join the details CSVs of unit tests that ran on two machines.",
                      kExamples);
    app->add_option("XPU", xpu, "details of the device in question")->type_name("")->required();
    app->add_option("GPU", gpu, "details of the device it is held against")->type_name("")->required();
    app->add_option("RESULT", result, "the joined table: .csv, .xlsx, .json or .jsonl")
        ->type_name("")
        ->required();
    DeclareQuiet(*app, quiet);
    return app;
  }
};

std::string Told(const xray_ops::DiffTable& table) {
  std::string text = fmt::format("{} of {} rows joined", table.num_joined, table.rows.size());
  std::string_view separator = ": ";
  for (std::size_t i = 0; i < xray_ops::kNumDiffStatuses; ++i) {
    if (table.counts[i] == 0) continue;
    text += fmt::format("{}{} {}", separator, table.counts[i], Name(static_cast<xray_ops::DiffStatus>(i)));
    separator = ", ";
  }
  return text + "\n";
}

Result<ExitCode> DiffCheck(const DiffArgs& args) {
  VN_ASSIGN_OR_RETURN(const xray_ops::DiffTable table, xray_ops::DiffDetails(args.xpu, args.gpu));
  VN_RETURN_IF_ERROR(xray_ops::WriteDiff(table, args.result));
  for (const std::string& problem : table.problems) Complain(Printable(problem));
  if (!args.quiet) {
    Say(stdout, DiffScreen(table, kRowsOfAScreen));
    if (table.rows.size() > kRowsOfAScreen)
      Say(stdout, fmt::format("and {} more rows in {}\n", table.rows.size() - kRowsOfAScreen,
                              Printable(args.result)));
    Say(stdout, Told(table));
  }
  if (!table.problems.empty()) return ExitCode::kCannotTell;
  const auto count = [&](xray_ops::DiffStatus status) {
    return table.counts[static_cast<std::size_t>(status)];
  };
  using enum xray_ops::DiffStatus;
  return count(kFail) + count(kMismatch) + count(kError) > 0 ? ExitCode::kDiffers : ExitCode::kSame;
}

}  // namespace

std::string HelpSummaryDiffCheck() {
  DiffArgs args;
  return HelpText(*args.Declare());
}

ExitCode RunSummaryDiffCheck(const Args& words) {
  DiffArgs args;
  const auto app = args.Declare();
  if (const auto code = Parse(*app, words)) return *code;
  const Result<ExitCode> code = DiffCheck(args);
  return code ? *code : Complain(code.error());
}

}  // namespace vernier

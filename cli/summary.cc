// The tensors of an HDF5 recording as a table.
#include <filesystem>

#include "cli/arguments.h"
#include "cli/interrupt.h"
#include "cli/screen.h"
#include "core/atomic_file.h"
#include "core/progress.h"
#include "profiles/xray/summary.h"

namespace vernier {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  vernier summary dump-vision/globalrank-0_localrank-0.h5\n"
    "  vernier summary xpu.h5 sum.txt\n"
    "  vernier summary xpu.h5 sum.csv --trust-attributes\n\n"
    "Exit status: 0 everything could be read, 2 something could not (the rest is listed all the same).\n";

struct SummaryArgs {
  std::string file, output;
  xray::SummaryOptions options;
  SpeedArgs speed;

  std::unique_ptr<CLI::App> Declare() {
    auto app =
        NewApp("summary", "Show min, max, mean and std of every tensor of an HDF5 recording.", kExamples);
    app->add_option("FILE", file, "an .h5 file")->type_name("")->required();
    app->add_option("OUT", output,
                    "write to this file: .txt the table, .csv, .json, .jsonl or .xlsx with more columns")
        ->type_name("");
    app->add_flag("--trust-attributes", options.trust_attributes,
                  "take the numbers that the recorder wrote beside the data, and do not read the data");
    speed.Declare(*app);
    return app;
  }
};

Result<Done> WriteText(const std::string& path, const std::string& text) {
  VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::CreateReport(path));
  VN_RETURN_IF_ERROR(file.Write(text));
  return file.Commit();
}

Result<ExitCode> Summarize(SummaryArgs& args, Interrupt& interrupt) {
  const bool as_text = std::filesystem::path(args.output).extension() == ".txt";
  std::optional<OutputFile> output;
  if (!args.output.empty() && !as_text) {
    VN_ASSIGN_OR_RETURN(output, OutputFileOf(args.output, ""));
  }
  args.options.num_threads = args.speed.num_threads;
  std::unique_ptr<Progress> progress;
  xray::SummaryHooks hooks;
  hooks.stop = interrupt.token();
  hooks.on_progress = [&](const MeasureProgress& done, std::uint64_t num_items, std::uint64_t num_bytes) {
    if (!progress) {
      progress =
          std::make_unique<Progress>(stderr, args.speed.quiet ? ProgressStyle::kQuiet : ProgressStyle::kAuto,
                                     "summary", num_items, num_bytes);
    }
    progress->Update(done.items_done, done.bytes_done);
  };
  VN_ASSIGN_OR_RETURN(const std::vector<xray::SummaryRow> rows,
                      xray::SummarizeRecording(args.file, args.options, hooks));
  progress.reset();
  if (output) {
    VN_RETURN_IF_ERROR(xray::WriteSummary(rows, *output));
  } else if (as_text) {
    VN_RETURN_IF_ERROR(WriteText(args.output, xray::SummaryTable(rows)));
  } else {
    Say(stdout, xray::SummaryTable(rows));
  }
  if (!args.output.empty() && args.output != "-" && !args.speed.quiet)
    Say(stdout, "wrote " + args.output + "\n");
  const auto num_bad =
      std::count_if(rows.begin(), rows.end(), [](const auto& row) { return row.error.has_value(); });
  if (num_bad > 0)
    Complain(std::to_string(num_bad) + " of " + std::to_string(rows.size()) + " tensors could not be read");
  return num_bad > 0 ? ExitCode::kCannotTell : ExitCode::kSame;
}

}  // namespace

std::string HelpSummary() {
  SummaryArgs args;
  return HelpText(*args.Declare());
}

ExitCode RunSummary(const Args& words) {
  SummaryArgs args;
  const auto app = args.Declare();
  if (const auto code = Parse(*app, words)) return *code;
  Interrupt interrupt;
  const Result<ExitCode> code = Summarize(args, interrupt);
  if (interrupt.interrupted()) return ExitCode::kInterrupted;
  return code ? *code : Complain(code.error());
}

}  // namespace vernier

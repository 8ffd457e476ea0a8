// `vernier shrink`: dump files of graph mode give way to their minima and maxima.
#include <fmt/format.h>

#include <algorithm>

#include "cli/arguments.h"
#include "cli/interrupt.h"
#include "cli/log.h"
#include "cli/screen.h"
#include "core/progress.h"
#include "core/text.h"
#include "profiles/torchair/shrink.h"

namespace vernier {
namespace {

constexpr const char* kExamples =
    "A GE dump file X gives way to X_min_max.npz, an X.npy to X_min_max.npy, once nobody writes to it any "
    "more. The\n"
    "original is removed when its replacement is on disk. vernier compare takes such trees as well.\n\n"
    "Examples:\n"
    "  vernier shrink msprobe_ge_dump\n"
    "  vernier shrink msprobe_fx_dump --watch --until-idle 60\n"
    "  vernier shrink msprobe_ge_dump --keep min,max,mean,norm,crc32\n\n"
    "Exit status: 0 everything that was found was converted, 1 some files were left as they are, 2 nothing "
    "could be\n"
    "done. With --watch, Ctrl-C ends it in the same way.\n";

struct ShrinkArgs {
  std::string folder, keep = "min,max";
  bool watch = false;
  double until_idle_seconds = -1;
  SpeedArgs speed;

  std::unique_ptr<CLI::App> Declare() {
    auto app =
        NewApp("shrink", "Replace finished dump files of graph mode by their minima and maxima.", kExamples);
    app->add_option("FOLDER", folder, "a GE or FX dump, or any folder of them")->type_name("")->required();
    app->add_option("--keep", keep,
                    "what to keep of each tensor: min, max, mean, norm, crc32, shape, dtype; what is more "
                    "than min,max "
                    "goes to a file NAME_info.json beside it; default min,max")
        ->type_name("WORDS");
    app->add_flag("--watch", watch, "go on until interrupted, while the dump is being written");
    app->add_option("--until-idle", until_idle_seconds,
                    "with --watch: end when nothing changed for so many seconds")
        ->type_name("SECONDS")
        ->check(CLI::NonNegativeNumber);
    speed.Declare(*app);
    return app;
  }
};

Result<std::vector<std::string>> KeepOf(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    const std::string word = text.substr(start, comma - start);
    VN_RETURN_IF_ERROR(Choose("--keep", word, torchair::KeepWords()));
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
    start = comma + 1;
  }
  return words;
}

}  // namespace

std::string HelpShrink() {
  ShrinkArgs args;
  return HelpText(*args.Declare());
}

ExitCode RunShrink(const Args& words) {
  ShrinkArgs args;
  const auto app = args.Declare();
  if (const auto code = Parse(*app, words)) return *code;
  Result<std::vector<std::string>> keep = KeepOf(args.keep);
  if (!keep) return Complain(keep.error());
  if (args.until_idle_seconds >= 0 && !args.watch) return Complain("--until-idle needs --watch");
  Interrupt interrupt;
  Logger logger(stderr, static_cast<int>(args.speed.quiet ? LogLevel::kError : LogLevel::kInfo));
  torchair::ShrinkOptions options;
  options.folder = args.folder;
  options.keep = *std::move(keep);
  options.watch = args.watch;
  if (args.until_idle_seconds >= 0) {
    constexpr double kLongestSeconds = 1e9;
    const double seconds = std::min(args.until_idle_seconds, kLongestSeconds);
    options.until_idle = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
  }
  options.num_threads = args.speed.num_threads;
  options.stop = interrupt.token();
  options.on_log = logger.sink();
  std::unique_ptr<Progress> progress;
  options.on_progress = [&](const CompareProgress& done) {
    if (!progress) {
      progress =
          std::make_unique<Progress>(stderr, args.speed.quiet ? ProgressStyle::kQuiet : ProgressStyle::kAuto,
                                     "shrink", done.num_items, done.num_bytes);
    }
    progress->Update(done.items_done, done.bytes_done);
    if (done.bytes_done == done.num_bytes) progress.reset();
  };
  const Result<torchair::ShrinkOutcome> outcome = torchair::Shrink(options);
  progress.reset();
  if (interrupt.interrupted() && !args.watch) return ExitCode::kInterrupted;
  if (!outcome) return Complain(outcome.error());
  if (!args.speed.quiet) {
    Say(stdout,
        fmt::format("converted {} files ({} -> {}), left {} as they are\n", outcome->num_converted,
                    SizeText(outcome->bytes_before), SizeText(outcome->bytes_after), outcome->num_left));
  }
  return outcome->num_left == 0 ? ExitCode::kSame : ExitCode::kDiffers;
}

}  // namespace vernier

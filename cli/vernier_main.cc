// From the words of the command line to the command they name, and back to an exit code.
#include <signal.h>

#include <cstdlib>
#include <exception>

#include "cli/build_info.h"
#include "cli/commands.h"
#include "cli/main.h"
#include "cli/msprobe.h"
#include "cli/screen.h"
#include "core/text.h"
#include "vernier/measure.h"

namespace vernier {
namespace {

ExitCode Dispatch(std::string_view program, const Args& words) {
  if (IsMsprobeName(program)) return RunMsprobe(words, /*as_msprobe=*/true);
  if (IsMsprobeLine(words)) return RunMsprobe(words, /*as_msprobe=*/false);
  if (words.empty()) {
    Say(stderr, Overview());
    return ExitCode::kCannotTell;
  }
  const std::string& first = words.front();
  if (first == "--help" || first == "-h") return RunHelp({});
  if (first == "--version" || first == "-V") {
    Say(stdout, std::string("vernier ") + kVersion + "\n");
    return ExitCode::kSame;
  }
  const Command* command = FindCommand(first);
  return command ? command->run(Args(words.begin() + 1, words.end())) : UnknownCommand(first);
}

// A reader that had enough (head) shows as a failed write, not as our death. Restored for a program that
// lives on.
class IgnorePipeSignal {
 public:
  IgnorePipeSignal() : before_(signal(SIGPIPE, SIG_IGN)) {}
  ~IgnorePipeSignal() { signal(SIGPIPE, before_); }

 private:
  void (*before_)(int);
};

// A name that is mistyped would silently test the wrong loops.
Result<Done> CheckForcedTarget() {
  const char* forced = std::getenv("VERNIER_TARGET");
  if (forced != nullptr) VN_RETURN_IF_ERROR(Choose("VERNIER_TARGET", forced, TargetNames()));
  return Done{};
}

}  // namespace

int VernierMain(int argc, char** argv) {
  if (argv == nullptr) argc = 0;
  const IgnorePipeSignal ignore_pipe_signal;
  ExitCode code = ExitCode::kCannotTell;
  try {
    if (const Result<Done> target = CheckForcedTarget(); !target)
      return static_cast<int>(Complain(target.error()));
    code = Dispatch(argc > 0 ? argv[0] : "", argc > 1 ? Args(argv + 1, argv + argc) : Args());
  } catch (const std::bad_alloc&) {
    code = Complain("not enough memory");
  } catch (const std::exception& exception) {
    code = Complain(Error{ErrorCode::kInternal, "", exception.what()});
  }
  return static_cast<int>(FlushScreen(code));
}

}  // namespace vernier

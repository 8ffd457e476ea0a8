#include "cli/screen.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "core/text.h"

namespace vernier {
namespace {

int first_stdout_errno = 0;

void KeepFailure(std::FILE* stream) {
  if (stream == stdout && first_stdout_errno == 0) first_stdout_errno = errno;
}

}  // namespace

void Say(std::FILE* stream, std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stream) != text.size()) KeepFailure(stream);
}

ExitCode Complain(std::string_view message, std::string_view next_step) {
  std::string text = fmt::format("vernier: {}\n", message);
  if (!next_step.empty()) text += fmt::format("         {}\n", next_step);
  std::fflush(stdout);
  Say(stderr, text);
  return ExitCode::kCannotTell;
}

ExitCode Complain(const Error& error) {
  const std::string_view next_step = Info(error.code).try_;
  return Complain(error.Message(), next_step.empty() ? "" : fmt::format("try: {}", next_step));
}

ExitCode FlushScreen(ExitCode code) {
  if (std::fflush(stdout) != 0) KeepFailure(stdout);
  const int failure = std::exchange(first_stdout_errno, 0);
  std::clearerr(stdout);
  if (failure == 0 || failure == EPIPE) return code;
  return Complain("standard output: " + std::generic_category().message(failure));
}

bool UseColour(std::FILE* stream) {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  if (no_colour != nullptr && *no_colour != '\0') return false;
  return isatty(fileno(stream)) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

std::size_t ScreenWidth(std::FILE* stream) {
  winsize size = {};
  if (isatty(fileno(stream)) != 1) return 0;
  return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string SizeText(std::uint64_t num_bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (num_bytes < 1024) return fmt::format("{} byte{}", num_bytes, num_bytes == 1 ? "" : "s");
  auto value = static_cast<double>(num_bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, value < 100 ? 1 : 0, kUnits[unit]);
}

}  // namespace vernier

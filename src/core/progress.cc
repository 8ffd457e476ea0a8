#include "core/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace vernier {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;

constexpr milliseconds kShowAfter{1000};  // shorter jobs are over before anyone has read it
constexpr milliseconds kRedrawEvery{100};
constexpr milliseconds kPlainLineEvery{5000};
constexpr std::size_t kBarWidth = 24;

std::string MinutesText(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::min(seconds, 3.6e6));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string RateText(double per_second, bool bytes) {
  if (!bytes) return fmt::format("{:.0f}/s", per_second);
  return per_second >= 1e9 ? fmt::format("{:.1f} GB/s", per_second / 1e9)
                           : fmt::format("{:.0f} MB/s", per_second / 1e6);
}

int TerminalWidth(int fd) {
  winsize size = {};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string ProgressText(std::string_view label, double fraction, double per_second, bool bytes,
                         double seconds_left, bool with_bar) {
  fraction = std::clamp(fraction, 0.0, 1.0);
  const auto filled = static_cast<std::size_t>(fraction * kBarWidth);
  const std::string bar =
      with_bar ? fmt::format("  [{}{}]", std::string(filled, '#'), std::string(kBarWidth - filled, ' ')) : "";
  return fmt::format("{}{}  {:3}%  {}  {} left", label, bar, static_cast<int>(fraction * 100),
                     RateText(per_second, bytes), MinutesText(seconds_left));
}

Progress::Progress(std::FILE* stream, ProgressStyle style, std::string label, std::uint64_t total_items,
                   std::uint64_t total_bytes)
    : stream_(stream),
      quiet_(style == ProgressStyle::kQuiet || stream == nullptr || total_items + total_bytes == 0),
      terminal_(!quiet_ && isatty(fileno(stream)) == 1),
      label_(std::move(label)),
      total_items_(total_items),
      total_bytes_(total_bytes),
      start_(Clock::now()),
      last_draw_(start_ + (terminal_ ? kShowAfter - kRedrawEvery : milliseconds(0))) {}

Progress::~Progress() {
  if (!drawn_ || !terminal_) return;
  std::fputs("\r\x1b[K", stream_);
  std::fflush(stream_);
}

void Progress::Update(std::uint64_t items_done, std::uint64_t bytes_done) {
  if (quiet_) return;
  const Clock::time_point now = Clock::now();
  if (now - last_draw_ < (terminal_ ? kRedrawEvery : kPlainLineEvery)) return;
  last_draw_ = now;
  drawn_ = true;
  // How far by bytes where their total is known, by items where it is not; how fast by bytes wherever there
  // are any.
  const double fraction = total_bytes_ != 0
                              ? static_cast<double>(bytes_done) / static_cast<double>(total_bytes_)
                              : static_cast<double>(items_done) / static_cast<double>(total_items_);
  const bool bytes = total_bytes_ != 0 || bytes_done != 0;
  const double seconds = std::max(duration<double>(now - start_).count(), 1e-9);
  const double per_second = static_cast<double>(bytes ? bytes_done : items_done) / seconds;
  const double seconds_left = fraction > 0 ? seconds * std::max(1 / fraction - 1, 0.0) : 0;
  std::string text = ProgressText(label_, fraction, per_second, bytes, seconds_left, terminal_);
  if (terminal_) {
    text.resize(std::min(text.size(), static_cast<std::size_t>(TerminalWidth(fileno(stream_)) - 1)));
    text = "\r" + text + "\x1b[K";
  } else {
    text += '\n';
  }
  std::fputs(text.c_str(), stream_);
  std::fflush(stream_);
}

}  // namespace vernier

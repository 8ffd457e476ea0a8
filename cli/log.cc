#include "cli/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "cli/screen.h"
#include "core/text.h"

namespace vernier {
namespace {

// What could end or rewrite a line becomes '_', also in its percent-encoded form.
std::string OneLine(std::string_view text) {
  static constexpr std::string_view kCharacters = "\n\r\t\b\f\v\x7f";
  static constexpr std::string_view kEncoded[] = {"%08", "%0a", "%0b", "%0c", "%0d", "%7f"};
  std::string line;
  line.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i, 3);
    const bool encoded = std::find(std::begin(kEncoded), std::end(kEncoded), rest) != std::end(kEncoded);
    line += encoded || kCharacters.find(text[i]) != std::string_view::npos ? '_' : text[i];
    if (encoded) i += 2;
  }
  if (std::any_of(line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }))
    line = Printable(line);
  return line;
}

}  // namespace

void Logger::operator()(LogLevel level, std::string_view text) {
  static constexpr std::string_view kNames[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
  const std::scoped_lock lock(mutex_);
  has_error_ = has_error_ || level == LogLevel::kError;
  if (static_cast<int>(level) < lowest_) return;
  Say(stream_,
      fmt::format("{} ({}) [{}] {}\n", Now(), getpid(), kNames[static_cast<int>(level)], OneLine(text)));
}

const std::string& Logger::Now() {
  const std::time_t now = std::time(nullptr);
  if (now != second_) {
    second_ = now;
    std::tm local{};
    localtime_r(&now, &local);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
    now_ = text;
  }
  return now_;
}

}  // namespace vernier

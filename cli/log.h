// Log lines of a command as msprobe writes them: YYYY-MM-DD hh:mm:ss (pid) [LEVEL] text.
#pragma once

#include <cstdio>
#include <ctime>
#include <mutex>
#include <string>
#include <string_view>

#include "vernier/compare.h"

namespace vernier {

inline constexpr std::string_view kLogLevelNames[] = {"debug", "info", "warning", "error", "none"};

// Thread-safe.
class Logger {
 public:
  Logger(std::FILE* stream, int lowest) : stream_(stream), lowest_(lowest) {}

  void operator()(LogLevel level, std::string_view text);
  // An error was told; whether it was shown depends on the level.
  bool has_error() const { return has_error_; }
  LogSink sink() {
    return [this](LogLevel level, std::string_view text) { (*this)(level, text); };
  }

 private:
  const std::string& Now();

  std::FILE* stream_;
  int lowest_;
  bool has_error_ = false;
  std::mutex mutex_;
  std::time_t second_ = 0;
  std::string now_;
};

}  // namespace vernier

// What a run of the msprobe profile tells its user. Nothing here prints: whoever starts a run hands a sink
// in.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vernier/result.h"

namespace vernier::msprobe {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

using LogSink = std::function<void(LogLevel level, std::string_view text)>;

// Not thread-safe: one for each rank. Lines wait in it until they are flushed, so that ranks which are
// compared at the same time are told one after another.
class Log {
 public:
  explicit Log(LogSink sink, std::string prefix = {}) : sink_(std::move(sink)), prefix_(std::move(prefix)) {}
  void Debug(std::string_view text) { Say(LogLevel::kDebug, text); }
  void Info(std::string_view text) { Say(LogLevel::kInfo, text); }
  void Warning(std::string_view text) { Say(LogLevel::kWarning, text); }
  void Error(std::string_view text) { Say(LogLevel::kError, text); }
  void Say(LogLevel level, std::string_view text) {
    sink_(level, prefix_.empty() ? text : prefix_ + std::string(text));
  }
  const LogSink& sink() const { return sink_; }

 private:
  LogSink sink_;
  std::string prefix_;
};

// A sink that keeps lines until Flush().
class LogBuffer {
 public:
  LogSink sink() {
    return [this](LogLevel level, std::string_view text) { lines_.emplace_back(level, text); };
  }
  void Flush(const LogSink& to) {
    for (const auto& [level, text] : lines_) to(level, text);
    lines_.clear();
  }

 private:
  std::vector<std::pair<LogLevel, std::string>> lines_;
};

// How a failure ends things: kBadArgument skips the rank it belongs to, kNotADump ends the whole run. The
// lines that tell of it are in the log already; `detail` is the last of them.
inline Error RankFailure(Log& log, std::string text) {
  log.Error(text);
  return Error{ErrorCode::kBadArgument, "", std::move(text)};
}
inline Error RunFailure(Log& log, std::string text) {
  log.Error(text);
  return Error{ErrorCode::kNotADump, "", std::move(text)};
}
// Failures of the preparation stage are followed by a second line.
inline Error PreparationFailure(Log& log, std::string text) {
  log.Error(text);
  log.Error("Compare failed. Please check the arguments and do it again!");
  return Error{ErrorCode::kBadArgument, "", std::move(text)};
}

}  // namespace vernier::msprobe

// What a run tells its user, and how it fails. Nothing here prints: whoever starts a run hands a sink in.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vernier/compare.h"

namespace vernier::msprobe {

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

// How a failure ends things.
struct Failure {
  enum class Ends { kRank, kRun };
  Ends ends = Ends::kRun;
  Error error;
  bool told = false;  // by the log

  Failure(Error of_a_stage) : error(std::move(of_a_stage)) {}  // NOLINT(google-explicit-constructor)
  Failure(Ends what, std::string text)
      : ends(what), error{ErrorCode::kNotADump, "", std::move(text)}, told(true) {}
};
template <class T>
using Outcome = Result<T, Failure>;

inline Failure RankFailure(Log& log, std::string text) {
  log.Error(text);
  return {Failure::Ends::kRank, std::move(text)};
}
inline Failure RunFailure(Log& log, std::string text) {
  log.Error(text);
  return {Failure::Ends::kRun, std::move(text)};
}
// Failures of the preparation stage are followed by a second line.
inline Failure PreparationFailure(Log& log, std::string text) {
  log.Error(text);
  log.Error("Compare failed. Please check the arguments and do it again!");
  return {Failure::Ends::kRank, std::move(text)};
}

}  // namespace vernier::msprobe

// A Python process that executes calls: python/vernier/precheck/worker.py. Messages both ways stand behind
// their length in eight bytes; what it prints comes back as a log.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "vernier/result.h"

namespace vernier::precheck {

// Used by one thread at a time. Destroyed, it kills the process: nothing of its work is kept there.
class WorkerProcess {
 public:
  static Result<WorkerProcess> Start(const std::vector<std::string>& command);
  WorkerProcess(WorkerProcess&& other) noexcept;
  WorkerProcess& operator=(WorkerProcess&& other) noexcept;
  ~WorkerProcess();

  // Fails when the process is gone.
  Result<Done> Send(std::string_view message);

  // To be polled for reading.
  int message_fd() const { return message_fd_; }
  int log_fd() const { return log_fd_; }  // -1 once it was closed

  enum class Received { kNothingYet, kMessage, kGone };
  // Takes what has arrived; with kMessage, `message` is the next whole one.
  Received Receive(std::string& message);
  // Takes what was printed; gives its whole lines.
  std::vector<std::string> ReadLog();
  // The last line that was printed, for a process that did not even start.
  const std::string& last_line() const { return last_line_; }

  // Ends the process and says how it ended: "killed by signal 11 (SIGSEGV)".
  std::string End(bool kill_first);

 private:
  WorkerProcess() = default;
  void Close();

  pid_t pid_ = -1;
  int message_fd_ = -1, log_fd_ = -1;
  std::string incoming_, log_, last_line_;
};

}  // namespace vernier::precheck

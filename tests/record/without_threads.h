// A child process in which the system gives no thread.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <system_error>
#include <thread>

#include <gtest/gtest.h>

namespace vernier {

// Runs fn() in a child that may not start threads; gives its exit status: 0 when no expectation failed, -1
// when it died. Nothing where threads cannot be forbidden.
inline std::optional<int> WithoutThreads(const std::function<void()>& fn) {
  constexpr uid_t kNobody = 65534;
  constexpr int kCannotForbid = 77;
  const pid_t child = fork();
  if (child == 0) {
    // The limit does not hold for root.
    if (geteuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) _exit(kCannotForbid);
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_NPROC, &none) != 0) _exit(kCannotForbid);
    try {
      std::thread([] {}).join();
      _exit(kCannotForbid);
    } catch (const std::system_error&) {
    }
    fn();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status)) return -1;
  if (WEXITSTATUS(status) == kCannotForbid) return std::nullopt;
  return WEXITSTATUS(status);
}

}  // namespace vernier

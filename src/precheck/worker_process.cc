#include "precheck/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/atomic_file.h"
#include "core/text.h"

extern char** environ;

namespace vernier::precheck {
namespace {

constexpr int kFirstFreeFd = 10;  // ours stay away from the numbers that the process gets them under
constexpr int kTheirIn = 3, kTheirOut = 4;
constexpr std::size_t kHeadBytes = 8, kReadBytes = std::size_t{1} << 16, kMaxLogLine = 4096;
constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 32;

// A descriptor with a number above those that are handed on; the old one is closed.
int MovedUp(int fd) {
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, kFirstFreeFd);
  const int saved = errno;
  close(fd);
  errno = saved;
  return moved;
}

// Two ends, both closed when another program is started.
struct Ends {
  int ours = -1, theirs = -1;

  bool OpenSocket() {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) return false;
    return Take(fds);
  }
  bool OpenPipe() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) return false;
    return Take(fds);
  }

 private:
  bool Take(const int (&fds)[2]) {
    ours = MovedUp(fds[0]);
    theirs = MovedUp(fds[1]);
    return ours >= 0 && theirs >= 0;
  }
};

std::string EndText(int status) {
  if (WIFSIGNALED(status)) {
    const char* name = sigabbrev_np(WTERMSIG(status));
    return fmt::format("killed by signal {}{}", WTERMSIG(status), name ? fmt::format(" (SIG{})", name) : "");
  }
  return fmt::format("the process that ran it ended with status {}", WEXITSTATUS(status));
}

}  // namespace

Result<WorkerProcess> WorkerProcess::Start(const std::vector<std::string>& command) {
  Ends messages, log;
  if (!messages.OpenSocket() || !log.OpenPipe()) return ErrnoError("pipe", errno);
  WorkerProcess worker;
  worker.message_fd_ = messages.ours;
  worker.log_fd_ = log.ours;
  fcntl(worker.log_fd_, F_SETFL, O_NONBLOCK);

  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, log.theirs, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, messages.theirs, kTheirIn);
  posix_spawn_file_actions_adddup2(&actions, messages.theirs, kTheirOut);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A group of its own: Ctrl-C is for us, and we end the workers.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  const int failure = posix_spawnp(&worker.pid_, words[0], &actions, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(messages.theirs);
  close(log.theirs);
  if (failure != 0) {
    worker.pid_ = -1;
    return ErrnoError(command[0], failure);
  }
  return worker;
}

WorkerProcess::WorkerProcess(WorkerProcess&& other) noexcept { *this = std::move(other); }

WorkerProcess& WorkerProcess::operator=(WorkerProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(message_fd_, other.message_fd_);
  std::swap(log_fd_, other.log_fd_);
  std::swap(incoming_, other.incoming_);
  std::swap(log_, other.log_);
  std::swap(last_line_, other.last_line_);
  return *this;
}

WorkerProcess::~WorkerProcess() {
  if (pid_ > 0) End(/*kill_first=*/true);
  Close();
}

void WorkerProcess::Close() {
  for (int* fd : {&message_fd_, &log_fd_}) {
    if (*fd >= 0) close(std::exchange(*fd, -1));
  }
}

Result<Done> WorkerProcess::Send(std::string_view message) {
  std::string framed(kHeadBytes, '\0');
  const std::uint64_t size = message.size();
  std::memcpy(framed.data(), &size, kHeadBytes);
  framed += message;
  for (std::string_view left = framed; !left.empty();) {
    const ssize_t sent = send(message_fd_, left.data(), left.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return ErrnoError("worker", errno);
    left.remove_prefix(static_cast<std::size_t>(sent));
  }
  return Done{};
}

WorkerProcess::Received WorkerProcess::Receive(std::string& message) {
  std::uint64_t size = 0;
  const auto has_message = [&] {
    if (incoming_.size() < kHeadBytes) return false;
    std::memcpy(&size, incoming_.data(), kHeadBytes);
    return incoming_.size() - kHeadBytes >= size;
  };
  while (!has_message()) {
    if (size > kMaxMessageBytes) return Received::kGone;  // not a worker of ours
    const std::size_t before = incoming_.size();
    incoming_.resize(before + kReadBytes);
    const ssize_t got = recv(message_fd_, incoming_.data() + before, kReadBytes, MSG_DONTWAIT);
    incoming_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Received::kNothingYet;
    if (got <= 0) return Received::kGone;
  }
  message = incoming_.substr(kHeadBytes, size);
  incoming_.erase(0, kHeadBytes + size);
  return Received::kMessage;
}

std::vector<std::string> WorkerProcess::ReadLog() {
  std::vector<std::string> lines;
  char buffer[kMaxLogLine];
  while (log_fd_ >= 0) {
    const ssize_t got = read(log_fd_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) close(std::exchange(log_fd_, -1));
    if (got <= 0) break;
    log_.append(buffer, static_cast<std::size_t>(got));
    for (std::size_t end = 0; (end = log_.find('\n')) != std::string::npos || log_.size() > kMaxLogLine;) {
      end = std::min(end, log_.size());
      lines.push_back(log_.substr(0, end));
      log_.erase(0, end + 1);
      if (lines.back().find_first_not_of(" \t\r") != std::string::npos) last_line_ = lines.back();
    }
  }
  return lines;
}

std::string WorkerProcess::End(bool kill_first) {
  if (pid_ <= 0) return "";
  if (kill_first) kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  ReadLog();
  return EndText(status);
}

}  // namespace vernier::precheck

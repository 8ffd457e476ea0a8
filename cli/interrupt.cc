#include "cli/interrupt.h"

#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include "core/atomic_file.h"
#include "core/threads.h"

namespace vernier {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
constexpr int kExitInterrupted = static_cast<int>(ExitCode::kInterrupted);
constexpr int kPatienceSeconds = 2;

// A handler may neither lock nor allocate: it posts, and a thread of ours acts.
std::atomic<int> num_signals{0};
std::atomic<bool> finished{false};
std::atomic<bool> has_watcher{
    false};  // false: the system had no thread for it, and the first signal ends the program
sem_t wake_up;

void OnSignal(int) {
  const int saved_errno = errno;
  if (num_signals.fetch_add(1) > 0 || !has_watcher) {
    RemoveUnfinishedFiles();
    _exit(kExitInterrupted);
  }
  sem_post(&wake_up);
  errno = saved_errno;
}

void WaitForWakeUp() {
  while (sem_wait(&wake_up) != 0 && errno == EINTR) {
  }
}

// False when the time is over.
bool WaitForWakeUp(int seconds) {
  timespec until = {};
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += seconds;
  int result = 0;
  while ((result = sem_timedwait(&wake_up, &until)) != 0 && errno == EINTR) {
  }
  return result == 0;
}

void Watch(const std::stop_source& stop) {
  WaitForWakeUp();
  if (finished) return;
  stop.request_stop();
  if (WaitForWakeUp(kPatienceSeconds)) return;
  RemoveUnfinishedFiles();
  _exit(kExitInterrupted);
}

struct State {
  std::stop_source stop;
  struct sigaction before[std::size(kSignals)] = {};
  std::vector<std::jthread> watcher;
};
std::unique_ptr<State> state;

}  // namespace

Interrupt::Interrupt() {
  num_signals = 0;
  finished = false;
  sem_init(&wake_up, 0, 0);
  state = std::make_unique<State>();
  StartThreads(
      1, [stop = state->stop] { Watch(stop); }, state->watcher);
  has_watcher = !state->watcher.empty();
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &state->before[i]);
    // What was started with a signal ignored (nohup) stays deaf to it.
    if (state->before[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

Interrupt::~Interrupt() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &state->before[i], nullptr);
  finished = true;
  sem_post(&wake_up);
  state->watcher.clear();  // joins
  sem_destroy(&wake_up);
  state.reset();
}

std::stop_token Interrupt::token() const { return state->stop.get_token(); }
void Interrupt::RequestStop() { state->stop.request_stop(); }
bool Interrupt::interrupted() const { return num_signals > 0; }

}  // namespace vernier

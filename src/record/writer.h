// One thread that does what it is given, in order: tensor files, then the records that name them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "vernier/result.h"

namespace vernier {

// Thread-safe. After the first job that fails nothing more is done: what would follow may name what is not
// there.
class Writer {
 public:
  using Job = std::function<Result<Done>()>;

  Writer() = default;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer();  // finishes what is queued

  // Where the system has no thread for it, the job is done here.
  void Push(Job job);
  // Waits until nothing is queued or running.
  void Drain();
  // As after Drain(): until the next Push() by anyone, what jobs work on is the caller's.
  bool idle() const { return num_pending_.load(std::memory_order_acquire) == 0; }

  bool failed() const { return failed_.load(std::memory_order_acquire); }
  std::optional<Error> failure() const;
  // REQUIRES: idle()
  void ForgetFailure();

 private:
  bool HasThread();
  void Work();
  void Finish(Result<Done> result);

  mutable std::mutex mutex_;
  std::condition_variable has_work_, is_idle_;
  std::deque<Job> jobs_;
  std::atomic<std::uint64_t> num_pending_{0};  // queued and running; changed under mutex_
  std::atomic<bool> failed_{false};
  std::optional<Error> failure_;
  bool sleeping_ = false, stopping_ = false;
  std::thread thread_;  // started by the first Push(): most recordings need none
};

}  // namespace vernier

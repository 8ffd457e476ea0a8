// The threads that write: elements of tensors in any order and several at once, and what names them, records,
// in order and only when everything pushed before is done.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "vernier/result.h"

namespace vernier {

// Thread-safe. After a job that fails nothing that was pushed behind it is done: it may name what is not
// there. Jobs must not wait for each other.
class Writer {
 public:
  using Job = std::function<Result<Done>()>;
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

  // Elements that are looked at before it is clear what to write.
  struct Undecided {
    Job measure;  // on any thread
    // One at a time, in the order of the pushes, after `measure`: gives what is left to do, on any thread, or
    // null. The argument is the job's number.
    std::function<Job(std::uint64_t)> decide;
  };

  // 0: the machine's cores but two, which are the model's; 16 at most. They start as they are needed.
  explicit Writer(int max_threads = 0);
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer();  // finishes what is queued

  // Where the system has no thread for it, a job is done here. Each gives the job's number: they grow.
  std::uint64_t Push(Job record);
  std::uint64_t PushElements(Job write, std::uint64_t num_bytes);
  std::uint64_t PushElements(Undecided elements, std::uint64_t num_bytes);
  // Waits until nothing is queued or running.
  void Drain();
  // As after Drain(): until the next push by anyone, what jobs work on is the caller's.
  bool idle() const { return num_pending_.load(std::memory_order_acquire) == 0; }

  bool failed() const { return failed_at_.load(std::memory_order_acquire) != kNone; }
  // The number of the first job that failed, of all that were pushed; kNone: none did.
  std::uint64_t failed_at() const { return failed_at_.load(std::memory_order_acquire); }
  std::optional<Error> failure() const;
  // REQUIRES: idle()
  void ForgetFailure();

 private:
  struct Item {
    std::uint64_t number = 0, num_bytes = 0;
    bool in_order = false, measured = true, taken = false, done = false;
    Job job;  // the next one
    std::function<Job(std::uint64_t)> decide;
  };

  // REQUIRES: mutex_ is held by `lock`, for all of these
  std::uint64_t Add(Item item);
  bool HasThread();
  bool StartThread();
  bool WakeOne();
  void WakeForWork();
  Item* Next();
  void Run(Item& item, std::unique_lock<std::mutex>& lock);
  Result<Done> RunJob(Item& item, std::unique_lock<std::mutex>& lock);
  void Decide(Item& item, std::unique_lock<std::mutex>& lock);
  void DecideInOrder(std::unique_lock<std::mutex>& lock);
  void Finish(Item& item);
  void Fail(std::uint64_t number, Result<Done> result);
  void Work();

  const std::size_t max_threads_;
  mutable std::mutex mutex_;
  std::condition_variable has_work_, is_idle_;
  std::deque<Item> items_;       // in order; those at the front are not done
  std::deque<Item*> undecided_;  // in order
  std::deque<Item*> to_measure_, to_write_;
  std::uint64_t waiting_bytes_ = 0;  // of the last two
  bool deciding_ = false, stopping_ = false;
  std::uint64_t next_number_ = 0;
  std::atomic<std::uint64_t> num_pending_{0};  // queued and running; changed under mutex_
  std::atomic<std::uint64_t> failed_at_{kNone};
  std::optional<Error> failure_;
  std::size_t num_sleeping_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace vernier

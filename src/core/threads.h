// Work on several threads: how many of them, in any order, and in order.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace vernier {

// As many as asked for; 0: one per core.
int NumThreads(int asked);

// Starts threads that run fn(), at most `count`; fewer, down to none, where the system has no more to give.
void StartThreads(int count, const std::function<void()>& fn, std::vector<std::jthread>& threads);

// Threads that help with one job at a time and sleep in between. Used by one thread at a time.
class ThreadPool {
 public:
  // The caller's thread is one of them. They are started by the first job.
  explicit ThreadPool(int num_threads) : num_threads_(num_threads) {}
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  // Calls fn(i) for each i < count, on this thread and the others, and comes back when all are done. The
  // first exception of a call ends the job and is thrown here.
  void ForEach(std::size_t count, const std::function<void(std::size_t)>& fn);

 private:
  void Work();
  void TakeAll();

  const int num_threads_;
  std::mutex mutex_;
  std::condition_variable has_work_, is_done_;
  const std::function<void(std::size_t)>* fn_ = nullptr;
  std::size_t count_ = 0;
  std::atomic<std::size_t> next_{0};
  std::uint64_t job_ = 0;  // number of the current one
  int num_working_ = 0;
  bool open_ = false;  // the current job may be joined
  bool stopping_ = false;
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;  // last, because they use what is above
};

// Items go in one by one, are worked on by several threads at once, and come out in the order in which they
// went in. A few wait at a time, so memory is bounded. Push() and Finish() are called by one thread at a
// time.
template <class Item>
class OrderedQueue {
 public:
  using Work = std::function<void(Item&)>;   // on any thread
  using Take = std::function<bool(Item&&)>;  // in order, one at a time; false: no more are wanted

  // With one thread everything is done by Push() itself.
  OrderedQueue(int num_threads, Work work, Take take) : work_(std::move(work)), take_(std::move(take)) {
    if (num_threads > 1) {
      StartThreads(
          num_threads, [this] { Run(); }, threads_);
    }
    max_waiting_ = 2 * threads_.size();
  }
  OrderedQueue(const OrderedQueue&) = delete;
  OrderedQueue& operator=(const OrderedQueue&) = delete;
  ~OrderedQueue() {
    {
      const std::scoped_lock lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    threads_.clear();  // joins
  }

  // False once no more are wanted. Throws what a call of `work` or `take` has thrown.
  bool Push(Item item) {
    if (threads_.empty()) {
      if (stopped_) return false;
      work_(item);
      stopped_ = !take_(std::move(item));
      return !stopped_;
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.size() < max_waiting_ || stopped_; });
    ThrowFailure();
    if (stopped_) return false;
    waiting_.push_back({State::kNew, std::move(item)});
    changed_.notify_all();
    return true;
  }

  // Waits until everything was taken. As Push() otherwise.
  bool Finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.empty() || stopped_; });
    ThrowFailure();
    return !stopped_;
  }

 private:
  enum class State { kNew, kInWork, kDone };
  struct Slot {
    State state;
    Item item;
  };

  void Run() {
    std::unique_lock lock(mutex_);
    while (Slot* slot = Next(lock)) {
      lock.unlock();
      const bool worked = Guarded([&] { work_(slot->item); });
      lock.lock();
      slot->state = State::kDone;
      if (worked) TakeFinished(lock);
      changed_.notify_all();
    }
  }

  // The next item that nobody works on, in work from now on; null when there will be none.
  Slot* Next(std::unique_lock<std::mutex>& lock) {
    Slot* found = nullptr;
    changed_.wait(lock, [&] {
      for (Slot& slot : waiting_) {
        if (slot.state == State::kNew) return (found = &slot) != nullptr;
      }
      return stopped_;
    });
    if (stopped_) return nullptr;
    found->state = State::kInWork;
    return found;
  }

  // One thread at a time hands on what is finished at the front; slots keep their place in memory meanwhile.
  void TakeFinished(std::unique_lock<std::mutex>& lock) {
    if (taking_) return;
    taking_ = true;
    while (!stopped_ && !waiting_.empty() && waiting_.front().state == State::kDone) {
      Item item = std::move(waiting_.front().item);
      lock.unlock();
      bool more = false;
      Guarded([&] { more = take_(std::move(item)); });
      lock.lock();
      waiting_.pop_front();
      stopped_ = stopped_ || !more;
      changed_.notify_all();
    }
    taking_ = false;
  }

  template <class Fn>
  bool Guarded(const Fn& fn) {
    try {
      fn();
      return true;
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      stopped_ = true;
      return false;
    }
  }

  void ThrowFailure() {
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  const Work work_;
  const Take take_;
  std::size_t max_waiting_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Slot> waiting_;  // in order
  bool taking_ = false, stopped_ = false;
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;
};

}  // namespace vernier

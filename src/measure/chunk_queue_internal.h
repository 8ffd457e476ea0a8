// Runs many tasks, each cut into chunks, on a few threads: one queue of chunks over all tasks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stop_token>
#include <vector>

#include "core/threads.h"
#include "vernier/result.h"

namespace vernier::internal {

// Task has: using Output; std::uint64_t num_chunks() const (at least 1); std::uint64_t RunChunk(k), giving
// the bytes it read; Result<Output> Finish(), called once after all chunks.
//
// Threads help the oldest task that still has chunks before they open a new one, so few tasks are open at a
// time. Outputs are delivered in task order.
template <class Task>
class ChunkQueue {
 public:
  using Open = std::function<Result<std::unique_ptr<Task>>(std::size_t index)>;
  using Sink = std::function<void(std::size_t index, const Result<typename Task::Output>&)>;
  using OnProgress = std::function<void(std::uint64_t tasks_done, std::uint64_t bytes_done)>;

  ChunkQueue(std::size_t num_tasks, Open open, Sink sink, OnProgress on_progress, std::stop_token stop)
      : num_tasks_(num_tasks),
        open_(std::move(open)),
        sink_(std::move(sink)),
        on_progress_(std::move(on_progress)),
        stop_(std::move(stop)) {}

  // Throws what the sink or a task threw, once all threads have stopped.
  void Run(int num_threads) {
    ThreadPool(num_threads).ForEach(static_cast<std::size_t>(num_threads), [this](std::size_t) {
      try {
        Work();
      } catch (...) {
        Abort();
        throw;
      }
    });
  }

 private:
  struct Job {
    std::size_t index;
    std::unique_ptr<Task> task;
    std::uint64_t num_chunks, next_chunk = 0;  // guarded by queue_mutex_
    std::atomic<std::uint64_t> unfinished;
  };

  struct Claim {
    std::shared_ptr<Job> job;  // null: open task `index`
    std::uint64_t chunk = 0;
    std::size_t index = 0;
  };

  bool TakeWork(Claim& claim) {
    std::unique_lock lock(queue_mutex_);
    // A task that another thread is opening may have chunks for us: one huge tensor is all the work there is.
    opened_.wait(lock, [&] {
      return !open_jobs_.empty() || next_task_ < num_tasks_ || num_opening_ == 0 || stops();
    });
    if (stops()) return false;
    claim.job = nullptr;
    if (!open_jobs_.empty()) {
      claim.job = open_jobs_.front();
      claim.chunk = claim.job->next_chunk++;
      if (claim.job->next_chunk == claim.job->num_chunks) open_jobs_.pop_front();
      return true;
    }
    if (next_task_ == num_tasks_) return false;
    claim.index = next_task_++;
    ++num_opening_;
    return true;
  }

  // Ends what TakeWork began for a task that had to be opened; null when that failed.
  void Offer(const std::shared_ptr<Job>& job) {
    {
      const std::scoped_lock lock(queue_mutex_);
      --num_opening_;
      if (job != nullptr && job->num_chunks > 1) {
        job->next_chunk = 1;
        open_jobs_.push_back(job);
      } else if (next_task_ < num_tasks_ || num_opening_ > 0) {
        return;  // nothing that anyone could wait for has changed
      }
    }
    opened_.notify_all();
  }

  void Work() {
    Claim claim;
    while (TakeWork(claim)) {
      if (claim.job == nullptr && !Start(claim)) continue;
      const std::uint64_t bytes = claim.job->task->RunChunk(claim.chunk);
      const bool last = claim.job->unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1;
      if (!last) {
        Report(bytes);
        continue;
      }
      Result<typename Task::Output> output = claim.job->task->Finish();
      claim.job->task.reset();  // lets go of the files
      Deliver(claim.job->index, std::move(output), bytes);
    }
  }

  // Opens the claimed task, keeps its first chunk for this thread and offers the others to all.
  bool Start(Claim& claim) {
    Result<std::unique_ptr<Task>> task = OpenSafely(claim.index);
    if (!task) {
      Offer(nullptr);
      Deliver(claim.index, std::move(task).error(), 0);
      return false;
    }
    claim.job = std::make_shared<Job>();
    claim.job->index = claim.index;
    claim.job->task = std::move(task).value();
    claim.job->num_chunks = claim.job->task->num_chunks();
    claim.job->unfinished = claim.job->num_chunks;
    claim.chunk = 0;
    Offer(claim.job);
    return true;
  }

  Result<std::unique_ptr<Task>> OpenSafely(std::size_t index) {
    try {
      return open_(index);
    } catch (const std::bad_alloc&) {
      return Error{ErrorCode::kTooLarge, "", "not enough memory to load it"};
    } catch (const std::exception& exception) {
      return Error{ErrorCode::kInternal, "", exception.what()};
    }
  }

  // One thread at a time gives outputs to the sink; the others leave theirs behind for it and go on.
  void Deliver(std::size_t index, Result<typename Task::Output> output, std::uint64_t bytes) {
    std::unique_lock lock(delivery_mutex_);
    waiting_.emplace(index, std::move(output));
    ++tasks_done_;
    bytes_done_ += bytes;
    if (delivering_) {
      // A sink slower than everybody else must not make outputs pile up without end.
      if (waiting_.size() > kMaxWaiting)
        delivered_.wait(lock, [&] { return !delivering_ || waiting_.size() <= kMaxWaiting || aborted_; });
      return;
    }
    delivering_ = true;
    while (!waiting_.empty() && waiting_.begin()->first == next_delivery_) {
      const auto next = waiting_.extract(waiting_.begin());
      lock.unlock();
      sink_(next.key(), next.mapped());
      lock.lock();
      ++next_delivery_;
      if (waiting_.size() == kMaxWaiting) delivered_.notify_all();
    }
    delivering_ = false;
    delivered_.notify_all();
    if (on_progress_) on_progress_(tasks_done_, bytes_done_);
  }

  bool stops() const { return aborted_ || stop_.stop_requested(); }

  // Nobody waits any more for what will not come.
  void Abort() {
    const std::scoped_lock lock(queue_mutex_, delivery_mutex_);
    aborted_ = true;
    opened_.notify_all();
    delivered_.notify_all();
  }

  void Report(std::uint64_t bytes) {
    const std::scoped_lock lock(delivery_mutex_);
    bytes_done_ += bytes;
    if (on_progress_) on_progress_(tasks_done_, bytes_done_);
  }

  static constexpr std::size_t kMaxWaiting = 1024;

  const std::size_t num_tasks_;
  const Open open_;
  const Sink sink_;
  const OnProgress on_progress_;
  const std::stop_token stop_;

  std::atomic<bool> aborted_ = false;

  std::mutex queue_mutex_;
  std::deque<std::shared_ptr<Job>> open_jobs_;  // with chunks nobody has taken yet
  std::size_t next_task_ = 0, num_opening_ = 0;
  std::condition_variable opened_;

  std::mutex delivery_mutex_;
  std::map<std::size_t, Result<typename Task::Output>> waiting_;
  std::size_t next_delivery_ = 0;
  bool delivering_ = false;
  std::condition_variable delivered_;
  std::uint64_t tasks_done_ = 0, bytes_done_ = 0;
};

}  // namespace vernier::internal

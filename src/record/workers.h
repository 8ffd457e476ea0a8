// Threads that help with one large job at a time and sleep in between.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace vernier {

// Used by one thread at a time.
class Workers {
 public:
  explicit Workers(int num_threads) : num_threads_(num_threads) {}  // the caller's included
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();

  // Calls fn(i) for each i < count, on this thread and the others, and comes back when all are done. fn must
  // not throw.
  void ForEach(std::size_t count, const std::function<void(std::size_t)>& fn);

 private:
  void Work();
  void TakeAll();

  const int num_threads_;
  std::mutex mutex_;
  std::condition_variable has_work_, is_done_;
  std::vector<std::thread> threads_;  // started by the first large job
  const std::function<void(std::size_t)>* fn_ = nullptr;
  std::size_t count_ = 0;
  std::atomic<std::size_t> next_{0};
  std::uint64_t job_ = 0;  // number of the current one
  int num_working_ = 0;
  bool open_ = false;  // the current job may be joined
  bool stopping_ = false;
};

}  // namespace vernier

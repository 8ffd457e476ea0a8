// Threads that help with one large job at a time and sleep in between. Where the program that is recorded
// computes with OpenMP on several threads, these are the threads: they wait for work without sleeping, and
// others beside them would only take their time.
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
  // 0: as many as the machine has cores, or those of OpenMP. The caller's is included.
  explicit Workers(int num_threads);
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
  const bool may_use_openmp_;
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

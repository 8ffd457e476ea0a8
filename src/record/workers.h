// The threads that measure a large tensor. Where the program that is recorded computes with OpenMP on several
// threads, these are the threads: they wait for work without sleeping, and others beside them would only take
// their time.
#pragma once

#include <cstddef>
#include <functional>

#include "core/threads.h"

namespace vernier {

// Used by one thread at a time.
class Workers {
 public:
  // 0: those of OpenMP, or one per core. The caller's is included.
  explicit Workers(int num_threads) : may_use_openmp_(num_threads <= 0), pool_(NumThreads(num_threads)) {}

  // Calls fn(i) for each i < count, on this thread and the others, and comes back when all are done. fn must
  // not throw.
  void ForEach(std::size_t count, const std::function<void(std::size_t)>& fn);

 private:
  bool CanUseOpenMp(std::size_t num_threads);

  bool may_use_openmp_;
  std::size_t num_openmp_seen_ = 1;  // so many threads there are
  ThreadPool pool_;
};

}  // namespace vernier

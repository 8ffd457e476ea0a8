#include "record/workers.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>
#include <vector>

namespace vernier {
namespace {

// Waking another thread takes as long as eight chunks, and what the model has just made is in this core's
// cache, not in the other's: only large tensors are worth it.
constexpr std::size_t kFewestShared = 32;

// The OpenMP that the process has loaded: torch brings its own. Clang's and Intel's have GNU's entry points
// too.
struct OpenMp {
  int (*max_threads)() = nullptr;
  int (*in_parallel)() = nullptr;
  void (*parallel)(void (*fn)(void*), void* data, unsigned num_threads, unsigned flags) = nullptr;

  static const OpenMp& Loaded() {
    static const OpenMp found = [] {
      OpenMp open_mp;
      open_mp.max_threads = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
      open_mp.in_parallel = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_in_parallel"));
      open_mp.parallel = reinterpret_cast<decltype(OpenMp::parallel)>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
      return open_mp;
    }();
    return found;
  }
  // Of the calling thread, as the program has set it.
  std::size_t num_threads() const {
    return parallel == nullptr || max_threads == nullptr || in_parallel == nullptr || in_parallel() != 0
               ? 1
               : static_cast<std::size_t>(std::max(1, max_threads()));
  }
};

struct Job {
  const std::function<void(std::size_t)>& fn;
  const std::size_t count;
  std::atomic<std::size_t> next{0};
};

void TakeAll(void* data) {
  Job& job = *static_cast<Job*>(data);
  for (std::size_t i = job.next++; i < job.count; i = job.next++) job.fn(i);
}

}  // namespace

// An OpenMP that cannot start its threads ends the process. So before it is asked for that many the first
// time, as many are started and ended here; where that fails, we do with what there is.
bool Workers::CanUseOpenMp(std::size_t num_threads) {
  if (num_threads <= num_openmp_seen_) return true;
  std::latch all_tried(1);
  std::vector<std::jthread> threads;
  StartThreads(
      static_cast<int>(num_threads) - 1, [&] { all_tried.wait(); }, threads);
  all_tried.count_down();
  may_use_openmp_ = threads.size() + 1 == num_threads;
  num_openmp_seen_ = num_threads;
  return may_use_openmp_;
}

void Workers::ForEach(std::size_t count, const std::function<void(std::size_t)>& fn) {
  const std::size_t num_openmp = may_use_openmp_ && count > 1 ? OpenMp::Loaded().num_threads() : 1;
  if (num_openmp > 1 && CanUseOpenMp(num_openmp)) {
    Job job{fn, count};
    return OpenMp::Loaded().parallel(TakeAll, &job, static_cast<unsigned>(std::min(count, num_openmp)), 0);
  }
  if (count >= kFewestShared) return pool_.ForEach(count, fn);
  for (std::size_t i = 0; i < count; ++i) fn(i);
}

}  // namespace vernier

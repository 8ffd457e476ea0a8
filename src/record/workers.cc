#include "record/workers.h"

#include <dlfcn.h>

#include <algorithm>

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
  int NumThreads() const {
    return parallel == nullptr || max_threads == nullptr || in_parallel == nullptr || in_parallel() != 0
               ? 1
               : max_threads();
  }
};

}  // namespace

Workers::Workers(int num_threads)
    : num_threads_(num_threads > 0 ? num_threads
                                   : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))),
      may_use_openmp_(num_threads <= 0) {}

Workers::~Workers() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  has_work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::TakeAll() {
  for (std::size_t i = next_++; i < count_; i = next_++) (*fn_)(i);
}

void Workers::ForEach(std::size_t count, const std::function<void(std::size_t)>& fn) {
  const int num_openmp = may_use_openmp_ && count > 1 ? OpenMp::Loaded().NumThreads() : 1;
  if (num_openmp > 1) {
    fn_ = &fn;
    count_ = count;
    next_ = 0;
    const auto num_threads =
        static_cast<unsigned>(std::min<std::size_t>(count, static_cast<unsigned>(num_openmp)));
    OpenMp::Loaded().parallel([](void* workers) { static_cast<Workers*>(workers)->TakeAll(); }, this,
                              num_threads, 0);
    return;
  }
  if (num_threads_ <= 1 || count < kFewestShared) {
    for (std::size_t i = 0; i < count; ++i) fn(i);
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    while (threads_.size() + 1 < static_cast<std::size_t>(num_threads_)) {
      threads_.emplace_back([this] { Work(); });
    }
    fn_ = &fn;
    count_ = count;
    next_ = 0;
    open_ = true;
    ++job_;
  }
  has_work_.notify_all();
  TakeAll();
  std::unique_lock lock(mutex_);
  open_ = false;  // whoever has not woken up yet is not waited for
  is_done_.wait(lock, [&] { return num_working_ == 0; });
}

void Workers::Work() {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    has_work_.wait(lock, [&] { return stopping_ || job_ != seen; });
    if (stopping_) return;
    seen = job_;
    if (!open_) continue;
    ++num_working_;
    lock.unlock();
    TakeAll();
    lock.lock();
    if (--num_working_ == 0) is_done_.notify_one();
  }
}

}  // namespace vernier

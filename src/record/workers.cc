#include "record/workers.h"

namespace vernier {
namespace {

// Waking another thread takes as long as two chunks that are in the cache.
constexpr std::size_t kFewestShared = 3;

}  // namespace

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

#include "core/threads.h"

#include <algorithm>
#include <system_error>

namespace vernier {

int NumThreads(int asked) {
  return asked > 0 ? asked : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

void StartThreads(int count, const std::function<void()>& fn, std::vector<std::jthread>& threads) {
  try {
    for (int i = 0; i < count; ++i) threads.emplace_back(fn);
  } catch (const std::system_error&) {
    // Those that could be started have to do.
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  has_work_.notify_all();
}

void ThreadPool::TakeAll() {
  try {
    for (std::size_t i = next_++; i < count_; i = next_++) (*fn_)(i);
  } catch (...) {
    next_ = count_;
    const std::scoped_lock lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

void ThreadPool::ForEach(std::size_t count, const std::function<void(std::size_t)>& fn) {
  if (num_threads_ <= 1 || count <= 1) {
    for (std::size_t i = 0; i < count; ++i) fn(i);
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    const auto num_helpers = static_cast<int>(std::min(count, static_cast<std::size_t>(num_threads_))) - 1;
    const int num_missing = num_helpers - static_cast<int>(threads_.size());
    StartThreads(
        num_missing, [this] { Work(); }, threads_);
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
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::Work() {
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

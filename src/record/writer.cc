#include "record/writer.h"

#include <exception>
#include <utility>

namespace vernier {
namespace {

Result<Done> RunSafely(const Writer::Job& job) {
  try {
    return job();
  } catch (
      const std::exception& exception) {  // only the standard library throws, and only for lack of memory
    return Error{ErrorCode::kTooLarge, "the writer of the recorder", exception.what()};
  }
}

}  // namespace

Writer::~Writer() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  has_work_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Writer::Push(Job job) {
  bool wake = false;
  {
    const std::scoped_lock lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { Work(); });
    jobs_.push_back(std::move(job));
    num_pending_.fetch_add(1, std::memory_order_release);
    wake = std::exchange(sleeping_, false);  // once is enough
  }
  if (wake) has_work_.notify_one();
}

void Writer::Drain() {
  std::unique_lock lock(mutex_);
  is_idle_.wait(lock, [&] { return idle(); });
}

std::optional<Error> Writer::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

void Writer::ForgetFailure() {
  const std::scoped_lock lock(mutex_);
  failure_.reset();
  failed_.store(false, std::memory_order_release);
}

void Writer::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    sleeping_ = true;
    has_work_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    sleeping_ = false;
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    const bool skip = failed();
    lock.unlock();
    Result<Done> result = skip ? Done{} : RunSafely(job);
    job = nullptr;  // before anyone hears that it is done: it holds memory of the pool
    lock.lock();
    if (!result && !failure_) {
      failure_ = std::move(result).error();
      failed_.store(true, std::memory_order_release);
    }
    if (num_pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) is_idle_.notify_all();
  }
}

}  // namespace vernier

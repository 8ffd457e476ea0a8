#include "record/writer.h"

#include <exception>
#include <system_error>
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

// REQUIRES: mutex_ is held. Asks again each time: the system may have one later.
bool Writer::HasThread() {
  if (thread_.joinable()) return true;
  try {
    thread_ = std::thread([this] { Work(); });
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

// REQUIRES: mutex_ is held
void Writer::Finish(Result<Done> result) {
  if (result || failure_) return;
  failure_ = std::move(result).error();
  failed_.store(true, std::memory_order_release);
}

void Writer::Push(Job job) {
  bool wake = false;
  {
    std::unique_lock lock(mutex_);
    if (!HasThread()) {
      if (failed()) return;
      lock.unlock();
      Result<Done> result = RunSafely(job);
      lock.lock();
      return Finish(std::move(result));
    }
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
    Finish(std::move(result));
    if (num_pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) is_idle_.notify_all();
  }
}

}  // namespace vernier

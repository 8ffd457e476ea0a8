#include "record/ticker.h"

#include <system_error>
#include <utility>

namespace vernier {

Ticker::~Ticker() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool Ticker::Start(std::chrono::milliseconds period, std::function<void()> fn) {
  if (thread_.joinable()) return true;
  try {
    thread_ = std::thread([this, period, fn = std::move(fn)] {
      std::unique_lock lock(mutex_);
      while (!stopped_.wait_for(lock, period, [this] { return stopping_; })) {
        lock.unlock();
        fn();
        lock.lock();
      }
    });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

}  // namespace vernier

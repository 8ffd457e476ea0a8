// Memory that the program lends to the recorder, and gets back when its elements are in a file.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "record/staging_pool.h"

namespace vernier {

// Thread-safe. Outlives its buffers.
class Loans {
 public:
  // Comes back under this number when the last owner lets go of it.
  StagingPool::Buffer Borrow(std::int64_t address, std::int64_t number) {
    {
      const std::scoped_lock lock(mutex_);
      returned_.reserve(returned_.size() + num_out_ + 1);  // so that coming back cannot fail
      ++num_out_;
    }
    return {reinterpret_cast<std::byte*>(address), [this, number](std::byte*) { Return(number); }};
  }

  // The numbers of what came back and was not told before, as many as fit. `wait`: until there is one, unless
  // nothing is out.
  std::size_t TakeReturned(std::span<std::int64_t> numbers, bool wait) {
    std::unique_lock lock(mutex_);
    if (wait) has_returned_.wait(lock, [&] { return !returned_.empty() || num_out_ == 0; });
    const std::size_t count = std::min(numbers.size(), returned_.size());
    std::copy_n(returned_.begin(), count, numbers.begin());
    returned_.erase(returned_.begin(), returned_.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }

 private:
  void Return(std::int64_t number) {
    {
      const std::scoped_lock lock(mutex_);
      --num_out_;
      returned_.push_back(number);
    }
    has_returned_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable has_returned_;
  std::vector<std::int64_t> returned_;
  std::size_t num_out_ = 0;
};

}  // namespace vernier

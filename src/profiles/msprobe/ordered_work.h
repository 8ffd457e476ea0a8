// Many pieces of work on several threads, results taken in order.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

namespace vernier::msprobe {

// Calls consume(i, produce(i)) for i = 0, 1, …: produce on any thread, consume one at a time and in order. A
// thread holds one product at most, so memory is bounded. Stops early when consume gives false.
template <class Produce, class Consume>
void RunOrdered(std::size_t num_items, int num_threads, const Produce& produce, const Consume& consume) {
  std::mutex mutex;
  std::condition_variable turn_changed;
  std::size_t next = 0, turn = 0;
  bool stopped = false;
  const auto work = [&] {
    for (;;) {
      std::size_t mine = 0;
      {
        const std::lock_guard lock(mutex);
        if (stopped || next == num_items) return;
        mine = next++;
      }
      auto product = produce(mine);
      std::unique_lock lock(mutex);
      turn_changed.wait(lock, [&] { return turn == mine || stopped; });
      if (stopped) return;
      lock.unlock();
      const bool go_on = consume(mine, std::move(product));
      lock.lock();
      ++turn;
      stopped = !go_on;
      turn_changed.notify_all();
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 1; i < num_threads && static_cast<std::size_t>(i) < num_items; ++i) threads.emplace_back(work);
  work();
}

inline int NumThreads(int asked) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return asked > 0 ? asked : cores > 0 ? cores : 1;
}

}  // namespace vernier::msprobe

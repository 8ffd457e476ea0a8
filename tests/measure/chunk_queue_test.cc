// The queue of chunks: who waits for whom.
#include "measure/chunk_queue_internal.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <numeric>
#include <stdexcept>
#include <thread>

namespace vernier::internal {
namespace {

// Lets everybody through once two have arrived; false when the other one never comes.
class Meeting {
 public:
  bool Arrive() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    both_.notify_all();
    return both_.wait_for(lock, std::chrono::seconds(20), [&] { return arrived_ >= 2; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable both_;
  int arrived_ = 0;
};

struct MeetingTask {
  using Output = bool;
  Meeting* meeting;
  std::atomic<bool> met{true};
  static std::uint64_t num_chunks() { return 2; }
  std::uint64_t RunChunk(std::uint64_t) {
    if (!meeting->Arrive()) met = false;
    return 1;
  }
  Result<bool> Finish() { return met.load(); }
};

TEST(ChunkQueue, EveryThreadHelpsWithTheOnlyTaskHoweverLongItTakesToOpen) {
  Meeting meeting;
  bool met = false;
  ChunkQueue<MeetingTask> queue(
      1,
      [&](std::size_t) -> Result<std::unique_ptr<MeetingTask>> {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the other thread finds nothing to do
        auto task = std::make_unique<MeetingTask>();
        task->meeting = &meeting;
        return task;
      },
      [&](std::size_t, const Result<bool>& result) { met = *result; }, nullptr, {});
  queue.Run(2);
  EXPECT_TRUE(met);
}

struct SmallTask {
  using Output = std::size_t;
  std::size_t index;
  std::uint64_t num_chunks() const { return 1 + index % 3; }
  static std::uint64_t RunChunk(std::uint64_t) { return 1; }
  Result<std::size_t> Finish() const { return index; }
};

TEST(ChunkQueue, DeliversInOrderAndEndsAlsoWhenTheLastTasksFailToOpen) {
  for (const int num_threads : {1, 2, 7}) {
    std::vector<std::size_t> delivered;
    std::size_t failed = 0;
    ChunkQueue<SmallTask> queue(
        100,
        [&](std::size_t index) -> Result<std::unique_ptr<SmallTask>> {
          if (index % 10 >= 8) return Error{ErrorCode::kNotFound, "", ""};
          return std::make_unique<SmallTask>(SmallTask{index});
        },
        [&](std::size_t index, const Result<std::size_t>& result) {
          delivered.push_back(index);
          failed += !result;
        },
        nullptr, {});
    queue.Run(num_threads);
    std::vector<std::size_t> expected(100);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(delivered, expected);
    EXPECT_EQ(failed, 20u);
  }
}

TEST(ChunkQueue, ASinkThatThrowsEndsTheRunInsteadOfHangingIt) {
  for (const int num_threads : {1, 2, 4}) {
    ChunkQueue<SmallTask> queue(
        5000,
        [](std::size_t index) -> Result<std::unique_ptr<SmallTask>> {
          auto task = std::make_unique<SmallTask>();
          task->index = index;
          return task;
        },
        [](std::size_t index, const Result<std::size_t>&) {
          if (index == 100) throw std::runtime_error("sink");
        },
        nullptr, {});
    EXPECT_THROW(queue.Run(num_threads), std::runtime_error);
  }
}

}  // namespace
}  // namespace vernier::internal

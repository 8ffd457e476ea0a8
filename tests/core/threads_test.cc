#include "core/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>

namespace vernier {
namespace {

TEST(NumThreads, IsWhatWasAskedForOrOnePerCore) {
  EXPECT_EQ(NumThreads(3), 3);
  EXPECT_GE(NumThreads(0), 1);
}

TEST(ThreadPool, CallsEachIndexOnceForAnyNumberOfThreads) {
  for (const int num_threads : {1, 2, 5}) {
    ThreadPool pool(num_threads);
    for (const std::size_t count : {0, 1, 3, 1000}) {
      std::vector<std::atomic<int>> calls(count);
      pool.ForEach(count, [&](std::size_t i) { ++calls[i]; });
      for (const auto& called : calls) EXPECT_EQ(called, 1);
    }
  }
}

TEST(ThreadPool, ThrowsWhatACallThrewAndGoesOnWithTheNextJob) {
  for (const int num_threads : {1, 4}) {
    ThreadPool pool(num_threads);
    EXPECT_THROW(pool.ForEach(100,
                              [](std::size_t i) {
                                if (i == 40) throw std::runtime_error("forty");
                              }),
                 std::runtime_error);
    std::atomic<int> calls = 0;
    pool.ForEach(100, [&](std::size_t) { ++calls; });
    EXPECT_EQ(calls, 100);
  }
}

struct Square {
  int number = 0, square = 0;
};

std::vector<int> Squares(int num_threads, int count, int wanted) {
  std::vector<int> taken;
  OrderedQueue<Square> queue(
      num_threads, [](Square& item) { item.square = item.number * item.number; },
      [&](Square&& item) {
        taken.push_back(item.square);
        return static_cast<int>(taken.size()) < wanted;
      });
  for (int i = 0; i < count; ++i) {
    if (!queue.Push({i, 0})) break;
  }
  EXPECT_EQ(queue.Finish(), wanted > count);
  return taken;
}

TEST(OrderedQueue, GivesItemsInTheOrderInWhichTheyWentIn) {
  for (const int num_threads : {1, 2, 7}) {
    std::vector<int> expected(500);
    for (int i = 0; i < 500; ++i) expected[static_cast<std::size_t>(i)] = i * i;
    EXPECT_EQ(Squares(num_threads, 500, 501), expected);
  }
}

TEST(OrderedQueue, StopsWhenNoMoreAreWanted) {
  for (const int num_threads : {1, 4}) EXPECT_EQ(Squares(num_threads, 500, 10).size(), 10u);
}

TEST(OrderedQueue, ThrowsWhatWorkOrTakeThrewInsteadOfWaitingForEver) {
  for (const int num_threads : {1, 2, 4}) {
    for (const bool in_work : {true, false}) {
      const auto run = [&] {
        OrderedQueue<Square> queue(
            num_threads,
            [&](Square& item) {
              if (in_work && item.number == 20) throw std::runtime_error("work");
            },
            [&](Square&& item) {
              if (!in_work && item.number == 20) throw std::runtime_error("take");
              return true;
            });
        for (int i = 0; i < 100; ++i) queue.Push({i, 0});
        queue.Finish();
      };
      EXPECT_THROW(run(), std::runtime_error);
    }
  }
}

TEST(OrderedQueue, MayBeLeftUnfinished) {
  std::atomic<int> worked = 0;
  {
    OrderedQueue<Square> queue(
        3, [&](Square&) { ++worked; }, [](Square&&) { return true; });
    for (int i = 0; i < 5; ++i) queue.Push({i, 0});
  }
  EXPECT_LE(worked, 5);
}

}  // namespace
}  // namespace vernier

// With an OpenMP of our own making, found by the same names: it is used, and done without where it cannot be.
#include "record/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "without_threads.h"

namespace {

int g_max_threads = 2, g_in_parallel = 0, g_num_parallel = 0;

}  // namespace

extern "C" {
__attribute__((visibility("default"))) int omp_get_max_threads() { return g_max_threads; }
__attribute__((visibility("default"))) int omp_in_parallel() { return g_in_parallel; }
__attribute__((visibility("default"))) void GOMP_parallel(void (*fn)(void*), void* data, unsigned, unsigned) {
  ++g_num_parallel;
  fn(data);
}
}

namespace vernier {
namespace {

// How often OpenMP was asked while every one of 100 parts was done once.
int NumParallel(int num_threads) {
  g_num_parallel = 0;
  Workers workers(num_threads);
  std::vector<std::atomic<int>> done(100);
  workers.ForEach(done.size(), [&](std::size_t i) { ++done[i]; });
  for (const std::atomic<int>& count : done) EXPECT_EQ(count, 1);
  return g_num_parallel;
}

TEST(Workers, AreThoseOfOpenMp) {
  g_max_threads = 2, g_in_parallel = 0;
  EXPECT_EQ(NumParallel(0), 1);
}

TEST(Workers, AreOurOwnWhereOpenMpHasOneThread) {
  g_max_threads = 1, g_in_parallel = 0;
  EXPECT_EQ(NumParallel(0), 0);
}

TEST(Workers, AreOurOwnInsideAParallelRegion) {
  g_max_threads = 2, g_in_parallel = 1;
  EXPECT_EQ(NumParallel(0), 0);
}

TEST(Workers, AreOurOwnWhenTheirNumberIsGiven) {
  g_max_threads = 2, g_in_parallel = 0;
  EXPECT_EQ(NumParallel(3), 0);
  EXPECT_EQ(NumParallel(1), 0);
}

// An OpenMP that finds no thread to start ends the process: it must not be asked.
TEST(Workers, DoWithoutOpenMpWhereTheSystemHasNoThreads) {
  g_max_threads = 4, g_in_parallel = 0;
  const std::optional<int> status = WithoutThreads([] {
    EXPECT_EQ(NumParallel(0), 0);
    EXPECT_EQ(NumParallel(0), 0);
  });
  if (!status) GTEST_SKIP() << "threads cannot be forbidden here";
  EXPECT_EQ(*status, 0);
}

}  // namespace
}  // namespace vernier

// The order in which several threads do what a recorder pushes, and what a failure stops.
#include "record/writer.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "record/loans.h"
#include "without_threads.h"

namespace vernier {
namespace {

constexpr std::uint64_t kLarge = std::uint64_t{64} << 20;  // worth a thread each

Result<Done> Failing(const std::string& text) { return Error{ErrorCode::kIo, "disk", text}; }

void SleepUpTo(int microseconds, int seed) {
  std::minstd_rand random(static_cast<unsigned>(seed) + 1);
  std::this_thread::sleep_for(std::chrono::microseconds(random() % static_cast<unsigned>(microseconds)));
}

TEST(Writer, ARecordComesAfterEverythingBeforeItAndInOrder) {
  for (const int num_threads : {1, 2, 8}) {
    constexpr int kNumRecords = 200, kPerRecord = 3;
    std::vector<std::atomic<bool>> written(kNumRecords * kPerRecord);
    std::vector<int> records;  // only records touch it: one at a time
    std::atomic<int> num_wrong{0};
    Writer writer(num_threads);
    for (int i = 0; i < kNumRecords; ++i) {
      for (int k = 0; k < kPerRecord; ++k) {
        const auto at = static_cast<std::size_t>(i * kPerRecord + k);
        writer.PushElements(
            [&written, at]() -> Result<Done> {
              SleepUpTo(100, static_cast<int>(at));
              written[at] = true;
              return Done{};
            },
            kLarge);
      }
      writer.Push([&, i]() -> Result<Done> {
        for (int k = 0; k < (i + 1) * kPerRecord; ++k) {
          if (!written[static_cast<std::size_t>(k)]) ++num_wrong;
        }
        records.push_back(i);
        return Done{};
      });
    }
    writer.Drain();
    EXPECT_TRUE(writer.idle());
    EXPECT_EQ(num_wrong, 0);
    ASSERT_EQ(records.size(), static_cast<std::size_t>(kNumRecords)) << num_threads;
    EXPECT_TRUE(std::is_sorted(records.begin(), records.end()));
  }
}

// Both sleep until the other one runs.
TEST(Writer, WritesElementsBesideEachOther) {
  Writer writer(2);
  std::atomic<int> num_running{0};
  const auto meet = [&]() -> Result<Done> {
    ++num_running;
    for (int i = 0; i < 5000 && num_running < 2; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return num_running == 2 ? Result<Done>(Done{}) : Failing("alone");
  };
  writer.PushElements(meet, kLarge);
  writer.PushElements(meet, kLarge);
  writer.Drain();
  EXPECT_FALSE(writer.failed());
}

TEST(Writer, DecidesInTheOrderOfPushesWhicheverIsMeasuredFirst) {
  Writer writer(8);
  constexpr int kNumJobs = 300;
  std::vector<int> decided, recorded;
  std::atomic<int> num_measured{0}, num_written{0}, num_wrong{0};
  for (int i = 0; i < kNumJobs; ++i) {
    Writer::Undecided elements;
    elements.measure = [&, i]() -> Result<Done> {
      SleepUpTo(200, kNumJobs - i);
      ++num_measured;
      return Done{};
    };
    elements.decide = [&, i](std::uint64_t number) -> Writer::Job {
      if (number != static_cast<std::uint64_t>(2 * i)) ++num_wrong;
      decided.push_back(i);
      if (i % 3 == 0) return nullptr;
      return [&]() -> Result<Done> {
        ++num_written;
        return Done{};
      };
    };
    writer.PushElements(std::move(elements), kLarge);
    writer.Push([&, i]() -> Result<Done> {
      if (num_measured <= i || num_written < i * 2 / 3) ++num_wrong;
      recorded.push_back(i);
      return Done{};
    });
  }
  writer.Drain();
  EXPECT_EQ(num_wrong, 0);
  EXPECT_EQ(decided.size(), static_cast<std::size_t>(kNumJobs));
  EXPECT_TRUE(std::is_sorted(decided.begin(), decided.end()));
  EXPECT_EQ(recorded, decided);
}

TEST(Writer, AFailureStopsWhatIsBehindItAndNothingElse) {
  for (const int num_threads : {1, 2, 8}) {
    Writer writer(num_threads);
    std::vector<int> records;
    for (int i = 0; i < 100; ++i) {
      writer.PushElements(
          [i]() -> Result<Done> {
            SleepUpTo(300, 100 - i);
            // Later ones fail too, and some of them sooner.
            return i >= 50 ? Failing(std::to_string(i)) : Result<Done>(Done{});
          },
          kLarge);
      writer.Push([&records, i]() -> Result<Done> {
        records.push_back(i);
        return Done{};
      });
    }
    writer.Drain();
    ASSERT_TRUE(writer.failed());
    EXPECT_EQ(records.size(), 50u) << num_threads;
    EXPECT_EQ(writer.failed_at(), 100u);
    EXPECT_EQ(writer.failure()->detail, "50");
    writer.ForgetFailure();
    bool ran = false;
    writer.Push([&]() -> Result<Done> {
      ran = true;
      return Done{};
    });
    writer.Drain();
    EXPECT_TRUE(ran);
    EXPECT_FALSE(writer.failed());
  }
}

TEST(Writer, AFailureWhileMeasuringOrDecidingStopsToo) {
  for (const bool decides : {false, true}) {
    Writer writer(4);
    bool recorded = false;
    Writer::Undecided elements;
    elements.measure = [=]() -> Result<Done> {
      return decides ? Result<Done>(Done{}) : Failing("measuring");
    };
    elements.decide = [](std::uint64_t) -> Writer::Job { throw std::bad_alloc(); };
    writer.PushElements(std::move(elements), kLarge);
    writer.Push([&]() -> Result<Done> {
      recorded = true;
      return Done{};
    });
    writer.Drain();
    EXPECT_TRUE(writer.failed());
    EXPECT_FALSE(recorded);
    EXPECT_EQ(writer.failure()->code, decides ? ErrorCode::kTooLarge : ErrorCode::kIo);
  }
}

TEST(Writer, FinishesWhatIsQueuedBeforeItGoes) {
  std::atomic<int> num_done{0};
  {
    Writer writer(4);
    for (int i = 0; i < 100; ++i) {
      writer.PushElements(
          [&]() -> Result<Done> {
            SleepUpTo(100, num_done);
            ++num_done;
            return Done{};
          },
          kLarge);
    }
  }
  EXPECT_EQ(num_done, 100);
}

TEST(Writer, TakesPushesFromManyThreads) {
  Writer writer(4);
  std::atomic<int> num_written{0}, num_recorded{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        writer.PushElements(
            [&]() -> Result<Done> {
              ++num_written;
              return Done{};
            },
            i % 7 == 0 ? kLarge : 10);
        writer.Push([&]() -> Result<Done> {
          ++num_recorded;
          return Done{};
        });
        if (i % 50 == 0) writer.Drain();
      }
    });
  }
  threads.clear();
  writer.Drain();
  EXPECT_EQ(num_written, 1200);
  EXPECT_EQ(num_recorded, 1200);
}

TEST(Writer, DoesEverythingAtOnceWhereThereAreNoThreads) {
  const std::optional<int> status = WithoutThreads([] {
    Writer writer;
    std::string order;
    const auto add = [&](const char* text) {
      return [&order, text]() -> Result<Done> {
        order += text;
        return Done{};
      };
    };
    Writer::Undecided elements;
    elements.measure = add("measure ");
    elements.decide = [&](std::uint64_t) -> Writer::Job {
      order += "decide ";
      return add("write ");
    };
    writer.PushElements(std::move(elements), kLarge);
    writer.PushElements(add("elements "), kLarge);
    writer.Push(add("record "));
    EXPECT_TRUE(writer.idle());
    EXPECT_EQ(order, "measure decide write elements record ");
    writer.Push([] { return Failing("full"); });
    writer.PushElements(add("never"), 1);
    EXPECT_TRUE(writer.failed());
    EXPECT_EQ(order.find("never"), std::string::npos);
    writer.Drain();
  });
  if (!status) GTEST_SKIP() << "threads cannot be forbidden here";
  EXPECT_EQ(*status, 0);
}

TEST(Loans, AreToldOnceWhenTheLastOwnerLetsGo) {
  Loans loans;
  float memory = 0;
  std::int64_t slots[4];
  EXPECT_EQ(loans.TakeReturned(slots, /*wait=*/true), 0u);  // nothing is out
  StagingPool::Buffer first = loans.Borrow(reinterpret_cast<std::int64_t>(&memory), 5);
  StagingPool::Buffer second = first;
  EXPECT_EQ(first.get(), reinterpret_cast<std::byte*>(&memory));
  first.reset();
  EXPECT_EQ(loans.TakeReturned(slots, /*wait=*/false), 0u);
  std::jthread other([&] { second.reset(); });
  EXPECT_EQ(loans.TakeReturned(slots, /*wait=*/true), 1u);
  EXPECT_EQ(slots[0], 5);
  EXPECT_EQ(loans.TakeReturned(slots, /*wait=*/true), 0u);
  for (int i = 0; i < 6; ++i) loans.Borrow(0, i);
  EXPECT_EQ(loans.TakeReturned(slots, /*wait=*/true), 4u);
  EXPECT_EQ(loans.TakeReturned(slots, /*wait=*/true), 2u);
}

}  // namespace
}  // namespace vernier

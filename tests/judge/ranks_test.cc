#include "judge/ranks.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace vernier {
namespace {

using Causes = std::vector<std::optional<std::size_t>>;

TEST(FindCauses, ACollectiveCarriesAnErrorToTheOthers) {
  const RankTrace ranks[] = {{{{5, "all_reduce"}}, 3}, {{{6, "all_reduce"}}, 6}, {{{5, "all_reduce"}}, 9}};
  EXPECT_EQ(FindCauses(ranks), (Causes{std::nullopt, 0, 0}));
}

TEST(FindCauses, WhatWentWrongBeforeTheyMetIsEachRanksOwn) {
  const RankTrace ranks[] = {{{{5, "all_reduce"}}, 3}, {{{5, "all_reduce"}}, 4}};
  EXPECT_EQ(FindCauses(ranks), (Causes{std::nullopt, std::nullopt}));
}

TEST(FindCauses, ALaterRankMayBeTheCauseOfAnEarlierOne) {
  const RankTrace ranks[] = {{{{5, "all_reduce"}}, 5}, {{{5, "all_reduce"}}, 2}};
  EXPECT_EQ(FindCauses(ranks), (Causes{1, std::nullopt}));
}

TEST(FindCauses, MeetingsAreCountedByWhoTakesPart) {
  // Rank 1 meets rank 0 first and rank 2 afterwards.
  const RankTrace ranks[] = {{{{5, "all_reduce 01"}}, 3},
                             {{{4, "all_reduce 01"}, {8, "all_reduce 12"}}, 4},
                             {{{7, "all_reduce 12"}}, 7}};
  EXPECT_EQ(FindCauses(ranks), (Causes{std::nullopt, 0, 0}));
  const RankTrace before[] = {{{{5, "all_reduce 01"}}, 3},
                              {{{4, "all_reduce 12"}, {8, "all_reduce 01"}}, std::nullopt},
                              {{{7, "all_reduce 12"}}, 7}};
  EXPECT_EQ(FindCauses(before), (Causes{std::nullopt, std::nullopt, std::nullopt}));
}

TEST(FindCauses, AMessageGoesOneWay) {
  const RankTrace forward[] = {{{{5, "0 1", true, false}}, 3}, {{{5, "0 1", false, true}}, 5}};
  EXPECT_EQ(FindCauses(forward), (Causes{std::nullopt, 0}));
  const RankTrace back[] = {{{{5, "0 1", true, false}}, 9}, {{{5, "0 1", false, true}}, 3}};
  EXPECT_EQ(FindCauses(back), (Causes{std::nullopt, std::nullopt}));
}

TEST(FindCauses, OneCollectiveThatAllNameIsTheFirstRanks) {
  const RankTrace ranks[] = {{{{5, "all_reduce"}}, 5}, {{{5, "all_reduce"}}, 5}, {{{5, "all_reduce"}}, 5}};
  EXPECT_EQ(FindCauses(ranks), (Causes{std::nullopt, 0, 0}));
}

// The definition: follow each culprit through all meetings, until nothing moves.
Causes PlainCauses(std::span<const RankTrace> ranks) {
  std::map<std::pair<std::string, int>, std::vector<std::pair<std::size_t, const Meeting*>>> meetings;
  std::vector<std::vector<std::pair<std::string, int>>> keys(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::map<std::string, int> counts;
    for (const Meeting& meeting : ranks[rank].meetings) {
      keys[rank].emplace_back(meeting.key, counts[meeting.key]++);
      meetings[keys[rank].back()].emplace_back(rank, &meeting);
    }
  }
  constexpr std::uint32_t kNever = 1000;
  Causes causes(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].culprit_call) continue;
    std::vector<std::uint32_t> reach(ranks.size(), kNever);
    reach[rank] = *ranks[rank].culprit_call;
    for (bool moved = true; std::exchange(moved, false);) {
      for (std::size_t from = 0; from < ranks.size(); ++from) {
        for (std::size_t i = 0; i < keys[from].size(); ++i) {
          const Meeting& own = ranks[from].meetings[i];
          if (!own.gives || own.call < reach[from]) continue;
          for (const auto& [other, meeting] : meetings[keys[from][i]]) {
            if (!meeting->takes || meeting->call >= reach[other]) continue;
            reach[other] = meeting->call;
            moved = true;
          }
        }
      }
    }
    for (std::size_t other = 0; other < ranks.size(); ++other) {
      if (other == rank || !ranks[other].culprit_call || causes[other] || causes[rank] == other) continue;
      if (reach[other] <= *ranks[other].culprit_call) causes[other] = rank;
    }
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<bool> met(ranks.size());
    std::optional<std::size_t> cause = causes[rank];
    while (cause && causes[*cause] && !met[*cause]) {
      met[*cause] = true;
      cause = causes[*cause];
    }
    causes[rank] = cause == rank ? std::nullopt : cause;
  }
  return causes;
}

TEST(FindCauses, AreThoseOfTheDefinition) {
  std::mt19937 random(17);
  const auto below = [&](std::uint32_t end) { return static_cast<std::uint32_t>(random() % end); };
  for (int round = 0; round < 20'000; ++round) {
    std::vector<RankTrace> ranks(1 + below(7));
    const std::uint32_t num_keys = 1 + below(4), most = 1 + below(8);
    for (RankTrace& rank : ranks) {
      std::uint32_t call = 0;
      for (std::uint32_t left = below(most + 1); left > 0; --left) {
        call += 1 + below(2);
        // Also in another order than the others do, which no program survives.
        const std::uint32_t way = below(4);
        rank.meetings.push_back({call, std::string(1, 'a' + below(num_keys)), way != 0, way != 1});
      }
      if (below(4) > 0) rank.culprit_call = below(call + 3);
    }
    ASSERT_EQ(FindCauses(ranks), PlainCauses(ranks)) << "round " << round;
  }
}

TEST(FindCauses, FollowsAMeetingOnceForManyRanksThatAllWentWrong) {
  constexpr std::uint32_t kRanks = 1000, kMeetings = 300;
  std::vector<RankTrace> ranks(kRanks);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    for (std::uint32_t i = 1; i <= kMeetings; ++i) ranks[rank].meetings.push_back({i, "all_reduce"});
  }
  // Each by itself; then all in the first collective; then each before another one, the last rank first.
  for (RankTrace& rank : ranks) rank.culprit_call = 0;
  EXPECT_EQ(FindCauses(ranks), Causes(kRanks));
  for (RankTrace& rank : ranks) rank.culprit_call = 1;
  Causes first(kRanks, 0);
  first[0].reset();
  EXPECT_EQ(FindCauses(ranks), first);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) ranks[rank].culprit_call = kRanks - rank;
  Causes last(kRanks, kRanks - 1);
  last.back().reset();
  EXPECT_EQ(FindCauses(ranks), last);
}

TEST(FindCauses, NobodyWentWrong) {
  const RankTrace ranks[] = {{{{5, "all_reduce"}}, std::nullopt}, {}};
  EXPECT_EQ(FindCauses(ranks), (Causes{std::nullopt, std::nullopt}));
  EXPECT_TRUE(FindCauses({}).empty());
}

}  // namespace
}  // namespace vernier

#include "judge/ranks.h"

#include <gtest/gtest.h>

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

TEST(FindCauses, NobodyWentWrong) {
  const RankTrace ranks[] = {{{{5, "all_reduce"}}, std::nullopt}, {}};
  EXPECT_EQ(FindCauses(ranks), (Causes{std::nullopt, std::nullopt}));
  EXPECT_TRUE(FindCauses({}).empty());
}

}  // namespace
}  // namespace vernier

#include "profiles/msprobe/first_difference.h"

#include <gtest/gtest.h>

namespace vernier::msprobe {
namespace {

AnalyzedOp Compute(std::string name, bool same) {
  AnalyzedOp op;
  op.name = std::move(name);
  op.is_same = same;
  op.data_info = "{}";
  return op;
}

AnalyzedOp Comm(std::string name, bool same, CommDirection direction = CommDirection::kNone,
                std::vector<int> peers = {}) {
  AnalyzedOp op = Compute(std::move(name), same);
  op.is_comm = true;
  op.direction = direction;
  op.peers = std::move(peers);
  return op;
}

std::string Found(const std::vector<AnalyzedRank>& ranks) {
  std::string text;
  for (const FirstDifference& found : FindFirstDifference(ranks))
    text += std::to_string(found.rank) + ":" + found.op->name + " ";
  return text;
}

TEST(FirstDifference, ReportsEveryRankThatDiffersBeforeItsFirstCommunication) {
  EXPECT_EQ(Found({{0, {Compute("a", false), Comm("Distributed.all_reduce.0.forward", false)}},
                   {1, {Compute("a", true), Comm("Distributed.all_reduce.0.forward", false)}},
                   {2, {Compute("b", false), Compute("c", false)}}}),
            "0:a 2:b ");
}

TEST(FirstDifference, FindsTheComputationThatSpoilsACollective) {
  const auto rank = [](int number, bool same) {
    return AnalyzedRank{
        number,
        {Comm("Distributed.all_reduce.0.forward", true), Compute("a", true), Compute("b", same),
         Comm("Distributed.all_reduce.1.forward", false), Compute("c", false)}};
  };
  EXPECT_EQ(Found({rank(0, true), rank(1, false)}), "1:b ");
}

TEST(FirstDifference, FindsACollectiveThatGoesWrongOnAllRanks) {
  const auto rank = [](int number) {
    return AnalyzedRank{number,
                        {Comm("Distributed.all_reduce.0.forward", true), Compute("a", true),
                         Comm("Distributed.all_reduce.1.forward", false)}};
  };
  EXPECT_EQ(Found({rank(0), rank(1)}),
            "0:Distributed.all_reduce.1.forward 1:Distributed.all_reduce.1.forward ");
}

TEST(FirstDifference, LinksASendToItsReceive) {
  EXPECT_EQ(Found({{0,
                    {Comm("Distributed.send.0.forward", true, CommDirection::kSender, {1}),
                     Compute("x", false), Comm("Distributed.all_reduce.0.forward", true)}},
                   {1,
                    {Comm("Distributed.recv.0.forward", false, CommDirection::kReceiver, {0}),
                     Comm("Distributed.all_reduce.0.forward", false)}}}),
            "1:Distributed.recv.0.forward ");
}

TEST(FirstDifference, LooksBehindTheLastCommunicationAtTheEnd) {
  EXPECT_EQ(
      Found({{0, {Comm("Distributed.all_reduce.0.forward", true), Compute("a", true), Compute("b", false)}}}),
      "0:b ");
  EXPECT_EQ(Found({{0, {Compute("a", true)}}}), "");
  EXPECT_EQ(Found({}), "");
}

TEST(FirstDifference, WritesWhatItFoundAsJson) {
  AnalyzedOp op = Compute("F.relu.0.forward", false);
  op.stack = {"line \"1\""};
  const std::vector<FirstDifference> found{{3, &op}};
  EXPECT_EQ(DiffAnalyzeJson(found),
            "{\n  \"rank_3\": [\n    {\n      \"op_name\": \"F.relu.0.forward\",\n      \"data_info\": {},\n "
            "     \"stack_info\": [\n"
            "        \"line \\\"1\\\"\"\n      ]\n    }\n  ]\n}\n");
}

}  // namespace
}  // namespace vernier::msprobe

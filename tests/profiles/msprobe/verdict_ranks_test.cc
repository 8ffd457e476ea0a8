#include "verdict_recordings.h"

namespace vernier::msprobe {
namespace {

TEST_F(MsprobeVerdict, RanksArePairedByTheirNumbers) {
  for (const int rank : {0, 1, 2}) Write(fmt::format("t/rank{}", rank), Chain(5));
  for (const int rank : {0, 1, 3}) Write(fmt::format("g/rank{}", rank), Chain(5));
  const CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.ranks.size(), 2u);
  ASSERT_EQ(outcome.doubts.size(), 1u);
  EXPECT_EQ(outcome.doubts[0],
            "2 ranks on one side only, not compared: rank2 (target only), rank3 (golden only)");
  EXPECT_EQ(outcome.verdict, RunVerdict::kUnknown);
}

TEST_F(MsprobeVerdict, RanksWithOddNumbersAreNobodysPartner) {
  for (const char* rank : {"rank0", "rank2147483647", "rank99999999999"})
    Write(std::string("t/") + rank, Chain(5));
  for (const char* rank : {"rank0", "rank88888888888"}) Write(std::string("g/") + rank, Chain(5));
  const CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.ranks.size(), 1u);
  ASSERT_EQ(outcome.doubts.size(), 1u);
  EXPECT_TRUE(outcome.doubts[0].starts_with("3 ranks on one side only")) << outcome.doubts[0];
}

TEST_F(MsprobeVerdict, ADamagedRankCostsOnlyItself) {
  for (const int rank : {0, 1, 2}) {
    Write(fmt::format("g/rank{}", rank), Chain(10));
    auto calls = Chain(10);
    if (rank == 2) calls[6] = Linear(6, 2, 3);
    Write(fmt::format("t/rank{}", rank), calls);
  }
  for (const int damaged : {0, 1}) {
    Write("t/rank0", Chain(10));
    std::ofstream(folder_.path() / fmt::format("t/rank{}/dump.json", damaged), std::ios::trunc).flush();
    const CompareOutcome outcome = Compare();
    EXPECT_EQ(outcome.num_skipped_ranks, 1u);
    EXPECT_EQ(outcome.verdict, RunVerdict::kDiverged);
    EXPECT_NE(outcome.text.find("could not be read"), std::string::npos) << outcome.text;
    Write("t/rank1", Chain(10));
  }
}

TEST_F(MsprobeVerdict, StepsOfOneSideAloneAreToldAndNotGreen) {
  for (const int step : {0, 1, 2, 3, 4, 5}) {
    Write(fmt::format("g/step{}/rank0", step), Chain(5));
    if (step != 3) Write(fmt::format("t/step{}/rank0", step), Chain(5));
  }
  CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kNoise);
  ASSERT_EQ(outcome.doubts.size(), 1u);
  EXPECT_EQ(outcome.doubts[0], "1 step on one side only, not compared: step3 (golden only)");
  EXPECT_NE(outcome.text.find(outcome.doubts[0]), std::string::npos);
  EXPECT_EQ(Compare(/*strict=*/true).status, 1);
  Write("t/step7/rank0", Chain(5));
  outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kUnknown) << "2 of 7 are more than a fifth";
  EXPECT_EQ(outcome.status, 2);
}

TEST_F(MsprobeVerdict, StepsOfGraphRunInTheOrderOfTheirNumbers) {
  for (const std::string step : {"graph/step2", "graph/step10"}) {
    auto calls = Chain(10);
    Write("g/" + step + "/rank0", calls);
    calls[6] = Linear(6, 2, 3);
    Write("t/" + step + "/rank0", calls);
  }
  const CompareOutcome outcome = Compare();
  ASSERT_EQ(outcome.ranks.size(), 2u);
  EXPECT_EQ(outcome.ranks[0].rank, "graph/step2/rank0");
  EXPECT_EQ(outcome.ranks[0].victim_of, "");
  EXPECT_EQ(outcome.ranks[1].victim_of, "graph/step2/rank0");
}

TEST_F(MsprobeVerdict, StepsOfGraphAndPynativeAreToldApart) {
  for (const std::string where : {"graph/step0", "graph/step1", "pynative/step0"}) {
    Write("g/" + where + "/rank0", Chain(10));
    auto calls = Chain(10);
    if (where == "graph/step1") calls[6] = Linear(6, 2, 3);
    if (where != "pynative/step0") Write("t/" + where + "/rank0", calls);
  }
  Write("g/graph/step2/rank0", Chain(10));
  const CompareOutcome outcome = Compare();
  ASSERT_EQ(outcome.ranks.size(), 2u);
  EXPECT_EQ(outcome.ranks[1].rank, "graph/step1/rank0");
  ASSERT_EQ(outcome.doubts.size(), 1u);
  EXPECT_EQ(outcome.doubts[0],
            "2 steps on one side only, not compared: graph/step2 (golden only), pynative (golden only)");
}

TEST_F(MsprobeVerdict, WeightsThatDifferBehindAStepThatIsTheSameAreADivergence) {
  const auto step = [](const std::string& weight) {
    auto calls = Chain(10);
    calls.insert(calls.begin(), R"("Module.fc.Linear.forward.0":{"input_args":[)" + Tensor("2.0") +
                                    R"(],"input_kwargs":{},"parameters":{"weight":)" + Tensor(weight) +
                                    R"(},"output":[)" + Tensor("2.0") + "]}");
    return calls;
  };
  for (const char* side : {"t", "g"}) Write(std::string(side) + "/step0/rank0", step("3.0"));
  Write("t/step1/rank0", step("3.0009"));
  Write("g/step1/rank0", step("3.0"));
  CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kDiverged);
  ASSERT_EQ(outcome.ranks.size(), 2u);
  ASSERT_FALSE(outcome.ranks[1].doubts.empty());
  EXPECT_EQ(outcome.ranks[1].doubts[0],
            "nothing differs in step0/rank0, and weights differ here: look at what the optimizer did");
  auto noisy = step("3.0");
  noisy[5] = Linear(4, 2, 2.00001);
  Write("t/step0/rank0", noisy);
  outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kNoise) << "weights drift with the noise of the step before";
}

TEST_F(MsprobeVerdict, RanksAndStepsThatOnlyOneSideHasAreNamedWhereNothingIsLeft) {
  Write("g/step0/rank0", Chain(3));
  Write("t/step0/rank4", Chain(3));
  Write("t/step0/rank5", Chain(3));
  EXPECT_NE(Compare().text.find("rank4 (target only)"), std::string::npos) << Compare().text;
  std::filesystem::remove_all(folder_.path() / "t");
  Write("t/step7/rank0", Chain(3));
  const CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kUnknown);
  EXPECT_NE(outcome.text.find("step7 (target only)"), std::string::npos) << outcome.text;
}

TEST_F(MsprobeVerdict, RanksBesideStepsThatOneSideHasAreCompared) {
  for (const char* side : {"t", "g"}) Write(std::string(side) + "/rank0", Chain(3));
  Write("g/step1/rank0", Chain(3));
  const CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.ranks.size(), 1u);
  ASSERT_EQ(outcome.doubts.size(), 1u);
  EXPECT_NE(outcome.doubts[0].find("step1 (golden only)"), std::string::npos);
}

TEST_F(MsprobeVerdict, AStepBehindOneWithAnotherOptimizerSaysSo) {
  const auto step = [](double weight, bool optimizes) {
    std::vector<std::string> calls;
    for (int k = 0; k < 10; ++k) calls.push_back(Linear(k, weight, weight));
    calls.insert(calls.begin(), R"("Module.fc.Linear.forward.0":{"input_args":[)" + Tensor("2.0") +
                                    R"(],"input_kwargs":{},"parameters":{"weight":)" +
                                    Tensor(std::to_string(weight)) + R"(},"output":[)" +
                                    Tensor(std::to_string(weight)) + "]}");
    calls.push_back(R"("Functional.linear.9.backward":{"input":[)" + Tensor("1.0") + R"(],"output":[)" +
                    Tensor("1.0") + "]}");
    if (optimizes) calls.push_back(Call("Tensor.add_.0.forward", Tensor("2.0"), Tensor("3.0")));
    return calls;
  };
  Write("g/step0/rank0", step(3, true));
  Write("t/step0/rank0", step(3, false));
  Write("g/step1/rank0", step(3.5, true));
  Write("t/step1/rank0", step(3, true));
  const CompareOutcome outcome = Compare();
  ASSERT_EQ(outcome.ranks.size(), 2u);
  ASSERT_TRUE(outcome.ranks[1].culprit);
  ASSERT_FALSE(outcome.ranks[1].doubts.empty());
  EXPECT_EQ(outcome.ranks[1].doubts[0],
            "step0/rank0 has other calls behind the backward pass: look at the optimizer");
}

TEST_F(MsprobeVerdict, AGoldenThatEndsBeforeMakesNobodyACulprit) {
  Write("t/rank0", Chain(40));
  Write("g/rank0", Chain(36));
  const CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kNoise);
  EXPECT_FALSE(outcome.ranks[0].culprit);
}

TEST_F(MsprobeVerdict, ARankIsTheVictimOfTheOneThatACollectiveBroughtItFrom) {
  const auto reduce = [](double out) {
    return Call("Distributed.all_reduce.0.forward", Tensor("2.0"), Tensor(std::to_string(out)));
  };
  for (const char* rank : {"rank0", "rank1"}) {
    auto calls = Chain(10);
    calls.push_back(reduce(2));
    Write(std::string("g/") + rank, calls);
  }
  auto first = Chain(10), second = Chain(10);
  first.push_back(reduce(4));
  second[6] = Linear(6, 2, 3);
  second.push_back(reduce(4));
  Write("t/rank0", first);
  Write("t/rank1", second);
  const CompareOutcome outcome = Compare();
  ASSERT_EQ(outcome.ranks.size(), 2u);
  EXPECT_EQ(outcome.ranks[0].culprit->record, "Distributed.all_reduce.0.forward");
  EXPECT_EQ(outcome.ranks[0].victim_of, "rank1");
  EXPECT_EQ(outcome.ranks[1].victim_of, "");
  EXPECT_NE(outcome.text.find("CULPRIT  linear, forward   on rank1"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("1 rank (rank0): diverged too, after rank1 did"), std::string::npos)
      << outcome.text;
}

// Ranks that make ten calls and then meet by one that is given `how`; `wrong` ones go wrong before that.
class MsprobeRanks : public MsprobeVerdict {
 protected:
  static constexpr std::string_view kSum = R"({"type":"torch.distributed.ReduceOp","value":"RedOpType.SUM"})";
  static std::string Group(int first) {
    return fmt::format(R"({{"type":"torch.ProcessGroup","group_ranks":[{},{}],"group_id":"0"}})", first,
                       first + 1);
  }
  static std::string Integer(int value) { return fmt::format(R"({{"type":"int","value":{}}})", value); }
  static std::string Message(std::string_view op, int peer) {
    return fmt::format(R"([{{"class_type":"torch.distributed.P2POp","tensor":{},"op":"{}","peer":"{}",)"
                       R"("tag":"0","group_id":"0"}}])",
                       Tensor("2.0"), op, peer);
  }
  void Rank(int rank, const std::string& api, const std::string& more, bool wrong, bool diverges) {
    const std::string name = "Distributed." + api + ".0.forward";
    for (const bool is_target : {false, true}) {
      auto calls = Chain(10);
      if (is_target && wrong) calls[6] = Linear(6, 2, 3);
      const bool differs = is_target && diverges;
      calls.push_back(more.starts_with('[')
                          ? '"' + name + R"(":{"input_args":[)" + more + R"(],"input_kwargs":{},"output":[)" +
                                Tensor(differs ? "4.0" : "2.0") + "]}"
                          : Call(name, Tensor("2.0"), Tensor(differs ? "4.0" : "2.0"), more));
      Write(fmt::format("{}/rank{}", is_target ? 't' : 'g', rank), calls);
    }
  }
  static std::string VictimOf(const CompareOutcome& outcome, std::size_t rank) {
    return outcome.ranks.at(rank).victim_of;
  }
};

TEST_F(MsprobeRanks, MeetOnlyThoseOfTheirGroupThoughItHasNoName) {
  for (int rank = 0; rank < 4; ++rank) {
    Rank(rank, "all_reduce", ',' + std::string(kSum) + ',' + Group(rank / 2 * 2), rank == 1 || rank == 3,
         true);
  }
  const CompareOutcome outcome = Compare();
  EXPECT_EQ(VictimOf(outcome, 0), "rank1");
  EXPECT_EQ(VictimOf(outcome, 2), "rank3");
  EXPECT_EQ(VictimOf(outcome, 1), "");
  EXPECT_EQ(VictimOf(outcome, 3), "");
}

TEST_F(MsprobeRanks, MeetInGroupsOfManyToo) {
  const auto group = [](int first) {
    std::string ranks = std::to_string(first);
    for (int rank = first + 1; rank < first + 100; ++rank) ranks += ',' + std::to_string(rank);
    return R"({"type":"torch.ProcessGroup","group_ranks":[)" + ranks + R"(],"group_id":"0"})";
  };
  for (int rank = 0; rank < 3; ++rank)
    Rank(rank, "all_reduce", ',' + std::string(kSum) + ',' + group(rank / 2), rank == 1, true);
  const CompareOutcome outcome = Compare();
  EXPECT_EQ(VictimOf(outcome, 0), "rank1");
  EXPECT_EQ(VictimOf(outcome, 2), "") << "of another group";
}

TEST_F(MsprobeRanks, SendToTheOneThatIsNamedByItsPlace) {
  Rank(0, "recv", ',' + Integer(1), false, true);
  Rank(1, "send", ',' + Integer(0), true, true);
  const CompareOutcome outcome = Compare();
  EXPECT_EQ(VictimOf(outcome, 0), "rank1");
  EXPECT_EQ(VictimOf(outcome, 1), "");
}

TEST_F(MsprobeRanks, MeetByTheMessagesOfABatchAndNotByTheBatch) {
  Rank(0, "batch_isend_irecv", Message("irecv", 1), false, true);
  Rank(1, "batch_isend_irecv", Message("isend", 0), true, true);
  Rank(2, "batch_isend_irecv", Message("irecv", 3), false, true);
  const CompareOutcome outcome = Compare();
  EXPECT_EQ(VictimOf(outcome, 0), "rank1");
  EXPECT_EQ(VictimOf(outcome, 2), "") << "nobody wrote to it";
}

TEST_F(MsprobeVerdict, OneRankInSeveralStepsIsToldByItsSteps) {
  for (const int step : {0, 1, 2}) {
    Write(fmt::format("g/step{}/rank0", step), Chain(10));
    auto calls = Chain(10);
    if (step == 2) calls[6] = Linear(6, 2, 3);
    Write(fmt::format("t/step{}/rank0", step), calls);
  }
  const CompareOutcome outcome = Compare();
  EXPECT_NE(outcome.text.find("2 steps (step0, step1): identical"), std::string::npos) << outcome.text;
}

TEST_F(MsprobeVerdict, ManyRanksFitOneScreen) {
  for (int rank = 0; rank < 64; ++rank) {
    const std::string name = "rank" + std::to_string(rank);
    Write("g/" + name, Chain(10));
    auto calls = Chain(10);
    if (rank == 40) calls[6] = Linear(6, 2, 3);
    Write("t/" + name, calls);
  }
  const CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kDiverged);
  EXPECT_LE(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 24);
  EXPECT_NE(outcome.text.find("63 ranks"), std::string::npos) << outcome.text;
}

}  // namespace
}  // namespace vernier::msprobe

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "profiles/msprobe/nan_hunt.h"
#include "profiles/msprobe/run.h"
#include "profiles/verdict_screen.h"
#include "temporary_folder.h"

namespace vernier::msprobe {
namespace {

namespace fs = std::filesystem;

// Recordings of statistics, written call by call.
class MsprobeVerdict : public testing::Test {
 protected:
  static std::string Tensor(const std::string& max, const std::string& min = "-1.0") {
    return R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[100],"Max":)" + max + R"(,"Min":)" +
           min + R"(,"Mean":0.1,"Norm":5.0,"requires_grad":false})";
  }
  static std::string Call(const std::string& name, const std::string& in, const std::string& out,
                          const std::string& more = "") {
    return '"' + name + R"(":{"input_args":[)" + in + more + R"(],"input_kwargs":{},"output":[)" + out + "]}";
  }
  static std::string Linear(int number, double in, double out) {
    return Call("Functional.linear." + std::to_string(number) + ".forward", Tensor(std::to_string(in)),
                Tensor(std::to_string(out)));
  }
  void Write(const std::string& where, const std::vector<std::string>& calls) {
    const fs::path path = folder_.path() / where / "dump.json";
    fs::create_directories(path.parent_path());
    std::ofstream file(path);
    file << R"({"task":"statistics","level":"L1","framework":"pytorch","data":{)";
    for (std::size_t i = 0; i < calls.size(); ++i) file << (i == 0 ? "" : ",\n") << calls[i];
    file << "}}";
  }
  CompareOutcome Compare(bool strict = false) {
    Settings settings;
    settings.strict = strict;
    return Compare(std::move(settings));
  }
  CompareOutcome Compare(Settings settings) {
    settings.generation = Generation::kCurrent;
    if (settings.npu_path.empty()) settings.npu_path = folder_.path() / "t";
    if (settings.bench_path.empty()) settings.bench_path = folder_.path() / "g";
    Result<CompareOutcome> outcome = RunCompare(settings);
    EXPECT_TRUE(outcome) << outcome.error().Message();
    return outcome ? *std::move(outcome) : CompareOutcome();
  }
  static std::vector<std::string> Chain(int num_calls) {
    std::vector<std::string> calls;
    for (int i = 0; i < num_calls; ++i) calls.push_back(Linear(i, 2, 2));
    return calls;
  }

  TemporaryFolder folder_;
};

TEST_F(MsprobeVerdict, HasFourWords) {
  Write("g/step0/rank0", Chain(10));
  Write("t/step0/rank0", Chain(10));
  CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kIdentical);
  EXPECT_EQ(outcome.status, 0);

  auto calls = Chain(10);
  calls[8] = Linear(8, 2, 2.00001);
  Write("t/step0/rank0", calls);
  outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kNoise);
  EXPECT_EQ(outcome.status, 0);

  calls[8] = Linear(8, 2, 3);
  Write("t/step0/rank0", calls);
  outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kDiverged);
  EXPECT_EQ(outcome.ranks[0].culprit->record, "Functional.linear.8.forward");
  EXPECT_EQ(outcome.status, 1);

  Write("t/step0/rank0", Chain(2));
  outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kUnknown);
  EXPECT_FALSE(outcome.ranks[0].doubts.empty());
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(Compare(/*strict=*/true).status, 1);
}

TEST_F(MsprobeVerdict, AnAdditionalCallIsTold) {
  Write("g/step0/rank0", Chain(20));
  auto calls = Chain(20);
  calls.insert(calls.begin() + 5, Call("Tensor.clone.0.forward", Tensor("2.0"), Tensor("2.0")));
  Write("t/step0/rank0", calls);
  const CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kNoise) << "never green: something has no partner";
  ASSERT_EQ(outcome.ranks[0].outside.size(), 1u);
  EXPECT_EQ(outcome.ranks[0].outside[0].what, "additional call");
  EXPECT_EQ(outcome.ranks[0].outside[0].where, "before Functional.linear.5.forward");
}

TEST_F(MsprobeVerdict, AmongModulesAnAdditionalOneStandsBeforeTheNextToo) {
  std::vector<std::string> calls;
  for (int i = 0; i < 8; ++i)
    calls.push_back(Call(fmt::format("Module.l{}.Linear.forward.0", i), Tensor("2.0"), Tensor("2.0")));
  Write("g/step0/rank0", calls);
  calls.insert(calls.begin() + 5, Call("Module.more.Identity.forward.0", Tensor("2.0"), Tensor("2.0")));
  Write("t/step0/rank0", calls);
  const CompareOutcome outcome = Compare();
  ASSERT_EQ(outcome.ranks[0].outside.size(), 1u);
  EXPECT_EQ(outcome.ranks[0].outside[0].where, "before Module.l5.Linear.forward.0");
}

TEST_F(MsprobeVerdict, AnArgumentMayBeCalledRequiresGrad) {
  std::vector<std::string> calls = Chain(5);
  calls.push_back(
      R"("Torch.arange.0.forward":{"input_args":[{"type":"float","value":6.0}],)"
      R"("input_kwargs":{"requires_grad":{"type":"bool","value":true}},"output":[)" +
      Tensor("5.0") + "]}");
  Write("g/rank0", calls);
  Write("t/rank0", calls);
  EXPECT_EQ(Compare().verdict, RunVerdict::kIdentical);
}

TEST_F(MsprobeVerdict, ACallOfAnotherKindMayStandInPlaceOfOne) {
  auto calls = Chain(10);
  calls.insert(calls.begin() + 6, Call("Torch.softmax.0.forward", Tensor("2.0"), Tensor("2.0"),
                                       R"(,{"type":"int","value":-1})"));
  Write("g/rank0", calls);
  calls[6] = Call("Functional.softmax.0.forward", Tensor("2.0"), Tensor("2.0"), R"(,{"type":"int","value":1})");
  Write("t/rank0", calls);
  CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kIdentical) << outcome.text;
  EXPECT_EQ(outcome.ranks[0].num_alone, 0u);
  calls[6] = Call("Functional.softmin.0.forward", Tensor("2.0"), Tensor("2.5"));
  Write("t/rank0", calls);
  outcome = Compare();
  ASSERT_TRUE(outcome.ranks[0].culprit);
  EXPECT_EQ(outcome.ranks[0].culprit->record, "Functional.softmin.0.forward");
  EXPECT_EQ(outcome.ranks[0].culprit->why,
            "same inputs, different output: error 0.25; the golden calls Torch.softmax here");
}

// One call in place of three, which read `weight` beside what the call before made.
class MsprobeFused : public MsprobeVerdict {
 protected:
  static std::string Weight(double norm) {
    return fmt::format(
        R"({{"type":"torch.Tensor","dtype":"torch.float32","shape":[8,8],"Max":1.5,"Min":-1.5,"Mean":0.01,)"
        R"("Norm":{},"requires_grad":true}})",
        norm);
  }
  static std::string Indices(int max) {
    return fmt::format(
        R"({{"type":"torch.Tensor","dtype":"torch.int64","shape":[64],"Max":{},"Min":0,"Mean":null,)"
        R"("Norm":null,"requires_grad":false}})",
        max);
  }
  static std::vector<std::string> Around(const std::vector<std::string>& middle) {
    std::vector<std::string> calls = Chain(10);
    calls.insert(calls.end(), middle.begin(), middle.end());
    calls.push_back(Linear(10, 5, 2));
    return calls;
  }
  static std::vector<std::string> Parts(double weight, const std::string& result = "5.0") {
    return Around({Call("Tensor.__mul__.0.forward", Tensor("2.0"), Tensor("3.0"), "," + Weight(weight)),
                   Call("Functional.softmax.0.forward", Tensor("3.0"), Tensor("4.0")),
                   Call("Torch.matmul.0.forward", Tensor("4.0"), Tensor(result))});
  }
  static std::vector<std::string> Fused(double weight, const std::string& result = "5.0") {
    return Around({Call("Functional.fused_scale_softmax.0.forward", Tensor("2.0"), Tensor(result),
                        "," + Weight(weight))});
  }
};

TEST_F(MsprobeFused, IsNoCauseWhereItsInputsAndOutputsAgree) {
  Write("g/step0/rank0", Parts(6));
  Write("t/step0/rank0", Fused(6));
  const CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kNoise) << "its parts were not compared";
  EXPECT_EQ(outcome.ranks[0].num_alone, 0u);
  ASSERT_EQ(outcome.ranks[0].outside.size(), 1u);
  EXPECT_EQ(outcome.ranks[0].outside[0].where, "for 3 calls of the golden");
}

TEST_F(MsprobeFused, IsNamedWhereOnlyItsOutputDiffers) {
  Write("g/step0/rank0", Parts(6));
  Write("t/step0/rank0", Fused(6, "7.0"));
  CompareOutcome outcome = Compare();
  ASSERT_TRUE(outcome.ranks[0].culprit);
  EXPECT_EQ(outcome.ranks[0].culprit->record, "Functional.fused_scale_softmax.0.forward");
  EXPECT_EQ(outcome.ranks[0].culprit->reason, "output");
  EXPECT_EQ(outcome.ranks[0].culprit->evidence.size(), 3u) << "two inputs and the output";

  Write("g/step0/rank0", Fused(6));
  Write("t/step0/rank0", Parts(6, "7.0"));
  outcome = Compare();
  ASSERT_TRUE(outcome.ranks[0].culprit);
  EXPECT_EQ(outcome.ranks[0].culprit->record, "Torch.matmul.0.forward");
  EXPECT_EQ(outcome.ranks[0].culprit->reason, "output");
}

TEST_F(MsprobeFused, AWrongInputIsSeenOnEitherSideOfTheFusion) {
  Write("g/step0/rank0", Parts(6));
  Write("t/step0/rank0", Fused(6.6, "5.4"));
  CompareOutcome outcome = Compare();
  ASSERT_TRUE(outcome.ranks[0].culprit);
  EXPECT_EQ(outcome.ranks[0].culprit->record, "Functional.fused_scale_softmax.0.forward");
  EXPECT_EQ(outcome.ranks[0].culprit->reason, "input");

  Write("g/step0/rank0", Fused(6));
  Write("t/step0/rank0", Parts(6.6, "5.4"));
  outcome = Compare();
  ASSERT_TRUE(outcome.ranks[0].culprit);
  EXPECT_EQ(outcome.ranks[0].culprit->record, "Tensor.__mul__.0.forward");
  EXPECT_EQ(outcome.ranks[0].culprit->reason, "input");
}

TEST_F(MsprobeFused, OtherIntegersThatGoIntoItAreSeen) {
  const auto one = [](int max) {
    return Around({Call("Functional.fused_embedding.0.forward", Tensor("2.0"), Tensor("5.0"),
                        "," + Indices(max))});
  };
  const auto several = [](int max) {
    return Around({Call("Torch.index_select.0.forward", Tensor("2.0"), Tensor("3.0"), "," + Indices(max)),
                   Call("Functional.relu.0.forward", Tensor("3.0"), Tensor("5.0"))});
  };
  Write("g/step0/rank0", several(60));
  Write("t/step0/rank0", one(60));
  EXPECT_EQ(Compare().ranks[0].num_outside.size(), 1u) << "only that it is fused";
  Write("t/step0/rank0", one(50));
  const CompareOutcome outcome = Compare();
  ASSERT_EQ(outcome.ranks[0].outside.size(), 2u);
  EXPECT_EQ(outcome.ranks[0].outside[0].what, "input");
}

TEST_F(MsprobeVerdict, AnArgumentOfOneSideAloneIsNamed) {
  Write("g/step0/rank0", Chain(10));
  auto calls = Chain(10);
  calls[7] =
      Call("Functional.linear.7.forward", Tensor("2.0"), Tensor("2.1"), R"(,{"type":"str","value":"tanh"})");
  Write("t/step0/rank0", calls);
  const CompareOutcome outcome = Compare();
  ASSERT_TRUE(outcome.ranks[0].culprit);
  EXPECT_EQ(outcome.ranks[0].culprit->reason, "argument");
  ASSERT_EQ(outcome.ranks[0].culprit->arguments.size(), 1u);
  EXPECT_EQ(outcome.ranks[0].culprit->arguments[0].target, "tanh");
}

TEST_F(MsprobeVerdict, AnArgumentOfTheGoldenAloneIsNamedToo) {
  Write("t/step0/rank0", Chain(10));
  auto calls = Chain(10);
  const auto with_more = [](double out) {
    return Call("Functional.linear.7.forward", Tensor("2.0"), Tensor(std::to_string(out)),
                R"(,{"type":"str","value":"tanh"})");
  };
  calls[7] = with_more(2.1);
  Write("g/step0/rank0", calls);
  CompareOutcome outcome = Compare();
  ASSERT_TRUE(outcome.ranks[0].culprit);
  ASSERT_EQ(outcome.ranks[0].culprit->arguments.size(), 1u);
  EXPECT_EQ(outcome.ranks[0].culprit->arguments[0].golden, "tanh");
  EXPECT_EQ(outcome.ranks[0].culprit->why, "argument weight (input.1) differs   target none   golden tanh");

  calls[7] = with_more(2);
  Write("g/step0/rank0", calls);
  outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kNoise) << "it is told though it changes nothing";
  ASSERT_EQ(outcome.ranks[0].outside.size(), 1u);
  EXPECT_EQ(outcome.ranks[0].outside[0].name, "Functional.linear.7.forward.input.1");
  EXPECT_EQ(outcome.ranks[0].outside[0].golden, "tanh");
}

TEST_F(MsprobeVerdict, AnArgumentByItsPlaceIsNamedAsItsFunctionDoes) {
  const auto with_norm = [](double epsilon, double out) {
    auto calls = Chain(10);
    calls[7] = Call(
        "Functional.layer_norm.0.forward", Tensor("2.0"), Tensor(std::to_string(out)),
        fmt::format(R"(,[{{"type":"int","value":100}}],null,null,{{"type":"float","value":{}}})", epsilon));
    return calls;
  };
  Write("g/rank0", with_norm(1e-5, 2));
  Write("t/rank0", with_norm(0.1, 2.1));
  const CompareOutcome outcome = Compare();
  ASSERT_TRUE(outcome.ranks[0].culprit);
  EXPECT_EQ(outcome.ranks[0].culprit->why, "argument eps (input.4) differs   target 0.1   golden 1e-05");
  ASSERT_EQ(outcome.ranks[0].outside.size(), 1u);
  EXPECT_EQ(outcome.ranks[0].outside[0].parameter, "eps");
}

TEST_F(MsprobeVerdict, WhatEntersFromOutsideIsListedAndNamedInWords) {
  auto calls = Chain(10);
  calls.insert(calls.begin(), Call("Functional.embedding.0.forward", Tensor("7.0"), Tensor("2.0")));
  Write("g/rank0", calls);
  calls[0] = Call("Functional.embedding.0.forward", Tensor("8.0"), Tensor("3.0"));
  calls[1] = Linear(0, 3, 2.5);
  for (int i = 1; i < 10; ++i) calls[static_cast<std::size_t>(i) + 1] = Linear(i, 2.5, 2.5);
  Write("t/rank0", calls);
  const CompareOutcome outcome = Compare();
  const RankOutcome& rank = outcome.ranks[0];
  ASSERT_TRUE(rank.culprit);
  EXPECT_EQ(rank.culprit->record, "Functional.embedding.0.forward");
  EXPECT_EQ(rank.culprit->reason, "input");
  EXPECT_NE(rank.culprit->why.find("input.0 differs, and no call before made it"), std::string::npos)
      << rank.culprit->why;
  ASSERT_EQ(rank.outside.size(), 1u) << "what comes of it is not from outside";
  EXPECT_EQ(rank.outside[0].what, "input");
  EXPECT_EQ(rank.outside[0].name, "Functional.embedding.0.forward.input.0");
}

TEST_F(MsprobeVerdict, WhatOneSideHasNoNumbersOfIsNotGreen) {
  auto calls = Chain(10);
  Write("t/rank0", calls);
  constexpr std::string_view kNothing =
      R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[100],"Max":null,"Min":null,"Mean":null,"Norm":null})";
  calls[4] = Call("Functional.linear.4.forward", Tensor("2.0"), std::string(kNothing));
  Write("g/rank0", calls);
  CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kUnknown);
  ASSERT_EQ(outcome.ranks[0].doubts.size(), 1u);
  EXPECT_EQ(outcome.ranks[0].doubts[0],
            "1 paired tensor could not be measured: one side has no numbers of them");
  for (std::string& call : calls) {
    const std::string name = call.substr(1, call.find(':') - 2);
    call = Call(name, std::string(kNothing), std::string(kNothing));
  }
  Write("g/rank0", calls);
  Write("t/rank0", calls);
  outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kUnknown) << "nothing is known on either side";
  calls = Chain(10);
  calls[4] = Call("Functional.linear.4.forward", Tensor("2.0"), std::string(kNothing));
  Write("g/rank0", calls);
  Write("t/rank0", calls);
  outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kNoise) << "what nobody has numbers of was not compared";
  ASSERT_EQ(outcome.ranks[0].doubts.size(), 1u);
  EXPECT_EQ(outcome.ranks[0].doubts[0],
            "1 paired tensor could not be measured: neither side has numbers of them");
}

TEST_F(MsprobeVerdict, AmongChecksumsStatisticsTellOfWhatHasNone) {
  const auto with_md5 = [](std::string tensor) {
    return tensor.insert(tensor.size() - 1, R"(,"md5":"0badcafe")");
  };
  std::vector<std::string> calls;
  for (int i = 0; i < 10; ++i) {
    calls.push_back(Call("Functional.linear." + std::to_string(i) + ".forward", with_md5(Tensor("2.0")),
                         with_md5(Tensor("2.0"))));
  }
  calls[8] = Call("Functional.linear.8.forward", with_md5(Tensor("2.0")), Tensor("2.0"));
  Write("g/rank0", calls);
  calls[8] = Call("Functional.linear.8.forward", with_md5(Tensor("2.0")), Tensor("3.0"));
  Write("t/rank0", calls);
  const CompareOutcome outcome = Compare();
  ASSERT_TRUE(outcome.ranks[0].culprit);
  EXPECT_EQ(outcome.ranks[0].culprit->record, "Functional.linear.8.forward");
}

TEST_F(MsprobeVerdict, ARecordThatCannotBeReadIsNotGreenOnEitherSide) {
  auto calls = Chain(10);
  Write("t/rank0", calls);
  calls[4] = R"("Functional.linear.4.forward":17)";
  Write("g/rank0", calls);
  EXPECT_EQ(Compare().verdict, RunVerdict::kUnknown);
  Write("t/rank0", calls);
  Write("g/rank0", Chain(10));
  EXPECT_EQ(Compare().verdict, RunVerdict::kUnknown);
}

TEST_F(MsprobeVerdict, ATensorThatOnlyOneCallGivesIsNotGreen) {
  auto calls = Chain(10);
  Write("g/rank0", calls);
  calls[4] = Call("Functional.linear.4.forward", Tensor("2.0"), Tensor("2.0") + ',' + Tensor("7.0"));
  Write("t/rank0", calls);
  for (int i = 0; i < 2; ++i) {
    const CompareOutcome outcome = Compare();
    EXPECT_EQ(outcome.verdict, RunVerdict::kNoise);
    ASSERT_EQ(outcome.ranks[0].doubts.size(), 1u);
    EXPECT_EQ(outcome.ranks[0].doubts[0], "1 tensor of paired calls has no partner");
    Write("g/rank0", calls);
    Write("t/rank0", Chain(10));
  }
}

TEST_F(MsprobeVerdict, TensorsOfOtherShapesAreNotComparedAndNotGreen) {
  const std::string half =
      R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[50],"Max":9.0,"Min":-1.0,"Mean":0.1,"Norm":5.0})";
  auto calls = Chain(10);
  Write("g/rank0", calls);
  calls[5] = Call("Functional.linear.5.forward", half, half);
  Write("t/rank0", calls);
  CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kNoise) << "one of ten";
  ASSERT_EQ(outcome.ranks[0].doubts.size(), 1u);
  EXPECT_EQ(outcome.ranks[0].doubts[0],
            "1 of 10 outputs has a different shape on the two sides and was not compared");
  for (int i = 2; i < 10; ++i) calls[static_cast<std::size_t>(i)] = Call(fmt::format("Functional.linear.{}.forward", i), half, half);
  Write("t/rank0", calls);
  outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kUnknown);
  EXPECT_EQ(outcome.status, 2);
}

TEST_F(MsprobeVerdict, NanOnBothSidesHidesWhatElseDiffersInStatistics) {
  const std::string nan =
      R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[100],"Max":NaN,"Min":NaN,"Mean":NaN,"Norm":NaN})";
  auto calls = Chain(10);
  calls[9] = Call("Functional.linear.9.forward", Tensor("2.0"), nan);
  Write("g/rank0", calls);
  Write("t/rank0", calls);
  CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kNoise) << "never green";
  ASSERT_EQ(outcome.ranks[0].doubts.size(), 1u);
  EXPECT_EQ(outcome.ranks[0].doubts[0],
            "1 of 10 outputs holds NaN on both sides, which hides what else differs: statistics do not tell");
  for (std::size_t i = 2; i < 10; ++i)
    calls[i] = Call("Functional.linear." + std::to_string(i) + ".forward", nan, nan);
  Write("g/rank0", calls);
  Write("t/rank0", calls);
  outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kUnknown);
}

TEST_F(MsprobeVerdict, NanThatOneSideMakesIsNamedThoughShapesDiffer) {
  const auto tensor = [](int size, const char* max) {
    return fmt::format(
        R"({{"type":"torch.Tensor","dtype":"torch.float32","shape":[{}],"Max":{},"Min":{},"Mean":{},"Norm":{}}})",
        size, max, max, max, max);
  };
  auto calls = Chain(10);
  calls.push_back(Call("Tensor.var.0.forward", tensor(1, "3.0"), tensor(1, "2.0")));
  Write("g/rank0", calls);
  calls.back() = Call("Tensor.var.0.forward", tensor(2, "3.0"), tensor(2, "NaN"));
  Write("t/rank0", calls);
  const CompareOutcome outcome = Compare();
  ASSERT_TRUE(outcome.ranks[0].culprit);
  EXPECT_EQ(outcome.ranks[0].culprit->record, "Tensor.var.0.forward");
  EXPECT_EQ(outcome.ranks[0].culprit->why, "it makes NaN from finite inputs, and the golden does not");
}

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
  EXPECT_EQ(
      outcome.ranks[1].doubts[0],
      "step0/rank0 is the same to the last bit, and weights differ here: look at what the optimizer did");
  auto noisy = step("3.0");
  noisy[5] = Linear(4, 2, 2.00001);
  Write("t/step0/rank0", noisy);
  outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kNoise) << "weights drift with the noise of the step before";
}

TEST_F(MsprobeVerdict, AGoldenThatEndsBeforeMakesNobodyACulprit) {
  Write("t/rank0", Chain(40));
  Write("g/rank0", Chain(36));
  const CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kNoise);
  EXPECT_FALSE(outcome.ranks[0].culprit);
}

TEST_F(MsprobeVerdict, AnOptimizerMayTakeTheWeightsInAnotherOrder) {
  const auto add = [](int number, double norm, int rows) {
    const std::string weight = fmt::format(
        R"({{"type":"torch.Tensor","dtype":"torch.float32","shape":[{},8],"Max":1.5,"Min":-1.5,"Mean":0.01,"Norm":{},)"
        R"("requires_grad":true}})",
        rows, norm);
    return Call(fmt::format("Tensor.add_.{}.forward", number), weight, weight);
  };
  auto golden = Chain(10), target = Chain(10);
  const double norms[] = {5.5, 6.25, 7.5, 8.75};
  const int rows[] = {4, 8, 8, 16}, order[] = {2, 0, 3, 1};
  for (int i = 0; i < 4; ++i) {
    golden.push_back(add(i, norms[i], rows[i]));
    target.push_back(add(i, norms[order[i]], rows[order[i]]));
  }
  Write("g/rank0", golden);
  Write("t/rank0", target);
  const CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kIdentical);
  const RankOutcome& rank = outcome.ranks[0];
  ASSERT_FALSE(rank.outside.empty());
  EXPECT_EQ(rank.outside[0].what, "reordered call");
  ASSERT_EQ(rank.pairs.size(), 4u);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(rank.pairs[static_cast<std::size_t>(i)].golden,
              fmt::format("Tensor.add_.{}.forward", order[i]));
}

TEST_F(MsprobeVerdict, AnArgumentByItsNameOrByItsPlaceIsTheSame) {
  auto calls = Chain(10);
  Write("g/rank0", calls);
  calls[4] = R"("Functional.linear.4.forward":{"input_args":[)" + Tensor("2.0") +
             R"(,{"type":"int","value":-1}],"input_kwargs":{},"output":[)" + Tensor("2.0") + "]}";
  Write("t/rank0", calls);
  calls[4] = R"("Functional.linear.4.forward":{"input_args":[)" + Tensor("2.0") +
             R"(],"input_kwargs":{"dim":{"type":"int","value":-1}},"output":[)" + Tensor("2.0") + "]}";
  Write("g/rank0", calls);
  const CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kIdentical);
  EXPECT_TRUE(outcome.ranks[0].outside.empty());
}

TEST_F(MsprobeVerdict, WhatEntersAndMovesNothingIsToldAndNotBlamed) {
  auto calls = Chain(12);
  Write("g/rank0", calls);
  calls[2] = Call("Functional.linear.2.forward", Tensor("2.0"), Tensor("2.02"), "," + Tensor("3.0"));
  auto golden = Chain(12);
  golden[2] = Call("Functional.linear.2.forward", Tensor("2.0"), Tensor("2.0"), "," + Tensor("2.9"));
  Write("g/rank0", golden);
  Write("t/rank0", calls);
  const CompareOutcome outcome = Compare();
  const RankOutcome& rank = outcome.ranks[0];
  EXPECT_EQ(outcome.verdict, RunVerdict::kNoise);
  EXPECT_FALSE(rank.culprit);
  ASSERT_EQ(rank.doubts.size(), 1u);
  EXPECT_EQ(rank.doubts[0], "input.1 of Functional.linear.2.forward differs, but nothing that follows does");
  EXPECT_EQ(rank.num_outside.size(), 1u);
}

TEST_F(MsprobeVerdict, CallsOfAnOptimizerThatOneSideMakesAloneLeaveTheModelComparable) {
  auto step = [](int num_single) {
    std::vector<std::string> calls = Chain(10);
    for (int i = 9; i >= 0; --i) {
      calls.push_back(fmt::format(R"("Functional.linear.{}.backward":{{"input":[{}],"output":[{}]}})", i,
                                  Tensor("0.5"), Tensor("0.5")));
    }
    for (int i = 0; i < num_single; ++i)
      calls.push_back(Call(fmt::format("Tensor.lerp_.{}.forward", i), Tensor("0.5"), Tensor("0.5")));
    return calls;
  };
  Write("g/rank0", step(20));
  Write("t/rank0", step(0));
  CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kNoise) << "never green";
  EXPECT_EQ(outcome.ranks[0].num_alone, 20u);
  ASSERT_EQ(outcome.ranks[0].doubts.size(), 1u);
  EXPECT_EQ(outcome.ranks[0].doubts[0], "20 calls behind the backward pass have no partner");
  auto torn = step(0);
  torn.resize(8);
  Write("t/rank0", torn);
  EXPECT_EQ(Compare().verdict, RunVerdict::kUnknown) << "the backward pass itself is missing";
}

TEST_F(MsprobeVerdict, TheNextConfigNamesEachSidesOwnCallsAndPlaces) {
  const auto add = [](int number, double out) {
    return Call("Tensor.__add__." + std::to_string(number) + ".forward", Tensor("2.0"),
                Tensor(std::to_string(out)));
  };
  auto golden = Chain(10), target = Chain(10);
  golden.push_back(add(0, 2));
  target.insert(target.begin() + 3, Call("Tensor.__add__.0.forward", Tensor("9.0", "-9.0"),
                                         Tensor("9.0", "-9.0"), R"(,{"type":"int","value":0})"));
  target.push_back(add(1, 3));
  Write("rank_files_of_2026/g/step4/rank2", golden);
  Write("rank_files_of_2026/t/step7/rank5", target);
  Settings settings;
  settings.npu_path = folder_.path() / "rank_files_of_2026/t/step7/rank5/dump.json";
  settings.bench_path = folder_.path() / "rank_files_of_2026/g/step4/rank2/dump.json";
  settings.output_path = folder_.path() / "out";
  settings.format = ReportFormat::kCsv;
  const CompareOutcome outcome = Compare(std::move(settings));
  ASSERT_TRUE(outcome.ranks[0].culprit);
  EXPECT_EQ(outcome.ranks[0].culprit->record, "Tensor.__add__.1.forward");
  const auto config = [&](const std::string& side) {
    for (const auto& path : outcome.written) {
      if (!fs::path(path).string().ends_with(side + "/config.json")) continue;
      std::ifstream file{fs::path(path)};
      return std::string(std::istreambuf_iterator<char>(file), {});
    }
    return std::string();
  };
  EXPECT_NE(config("target").find(R"("Tensor.__add__.1.forward")"), std::string::npos) << config("target");
  EXPECT_NE(config("golden").find(R"("Tensor.__add__.0.forward")"), std::string::npos) << config("golden");
  EXPECT_NE(config("target").find(R"("rank": [5],
  "step": [7])"),
            std::string::npos)
      << config("target");
  EXPECT_NE(config("golden").find(R"("rank": [2],
  "step": [4])"),
            std::string::npos)
      << config("golden");
}

TEST_F(MsprobeVerdict, TheNextConfigHasWhatTheGoldenCallsAloneAroundTheCulprit) {
  auto calls = Chain(12);
  calls.insert(calls.begin() + 4, Call("Tensor.clone.0.forward", Tensor("2.0"), Tensor("2.0")));
  Write("g/step0/rank0", calls);
  calls = Chain(12);
  calls[6] = Linear(6, 2, 3);
  Write("t/step0/rank0", calls);
  const CompareOutcome outcome = Compare();
  ASSERT_TRUE(outcome.ranks[0].culprit);
  const auto has = [](const std::vector<std::string>& names, const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  EXPECT_TRUE(has(outcome.ranks[0].culprit->golden_around, "Tensor.clone.0.forward"));
  EXPECT_TRUE(has(outcome.ranks[0].culprit->around, "Functional.linear.6.forward"));
  EXPECT_FALSE(has(outcome.ranks[0].culprit->around, "Tensor.clone.0.forward"));
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

TEST_F(MsprobeVerdict, TheFirstCallThatMakesNanIsFound) {
  const std::string mask = R"(,{"type":"float","value":-Infinity})";
  Write("d", {Linear(0, 2, 2),
              Call("Tensor.masked_fill.0.forward", Tensor("2.0"), Tensor("2.0", "-Infinity"), mask),
              Call("Functional.softmax.0.forward", Tensor("2.0", "-Infinity"), Tensor("NaN", "NaN")),
              Call("Functional.relu.0.forward", Tensor("NaN", "NaN"), Tensor("NaN", "NaN")),
              Call("Torch.exp.0.forward", Tensor("99.0"), Tensor("Infinity")),
              R"("Module.a.Linear.parameters_grad.0":{"weight":[)" + Tensor("NaN", "NaN") + "]}"});
  const Result<Listing> found = HuntNan((folder_.path() / "d").string());
  ASSERT_TRUE(found) << found.error().Message();
  ASSERT_EQ(found->rows.size(), 2u);
  EXPECT_EQ(found->rows[0].cells()[1].text, "Functional.softmax.0.forward");
  EXPECT_EQ(found->rows[0].cells()[2].text, "makes NaN from infinities");
  EXPECT_EQ(found->rows[1].cells()[1].text, "Torch.exp.0.forward");
  EXPECT_EQ(found->rows[1].cells()[2].text, "makes infinity from finite inputs");
}

TEST_F(MsprobeVerdict, NanOfOneSideIsToldAsSuch) {
  Write("g/rank0", Chain(10));
  auto calls = Chain(10);
  calls[7] = Call("Functional.linear.7.forward", Tensor("2.000000"), Tensor("NaN", "NaN"));
  Write("t/rank0", calls);
  const CompareOutcome outcome = Compare();
  ASSERT_TRUE(outcome.ranks[0].culprit);
  EXPECT_EQ(outcome.ranks[0].culprit->why, "it makes NaN from finite inputs, and the golden does not");
}

TEST(VerdictScreen, IsNeverLongerThanAScreenAndShowsNoControlCharacters) {
  CompareOutcome outcome;
  outcome.verdict = RunVerdict::kDiverged;
  for (int i = 0; i < 50; ++i) {
    RankOutcome& rank = outcome.ranks.emplace_back();
    rank.rank = "rank" + std::to_string(i);
    rank.verdict = RunVerdict::kDiverged;
    Culprit& found = rank.culprit.emplace();
    found.record = "Torch.x\x1b[31m." + std::to_string(i);
    for (int k = 0; k < 9; ++k) {
      found.arguments.push_back({"argument", "a", "1", "2", "", 0});
      found.evidence.push_back({"o", "output", 1.0, "1", "2"});
      rank.outside.push_back({"weight", "w" + std::to_string(k), "", "", "", 1});
      rank.doubts.push_back("doubt");
    }
    rank.num_outside.emplace_back("weight", 9);
    rank.errors_along = {{"a", 1.0}, {"b", 2.0}};
  }
  outcome.first_differences.assign(30, "x");
  outcome.next = {"vernier compare a\x1b[2J b", "second", "third"};
  const std::string text = VerdictScreen(outcome, /*colour=*/false, /*seconds=*/1.5);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 24) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_TRUE(text.ends_with("        third\n")) << text;
}

TEST(VerdictScreen, TellsSidesApartWithAsFewDigitsAsDo) {
  CompareOutcome outcome;
  outcome.verdict = RunVerdict::kDiverged;
  RankOutcome& rank = outcome.ranks.emplace_back();
  rank.verdict = RunVerdict::kDiverged;
  Culprit& found = rank.culprit.emplace();
  found.record = "Functional.gelu.0.forward";
  found.evidence = {{found.record + ".output.0", "output", 1e-4, "1.8942927122116089", "1.8942424058914185"},
                    {found.record + ".output.1", "output", HUGE_VAL, "2.123456", "inf"},
                    {found.record + ".input.0", "input", 0, "12345", "12345"}};
  rank.outside = {
      {"dtype", "Functional.softmax.1.backward.input.0", "torch.bfloat16", "torch.float32", "", 0},
      {"argument", "Tensor.add_.0.forward.input.alpha", "-0.10000000000000002", "-0.01", "", 0}};
  rank.num_outside = {{"dtype", 1}, {"argument", 1}};
  const std::string text = VerdictScreen(outcome, /*colour=*/false, /*seconds=*/-1);
  for (const std::string_view line :
       {"  output.1 error not finite max 2.123 / inf\n", "  output.0 error 0.0001     max 1.8943 / 1.8942\n",
        "dtype Functional.softmax.1.backward.input.0   target torch.bfloat16   golden torch.float32\n",
        "argument Tensor.add_.0.forward.input.alpha   target -0.1   golden -0.01\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

TEST(VerdictScreen, IsGreenOnlyWhereEverythingWasCompared) {
  constexpr std::string_view kGreen = "\033[1;32mWITHIN NOISE", kYellow = "\033[1;33mWITHIN NOISE";
  CompareOutcome outcome;
  outcome.verdict = RunVerdict::kNoise;
  outcome.ranks.resize(2);
  for (RankOutcome& rank : outcome.ranks) rank.verdict = RunVerdict::kNoise;
  EXPECT_TRUE(VerdictScreen(outcome, /*colour=*/true, -1).starts_with(kGreen));
  outcome.ranks[1].doubts.emplace_back("1 call has no partner");
  EXPECT_TRUE(VerdictScreen(outcome, /*colour=*/true, -1).starts_with(kYellow));
}

}  // namespace
}  // namespace vernier::msprobe

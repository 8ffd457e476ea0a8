#include "verdict_recordings.h"

namespace vernier::msprobe {
namespace {

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

TEST_F(MsprobeVerdict, ACallOfOneSideThatChangesTheResultIsNoNoise) {
  auto calls = Chain(10);
  Write("g/rank0", calls);
  const auto more = [](const std::string& norm) {
    std::string changed = Tensor("2.0");
    changed.replace(changed.find("5.0"), 3, norm);
    return Call("Tensor.__mul__.0.forward", Tensor("2.0"), changed);
  };
  calls.push_back(more("10.0"));
  Write("t/rank0", calls);
  CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kUnknown);
  ASSERT_FALSE(outcome.ranks[0].doubts.empty());
  EXPECT_EQ(outcome.ranks[0].doubts[0],
            "the last call, Tensor.__mul__.0.forward, has no partner and changes the result");
  Write("g/rank0", calls);
  Write("t/rank0", Chain(10));
  EXPECT_EQ(Compare().verdict, RunVerdict::kUnknown) << "nor where the golden makes it";
  calls.back() = more("5.0");
  Write("g/rank0", calls);
  EXPECT_EQ(Compare().verdict, RunVerdict::kNoise) << "this one changes nothing";
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
  calls.push_back(R"("Torch.arange.0.forward":{"input_args":[{"type":"float","value":6.0}],)"
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
  calls[6] =
      Call("Functional.softmax.0.forward", Tensor("2.0"), Tensor("2.0"), R"(,{"type":"int","value":1})");
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
    return Around(
        {Call("Functional.fused_embedding.0.forward", Tensor("2.0"), Tensor("5.0"), "," + Indices(max))});
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

TEST_F(MsprobeVerdict, WhatKeepsItsPlaceKeepsItsPartner) {
  const auto add = [](int number, double norm, double out) {
    const auto tensor = [](double size) {
      return fmt::format(
          R"({{"type":"torch.Tensor","dtype":"torch.float32","shape":[8,8],"Max":{0},"Min":-{0},"Mean":0.01,"Norm":{0}}})",
          size);
    };
    return Call(fmt::format("Tensor.add_.{}.forward", number), tensor(norm), tensor(out));
  };
  auto golden = Chain(10), target = Chain(10);
  for (const double norm : {3.0, 5.0, 8.0})
    golden.push_back(add(static_cast<int>(golden.size()) - 10, norm, norm));
  // The first is the golden's third; the second is its own, another input; the third is the golden's first.
  target.push_back(add(0, 8, 8));
  target.push_back(add(1, 5.5, 5.5));
  target.push_back(add(2, 3, 3));
  Write("g/rank0", golden);
  Write("t/rank0", target);
  const CompareOutcome outcome = Compare();
  ASSERT_TRUE(outcome.ranks[0].culprit);
  EXPECT_EQ(outcome.ranks[0].culprit->record, "Tensor.add_.1.forward");
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

// A step that ends with a plain optimizer, which is given weights of one shape and their gradients.
std::vector<std::string> OptimizerStep(const std::vector<std::string>& chain, int first_frozen,
                                       int end_frozen) {
  const auto tensor = [](double mean, double norm) {
    return fmt::format(
        R"({{"type":"torch.Tensor","dtype":"torch.float32","shape":[8,8],"Max":1.5,"Min":-1.5,"Mean":{},"Norm":{},)"
        R"("requires_grad":true}})",
        mean, norm);
  };
  std::vector<std::string> calls = chain;
  calls.push_back(R"("Functional.linear.0.backward":{"input":[)" + tensor(0.1, 1) + R"(],"output":[)" +
                  tensor(0.1, 1) + "]}");
  int number = 0;
  for (int i = 0; i < 8; ++i) {
    if (i >= first_frozen && i < end_frozen) continue;
    const std::string name = fmt::format("Tensor.add_.{}.forward", number++);
    calls.push_back('"' + name + R"(":{"input_args":[)" + tensor(0, 8) + ',' + tensor(0.01 * i, 0.5 + i) +
                    R"(],"input_kwargs":{},"output":[)" + tensor(0.02 * i, 8 + i) + "]}");
  }
  return calls;
}

TEST_F(MsprobeVerdict, WeightsThatOneSideFreezesShiftNoOthers) {
  Write("g/rank0", OptimizerStep(Chain(10), 8, 8));
  Write("t/rank0", OptimizerStep(Chain(10), 2, 5));
  const CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kNoise) << outcome.text;
  ASSERT_EQ(outcome.ranks[0].pairs.size(), 3u);
  EXPECT_EQ(outcome.ranks[0].pairs[0].target, "Tensor.add_.2.forward");
  EXPECT_EQ(outcome.ranks[0].pairs[0].golden, "Tensor.add_.5.forward");
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

}  // namespace
}  // namespace vernier::msprobe

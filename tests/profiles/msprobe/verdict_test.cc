#include "profiles/msprobe/nan_hunt.h"
#include "profiles/verdict_screen.h"
#include "verdict_recordings.h"

namespace vernier::msprobe {
namespace {

namespace fs = std::filesystem;

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
  EXPECT_NE(rank.culprit->why.find("input.0 differs, and no recorded call made it"), std::string::npos)
      << rank.culprit->why;
  ASSERT_EQ(rank.outside.size(), 1u) << "what comes of it is not from outside";
  EXPECT_EQ(rank.outside[0].what, "input");
  EXPECT_EQ(rank.outside[0].name, "Functional.embedding.0.forward.input.0");
}

TEST_F(MsprobeVerdict, OutputsThatNobodyHasNumbersOfAreTooManyWhereTheyAreMoreThanAFifth) {
  constexpr std::string_view kNothing =
      R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[100],"Max":null,"Min":null,"Mean":null,"Norm":null})";
  auto calls = Chain(10);
  for (const std::size_t i : {2, 4, 6})
    calls[i] = Call(fmt::format("Functional.linear.{}.forward", i), Tensor("2.0"), std::string(kNothing));
  Write("g/rank0", calls);
  Write("t/rank0", calls);
  EXPECT_EQ(Compare().verdict, RunVerdict::kUnknown);
}

TEST_F(MsprobeVerdict, WhatOtherShapesTakePartInIsNotPutDownToRounding) {
  const auto write = [&](const std::string& side, const std::string& shape, double result) {
    auto calls = Chain(12);
    std::string given = Tensor("2.0");
    given.replace(given.find("[100]"), 5, shape);
    calls[4] = Call("Functional.linear.4.forward", given, Tensor("2.0"));
    calls[11] = Linear(11, 2, result);
    Write(side + "/rank0", calls);
  };
  write("g", "[100]", 2);
  write("t", "[90]", 2.00001);
  const CompareOutcome outcome = Compare();
  EXPECT_NE(outcome.text.find("tensors of other shapes take part"), std::string::npos) << outcome.text;
}

TEST_F(MsprobeVerdict, PlainResultsThatDifferAreTold) {
  auto calls = Chain(10);
  const auto with = [](const std::string& value) {
    return Call("Torch.equal.0.forward", Tensor("2.0"), R"({"type":"bool","value":)" + value + "}");
  };
  calls.push_back(with("true"));
  Write("g/rank0", calls);
  calls.back() = with("false");
  Write("t/rank0", calls);
  const CompareOutcome outcome = Compare();
  EXPECT_EQ(outcome.verdict, RunVerdict::kNoise);
  ASSERT_EQ(outcome.ranks[0].doubts.size(), 1u);
  EXPECT_EQ(outcome.ranks[0].doubts[0], "1 result differs that is no tensor: nobody is judged by that");
}

TEST_F(MsprobeVerdict, ChecksumsOfDifferentTypesAreNotTakenForTheSame) {
  const auto write = [&](const std::string& where, const std::string& dtype, const std::string& checksum) {
    std::vector<std::string> calls;
    const std::string tensor = R"({"type":"torch.Tensor","dtype":"torch.)" + dtype +
                               R"(","shape":[100],"Max":null,"Min":null,"Mean":null,"Norm":null,"md5":")" +
                               checksum + R"("})";
    for (int i = 0; i < 6; ++i)
      calls.push_back(Call("Functional.linear." + std::to_string(i) + ".forward", tensor, tensor));
    Write(where, calls);
  };
  write("g/rank0", "float32", "0x000000000000000c");
  write("t/rank0", "float64", "0x000000000000000d");
  EXPECT_EQ(Compare().verdict, RunVerdict::kUnknown);
  write("t/rank0", "float32", "acaa93e7");
  EXPECT_EQ(Compare().verdict, RunVerdict::kUnknown) << "two kinds of checksums";
  write("t/rank0", "float32", "0x000000000000000c");
  EXPECT_EQ(Compare().verdict, RunVerdict::kIdentical);
}

TEST_F(MsprobeVerdict, BooleansWholeNumbersAndNoneAreNotIdenticalWhereTheyDiffer) {
  const auto verdict_of = [&](const std::string& target, const std::string& golden) {
    for (const auto& [side, value] : {std::pair("t", target), std::pair("g", golden)}) {
      auto calls = Chain(10);
      calls[4] = Call("Functional.linear.4.forward", Tensor("2.0"), Tensor("2.0") + "," + value);
      Write(std::string(side) + "/rank0", calls);
    }
    return Compare().verdict;
  };
  const auto of_type = [](const std::string& dtype, const std::string& max) {
    return R"({"type":"torch.Tensor","dtype":"torch.)" + dtype + R"(","shape":[9],"Max":)" + max +
           R"(,"Min":)" + (max == "true" ? "false" : max) + R"(,"Mean":null,"Norm":null})";
  };
  EXPECT_EQ(verdict_of(of_type("bool", "true"), of_type("bool", "true")), RunVerdict::kIdentical);
  EXPECT_NE(verdict_of(of_type("bool", "true"), of_type("bool", "false")), RunVerdict::kIdentical);
  EXPECT_EQ(verdict_of(of_type("int64", "3"), of_type("int64", "3")), RunVerdict::kIdentical);
  EXPECT_NE(verdict_of(of_type("int64", "null"), of_type("int64", "null")), RunVerdict::kIdentical);
  EXPECT_NE(verdict_of(of_type("int64", "3"), "null"), RunVerdict::kIdentical);
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
  for (int i = 2; i < 10; ++i)
    calls[static_cast<std::size_t>(i)] = Call(fmt::format("Functional.linear.{}.forward", i), half, half);
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

TEST_F(MsprobeVerdict, WhatEntersAndMovesNothingIsToldAndNotBlamed) {
  auto calls = Chain(12);
  Write("g/rank0", calls);
  calls[2] = Call("Functional.linear.2.forward", Tensor("2.0"), Tensor("2.02"), "," + Tensor("3.0"));
  calls[3] = Call("Functional.linear.3.forward", Tensor("2.02"), Tensor("2.0"));
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

TEST_F(MsprobeVerdict, NanThatComesInIsToldWithTheWeightThatHoldsIt) {
  const auto tensor = [](const char* number) {
    return fmt::format(
        R"({{"type":"torch.Tensor","dtype":"torch.float32","shape":[8],"Max":{0},"Min":-1.0,"Mean":{0},"Norm":{0}}})",
        number);
  };
  const auto write = [&](const char* where, const char* number, bool with_module) {
    auto calls = Chain(10);
    calls.push_back(
        Call("Functional.linear.10.forward", Tensor("2.0"), tensor(number), "," + tensor(number)));
    if (with_module) {
      calls.push_back(R"("Module.head.Linear.forward.0":{"input_args":[)" + Tensor("2.0") +
                      R"(],"output":[)" + tensor(number) + R"(],"parameters":{"weight":)" + tensor(number) +
                      "}}");
    }
    Write(where, calls);
  };
  for (const bool with_module : {false, true}) {
    write("g/rank0", "3.5", with_module);
    write("t/rank0", "NaN", with_module);
    const CompareOutcome outcome = Compare();
    ASSERT_TRUE(outcome.ranks[0].culprit);
    EXPECT_EQ(outcome.ranks[0].culprit->why, with_module
                                                 ? "input.1 is a weight that holds NaN or infinities: "
                                                   "Module.head.Linear.forward.0.parameters.weight"
                                                 : "input.1 holds NaN, and no recorded call made it");
  }
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

#include "profiles/msprobe/match.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "temporary_folder.h"

namespace vernier::msprobe {
namespace {

class MsprobeMatch : public testing::Test {
 protected:
  // Records of one input each: name and shape.
  Dump Make(const std::string& file, const std::vector<std::pair<std::string, std::string>>& records) {
    std::string data;
    for (const auto& [name, shape] : records) {
      data += (data.empty() ? "\"" : ",\"") + name +
              R"(":{"input_args":[{"type":"torch.Tensor","dtype":"torch.float32","shape":)" + shape + "}]}";
    }
    std::ofstream(folder_.path() / file) << R"({"task":"statistics","data":{)" << data << "}}";
    Result<Dump> dump = Dump::Open(folder_.path() / file, {});
    EXPECT_TRUE(dump);
    return std::move(*dump);
  }
  static std::string Text(const std::vector<RowPair>& pairs) {
    std::string text;
    for (const RowPair& pair : pairs) {
      text += (text.empty() ? "" : " ") + std::to_string(pair.npu) + ":" +
              (pair.bench == kNoRow ? "-" : std::to_string(pair.bench));
    }
    return text;
  }
  TemporaryFolder folder_;
};

TEST_F(MsprobeMatch, PairsEqualNames) {
  const Dump npu = Make("n", {{"A.0.forward", "[1]"}, {"B.0.forward", "[1]"}, {"C.0.forward", "[1]"}});
  const Dump bench = Make("b", {{"C.0.forward", "[1]"}, {"A.0.forward", "[1]"}});
  EXPECT_EQ(Text(MatchRows(npu, bench, {})), "0:1 1:- 2:0");
}

TEST_F(MsprobeMatch, RenumbersBackwardCallsByAppearance) {
  const Dump npu = Make(
      "n", {{"F.relu.1.backward", "[1]"}, {"F.relu.0.backward", "[1]"}, {"Module.a.L.backward.3", "[1]"}});
  const Dump bench = Make(
      "b", {{"F.relu.7.backward", "[1]"}, {"F.relu.9.backward", "[1]"}, {"Module.a.L.backward.0", "[1]"}});
  RowMatchOptions options;
  options.shape_is_part_of_the_key = false;
  EXPECT_EQ(Text(MatchRows(npu, bench, options)), "0:- 1:- 2:-");
  options.renumber_backward = true;
  EXPECT_EQ(Text(MatchRows(npu, bench, options)), "0:0 1:1 2:2");
}

TEST_F(MsprobeMatch, MapsNamesWithoutMovingRows) {
  const Dump npu = Make("n", {{"A.0.forward", "[1]"}, {"B.0.forward", "[1]"}, {"C.0.forward", "[2]"}});
  const Dump bench = Make("b", {{"X.0.forward", "[2]"}, {"B.0.forward", "[1]"}});
  const DataMapping mapping{{"A.0.forward.input.0", "X.0.forward.input.0"},
                            {"C.0.forward.input.0", "X.0.forward.input.0"}};
  RowMatchOptions options;
  options.rule = PairRule::kDataMapping;
  options.shape_is_part_of_the_key = false;
  options.data_mapping = &mapping;
  EXPECT_EQ(Text(MatchRows(npu, bench, options)), "0:0 1:1 2:0");
}

TEST_F(MsprobeMatch, FuzzyIgnoresCallNumbersAndKeepsTheTail) {
  const Dump npu = Make("n", {{"F.relu.4.forward", "[1]"},
                              {"F.gelu.0.forward", "[1]"},
                              {"F.relu.5.forward", "[1]"},
                              {"F.conv.0.forward", "[1]"}});
  const Dump bench = Make("b", {{"F.relu.0.forward", "[1]"}, {"F.relu.1.forward", "[1]"}});
  RowMatchOptions options;
  options.rule = PairRule::kFuzzy;
  EXPECT_EQ(Text(MatchRows(npu, bench, options)), "0:0 1:- 2:1 3:-");
}

TEST_F(MsprobeMatch, FuzzyIsNotSlowWhenNothingMatches) {
  std::vector<std::pair<std::string, std::string>> left, right;
  for (int i = 0; i < 20000; ++i) {
    left.emplace_back("F.a" + std::to_string(i) + ".0.forward", "[1]");
    right.emplace_back("F.b" + std::to_string(i) + ".0.forward", "[1]");
  }
  RowMatchOptions options;
  options.rule = PairRule::kFuzzy;
  EXPECT_EQ(MatchRows(Make("n", left), Make("b", right), options).size(), left.size());
}

// "p.p.p" as {"p.p.p": leaf}, {"p.p": {"p": leaf}}, {"p": {"p.p": leaf}} ...: 2^(parts - 1) rows of one name.
std::string EverySplit(int parts, const std::string& leaf) {
  std::string members, key;
  for (int taken = 1; taken <= parts; ++taken) {
    key += taken == 1 ? "p" : ".p";
    members += (members.empty() ? "\"" : ",\"") + key +
               "\":" + (taken == parts ? leaf : EverySplit(parts - taken, leaf));
  }
  return "{" + members + "}";
}

TEST_F(MsprobeMatch, PairsThousandsOfRowsOfOneNameOneByOne) {
  const std::string leaf = R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[1]})";
  std::ofstream(folder_.path() / "many")
      << R"({"task":"statistics","data":{"A.0.forward":{"input_kwargs":)" << EverySplit(12, leaf) << "}}}";
  const Result<Dump> dump = Dump::Open(folder_.path() / "many", {});
  ASSERT_TRUE(dump);
  ASSERT_EQ(dump->rows().size(), 2048u);
  const std::vector<RowPair> pairs = MatchRows(*dump, *dump, {});
  ASSERT_EQ(pairs.size(), 2048u);
  EXPECT_TRUE(std::all_of(pairs.begin(), pairs.end(), [](RowPair pair) { return pair.npu == pair.bench; }));
}

TEST(FuzzyName, CutsTheNumberAndNothingElse) {
  EXPECT_EQ(FuzzyName("Functional.relu.4.forward.input.0"), "Functional.relu.forward.input.0");
  EXPECT_EQ(FuzzyName("Module.blk.Conv.forward.2.input.0"), "Module.blk.Conv.forward.input.0");
  EXPECT_EQ(FuzzyName("Module.forward_net.Conv.backward.1.output.0"),
            "Module.forward_net.Conv.backward.output.0");
  EXPECT_EQ(FuzzyName("x.0.debug"), "x.0.debug");
}

TEST(CellName, MapsWholePathsBeforePieces) {
  const CellMapping mapping{{"net.fc.Dense", "model.linear.Linear"}, {"fc", "dense"}};
  EXPECT_EQ(CellName("Cell.net.fc.Dense.forward.0.input.0", mapping),
            "Module.model.linear.Linear.forward.0.input.0");
  EXPECT_EQ(CellName("Cell.x.fc.Dense.forward.0.input.0", mapping), "Module.x.dense.Dense.forward.0.input.0");
  EXPECT_EQ(CellName("Cell.x.debug", mapping), "");
}

TEST(DtypesAgree, AllowsHalfAgainstSingleOnly) {
  EXPECT_TRUE(DtypesAgree("torch.float16", "torch.bfloat16", false));
  EXPECT_FALSE(DtypesAgree("torch.float64", "torch.float32", false));
  EXPECT_FALSE(DtypesAgree("Float32", "torch.float32", false));
  EXPECT_TRUE(DtypesAgree("Float32", "torch.float64", true));
  EXPECT_FALSE(DtypesAgree("Int64", "torch.bool", true));
}

}  // namespace
}  // namespace vernier::msprobe

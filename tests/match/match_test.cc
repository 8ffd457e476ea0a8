#include "vernier/match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "match/fuzzy_internal.h"

namespace vernier {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Names = std::vector<std::string>;

std::vector<TensorInfo> Infos(const Names& names) {
  std::vector<TensorInfo> infos;
  for (const std::string& name : names) {
    TensorInfo info;
    info.name = name;
    infos.push_back(info);
  }
  return infos;
}

// "target=golden (rule)" for each pair, "target=" and "=golden" for what is left.
Names Matched(const Names& target, const Names& golden, const MatchOptions& options) {
  const Result<Pairing> pairing = Match(Infos(target), Infos(golden), options);
  if (!pairing) return {pairing.error().Message()};
  Names lines;
  for (const Pair& pair : pairing->pairs) {
    lines.push_back(target[pair.target] + "=" + golden[pair.golden] + " " + std::string(Name(pair.rule)));
  }
  for (const std::size_t i : pairing->only_target) lines.push_back(target[i] + "=");
  for (const std::size_t i : pairing->only_golden) lines.push_back("=" + golden[i]);
  return lines;
}

MatchOptions Mode(MatchMode mode) {
  MatchOptions options;
  options.mode = mode;
  return options;
}
const MatchOptions kExact = Mode(MatchMode::kExact), kFuzzy = Mode(MatchMode::kFuzzy),
                   kPosition = Mode(MatchMode::kPosition);

TEST(Match, ExactPairsEqualNamesInTargetOrder) {
  EXPECT_THAT(Matched({"b", "a", "x"}, {"a", "b", "y"}, kExact),
              ElementsAre("b=b exact", "a=a exact", "x=", "=y"));
}

TEST(Match, ExactDoesNotTakeAPrefixForAName) {
  EXPECT_THAT(Matched({"layer.1"}, {"layer.10"}, kExact), ElementsAre("layer.1=", "=layer.10"));
}

TEST(Match, RepeatedNamesPairInOrderOfOccurrence) {
  const Result<Pairing> pairing = Match(Infos({"a", "b", "a", "a"}), Infos({"a", "a", "b"}), kExact);
  ASSERT_TRUE(pairing);
  ASSERT_EQ(pairing->pairs.size(), 3u);
  EXPECT_EQ(pairing->pairs[0].golden, 0u);
  EXPECT_EQ(pairing->pairs[1].golden, 2u);
  EXPECT_EQ(pairing->pairs[2].golden, 1u);
  EXPECT_THAT(pairing->only_target, ElementsAre(3));
}

TEST(Match, EmptySidesGiveNoPairs) {
  EXPECT_THAT(Matched({}, {}, kExact), IsEmpty());
  EXPECT_THAT(Matched({"a"}, {}, kFuzzy), ElementsAre("a="));
  EXPECT_THAT(Matched({}, {"a"}, kFuzzy), ElementsAre("=a"));
  EXPECT_THAT(Matched({}, {}, kPosition), IsEmpty());
}

TEST(Match, FuzzyIgnoresWrappers) {
  EXPECT_THAT(Matched({"module._orig_mod.layer.1.w", "norm.w"}, {"model.norm.w", "layer.1.w"}, kFuzzy),
              ElementsAre("module._orig_mod.layer.1.w=layer.1.w fuzzy", "norm.w=model.norm.w fuzzy"));
}

TEST(Match, FuzzyIgnoresCaseAndSeparators) {
  EXPECT_THAT(Matched({"Block/1/Attn:Weight"}, {"block.1.attn.weight"}, kFuzzy),
              ElementsAre("Block/1/Attn:Weight=block.1.attn.weight fuzzy"));
}

TEST(Match, FuzzyPrefersTheExactName) {
  EXPECT_THAT(Matched({"model.w", "w"}, {"w", "model.w"}, kFuzzy),
              ElementsAre("model.w=model.w exact", "w=w exact"));
}

TEST(Match, FuzzyPairsCallsInOrderWhenThereAreAsMany) {
  EXPECT_THAT(Matched({"Tensor.add.4.forward.input.0", "Tensor.add.7.forward.input.0"},
                      {"Tensor.add.0.forward.input.0", "Tensor.add.1.forward.input.0"}, kFuzzy),
              ElementsAre("Tensor.add.4.forward.input.0=Tensor.add.0.forward.input.0 fuzzy",
                          "Tensor.add.7.forward.input.0=Tensor.add.1.forward.input.0 fuzzy"));
}

TEST(Match, FuzzyLeavesAmbiguousCallsAlone) {
  EXPECT_THAT(Matched({"Tensor.add.4.forward.input.0"},
                      {"Tensor.add.0.forward.input.0", "Tensor.add.1.forward.input.0"}, kFuzzy),
              ElementsAre("Tensor.add.4.forward.input.0=", "=Tensor.add.0.forward.input.0",
                          "=Tensor.add.1.forward.input.0"));
}

TEST(Match, FuzzyKeepsPortsApart) {
  EXPECT_THAT(Matched({"Tensor.add.0.forward.input.0"}, {"Tensor.add.0.forward.input.1"}, kFuzzy),
              ElementsAre("Tensor.add.0.forward.input.0=", "=Tensor.add.0.forward.input.1"));
}

TEST(Match, FuzzyNeverConfusesLayerNumbers) {
  EXPECT_THAT(Matched({"layer.1", "model.layer.2"}, {"layer.10", "layer.3"}, kFuzzy),
              ElementsAre("layer.1=", "model.layer.2=", "=layer.10", "=layer.3"));
  EXPECT_THAT(Matched({"module.layer.1", "module.layer.10"}, {"layer.10", "layer.1"}, kFuzzy),
              ElementsAre("module.layer.1=layer.1 fuzzy", "module.layer.10=layer.10 fuzzy"));
}

TEST(Match, PositionPairsTheIthWithTheIth) {
  EXPECT_THAT(Matched({"a", "b"}, {"x", "a"}, kPosition), ElementsAre("a=x position", "b=a position"));
}

TEST(Match, PositionNeedsEqualCounts) {
  const Result<Pairing> pairing = Match(Infos({"a"}), Infos({"a", "b"}), kPosition);
  ASSERT_FALSE(pairing);
  EXPECT_THAT(pairing.error().Message(), testing::HasSubstr("the target has 1 and the golden 2"));
}

TEST(Match, RenamesApplyToTheTargetInOrder) {
  MatchOptions options = kExact;
  options.renames = {{"npu", "gpu"}, {"gpu.h", "cuda.layer"}};
  EXPECT_THAT(Matched({"npu.h.0", "same"}, {"same", "cuda.layer.0"}, options),
              ElementsAre("npu.h.0=cuda.layer.0 renamed", "same=same exact"));
}

TEST(Match, RenamesDoNotCutNumbers) {
  MatchOptions options = kExact;
  options.renames = {{"layer.1", "layer.2"}};
  EXPECT_THAT(Matched({"layer.1", "layer.10", "layer.1.layer.1"}, {"layer.2", "layer.10", "layer.2.layer.2"},
                      options),
              ElementsAre("layer.1=layer.2 renamed", "layer.10=layer.10 exact",
                          "layer.1.layer.1=layer.2.layer.2 renamed"));
}

TEST(Match, RenamesNeedSomethingToReplace) {
  MatchOptions options = kExact;
  options.renames = {{"", "x"}};
  EXPECT_FALSE(Match({}, {}, options));
}

TEST(FuzzyKeys, KeepLessAndLess) {
  EXPECT_EQ(WithoutWrappers("module.model.Layer/1"), "Layer/1");
  EXPECT_EQ(WithoutWrappers("module"), "");
  EXPECT_EQ(WithoutWrappers("submodule.w"), "submodule.w");
  EXPECT_EQ(WithPlainSeparators("Model/Layer-1__w."), "layer.1.w");
  EXPECT_EQ(WithPlainSeparators("größe.W"), "größe.w");
  EXPECT_EQ(WithoutCallCounter("Functional.conv.3.forward.input.0"), "functional.conv.forward.input.0");
  EXPECT_EQ(WithoutCallCounter("Module.l.1.Linear.backward.2.output.0"), "l.1.linear.backward.output.0");
  EXPECT_EQ(WithoutCallCounter("Module.l.1.backward.2.output.0"), "l.backward.2.output.0");
}

}  // namespace
}  // namespace vernier

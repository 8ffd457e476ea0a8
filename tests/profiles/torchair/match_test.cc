#include "profiles/torchair/match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vernier::torchair {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Graph GraphOf(const std::vector<std::string>& ops, const std::string& inputs = "") {
  std::string text;
  for (const std::string& op : ops) text += "op {\n  name: \"" + op + "\"\n" + inputs + "}\n";
  return Graph::Parse(text).value();
}

void AddOp(const std::string& op, GeToken& token, std::size_t inputs = 1, std::size_t outputs = 1,
           const std::string& type = "Any") {
  GeOp& added = token.ops[op];
  added.name = {type, op, "1"};
  added.path = "/" + type + "." + op;
  added.num_inputs = inputs;
  added.num_outputs = outputs;
}

TEST(GeFileName, IsTakenApart) {
  EXPECT_EQ(ParseGeFileName("Add.Add_2.44.6.1706596912161941")->op, "Add_2");
  EXPECT_EQ(ParseGeFileName("Add.a.b.44.6.17")->op, "a.b");
  EXPECT_EQ(ParseGeFileName("Add.Add_2.44.6.17.4.1.0.3")->op, "Add_2");
  EXPECT_EQ(ParseGeFileName("Add.Add_2.44.6.17.4.1.0.3")->time, "17");
  EXPECT_EQ(ParseGeFileName("Add.Add_2.x.6.17.4.1.0.3")->op, "Add_2.x.6.17.4");
  EXPECT_FALSE(ParseGeFileName("Add.short.1706596912161941"));
  EXPECT_FALSE(ParseGeFileName(""));
}

TEST(CutFusedName, TakesTheLongestBeginningEachTime) {
  const Graph graph = GraphOf({"Add_1", "Add_12", "Mul_3", "Relu_4"});
  GeToken target;
  EXPECT_THAT(CutFusedName("Add_12Mul_3Relu_4", graph, target, nullptr),
              ElementsAre("Add_12", "Mul_3", "Relu_4"));
  EXPECT_THAT(CutFusedName("Add_1Mul_3tail", graph, target, nullptr), ElementsAre("Add_1", "Mul_3"));
  EXPECT_THAT(CutFusedName("headAdd_1", graph, target, nullptr), IsEmpty());
  // A shorter beginning that was dumped without being in the graph ends it.
  AddOp("Mul_3Relu", target);
  EXPECT_THAT(CutFusedName("Add_1Mul_3Relu_5", graph, target, nullptr), ElementsAre("Add_1"));
}

TEST(MatchGeWithGe, GivesAFusedOperatorTheInputsFromOutside) {
  const Graph graph = Graph::Parse(
                          "op {\n name: \"A\"\n input: \"x:0\"\n input: \"y:0\"\n}\n"
                          "op {\n name: \"B\"\n input: \"A:0\"\n input: \"z:0\"\n}\n")
                          .value();
  GeToken target, golden;
  AddOp("AB", target, 3, 1, "AutomaticBufferFusionOp");
  AddOp("A", golden, 2, 1);
  AddOp("B", golden, 2, 1);
  AddOp("C", golden);
  Matching matching;
  MatchGeWithGe(
      0, graph, target, golden, [](const std::string&) {}, matching);
  ASSERT_EQ(matching.pairs.size(), 4u);
  EXPECT_EQ(ShownPath(matching.pairs[0].golden), "/Any.A,inputs,0");
  EXPECT_EQ(ShownPath(matching.pairs[1].golden), "/Any.A,inputs,1");
  EXPECT_EQ(ShownPath(matching.pairs[2].golden), "/Any.B,inputs,1");
  EXPECT_EQ(ShownPath(matching.pairs[3].golden), "/Any.B,outputs,0");
  EXPECT_FALSE(matching.pairs[3].doubtful);
  ASSERT_EQ(matching.unmatched.size(), 1u);
  EXPECT_EQ(matching.unmatched[0].name, "C");
  EXPECT_EQ(matching.unmatched[0].reason, Reason::kNoPartner);
  EXPECT_FALSE(matching.unmatched[0].in_target);

  golden.ops.erase("B");
  matching = {};
  MatchGeWithGe(
      0, graph, target, golden, [](const std::string&) {}, matching);
  ASSERT_EQ(matching.pairs.size(), 4u);
  EXPECT_EQ(ShownPath(matching.pairs[2].golden), "");  // an empty tensor stands for what is missing
  EXPECT_TRUE(matching.pairs[3].doubtful);
}

TEST(MatchGeWithFx, ListsWhatStandsAlone) {
  const Graph graph = Graph::Parse(
                          "op {\n name: \"A\"\n output_desc {\n attr {\n key: \"_fx_tensor_name\"\n value {\n"
                          " s: \"a-aten.OUTPUT.0\"\n}\n}\n}\n}\nop {\n name: \"B\"\n}\n")
                          .value();
  GeToken target;
  AddOp("A", target, 2, 1);
  AddOp("B", target);
  AddOp("Nobody", target);
  AddOp("Cast_1", target, 1, 1, "Cast");
  FxToken golden;
  golden["a-aten"] = {{"/a.INPUT.0", "/a.INPUT.1", "/a.INPUT.2"}, {"/a.OUTPUT.0"}};
  golden["b-aten"] = {{}, {"/b.OUTPUT.0"}};
  Matching matching;
  MatchGeWithFx(
      3, graph, target, golden, [](const std::string&) {}, matching);
  ASSERT_EQ(matching.pairs.size(), 4u);
  EXPECT_EQ(ShownPath(matching.pairs[0].golden),
            "/Cast.Cast_1,inputs,0");  // what is not in the graph comes first
  EXPECT_EQ(ShownPath(matching.pairs[0].target), "/Cast.Cast_1,outputs,0");
  EXPECT_EQ(ShownPath(matching.pairs[3].golden), "/a.OUTPUT.0");
  std::vector<std::string> alone;
  for (const Unmatched& item : matching.unmatched)
    alone.push_back(item.name + ": " + std::string(Name(item.reason)));
  EXPECT_THAT(alone, testing::UnorderedElementsAre("a-aten: surplus tensor", "B: no partner",
                                                   "Nobody: not in the graph", "b-aten: no partner"));
}

}  // namespace
}  // namespace vernier::torchair

#include "profiles/msprobe/context.h"

#include <gtest/gtest.h>

#include <fstream>

#include "temporary_folder.h"

namespace vernier::msprobe {
namespace {

class Context : public ::testing::Test {
 protected:
  void Write(const char* name, const char* text) { std::ofstream(folder_.path() / name) << text; }

  const Culprit& Of(const char* api) {
    summary_ = {};
    summary_.culprit.emplace();
    summary_.culprit->record = api;
    AddContext(folder_.path() / "dump.json", summary_);
    return *summary_.culprit;
  }

  TemporaryFolder folder_;
  RankOutcome summary_;
};

TEST_F(Context, NamesTheModuleOfAnApiAndTheLineOfTheProgram) {
  Write("construct.json",
        R"({"Module.a.B.forward.0": null, "Tensor.add.0.forward": "Module.a.B.forward.0"})");
  Write("stack.json", R"x({"0": [["Tensor.add.0.forward"], ["File /x/torch/nn/f.py, line 1, in g, \n h()",)x"
                      R"x( "File /my/train.py, line 2, in main, \n x + y"]]})x");
  const Culprit& found = Of("Tensor.add.0.forward");
  EXPECT_EQ(found.module, "Module.a.B.forward.0");
  EXPECT_EQ(found.called_from, "File /my/train.py, line 2, in main, \n x + y");
}

TEST_F(Context, AModuleIsItsOwnAndOtherParentsAreNone) {
  Write("construct.json", R"({"optimizer": null, "Tensor.add_.0.forward": "optimizer"})");
  EXPECT_EQ(Of("Module.a.B.forward.0").module, "Module.a.B.forward.0");
  EXPECT_EQ(Of("Tensor.add_.0.forward").module, "");
}

TEST_F(Context, TakesTheFirstElementOfAListedParent) {
  Write("construct.json", R"({"Tensor.add.0.forward": ["Module.a.B.forward.0", 3]})");
  EXPECT_EQ(Of("Tensor.add.0.forward").module, "Module.a.B.forward.0");
}

TEST_F(Context, TheLastOneCountsOfANameThatComesTwice) {
  Write("construct.json",
        R"({"Tensor.add.0.forward": null, "x": null, "Tensor.add.0.forward": "Module.a.B.forward.0"})");
  EXPECT_EQ(Of("Tensor.add.0.forward").module, "Module.a.B.forward.0");
  Write("construct.json",
        R"({"Tensor.add.0.forward": "Module.a.B.forward.0", "Tensor.add.0.forward": "Module.c.D.)");
  EXPECT_EQ(Of("Tensor.add.0.forward").module, "Module.a.B.forward.0");
}

TEST_F(Context, DamagedOrMissingSideFilesLeaveItEmpty) {
  EXPECT_EQ(Of("Tensor.add.0.forward").module, "");
  Write("construct.json", R"({"Tensor.add.0.forward": )");
  Write("stack.json", "[1, 2");
  EXPECT_EQ(Of("Tensor.add.0.forward").module, "");
  EXPECT_EQ(Of("Tensor.add.0.forward").called_from, "");
}

TEST_F(Context, NothingWithoutACulprit) {
  RankOutcome summary;
  AddContext(folder_.path() / "dump.json", summary);
  EXPECT_FALSE(summary.culprit);
}

TEST_F(Context, TellsWhereARecordingWasMade) {
  std::ofstream(folder_.path() / "identity.jsonl") << R"({"format":"vernier-identity","version":1}
{"environment":{"torch":"2.9.0","device":"cpu","odd":3}}
["a",{}]
)";
  const auto found = EnvironmentOf(folder_.path() / "dump.json");
  EXPECT_EQ(found, (std::map<std::string, std::string>{{"torch", "2.9.0"}, {"device", "cpu"}}));
  std::ofstream(folder_.path() / "identity.jsonl") << R"({"environment":{"torch":"2.9)";
  EXPECT_TRUE(EnvironmentOf(folder_.path() / "dump.json").empty());
  EXPECT_TRUE(EnvironmentOf(folder_.path() / "none" / "dump.json").empty());
}

}  // namespace
}  // namespace vernier::msprobe

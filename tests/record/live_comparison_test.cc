// Where a difference begins, call by call.
#include "record/live_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "temporary_folder.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

std::string Tensor(const std::string& md5, const std::string& shape = "2") {
  return R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[)" + shape + R"(],"md5":")" + md5 + "\"}";
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\x01' ? std::string("\\u0001") : std::string(1, c);
  }
  return quoted + '"';
}

class LiveComparisonTest : public testing::Test {
 protected:
  // A reference with these records, each a name and the JSON of its value.
  fs::path Reference(const std::vector<std::pair<std::string, std::string>>& records,
                     const std::string& folder = "ref/step0/rank0") {
    const fs::path path = folder_.path() / folder;
    fs::create_directories(path);
    std::ofstream file(path / "dump.json");
    file << "{\n \"task\": \"statistics\",\n \"data\": {";
    for (const auto& [name, value] : records)
      file << (name == records.front().first ? "\n" : ",\n") << "  \"" << name << "\": " << value;
    file << "\n }\n}";
    return path;
  }
  static std::string Api(const std::string& input, const std::string& output, const std::string& more = "") {
    return R"({"input_args": [)" + Tensor(input) + more + R"(], "input_kwargs": {}, "output": [)" +
           Tensor(output) + "]}";
  }
  static std::string Called(const std::string& input, const std::string& output,
                            const std::string& more = "") {
    return "[[" + Quoted("{\"input_args\":[\x01" + more + "],\"input_kwargs\":{}}") + "," +
           Quoted(Tensor(input)) + "],[" + Quoted("{\"output\":[\x01]}") + "," + Quoted(Tensor(output)) +
           "]]";
  }

  static Result<LiveVerdict> Compare(LiveComparison& live, const std::string& name, const std::string& parts,
                                     std::uint64_t found_before) {
    return live.Compare(name, parts, found_before, "/live/step0/rank0");
  }

  TemporaryFolder folder_;
};

TEST_F(LiveComparisonTest, NamesTheCallWithTheSameInputsAndADifferentOutput) {
  LiveComparison live(1);
  const std::string eps = R"(, {"type": "float", "value": 1e-05})";
  ASSERT_TRUE(
      live.BeginStep(Reference({{"F.a.0.forward", Api("1", "2")}, {"F.b.0.forward", Api("2", "3", eps)}})));
  const LiveVerdict same = Compare(live, "F.a.0.forward", Called("1", "2"), 0).value();
  EXPECT_FALSE(same.store || same.stop);
  EXPECT_EQ(same.says, "");
  const LiveVerdict found =
      Compare(live, "F.b.0.forward", Called("2", "4", R"(,{"type":"float","value":0.1})"), 0).value();
  EXPECT_TRUE(found.store);
  EXPECT_TRUE(found.stop);
  EXPECT_EQ(found.num_found, 1u);
  EXPECT_THAT(
      found.says,
      StartsWith("same inputs, different output: F.b.0.forward (argument input.1: 0.1, reference 1e-05); "
                 "recording stopped here (diff_nums=1)\nnext: "));
  EXPECT_THAT(live.Summary().says, HasSubstr("2 calls compared"));
}

TEST_F(LiveComparisonTest, GivesTheCommandForTheTwoFilesWhereTheReferenceHasTensors) {
  const std::string output =
      R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[2],"data_name":"X.pt","md5":"2"})";
  const fs::path reference = Reference(
      {{"F.a.0.forward", R"({"input_args": [)" + Tensor("1") + R"(], "output": [)" + output + "]}"}});
  const std::string golden = (reference / "dump_tensor_data/X.pt").string();
  LiveComparison live(1), in_place(1);
  ASSERT_TRUE(live.BeginStep(reference));
  EXPECT_THAT(
      Compare(live, "F.a.0.forward", Called("1", "3"), 0)->says,
      HasSubstr("\nnext: vernier compare /live/step0/rank0/dump_tensor_data/F.a.0.forward.output.0.pt " +
                golden + " --worst 10"));
  ASSERT_TRUE(in_place.BeginStep(reference));
  EXPECT_THAT(Compare(in_place, "F.a.0.forward", Called("1", "1"), 0)->says,
              HasSubstr("F.a.0.forward.input.0.pt "))
      << "equal tensors are stored once";
}

TEST_F(LiveComparisonTest, NamesFilesSoThatTheyCanBePasted) {
  const auto next_for = [&](const std::string& data_name) {
    const std::string output = R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[2],"data_name":")" +
                               data_name + R"(","md5":"2"})";
    const fs::path reference = Reference(
        {{"F.a.0.forward", R"({"input_args": [)" + Tensor("1") + R"(], "output": [)" + output + "]}"}});
    LiveComparison live(1);
    EXPECT_TRUE(live.BeginStep(reference));
    return Compare(live, "F.a.0.forward", Called("1", "3"), 0)->says;
  };
  EXPECT_THAT(next_for("X $(touch pwned).pt"),
              HasSubstr("/dump_tensor_data/X $(touch pwned).pt' --worst 10"));
  EXPECT_THAT(next_for("../../secret.pt"), HasSubstr("next: record the reference again")) << "not beside it";
}

TEST_F(LiveComparisonTest, TellsInheritedDifferencesFromNewOnes) {
  LiveComparison live(-1);
  ASSERT_TRUE(live.BeginStep(Reference({{"F.a.0.forward", Api("1", "2")},
                                        {"F.b.0.forward", Api("2", "3")},
                                        {"F.c.0.forward", Api("9", "8")}})));
  EXPECT_NE(Compare(live, "F.a.0.forward", Called("1", "22"), 0)->says, "");
  const LiveVerdict inherited = Compare(live, "F.b.0.forward", Called("22", "33"), 1).value();
  EXPECT_FALSE(inherited.store);
  EXPECT_EQ(inherited.says, "");
  const LiveVerdict another = Compare(live, "F.c.0.forward", Called("9", "88"), 1).value();
  EXPECT_EQ(another.says, "same inputs, different output: F.c.0.forward");
  EXPECT_FALSE(another.stop) << "-1 never stops";
  EXPECT_THAT(live.Summary().says, HasSubstr("3 different, beginning in 2 calls (F.a.0.forward)"));
}

TEST_F(LiveComparisonTest, SaysWhatCameFromOutside) {
  LiveComparison live(1);
  ASSERT_TRUE(live.BeginStep(Reference({{"F.a.0.forward", Api("1", "2")}})));
  const LiveVerdict found = Compare(live, "F.a.0.forward", Called("11", "22"), 0).value();
  EXPECT_TRUE(found.stop);
  EXPECT_THAT(found.says,
              StartsWith("inputs already different: F.a.0.forward, input.0; no recorded call made"));
  EXPECT_THAT(found.says, HasSubstr("data, weights"));
}

TEST_F(LiveComparisonTest, SaysThatTypesDiffer) {
  LiveComparison live(1);
  ASSERT_TRUE(live.BeginStep(Reference({{"F.a.0.forward", Api("1", "2")}})));
  std::string parts = Called("11", "22");
  const std::string type = "torch.float32";
  parts.replace(parts.find(type), type.size(), "torch.bfloat16");
  const LiveVerdict found = Compare(live, "F.a.0.forward", parts, 0).value();
  EXPECT_THAT(found.says, HasSubstr("input.0 (input.0 is torch.bfloat16, reference torch.float32);"));
  EXPECT_THAT(found.says, HasSubstr("different types"));
}

TEST_F(LiveComparisonTest, AWeightIsAnInputOfItsModule) {
  LiveComparison live(-1);
  const auto module = [](const std::string& weight) {
    return "\"input_args\":[" + Tensor("1") + "],\"output\":[" + Tensor(weight) +
           "],\"parameters\":{\"weight\":" + Tensor(weight) + "}";
  };
  ASSERT_TRUE(live.BeginStep(Reference({{"Module.m.Linear.forward.0", "{" + module("5") + "}"}})));
  const std::string now = "[[" + Quoted("{" + module("6") + "}") + "]]";
  EXPECT_THAT(Compare(live, "Module.m.Linear.forward.0", now, 0)->says, HasSubstr("parameters.weight"));
}

TEST_F(LiveComparisonTest, TheModuleAroundACulpritIsNoCulprit) {
  LiveComparison live(2);
  ASSERT_TRUE(
      live.BeginStep(Reference({{"F.a.0.forward", Api("1", "2")}, {"Module.m.M.forward.0", Api("1", "2")}})));
  EXPECT_EQ(Compare(live, "F.a.0.forward", Called("1", "22"), 0)->num_found, 1u);
  const LiveVerdict around = Compare(live, "Module.m.M.forward.0", Called("1", "22"), 0).value();
  EXPECT_TRUE(around.store);
  EXPECT_FALSE(around.stop);
  EXPECT_EQ(around.says, "");
}

TEST_F(LiveComparisonTest, ABackwardInheritsFromItsForward) {
  const auto backward = [](const std::string& output) {
    return R"({"input": [)" + Tensor("5") + R"(], "output": [)" + Tensor(output) + "]}";
  };
  const auto called = [&](const std::string& output) { return "[[" + Quoted(backward(output)) + "]]"; };
  const fs::path reference =
      Reference({{"F.a.0.forward", Api("1", "2")},
                 {"F.a.0.backward", backward("6")},
                 {"Module.m.M.parameters_grad.0", "{\"weight\": [" + Tensor("7") + "]}"}});
  LiveComparison live(-1);
  ASSERT_TRUE(live.BeginStep(reference));
  EXPECT_NE(Compare(live, "F.a.0.forward", Called("1", "22"), 0)->says, "");
  EXPECT_EQ(Compare(live, "F.a.0.backward", called("66"), 1)->says, "");
  ASSERT_TRUE(live.BeginStep(reference));
  EXPECT_EQ(Compare(live, "F.a.0.forward", Called("1", "2"), 1)->says, "");
  EXPECT_EQ(Compare(live, "F.a.0.backward", called("66"), 1)->says,
            "same inputs, different output: F.a.0.backward");
  ASSERT_TRUE(live.BeginStep(reference));
  const std::string gradient = "[[" + Quoted("{\"weight\":[" + Tensor("77") + "]}") + "]]";
  EXPECT_THAT(Compare(live, "Module.m.M.parameters_grad.0", gradient, 2)->says,
              HasSubstr("different gradient of a parameter"));
}

TEST_F(LiveComparisonTest, ACollectiveMayBringWhatAnotherRankDid) {
  LiveComparison live(1);
  ASSERT_TRUE(live.BeginStep(Reference({{"Distributed.all_reduce.0.forward", Api("1", "2")}})));
  EXPECT_THAT(Compare(live, "Distributed.all_reduce.0.forward", Called("1", "22"), 0)->says,
              HasSubstr("look at the lines of the other ranks"));
}

TEST_F(LiveComparisonTest, ATensorThatOnlyOneSideWasGivenIsADifferentInput) {
  LiveComparison live(-1);
  ASSERT_TRUE(live.BeginStep(
      Reference({{"F.a.0.forward", Api("1", "2")}, {"F.b.0.forward", Api("1", "2", "," + Tensor("5"))}})));
  const std::string with_mask =
      "[[" + Quoted("{\"input_args\":[\x01,\x01{\"dtype\":\"x\"}],\"output\":[\x01]}") + "," +
      Quoted(Tensor("1")) + "," + Quoted(Tensor("5")) + "," + Quoted(Tensor("3")) + "]]";
  EXPECT_THAT(Compare(live, "F.a.0.forward", with_mask, 0)->says, HasSubstr("F.a.0.forward, input.1;"));
}

TEST_F(LiveComparisonTest, ADifferentShapeIsADifferentOutput) {
  LiveComparison live(1);
  ASSERT_TRUE(live.BeginStep(Reference({{"F.a.0.forward", Api("1", "2")}})));
  const std::string now = "[[" + Quoted("{\"input_args\":[\x01],\"output\":[\x01]}") + "," +
                          Quoted(Tensor("1")) + "," + Quoted(Tensor("2", "1,2")) + "]]";
  EXPECT_TRUE(Compare(live, "F.a.0.forward", now, 0)->stop);
}

TEST_F(LiveComparisonTest, CountsCallsThatTheReferenceDoesNotHave) {
  LiveComparison live(1);
  ASSERT_TRUE(live.BeginStep(Reference({{"F.a.0.forward", Api("1", "2")}})));
  EXPECT_FALSE(Compare(live, "F.new.0.forward", Called("1", "2"), 0)->store);
  EXPECT_TRUE(live.Summary().is_problem);
  EXPECT_THAT(live.Summary().says, HasSubstr("the only call is not in "));
  EXPECT_FALSE(Compare(live, "F.a.0.forward", Called("1", "2"), 0)->store);
  EXPECT_FALSE(live.Summary().is_problem);
  EXPECT_THAT(live.Summary().says, StartsWith("1 call compared with "));
  EXPECT_THAT(live.Summary().says, HasSubstr("no difference; 1 more call is not in it"));
  EXPECT_FALSE(Compare(live, "F.new.1.forward", Called("1", "2"), 0)->store);
  EXPECT_THAT(live.Summary().says, HasSubstr("no difference; 2 more calls are not in it"));
}

// One fused call in place of two, whose result the next call gets in another shape.
TEST_F(LiveComparisonTest, NamesTheCallThatOnlyThisRunMakesAndThatGaveWhatDiffers) {
  const auto measured = [](const std::string& md5, const std::string& shape, const std::string& max) {
    return R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[)" + shape + R"(],"Max":)" + max +
           R"(,"Min":-1.5,"Mean":0.1,"md5":")" + md5 + "\"}";
  };
  const auto call = [](const std::string& input, const std::string& output) {
    return R"({"input_args": [)" + input + R"(], "output": [)" + output + "]}";
  };
  const auto called = [&](const std::string& input, const std::string& output) {
    return "[[" + Quoted(call(input, output)) + "]]";
  };
  const fs::path reference =
      Reference({{"F.mul.0.forward", call(measured("1", "4", "1"), measured("2", "4", "2"))},
                 {"F.linear.0.forward", call(measured("3", "2,2", "3.25"), Tensor("4"))}});
  LiveComparison live(1);
  ASSERT_TRUE(live.BeginStep(reference));
  const std::string fused = called(measured("1", "4", "1"), measured("33", "4", "3.25"));
  EXPECT_EQ(Compare(live, "F.fused.0.forward", fused, 0)->says, "");
  EXPECT_THAT(
      Compare(live, "F.linear.0.forward", called(measured("34", "2,2", "3.25"), Tensor("44")), 0)->says,
      StartsWith(
          "inputs already different: F.linear.0.forward, input.0; made by a call that the reference "
          "does not have: F.fused.0.forward; recording stopped here (diff_nums=1)\nnext: make the same"));
  ASSERT_TRUE(live.BeginStep(reference));
  EXPECT_EQ(Compare(live, "F.fused.0.forward", fused, 1)->says, "");
  EXPECT_THAT(Compare(live, "F.linear.0.forward", called(measured("35", "2,2", "9"), Tensor("44")), 1)->says,
              HasSubstr("no recorded call made them"))
      << "another tensor";
  ASSERT_TRUE(live.BeginStep(reference));
  const auto mask = [&](std::string tensor) {
    const std::string_view dtype = "torch.float32";
    return tensor.replace(tensor.find(dtype), dtype.size(), "torch.bool");
  };
  EXPECT_EQ(Compare(live, "F.fused.0.forward",
                    called(mask(measured("1", "4", "1")), mask(measured("33", "4", "3.25"))), 2)
                ->says,
            "");
  EXPECT_THAT(
      Compare(live, "F.linear.0.forward", called(mask(measured("34", "2,2", "3.25")), Tensor("44")), 2)->says,
      HasSubstr("no recorded call made them"))
      << "most masks have these extremes";
}

TEST_F(LiveComparisonTest, RefusesWhatIsNoReference) {
  LiveComparison live(1);
  const auto message = [&](const fs::path& folder) { return live.BeginStep(folder).error().Message(); };
  EXPECT_THAT(message(folder_.path() / "none/step0/rank0"), HasSubstr("none/step0/rank0/dump.json"));
  const std::string plain = R"({"input_args": [], "output": [{"type": "torch.Tensor", "shape": [2]}]})";
  EXPECT_THAT(message(Reference({{"F.a.0.forward", plain}}, "plain")), HasSubstr("summary_mode md5"));
  EXPECT_THAT(message(Reference({{"F.a.0.forward", Api("0x1", "0x2")}}, "xor")),
              HasSubstr("summary_mode xor"));
  fs::create_directories(folder_.path() / "torn");
  std::ofstream(folder_.path() / "torn/dump.json") << R"({"data": {"F.a.0.forward": {"output": [)";
  EXPECT_THAT(message(folder_.path() / "torn"), HasSubstr("torn/dump.json"));
}

TEST_F(LiveComparisonTest, AProcessWithoutARankFindsTheOnlyOneOfItsKind) {
  Reference({{"F.a.0.forward", Api("1", "2")}}, "ref/step0/proc11");
  LiveComparison live(1);
  ASSERT_TRUE(live.BeginStep(folder_.path() / "ref/step0/proc4711"));
  EXPECT_TRUE(Compare(live, "F.a.0.forward", Called("1", "3"), 0)->stop);
  Reference({{"F.a.0.forward", Api("1", "2")}}, "ref/step0/proc12");
  EXPECT_THAT(live.BeginStep(folder_.path() / "ref/step0/proc4711").error().Message(),
              HasSubstr("exactly one proc folder with a dump.json, it holds 2"));
}

TEST_F(LiveComparisonTest, RefusesARecordThatIsTooDeep) {
  LiveComparison live(1);
  const std::string deep = "{\"output\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  ASSERT_TRUE(live.BeginStep(Reference({{"F.a.0.forward", deep}, {"F.b.0.forward", Api("1", "2")}})));
  EXPECT_FALSE(Compare(live, "F.a.0.forward", Called("1", "2"), 0));
  EXPECT_TRUE(Compare(live, "F.b.0.forward", Called("1", "2"), 0));
}

TEST_F(LiveComparisonTest, RefusesACallThatIsNoJson) {
  LiveComparison live(1);
  ASSERT_TRUE(live.BeginStep(Reference({{"F.a.0.forward", Api("1", "2")}})));
  for (const char* parts :
       {"", "{}", "[[\"{\"]]", "[[\"{}\", 3]]", "[[", "[[\"{\\\"output\\\":[\\u0001{\"]]"})
    EXPECT_FALSE(Compare(live, "F.a.0.forward", parts, 0)) << parts;
}

}  // namespace
}  // namespace vernier

#include "profiles/msprobe/dump.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "temporary_folder.h"

namespace vernier::msprobe {
namespace {

class MsprobeDump : public testing::Test {
 protected:
  Result<Dump> Open(const std::string& text, DumpOptions options = {}) {
    const auto path = folder_.path() / "dump.json";
    std::ofstream(path, std::ios::binary) << text;
    return Dump::Open(path, options);
  }
  Dump OpenData(const std::string& data, DumpOptions options = {}) {
    Result<Dump> dump = Open(R"({"task": "statistics", "data": {)" + data + "}}", options);
    EXPECT_TRUE(dump) << dump.error().Message();
    return std::move(*dump);
  }
  static std::vector<std::string> Names(const Dump& dump) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < dump.rows().size(); ++i) names.push_back(dump.NameOf(i));
    return names;
  }
  TemporaryFolder folder_;
  TextArena arena_;
};

constexpr const char* kTensor =
    R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[2,3],"Max":1.5,"Min":NaN,"Mean":null,"Norm":Infinity,"requires_grad":true})";

TEST_F(MsprobeDump, NamesRowsByKeysAndPositions) {
  const Dump dump = OpenData(
      R"("A.0.forward":{"output":[null],"input_kwargs":{"k":{"type":"int","value":3}},"input_args":[[],{},[null,{"x":null}]],"other":[null]})");
  EXPECT_EQ(Names(dump), (std::vector<std::string>{"A.0.forward.input.2.0", "A.0.forward.input.2.1.x",
                                                   "A.0.forward.input.k", "A.0.forward.output.0"}));
}

TEST_F(MsprobeDump, TakesTheNameFromTheDataFile) {
  const Dump dump = OpenData(
      R"("A.0.forward":{"input_args":[{"type":"torch.Tensor","dtype":"t","shape":[],"data_name":"B.1.forward.input.7.pt"}]})");
  EXPECT_EQ(Names(dump), std::vector<std::string>{"B.1.forward.input.7"});
  EXPECT_EQ(dump.Read(dump.rows()[0], arena_).data_name, "B.1.forward.input.7.pt");
}

TEST_F(MsprobeDump, AFileSharedWithAnotherRecordGivesNoName) {
  const auto tensor = [](const std::string& file) {
    return R"({"type":"torch.Tensor","dtype":"t","shape":[],"data_name":")" + file + R"("})";
  };
  const Dump dump = OpenData(R"("A.0.forward":{"input_args":[)" + tensor("B.1.forward.output.0.pt") +
                             R"(],"input_kwargs":{"k":)" + tensor("B.1.forward.output.0.pt") +
                             R"(},"output":[)" + tensor("A.0.forward.output.0.pt") +
                             R"(]},"B.1.forward":{"output":[)" + tensor("B.1.forward.output.0.pt") + "]}");
  EXPECT_EQ(Names(dump), (std::vector<std::string>{"A.0.forward.input.0", "A.0.forward.kwargs.k",
                                                   "A.0.forward.output.0", "B.1.forward.output.0"}));
  EXPECT_EQ(dump.Read(dump.rows()[0], arena_).data_name, "B.1.forward.output.0.pt");
}

TEST_F(MsprobeDump, VisitsPortsInOneOrderWhateverTheirOrderInTheFile) {
  const std::string args = R"("input_args":[null])", kwargs = R"("input_kwargs":{"k":null})",
                    input = R"("input":[null])", output = R"("output":[null,null])",
                    other = R"("is":{"a":1})";
  const std::vector<std::string> expected = {"A.0.forward.input.0", "A.0.forward.input.k",
                                             "A.0.forward.input.0", "A.0.forward.output.0",
                                             "A.0.forward.output.1"};
  std::vector<std::string> ports = {args, kwargs, input, other, output};
  std::sort(ports.begin(), ports.end());
  do {
    std::string record;
    for (const std::string& port : ports) record += (record.empty() ? "" : ",") + port;
    EXPECT_EQ(Names(OpenData("\"A.0.forward\":{" + record + "}")), expected) << record;
  } while (std::next_permutation(ports.begin(), ports.end()));
  // The last of two counts, and what the first one says is not looked at.
  const std::string dangerous = R"("output":[{"type":"=1","md5":"x"}])";
  const Dump twice = OpenData("\"A.0.forward\":{" + args + "," + dangerous + "," + output + "}");
  EXPECT_EQ(Names(twice).size(), 3u);
  EXPECT_EQ(twice.check_failure(), "");
  EXPECT_FALSE(twice.has_md5());
}

TEST_F(MsprobeDump, ReadsStatisticsAsTheyAreShown) {
  const Dump dump = OpenData(std::string(R"("A.0.forward":{"input_args":[)") + kTensor + "]}");
  const Leaf leaf = dump.Read(dump.rows()[0], arena_);
  EXPECT_EQ(leaf.dtype, "torch.float32");
  EXPECT_EQ(leaf.shape, "[2, 3]");
  EXPECT_EQ(leaf.requires_grad, "True");
  EXPECT_EQ(leaf.statistics[0].number, 1.5);
  EXPECT_TRUE(leaf.statistics[1].Is("Nan"));
  EXPECT_TRUE(leaf.statistics[2].Is("None"));
  EXPECT_EQ(leaf.statistics[3].number, HUGE_VAL);
  EXPECT_EQ(leaf.data_name, "-1");
}

TEST_F(MsprobeDump, GivesValuesTheChecksumOfTheirText) {
  const Dump dump = OpenData(
      R"("A.0.forward":{"input_args":[{"type":"int","value":3},{"type":"slice","value":[0,2,null]},{"type":"bool","value":true}],"input_kwargs":{"src":{"type":"int","value":1}}})");
  const auto leaf = [&](std::size_t i) { return dump.Read(dump.rows()[i], arena_); };
  EXPECT_EQ(leaf(0).md5, "6dd28e9b");
  EXPECT_EQ(leaf(0).dtype, "<class 'int'>");
  EXPECT_EQ(leaf(1).md5, "ca0045ae");
  EXPECT_EQ(leaf(1).shape, "(3,)");
  EXPECT_EQ(leaf(2).md5, "5dcee3b3");
  EXPECT_TRUE(leaf(2).statistics[0].Is("True"));
  EXPECT_EQ(leaf(3).md5, "1");  // a rank is shown as it is
}

TEST_F(MsprobeDump, KeepsTheLastOfTwoEqualNamesInTheFirstPlace) {
  const Dump dump = OpenData(
      R"("A.0.forward":{"output":[null,null]},"B.0.forward":{"output":[null]},"A.0.forward":{"output":[{"type":"int","type":"str","value":1,"value":2}]})");
  EXPECT_EQ(Names(dump), (std::vector<std::string>{"A.0.forward.output.0", "B.0.forward.output.0"}));
  EXPECT_EQ(dump.Read(dump.rows()[0], arena_).statistics[0].number, 2);
}

TEST_F(MsprobeDump, LosesOneRecordToOneMistake) {
  const Dump dump = OpenData(
      R"("A.0.forward":{"output":[null]},"B.0.forward":{"output":[nul, 1]},"C.0.forward":5,"D.0.forward":{"output":[null]})");
  ASSERT_EQ(Names(dump), (std::vector<std::string>{"A.0.forward.output.0", "B.0.forward", "C.0.forward",
                                                   "D.0.forward.output.0"}));
  EXPECT_TRUE(dump.rows()[1].bad);
  EXPECT_FALSE(dump.ProblemOf(1).empty());
  EXPECT_EQ(dump.ProblemOf(2), "the record is not an object");
  EXPECT_TRUE(dump.ProblemOf(0).empty());
  EXPECT_EQ(OpenData(R"("A.0.forward":{"output":[{"type":"int","value":1.2.3}]})").ProblemOf(0),
            "expected a number");
}

TEST_F(MsprobeDump, RefusesWhatIsNoJson) {
  for (const char* text : {"", "{", R"({"task": "statistics", "data": )", "{} x", "nonsense"})
    EXPECT_FALSE(Open(text)) << text;
}

TEST_F(MsprobeDump, TakesTheWholeRecordsOfAFileThatWasCutOff) {
  const std::string first = R"({"task":"statistics","data":{"A.0.forward":{"output":[null]})";
  const std::string second = R"(,
  "B\u0041.0.forward": {
   "output": [
    {"type": "a \" text", "value": -1e-05}
   ]
  })";
  for (std::size_t cut = 0; cut <= second.size(); ++cut) {
    const Result<Dump> dump = Open(first + second.substr(0, cut));
    ASSERT_TRUE(dump) << cut << dump.error().Message();
    EXPECT_TRUE(dump->torn());
    ASSERT_EQ(dump->records().size(), cut < second.size() ? 1u : 2u) << cut;
    EXPECT_EQ(dump->records()[0].name, "A.0.forward");
    EXPECT_EQ(dump->rows().size(), dump->records().size());
  }
  EXPECT_FALSE(Open(first + second + "}}")->torn());
  EXPECT_FALSE(Open(first + "}} x"));  // this is damage of another kind
}

TEST_F(MsprobeDump, TellsWhatIsMissing) {
  EXPECT_FALSE(Open(R"({"task":"x"})")->has_data());
  EXPECT_FALSE(Open(R"({"data":[]})")->data_is_object());
  EXPECT_EQ(Open(R"({"data":{}})")->task(), "");
  EXPECT_FALSE(Open(R"({"data":{}})")->framework());
}

TEST_F(MsprobeDump, FindsTextsThatASpreadsheetMightRun) {
  for (const char* text : {"=1", "+1", "-1", "%1", "@x", "a;=b", "＝1"})
    EXPECT_TRUE(IsDangerous(text)) << text;
  for (const char* text : {"", "a=b", "a; =b", "1-2"}) EXPECT_FALSE(IsDangerous(text)) << text;
  EXPECT_EQ(OpenData(R"("=A.0.forward":{})").check_failure(),
            "api name contains special characters, please check!");
  EXPECT_EQ(OpenData(R"("A.0.forward":{"output":[{"type":"str","value":"=x"}]})").check_failure(),
            "data info of A.0.forward contains special characters, please check!");
  EXPECT_EQ(OpenData(R"("A.0.forward":{"output":[[{"k":{"type":"t","dtype":"d","shape":"[2]"}}]]})")
                .check_failure(),
            "shape of input or output of A.0.forward is not list or tuple, please check!");
  EXPECT_EQ(OpenData(R"("A.0.forward":{"input":[{"type":"t","requires_grad":"no"}]})").check_failure(),
            "requires_grad of input or output of A.0.forward is not bool, please check!");
  EXPECT_EQ(OpenData(R"("A.0.forward":{"parameters":{"w":{"type":"str","value":"=x"}}})").check_failure(),
            "");
}

TEST_F(MsprobeDump, FindsChecksumsWhereTheReferenceLooks) {
  const std::string with = R"({"type":"torch.Tensor","dtype":"d","md5":"00000000"})";
  EXPECT_TRUE(OpenData(R"("A.0.forward":{"output":[)" + with + "]}").has_md5());
  EXPECT_FALSE(OpenData(R"("A.0.forward":{"output":[[)" + with + "]]}").has_md5());
  EXPECT_FALSE(OpenData(R"("A.0.forward":{"parameters":{"w":)" + with + "}}").has_md5());
  DumpOptions debug;
  debug.kind = DumpKind::kDebug;
  EXPECT_TRUE(OpenData(R"("x.0.debug":[[)" + with + "]]", debug).has_md5());
}

TEST_F(MsprobeDump, StopsAtTheDepthTheReferenceStopsAt) {
  const std::string deep(500, '['), closing(500, ']');
  const Dump dump = OpenData(R"("A.0.forward":{"output":)" + deep + closing +
                             R"(},"B.0.forward":{"output":[)" + kTensor + "]}");
  EXPECT_EQ(dump.too_deep(), "A.0.forward");
  EXPECT_EQ(dump.ProblemOf(0), "nested too deeply");  // one row for it, and the rest is read
  EXPECT_EQ(Names(dump), (std::vector<std::string>{"A.0.forward", "B.0.forward.output.0"}));
}

// Work that grows with the square of the nesting or of the number of keys takes seconds for small files, and
// these are far larger.
TEST_F(MsprobeDump, ReadsDeepAndWideValuesInLinearTime) {
  const auto nested = [](int levels, const std::string& inside) {
    std::string text;
    for (int i = 0; i < levels; ++i) text += R"({"k":)";
    return text + inside + std::string(static_cast<std::size_t>(levels), '}');
  };
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += (i == 0 ? "" : ",") + nested(390, kTensor);
  std::string leaf = R"({"type":"function","value":)" + nested(380, R"([[[{"a":1}]]])") + "}";
  for (int i = 0; i < 6; ++i) leaf += "," + leaf;
  EXPECT_EQ(OpenData(R"("A.0.forward":{"output":[)" + deep + "]}").rows().size(), 200u);
  EXPECT_EQ(OpenData(R"("A.0.forward":{"output":[)" + leaf + "]}").rows().size(), 64u);

  std::string wide, ports;
  for (int i = 0; i < 200'000; ++i) {
    wide += (i == 0 ? "\"k" : ",\"k") + std::to_string(i) + "\":null";
    ports += "\"x" + std::to_string(i) + "\":1,";
  }
  EXPECT_EQ(OpenData(R"("A.0.forward":{"output":{)" + wide + "}}").rows().size(), 200'000u);
  EXPECT_EQ(OpenData(R"("A.0.forward":{)" + ports + R"("output":[null]})").rows().size(), 1u);
}

TEST_F(MsprobeDump, FindsWhatIsDeepInsideOnlyOnce) {
  std::string deep = R"({"a b;=c":"x","shape":3})";  // not a list: refused
  for (int i = 0; i < 30; ++i) deep = R"({"k":[1,"]}",)" + deep + "]}";
  EXPECT_EQ(OpenData(R"("A.0.forward":{"output":)" + deep + "}").check_failure(),
            "shape of input or output of A.0.forward is not list or tuple, please check!");
  EXPECT_EQ(OpenData(R"("A.0.forward":{"output":{"type":"x","v":)" + deep + "}}").check_failure(),
            "shape of input or output of A.0.forward is not list or tuple, please check!");
}

TEST_F(MsprobeDump, UnwrapsBatchedOperations) {
  const Dump dump = OpenData(
      std::string(R"("A.0.forward":{"input_args":[{"class_type":"torch.distributed.P2POp","tensor":)") +
      kTensor +
      R"(,"op":"isend","peer":1},{"class_type":"torch.distributed.P2POp","tensor":null,"op":"irecv","peer":0}]})");
  EXPECT_EQ(dump.Read(dump.rows()[0], arena_).dtype, "torch.float32");
  EXPECT_EQ(dump.Read(dump.rows()[0], arena_).p2p_peer, "1");
  EXPECT_EQ(dump.Read(dump.rows()[1], arena_).dtype, "None");
  EXPECT_EQ(dump.Read(dump.rows()[1], arena_).p2p_op, "irecv");
}

}  // namespace
}  // namespace vernier::msprobe

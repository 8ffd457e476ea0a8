#include "vernier/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "format/npy.h"
#include "temporary_folder.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class CompareRecordingsTest : public testing::Test {
 protected:
  fs::path Path(const std::string& name) const { return folder_.path() / name; }

  // A recording of one record with the given prefix, its output scaled.
  void Record(const std::string& folder, double scale,
              const std::string& name = "Functional.relu.0.forward") {
    fs::create_directories(Path(folder));
    const auto tensor = [](double max) {
      return R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[2],"Max":)" + std::to_string(max) +
             R"(,"Min":0.5,"Mean":0.5,"Norm":)" + std::to_string(max) + R"(,"requires_grad":false})";
    };
    std::ofstream(Path(folder) / "dump.json")
        << R"({"task":"statistics","level":"L1","framework":"pytorch","data":{")" << name
        << R"(":{"input_args":[)" << tensor(1) << R"(],"input_kwargs":{},"output":[)" << tensor(scale)
        << "]}}}";
  }
  void Tensor(const std::string& name, float value) {
    fs::create_directories(Path(name).parent_path());
    ASSERT_TRUE(WriteNpy(Path(name), BorrowTensor(Dtype::kF32, {1}, &value)));
  }
  CompareRequest Request(const std::string& target, const std::string& golden) const {
    CompareRequest request;
    request.target = Path(target);
    request.golden = Path(golden);
    return request;
  }

  TemporaryFolder folder_;
};

TEST_F(CompareRecordingsTest, TellsTheFamilyByContentAtEveryLevelOfADump) {
  Record("a/step0/rank0", 1);
  Record("b/step0/rank0", 1);
  for (const char* level : {"", "/step0", "/step0/rank0", "/step0/rank0/dump.json"}) {
    const auto outcome = CompareRecordings(Request("a" + std::string(level), "b" + std::string(level)));
    ASSERT_TRUE(outcome) << level << ": " << outcome.error().Message();
    EXPECT_EQ(outcome->family, "msprobe");
    EXPECT_EQ(outcome->status, 0) << level;
    EXPECT_EQ(outcome->ranks[0].num_matched, 2u);
    EXPECT_TRUE(outcome->written.empty()) << "no file was asked for";
  }
  const auto mixed_levels = CompareRecordings(Request("a/step0/rank0", "b/step0/rank0/dump.json"));
  ASSERT_TRUE(mixed_levels) << mixed_levels.error().Message();
  Tensor("t/x.npy", 1);
  Tensor("g/x.npy", 1);
  EXPECT_EQ(CompareRecordings(Request("t", "g"))->family, "native");
  EXPECT_EQ(CompareRecordings(Request("t/x.npy", "g/x.npy"))->family, "native");
}

TEST_F(CompareRecordingsTest, SaysWhatEachSideOfAMixedPairIs) {
  Record("a", 1);
  Tensor("t/x.npy", 1);
  const auto outcome = CompareRecordings(Request("a", "t"));
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().detail, HasSubstr("a is a recording (dump.json), but"));
  EXPECT_THAT(outcome.error().detail, HasSubstr("t is tensors (files"));
  const auto missing = CompareRecordings(Request("a", "nowhere"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

TEST_F(CompareRecordingsTest, RecordingsTakeTheOptionsOfAllFamilies) {
  Record("a", 3, "Functional.gelu.0.forward");
  Record("b", 1, "Functional.relu.0.forward");
  EXPECT_EQ(CompareRecordings(Request("a", "b"))->status, 2) << "nothing matched";
  CompareRequest request = Request("a", "b");
  request.renames = {{"gelu", "relu"}};
  EXPECT_EQ(CompareRecordings(request)->status, 1);
  request = Request("a", "b");
  request.match = MatchMode::kPosition;
  request.outputs = {Path("r.csv")};
  request.only = {"failed"};
  request.top = 5;
  const auto outcome = CompareRecordings(request);
  ASSERT_TRUE(outcome) << outcome.error().Message();
  EXPECT_EQ(outcome->ranks[0].num_matched_by[0].first, "position");
  EXPECT_THAT(outcome->written, ElementsAre(Path("r.csv").string()));
  EXPECT_THAT(outcome->text, HasSubstr("Functional.gelu.0.forward.output.0"));
  std::ifstream csv(Path("r.csv"));
  std::string line;
  int num_lines = 0;
  while (std::getline(csv, line)) ++num_lines;
  EXPECT_EQ(num_lines, 2) << "the heading and the row that fails";
  std::ofstream(Path("map.yaml"))
      << "Functional.gelu.0.forward.output.0: Functional.relu.0.forward.output.0\n";
  request = Request("a", "b");
  request.mapping = Path("map.yaml");
  EXPECT_EQ(CompareRecordings(request)->ranks[0].num_matched, 1u);
  request = Request("a", "b");
  request.strict = true;
  EXPECT_EQ(CompareRecordings(request)->status, 1) << "rows without a partner count";
  request = Request("a", "b");
  request.rtol = 1;
  EXPECT_THAT(CompareRecordings(request).error().detail, HasSubstr("--rules"));
}

TEST_F(CompareRecordingsTest, AFolderGetsAReportOfEachRankAndAFileOnlyOne) {
  for (const char* rank : {"rank0", "rank1"}) {
    Record("a/step3/" + std::string(rank), 2);
    Record("b/step3/" + std::string(rank), 1);
  }
  CompareRequest request = Request("a", "b");
  request.outputs = {Path("out").string() + "/"};
  const auto outcome = CompareRecordings(request);
  ASSERT_TRUE(outcome) << outcome.error().Message();
  EXPECT_THAT(outcome->ranks, SizeIs(2));
  EXPECT_EQ(outcome->ranks[1].rank, "step3/rank1");
  EXPECT_THAT(outcome->written, SizeIs(5)) << "two tables, two config.json to go on with, and the summary";
  EXPECT_TRUE(fs::exists(Path("out/step3")));
  request.outputs = {Path("one.csv")};
  EXPECT_FALSE(CompareRecordings(request));
}

TEST_F(CompareRecordingsTest, RanksCanBeComparedOneByOne) {
  for (const char* rank : {"rank0", "rank1"}) {
    Record("a/" + std::string(rank), 2);
    Record("b/" + std::string(rank), 1);
  }
  const auto requests = SplitByRank(Request("a", "b"));
  ASSERT_TRUE(requests) << requests.error().Message();
  ASSERT_THAT(*requests, SizeIs(2));
  for (const CompareRequest& request : *requests) {
    const auto carried = CompareRequestFromJson(ToJson(request));
    ASSERT_TRUE(carried) << carried.error().Message();
    const auto outcome = CompareRecordings(*carried);
    ASSERT_TRUE(outcome);
    EXPECT_THAT(outcome->ranks, SizeIs(1));
    EXPECT_EQ(outcome->status, 1);
  }
}

TEST_F(CompareRecordingsTest, ManyMayRunAtOnce) {
  Record("a", 2);
  Record("b", 1);
  std::vector<int> statuses(8);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < statuses.size(); ++i) {
      threads.emplace_back([&, i] {
        CompareRequest request = Request("a", "b");
        request.outputs = {Path("out" + std::to_string(i)).string() + "/"};
        const auto outcome = CompareRecordings(request);
        statuses[i] = outcome ? outcome->status : -1;
      });
    }
  }
  EXPECT_THAT(statuses, testing::Each(1));
}

// Names of results have seconds: a run must neither replace nor wait for another one.
TEST_F(CompareRecordingsTest, ResultsOfTheSameSecondAllStay) {
  Record("a/step0/rank0", 1);
  Record("b/step0/rank0", 1);
  Tensor("x/t.npy", 1);
  CompareRequest recordings = Request("a", "b"), tensors = Request("x", "x");
  recordings.outputs = tensors.outputs = {Path("out/").string()};
  recordings.format = tensors.format = "csv";
  const auto run = [&] {
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(CompareRecordings(recordings));
      EXPECT_TRUE(CompareRecordings(tensors));
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(run);
  }
  std::vector<std::string> stamps, summaries;
  std::size_t num_tensor_results = 0;
  for (const auto& entry : fs::recursive_directory_iterator(Path("out"))) {
    const std::string name = entry.path().filename();
    EXPECT_FALSE(name.starts_with('.')) << name;
    if (name.ends_with("_summary.json"))
      summaries.push_back(name.substr(0, name.size() - std::string("_summary.json").size()));
    num_tensor_results += entry.path().parent_path() == Path("out") && name.ends_with(".csv");
    if (entry.path().parent_path() != Path("out") && name.ends_with(".csv"))
      stamps.push_back("compare_result" + name.substr(name.find('_', std::string("compare_result_").size())));
  }
  EXPECT_EQ(num_tensor_results, 12u);
  ASSERT_THAT(summaries, SizeIs(24)) << "of recordings and of tensors";
  for (std::string& stamp : stamps) stamp.resize(stamp.size() - std::string(".csv").size());
  EXPECT_THAT(stamps, testing::IsSubsetOf(summaries)) << "a summary belongs to its result";
}

TEST_F(CompareRecordingsTest, LinksInACircleEnd) {
  for (const char* side : {"a", "b"}) {
    for (int rank = 0; rank < 8; ++rank) {
      const std::string folder = std::string(side) + "/step0/rank" + std::to_string(rank);
      Record(folder, 1);
      std::ofstream(Path(folder) / "stack.json") << "{}";
    }
    fs::create_directory_symlink(".", Path(side) / "step1");
    fs::create_directory_symlink(".", Path(side) / "step2");
  }
  fs::remove(Path("a/step0/rank3/stack.json"));
  fs::create_symlink("stack.json", Path("a/step0/rank3/stack.json"));  // to itself
  EXPECT_NE(FamilyOf(Path("a")), nullptr);
  const auto outcome = CompareRecordings(Request("a/step0", "b/step0"));
  ASSERT_TRUE(outcome) << outcome.error().Message();
  EXPECT_THAT(outcome->ranks, SizeIs(8));
  fs::create_directory_symlink("loop", Path("loop"));
  const auto loop = CompareRecordings(Request("loop", "b/step0"));
  ASSERT_FALSE(loop);
  EXPECT_THAT(loop.error().Message(), HasSubstr("symbolic links"));
}

TEST_F(CompareRecordingsTest, NamesThatAreTooLongAreTold) {
  Record("a", 1);
  const std::string too_long(300, 'x');
  const auto missing = CompareRecordings(Request("a", too_long));
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().Message(), HasSubstr("File name too long"));
  // The folder's name is allowed, that of the result is not.
  const std::string rank = "rank1" + std::string(239, '2');
  Record("c/step0/" + rank, 1);
  Record("d/step0/" + rank, 1);
  CompareRequest request = Request("c/step0", "d/step0");
  request.outputs = {Path("out/").string()};
  const auto result = CompareRecordings(request);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().code, ErrorCode::kInternal);
  EXPECT_THAT(result.error().Message(), HasSubstr("File name too long"));
}

TEST_F(CompareRecordingsTest, GuessesWhatAMissingPathWasMeantToBe) {
  Record("dump", 1);
  const auto outcome = CompareRecordings(Request("dmp", "dump"));
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().Message(), HasSubstr("did you mean " + Path("dump").string() + "?"));
}

TEST_F(CompareRecordingsTest, LooksAtTheElementsOfFewFailingPairsAndOfTheWorstOfMany) {
  for (const int i : {0, 1, 2, 3}) {
    Tensor("a/" + std::to_string(i) + ".npy", 1 + static_cast<float>(i));
    Tensor("b/" + std::to_string(i) + ".npy", 1);
  }
  CompareRequest request = Request("a", "b");
  request.worst = 2;
  const auto few = CompareRecordings(request).value();
  ASSERT_THAT(few.ranks[0].worst_pairs, SizeIs(3)) << "0 is equal";
  EXPECT_EQ(few.ranks[0].worst_pairs[0].name, "3") << "worst first";
  ASSERT_THAT(few.ranks[0].worst_pairs[0].worst_elements, SizeIs(1));
  EXPECT_EQ(few.ranks[0].worst_pairs[0].worst_elements[0].abs_error, 3);
  EXPECT_EQ(few.ranks[0].worst_pairs[0].worst_elements[0].ulp, 16777216u);
  EXPECT_THAT(few.text, HasSubstr("worst elements of 3, float32 [1]: 1 of 1 differ\n"));
  Tensor("a/4.npy", 2);
  Tensor("b/4.npy", 1);
  const auto many = CompareRecordings(request).value();
  ASSERT_THAT(many.ranks[0].worst_pairs, SizeIs(1));
  EXPECT_EQ(many.ranks[0].worst_pairs[0].name, "3");
  request.worst = 0;
  const auto unasked = CompareRecordings(request).value();
  EXPECT_TRUE(unasked.ranks[0].worst_pairs.empty());
}

TEST_F(CompareRecordingsTest, LooksAtTheElementsOfAPairThatPasses) {
  Tensor("a.npy", 1.0000001f);
  Tensor("b.npy", 1);
  CompareRequest request = Request("a.npy", "b.npy");
  request.worst = 1;
  const auto outcome = CompareRecordings(request).value();
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.text, HasSubstr("[0]    1.0000001     1  1.192e-07    1"));
  CompareRequest same = Request("b.npy", "b.npy");
  same.worst = 1;
  EXPECT_THAT(CompareRecordings(same).value().text, HasSubstr("float32 [1]: no element differs\n"));
}

TEST_F(CompareRecordingsTest, SaysWhyThereAreNoElementsToSee) {
  Record("a", 1);
  Record("b", 2);
  CompareRequest request = Request("a", "b");
  request.worst = 3;
  const auto statistics = CompareRecordings(request).value();
  ASSERT_THAT(statistics.ranks[0].worst_pairs, SizeIs(1));
  EXPECT_THAT(statistics.ranks[0].worst_pairs[0].error, HasSubstr("with task tensor"));
  request.golden = request.target;
  EXPECT_THAT(CompareRecordings(request).value().text, HasSubstr("worst elements: no call to look at\n"));
  request.family = "xray";
  EXPECT_THAT(CompareRecordings(request).error().Message(), HasSubstr("--worst"));
}

TEST(CompareJson, CarriesEveryMember) {
  CompareRequest request;
  request.target = "a \"b\"\n\xff";
  request.golden = "é";
  request.family = "native";
  request.match = MatchMode::kFuzzy;
  request.renames = {{"x", "y"}, {"1", ""}};
  request.rtol = 0.1;
  request.strict = true;
  request.outputs = {"r.csv", "-"};
  request.only = {"failed"};
  request.top = 7;
  request.worst = 10;
  request.options = {{"generation", "classic"}};
  request.num_threads = 3;
  const auto read = CompareRequestFromJson(ToJson(request));
  ASSERT_TRUE(read) << read.error().Message();
  EXPECT_EQ(ToJson(*read), ToJson(request));
  EXPECT_EQ(read->target, request.target);
  EXPECT_EQ(read->renames, request.renames);

  CompareOutcome outcome;
  outcome.family = "msprobe";
  outcome.status = 1;
  outcome.written = {"x"};
  RankOutcome& rank = outcome.ranks.emplace_back();
  rank.rank = "rank0";
  rank.num_matched_by = {{"exact name", 4}};
  rank.num_matched = 4;
  rank.culprit.emplace().record = "F.relu.0.forward";
  rank.culprit->evidence.push_back({"n", "output", HUGE_VAL, "1", "2"});
  rank.culprit->arguments.push_back({"argument", "input.4", "1", "2", "", 0, "eps"});
  rank.verdict = RunVerdict::kDiverged;
  rank.errors_along.emplace_back("head", 0.5);
  WorstPair& pair = rank.worst_pairs.emplace_back();
  pair.name = "x";
  pair.worst_elements = {{{3, 49}, "imag", NAN, 2, NAN, std::nullopt},
                         {{}, "", 1e308, -1e308, HUGE_VAL, ~0ull}};
  pair.concentrated_in = "91 % of the squared error lies in column 126 of axis 2";
  pair.axis = 2;
  const auto carried = CompareOutcomeFromJson(ToJson(outcome));
  ASSERT_TRUE(carried) << carried.error().Message();
  EXPECT_EQ(ToJson(*carried), ToJson(outcome));
  EXPECT_EQ(carried->ranks[0].culprit->arguments[0].parameter, "eps");
  EXPECT_EQ(carried->ranks[0].culprit->evidence[0].error, HUGE_VAL);
  EXPECT_EQ(carried->ranks[0].worst_pairs[0].worst_elements[1].ulp, ~0ull);
}

TEST(CompareJson, NamesWhatItCannotRead) {
  EXPECT_EQ(CompareRequestFromJson(R"({"targt": "x"})").error().where, "request.targt");
  EXPECT_EQ(CompareRequestFromJson(R"({"match": "telepathy"})").error().where, "request.match");
  EXPECT_FALSE(CompareRequestFromJson(R"({"threads": -1})"));
  EXPECT_EQ(CompareRequestFromJson(R"({"threads": 166666666666666})").error().where, "request.threads");
  EXPECT_FALSE(CompareRequestFromJson("{}x"));
  EXPECT_FALSE(CompareRequestFromJson("[1]"));
}

}  // namespace
}  // namespace vernier

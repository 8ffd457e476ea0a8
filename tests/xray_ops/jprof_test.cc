#include "xray_ops/jprof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "core/paths.h"
#include "temporary_folder.h"

namespace vernier::xray_ops {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string TextOf(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void Write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

constexpr const char* kLinspace =
    R"({"id": 4, "op": "aten.linspace.default", "args": [{"kind": "int", "value": 0}, {"kind": "int", "value": 47},
       {"kind": "int", "value": 10}], "kwargs": {"dtype": {"kind": "dtype", "value": "torch.float32"}}, "mutates": []})";
constexpr const char* kView =
    R"({"id": 5, "op": "aten.view.default", "args": [], "kwargs": {}, "mutates": []})";
constexpr const char* kRelu =
    R"({"id": 123456, "op": "aten.relu_.default", "args": [{"kind": "tensor", "dtype": "torch.float32", "shape": [2],
       "min": 0, "max": 1, "file": "dump/123456.arg0.pt"}], "kwargs": {}, "mutates": [0]})";

std::string Recording(const std::string& calls, const std::string& version = "0.0.0") {
  return R"({"format": "xray-ops", "version": 1, "vernier_version": ")" + version +
         R"(", "pid": 4711, "total_calls": 9, "ops": [)" + calls + "]}";
}

class Jprof : public ::testing::Test {
 protected:
  Jprof() {
    options_.dump_json = folder_.path() / "proc_4711" / "dump.json";
    options_.output = folder_.path() / "proc_4711" / "pytests";
  }
  Result<JprofOutcome> Run(const std::string& text) {
    Write(options_.dump_json, text);
    return GenerateTests(options_, {});
  }
  std::vector<std::string> Tests() const { return NamesIn(options_.output); }

  TemporaryFolder folder_;
  JprofOptions options_;
};

TEST_F(Jprof, WritesTheExampleOfTheSpecification) {
  options_.cpu_init = true;
  ASSERT_TRUE(Run(Recording(kLinspace)));
  EXPECT_THAT(Tests(), ElementsAre("manifest.json", "test_00004_aten_linspace_default.py"));
  EXPECT_EQ(
      TextOf(options_.output / "test_00004_aten_linspace_default.py"),
      R"("""aten.linspace.default, call 4 of proc_4711. Written by vernier jprof; run: pytest --detail_compare_path=out.csv proc_4711/pytests"""
from vernier.xray.replay import run

CALL = {"id": 4, "op": "aten.linspace.default", "args": [0, 47, 10], "kwargs": {"dtype": "torch.float32"}, "mutates": []}


def test_call(xray):
    run(xray, CALL, factory="load", cpu_init=True)
)");
  const std::string manifest = TextOf(options_.output / "manifest.json");
  EXPECT_THAT(manifest, HasSubstr("\"producer\": \"vernier jprof\""));
  EXPECT_THAT(manifest, HasSubstr("\"recorded_by\": \"0.0.0\""));
  EXPECT_THAT(manifest, HasSubstr("\"cpu_init\": true"));
  EXPECT_THAT(manifest, HasSubstr("\"count\": 1"));
}

TEST_F(Jprof, CountsWhatItLeavesOutAndMisses) {
  options_.blacklist = Blacklist::Shipped();
  const auto outcome = Run(Recording(std::string(kLinspace) + "," + kView + "," + kRelu));
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->num_calls, 3U);
  EXPECT_EQ(outcome->num_tests, 2U);
  EXPECT_EQ(outcome->num_blacklisted, 1U);
  EXPECT_EQ(outcome->num_missing, 1U);
  EXPECT_EQ(outcome->num_files, 1U);
  EXPECT_THAT(outcome->first_missing, HasSubstr("proc_4711/dump/123456.arg0.pt"));
  EXPECT_EQ(outcome->version, "0.0.0");
  EXPECT_THAT(Tests(), ElementsAre("manifest.json", "test_00004_aten_linspace_default.py",
                                   "test_123456_aten_relu__default.py"));
  Write(folder_.path() / "proc_4711/dump/123456.arg0.pt", "x");
  EXPECT_EQ(Run(Recording(kRelu))->num_missing, 0U);
}

TEST_F(Jprof, LeavesFilesOutWhenAllIsDrawn) {
  options_.load = false;
  ASSERT_TRUE(Run(Recording(kRelu)));
  const std::string text = TextOf(options_.output / "test_123456_aten_relu__default.py");
  EXPECT_THAT(text, HasSubstr("factory=\"rand\", cpu_init=False"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr(".pt")));
}

TEST_F(Jprof, LosesOneBadCallAndNoMore) {
  const auto outcome =
      Run(Recording(std::string("17,") + kLinspace + R"(,{"id": "x", "op": "aten.a.b"},)" + kLinspace));
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->num_tests, 1U);
  EXPECT_EQ(outcome->num_problems, 3U);
  EXPECT_THAT(outcome->problems,
              ElementsAre("ops[0]: expected an object", "ops[2]: id: expected a whole number ≥ 0",
                          "ops[3]: id: 4 comes twice"));
}

TEST_F(Jprof, ReplacesOnlyItsOwnFolder) {
  ASSERT_TRUE(Run(Recording(kLinspace)));
  Write(options_.output / "__pycache__" / "x.pyc", "");
  ASSERT_TRUE(Run(Recording(kRelu)));
  EXPECT_THAT(Tests(), ElementsAre("manifest.json", "test_123456_aten_relu__default.py"));

  Write(options_.output / "notes.txt", "mine");
  const auto with_notes = Run(Recording(kLinspace));
  ASSERT_FALSE(with_notes);
  EXPECT_THAT(with_notes.error().detail, HasSubstr("holds notes.txt, which jprof did not write"));
  EXPECT_EQ(Tests().size(), 3U);
  EXPECT_TRUE(fs::exists(options_.output / "test_123456_aten_relu__default.py"));

  options_.output = folder_.path() / "others";
  Write(options_.output / "test_mine.py", "");
  EXPECT_THAT(Run(Recording(kLinspace)).error().detail, HasSubstr("was not made by jprof"));
  Write(options_.output / "manifest.json", R"({"producer": "somebody"})");
  EXPECT_THAT(Run(Recording(kLinspace)).error().detail, HasSubstr("was not made by jprof"));
  options_.output = folder_.path() / "file";
  Write(options_.output, "");
  EXPECT_THAT(Run(Recording(kLinspace)).error().detail, HasSubstr("is in the way"));
}

TEST_F(Jprof, LeavesNothingBehindWhenItIsStopped) {
  Write(options_.dump_json, Recording(kLinspace));
  const auto stopped = GenerateTests(options_, [](std::uint64_t, std::uint64_t) { return false; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(NamesIn(options_.dump_json.parent_path()), ElementsAre("dump.json"));
}

TEST_F(Jprof, RemovesWhatKilledRunsLeft) {
  const fs::path parent = options_.output.parent_path();
  Write(parent / ".pytests.vernier-2000000000" / "test_1.py", "");
  Write(parent / ".pytests.vernier-1" / "test_1.py", "");  // of a process that lives
  Write(parent / ".pytests.vernier-mine" / "test_1.py", "");
  ASSERT_TRUE(Run(Recording(kLinspace)));
  EXPECT_THAT(NamesIn(parent),
              ElementsAre(".pytests.vernier-1", ".pytests.vernier-mine", "dump.json", "pytests"));
}

TEST_F(Jprof, SaysWhatIsWrongWithTheRecording) {
  const auto says = [&](const std::string& text) {
    const auto outcome = Run(text);
    EXPECT_FALSE(outcome) << text;
    return outcome ? "" : outcome.error().Message();
  };
  EXPECT_THAT(says(R"({"task": "statistics", "data": {}})"), HasSubstr("no operator recording"));
  EXPECT_THAT(says(R"({"format": "xray-ops", "version": 1})"), HasSubstr("it has no ops"));
  EXPECT_THAT(says(R"({"format": "xray-ops", "version": 7, "ops": []})"), HasSubstr("version 7"));
  EXPECT_THAT(says("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(says(""), HasSubstr("expected an object"));
  const std::string whole = Recording(kLinspace);
  for (std::size_t end = 0; end < whole.size(); end += 7) EXPECT_NE(says(whole.substr(0, end)), "") << end;
  fs::remove(options_.dump_json);
  EXPECT_EQ(GenerateTests(options_, {}).error().code, ErrorCode::kNotFound);
}

TEST_F(Jprof, TakesTheProcessFromTheRecordingWhereTheFolderHasAnotherName) {
  options_.dump_json = folder_.path() / "copied \"\"\" here" / "dump.json";
  ASSERT_TRUE(Run(Recording(kLinspace)));
  EXPECT_THAT(TextOf(options_.output / "test_00004_aten_linspace_default.py"),
              HasSubstr("call 4 of proc_4711."));
}

}  // namespace
}  // namespace vernier::xray_ops

#include "precheck/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "temporary_folder.h"

namespace vernier::precheck {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RunTest : public ::testing::Test {
 protected:
  RunRequest Request(const std::vector<std::string>& todo) {
    std::ofstream dump(folder_.path() / "dump.json");
    dump << R"({"framework": "pytorch", "level": "L1", "dump_data_dir": null, "data": {)";
    for (std::size_t i = 0; i < todo.size(); ++i) {
      dump << (i == 0 ? "" : ", ") << "\"Torch.add." << i << R"(.forward": {"do": ")" << todo[i]
           << R"(", "input_args": [)" << i << "]}";
    }
    dump << "}}";
    RunRequest request;
    request.api_info = folder_.path() / "dump.json";
    request.folder = folder_.path() / "out";
    request.python = {PYTHON, FAKE_WORKER};
    return request;
  }

  static std::vector<std::string> Lines(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      lines.push_back(line);
    }
    return lines;
  }

  TemporaryFolder folder_;
};

TEST_F(RunTest, WritesResultsInTheOrderOfTheDumpWhateverTheOrderOfFinishing) {
  RunRequest request = Request({"slow", "slow", "pass", "pass", "error", "skip"});
  request.num_parts = 3;
  const RunSummary summary = CheckCalls(request, {}).value();
  EXPECT_THAT(Lines(summary.result),
              ElementsAre("\xEF\xBB\xBF"
                          "API name,Forward Test Success,Backward Test Success,Message",
                          "Torch.add.0,pass, , ", "Torch.add.1,pass, , ", "Torch.add.2,pass, , ",
                          "Torch.add.3,pass, , ", "Torch.add.4,error, , ", "Torch.add.5,SKIP,SKIP,asked to"));
  EXPECT_EQ(summary.count(Verdict::kPass), 4u);
  EXPECT_EQ(summary.count(Verdict::kError), 1u);
  EXPECT_EQ(summary.count(Verdict::kSkip), 1u);
}

TEST_F(RunTest, ACrashAndAnEarlyEndCostTheirOwnRows) {
  const RunSummary summary = CheckCalls(Request({"pass", "crash", "pass", "exit", "pass"}), {}).value();
  EXPECT_THAT(
      Lines(summary.result),
      ElementsAre(HasSubstr("API name"), "Torch.add.0,pass, , ",
                  "Torch.add.1,error, ,killed by signal 11 (SIGSEGV)", "Torch.add.2,pass, , ",
                  "Torch.add.3,error, ,the process that ran it ended with status 3", "Torch.add.4,pass, , "));
  EXPECT_THAT(Lines(summary.details)[2], HasSubstr("Torch.add.1.forward.output.0,"));
  EXPECT_EQ(summary.worst.front().failed_by, "killed by signal 11 (SIGSEGV)");
}

TEST_F(RunTest, ACallThatHangsIsEndedAndTheOthersGoOn) {
  RunRequest request = Request({"hang", "pass", "hang"});
  request.timeout_s = 0.3;
  const RunSummary summary = CheckCalls(request, {}).value();
  EXPECT_THAT(Lines(summary.result),
              ElementsAre(HasSubstr("API name"), "Torch.add.0,error, ,no answer within 0.3 s",
                          "Torch.add.1,pass, , ", "Torch.add.2,error, ,no answer within 0.3 s"));
}

TEST_F(RunTest, KeepsPairsOfFilesForEachOfSeveralDevices) {
  RunRequest request = Request({"pass", "pass", "pass", "pass"});
  request.devices = {"cuda:0", "cuda:1"};
  request.num_parts = 2;
  const RunSummary summary = CheckCalls(request, {}).value();
  ASSERT_EQ(summary.of_devices.size(), 2u);
  EXPECT_THAT(summary.of_devices[1].filename().string(), HasSubstr("_device1.csv"));
  EXPECT_EQ(Lines(summary.result).size(), 5u);
  EXPECT_EQ(Lines(summary.of_devices[0]).size() + Lines(summary.of_devices[1]).size(), 6u);
}

TEST_F(RunTest, SaysWhyNothingCanBeExecuted) {
  RunRequest request = Request({"pass"});
  request.devices = {"none"};
  EXPECT_THAT(CheckCalls(request, {}).error().Message(), HasSubstr("there is no such device"));
  request.devices = {"dies"};
  EXPECT_THAT(CheckCalls(request, {}).error().Message(), HasSubstr("No module named 'torch'"));
  request.python = {"/nowhere/python"};
  EXPECT_EQ(CheckCalls(request, {}).error().code, ErrorCode::kNotFound);
}

TEST_F(RunTest, AnInterruptedRunKeepsWhatIsDoneAndAnotherOneEndsIt) {
  RunRequest request = Request({"pass", "hang", "pass", "pass"});
  std::stop_source stop;
  RunHooks hooks;
  hooks.stop = stop.get_token();
  hooks.on_progress = [&](std::uint64_t done, std::uint64_t) {
    if (done == 3) stop.request_stop();
  };
  request.num_parts = 2;
  const RunSummary interrupted = CheckCalls(request, hooks).value();
  EXPECT_TRUE(interrupted.interrupted);
  EXPECT_EQ(Lines(interrupted.result).size(), 4u);
  request = Request({"pass", "pass", "pass", "pass"});
  request.csv_path = interrupted.result;
  const RunSummary summary = CheckCalls(request, {}).value();
  EXPECT_EQ(summary.num_resumed, 3u);
  EXPECT_EQ(summary.num_calls, 1u);
  EXPECT_THAT(Lines(summary.result),
              ElementsAre(HasSubstr("API name"), HasSubstr("add.0,"), HasSubstr("add.2,"),
                          HasSubstr("add.3,"), HasSubstr("add.1,")));
}

TEST_F(RunTest, ChecksOneCallAloneAndWritesNothing) {
  RunRequest request = Request({"pass", "error", "pass"});
  request.only = "Torch.add.1";
  request.folder.reset();
  std::vector<std::string> explained;
  RunHooks hooks;
  hooks.on_explained = [&](std::string_view name, const CallAnswer&) { explained.emplace_back(name); };
  const RunSummary summary = CheckCalls(request, hooks).value();
  EXPECT_THAT(explained, ElementsAre("Torch.add.1"));
  EXPECT_TRUE(summary.result.empty());
  EXPECT_THAT(SummaryText(summary, request), HasSubstr("--only Torch.add.1"));
  EXPECT_THAT(SummaryHtml(summary, request), HasSubstr("<td>Torch.add.1</td>"));
}

}  // namespace
}  // namespace vernier::precheck

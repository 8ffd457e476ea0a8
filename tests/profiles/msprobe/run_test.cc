#include "profiles/msprobe/run.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <mutex>
#include <sstream>

#include "format/npy.h"
#include "profiles/msprobe/merge.h"
#include "temporary_folder.h"

namespace vernier::msprobe {
namespace {

namespace fs = std::filesystem;

class MsprobeRun : public testing::Test {
 protected:
  MsprobeRun() {
    settings_.generation = Generation::kCurrent;
    settings_.format = ReportFormat::kCsv;
    settings_.npu_path = folder_.path() / "npu";
    settings_.bench_path = folder_.path() / "bench";
    settings_.output_path = folder_.path() / "out";
    settings_.timestamp = "20260101000000";
  }

  static std::string Tensor(double max) {
    return R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[2],"Max":)" + std::to_string(max) +
           R"(,"Min":0.5,"Mean":0.5,"Norm":2.0,"requires_grad":false})";
  }
  static std::string RecordText(int number, double scale) {
    return "\"Functional.relu." + std::to_string(number) + R"(.forward":{"input_args":[)" +
           Tensor(number + 1) + R"(],"input_kwargs":{},"output":[)" + Tensor((number + 1) * scale) + "]}";
  }
  static std::string Data(int num_records, double scale) {
    std::string data;
    for (int i = 0; i < num_records; ++i) data += (i == 0 ? "" : ",") + RecordText(i, scale);
    return data;
  }
  static void Write(const fs::path& path, const std::string& data) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary)
        << R"({"task":"statistics","level":"L1","framework":"pytorch","data":{)" << data << "}}";
  }
  void WriteFiles(const std::string& npu, const std::string& bench) {
    settings_.npu_path = folder_.path() / "npu" / "dump.json";
    settings_.bench_path = folder_.path() / "bench" / "dump.json";
    Write(settings_.npu_path, npu);
    Write(settings_.bench_path, bench);
  }

  Result<CompareOutcome> Run() {
    log_.clear();
    settings_.hooks.on_log = [&](LogLevel level, std::string_view text) {
      const std::lock_guard lock(mutex_);
      log_ += std::to_string(static_cast<int>(level)) + ' ' + std::string(text) + '\n';
    };
    return RunCompare(settings_);
  }
  static std::string Content(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::string ResultText(const std::string& name) { return Content(settings_.output_path / name); }

  TemporaryFolder folder_;
  Settings settings_;
  std::mutex mutex_;
  std::string log_;
};

TEST_F(MsprobeRun, GivesTheSameBytesForAnyNumberOfThreads) {
  WriteFiles(Data(3000, 1.7), Data(3000, 1.0));
  for (const auto& [format, name] :
       {std::pair{ReportFormat::kCsv, "compare_result_20260101000000.csv"},
        std::pair{ReportFormat::kXlsx, "compare_result_20260101000000.xlsx"},
        std::pair{ReportFormat::kJsonl, "compare_result_20260101000000.jsonl"}}) {
    settings_.format = format;
    std::string first;
    for (const int threads : {1, 2, 4, 16}) {
      settings_.num_threads = threads;
      ASSERT_TRUE(Run()) << log_;
      const std::string result = ResultText(name);
      ASSERT_FALSE(result.empty());
      if (first.empty()) first = result;
      EXPECT_TRUE(result == first) << name << " differs with " << threads << " threads";
    }
  }
}

TEST_F(MsprobeRun, RanksInParallelWriteWhatRanksInTurnWrite) {
  for (int rank = 0; rank < 5; ++rank) {
    Write(settings_.npu_path / ("rank" + std::to_string(rank)) / "dump.json", Data(200 + rank, 1.1));
    Write(settings_.bench_path / ("rank" + std::to_string(rank)) / "dump.json", Data(200, 1));
  }
  std::string first[5], first_log;
  for (const int threads : {1, 4}) {
    settings_.num_threads = threads;
    const auto outcome = Run();
    ASSERT_TRUE(outcome) << log_;
    ASSERT_EQ(outcome->ranks.size(), 5u);
    EXPECT_EQ(outcome->ranks[4].num_only_target(), 8u);
    // "… will be deleted." comes with the second run.
    for (int rank = 0; rank < 5; ++rank) {
      const std::string result =
          ResultText("compare_result_rank" + std::to_string(rank) + "_20260101000000.csv");
      if (first[rank].empty()) first[rank] = result;
      EXPECT_TRUE(result == first[rank]);
    }
  }
}

TEST_F(MsprobeRun, OneBadRecordCostsItsRowsOnly) {
  WriteFiles(Data(2, 1) + R"(,"Functional.bad.0.forward":{"output":[tru]},)" +
                 "\"Functional.gelu.0.forward\":{\"output\":[null]}",
             Data(2, 1) + ",\"Functional.gelu.0.forward\":{\"output\":[null]}");
  const auto outcome = Run();
  ASSERT_TRUE(outcome) << log_;
  const std::string csv = ResultText("compare_result_20260101000000.csv");
  EXPECT_NE(csv.find("Functional.bad.0.forward,N/A,N/A"), std::string::npos) << csv;
  EXPECT_NE(csv.find("This record cannot be read"), std::string::npos);
  EXPECT_NE(csv.find("Functional.gelu.0.forward.output.0,Functional.gelu.0.forward.output.0"),
            std::string::npos);
  EXPECT_EQ(outcome->ranks[0].num_errors, 1u);
  EXPECT_EQ(outcome->status, 2);  // no difference is known, only that something could not be read
}

TEST_F(MsprobeRun, ColouredTablesComplainOfFormulasAndWriteThemAsTexts) {
  const std::string record = R"("Torch.a.0.forward":{"input_args":[)" + Tensor(1) +
                             R"(],"parameters":{"w":{"type":"str","value":"=1+1"}},"output":[]})";
  WriteFiles(record, record);
  settings_.generation = Generation::kClassic;
  settings_.format = ReportFormat::kXlsx;
  settings_.highlight = true;
  ASSERT_TRUE(Run()) << log_;
  EXPECT_NE(log_.find("Malicious value [=1+1]"), std::string::npos) << log_;
  settings_.highlight = false;
  EXPECT_FALSE(Run());
}

TEST_F(MsprobeRun, QuotesWhatCsvNeedsQuotedAndRefusesFormulas) {
  const std::string odd = R"("Module.a,b\"c\nd.L.forward.0":{"output":[null]})";
  WriteFiles(odd, odd);
  ASSERT_TRUE(Run()) << log_;
  EXPECT_NE(
      ResultText("compare_result_20260101000000.csv").find("\"Module.a,b\"\"c\nd.L.forward.0.output.0\""),
      std::string::npos);
  // A parameter is not checked while reading, but no formula gets into a table.
  const std::string formula =
      R"json("Module.a.L.forward.0":{"parameters":{"w":{"type":"str","value":"=HYPERLINK(1)"}}})json";
  WriteFiles(formula, formula);
  EXPECT_FALSE(Run());
  EXPECT_NE(log_.find("Malicious value [=HYPERLINK(1)] not allowed to be written into the csv"),
            std::string::npos)
      << log_;
}

TEST_F(MsprobeRun, SaysHowManyMatchedAndHow) {
  WriteFiles(Data(3, 1), Data(2, 1));
  const auto outcome = Run();
  ASSERT_TRUE(outcome);
  EXPECT_NE(log_.find("4 of 6 NPU rows matched by exact name (66.7 %), 2 did not"), std::string::npos)
      << log_;
  EXPECT_NE(log_.find("0 of 4 bench rows have no partner"), std::string::npos) << log_;
  EXPECT_EQ(outcome->status, 0);
  EXPECT_NE(ResultText("compare_result_20260101000000_summary.json").find("\"coverage_percent\": 66.67"),
            std::string::npos);
}

TEST_F(MsprobeRun, CannotJudgeWithoutASinglePair) {
  WriteFiles(Data(1, 1), R"("Other.x.0.forward":{"output":[null]})");
  const auto outcome = Run();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->status, 2);
}

TEST_F(MsprobeRun, NamesTheFirstDivergence) {
  WriteFiles(RecordText(0, 1) + "," + RecordText(1, 3) + "," + RecordText(2, 5), Data(3, 1));
  const auto outcome = Run();
  ASSERT_TRUE(outcome);
  ASSERT_TRUE(outcome->ranks[0].culprit);
  EXPECT_EQ(outcome->ranks[0].culprit->record, "Functional.relu.1.forward");
  const std::string text = outcome->text;
  EXPECT_NE(text.find("record  Functional.relu.1.forward"), std::string::npos) << text;
  EXPECT_NE(text.find("NEXT    "), std::string::npos);
}

TEST_F(MsprobeRun, UnreadableJsonLeavesNoResult) {
  WriteFiles(Data(2, 1), Data(2, 1) + "}");
  EXPECT_FALSE(Run());
  EXPECT_NE(log_.find("load json file \"dump.json\" failed."), std::string::npos) << log_;
  EXPECT_FALSE(fs::exists(settings_.output_path / "compare_result_20260101000000.csv"));
}

TEST_F(MsprobeRun, IsNotSureAboutADumpThatEndsInTheMiddle) {
  WriteFiles(Data(3, 1), Data(3, 1));
  fs::resize_file(settings_.npu_path, fs::file_size(settings_.npu_path) * 2 / 3);
  const auto outcome = Run();
  ASSERT_TRUE(outcome) << log_;
  EXPECT_EQ(outcome->status, 2);
  EXPECT_NE(outcome->text.find("ends in the middle"), std::string::npos);
  EXPECT_NE(ResultText("compare_result_20260101000000_summary.json").find("\"torn\": true"),
            std::string::npos);
  settings_.as_msprobe = true;  // as msprobe
  EXPECT_FALSE(Run());
  EXPECT_NE(log_.find("load json file \"dump.json\" failed."), std::string::npos) << log_;
}

TEST_F(MsprobeRun, UsesTheStacksBeforeTheEndOfATornFile) {
  WriteFiles(Data(3, 1), Data(3, 2));
  const std::string text = R"({"0": [["Functional.relu.0.forward"], ["File a.py, line 1"]],)"
                           R"( "1": [["Functional.relu.1.forward"], ["File b.py, line 2"]]})";
  std::ofstream(settings_.npu_path.parent_path() / "stack.json") << text.substr(0, text.size() - 5);
  ASSERT_TRUE(Run()) << log_;
  EXPECT_NE(log_.find("stack.json ends in the middle"), std::string::npos) << log_;
  const std::string result = ResultText("compare_result_20260101000000.csv");
  EXPECT_NE(result.find("File a.py, line 1"), std::string::npos) << result;
  EXPECT_EQ(result.find("b.py"), std::string::npos) << result;
  settings_.as_msprobe = true;
  EXPECT_FALSE(Run());
  EXPECT_NE(log_.find("load json file \"stack.json\" failed."), std::string::npos) << log_;
}

TEST_F(MsprobeRun, LeavesNothingMoreOpenThanTheUmaskAllows) {
  WriteFiles(Data(3, 1), Data(3, 2));
  settings_.generation = Generation::kClassic;
  settings_.advise = true;
  for (const mode_t mask : {mode_t{0077}, mode_t{0022}}) {
    settings_.output_path = folder_.path() / ("out" + std::to_string(mask));
    const mode_t before = umask(mask);
    const auto outcome = Run();
    umask(before);
    ASSERT_TRUE(outcome) << log_;
    struct stat found = {};
    ASSERT_EQ(stat(settings_.output_path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0750 & ~mask);
    int num_files = 0;
    for (const auto& file : fs::directory_iterator(settings_.output_path)) {
      ASSERT_EQ(stat(file.path().c_str(), &found), 0);
      EXPECT_EQ(found.st_mode & 0777 & mask, 0u) << file.path();
      ++num_files;
    }
    EXPECT_GE(num_files, 2);
  }
}

TEST_F(MsprobeRun, CountsARankWithoutItsFileAsSkipped) {
  for (const char* rank : {"rank0", "rank1"}) {
    Write(settings_.npu_path / rank / "dump.json", Data(2, 1));
    Write(settings_.bench_path / rank / "dump.json", Data(2, 1));
  }
  fs::remove(settings_.npu_path / "rank1" / "dump.json");
  const auto outcome = Run();
  ASSERT_TRUE(outcome) << log_;
  EXPECT_EQ(outcome->num_skipped_ranks, 1u);
  EXPECT_EQ(outcome->status, 2);
}

TEST_F(MsprobeRun, AnOutputOfAnotherShapeIsADivergence) {
  std::string npu = Data(3, 1);
  const std::size_t output = npu.find("[2]", npu.find("output", npu.find("relu.1")));
  WriteFiles(npu.replace(output, 3, "[1,2]"), Data(3, 1));
  for (const Generation generation : {Generation::kClassic, Generation::kCurrent}) {
    settings_.generation = generation;
    const auto outcome = Run();
    ASSERT_TRUE(outcome) << log_;
    ASSERT_TRUE(outcome->ranks[0].culprit);
    EXPECT_EQ(outcome->ranks[0].culprit->record, "Functional.relu.1.forward");
    EXPECT_NE(outcome->text.find("CULPRIT  relu"), std::string::npos) << outcome->text;
  }
}

TEST_F(MsprobeRun, ShowsNoControlCharactersOfNames) {
  const auto renamed = [](std::string data) {
    return data.replace(data.find("Functional"), 10, "Torch\\n\\u001b[31m");
  };
  WriteFiles(renamed(Data(1, 9)), renamed(Data(1, 1)));
  const auto outcome = Run();
  ASSERT_TRUE(outcome) << log_;
  const std::string text = outcome->text;
  EXPECT_NE(text.find("record  Torch"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST_F(MsprobeRun, StopsWhenAsked) {
  WriteFiles(Data(3000, 1), Data(3000, 1));
  std::stop_source stop;
  settings_.hooks.stop = stop.get_token();
  stop.request_stop();
  const auto outcome = Run();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kCancelled);
  for (const auto& entry : fs::directory_iterator(settings_.output_path))
    ADD_FAILURE() << "left behind: " << entry.path();
}

TEST_F(MsprobeRun, AFullDiskEndsTheMeasuring) {
  constexpr int kRecords = 5'000;  // with their long names several times what is buffered
  const auto name = [](int i) { return std::string(200, 'N') + "." + std::to_string(i) + ".forward"; };
  std::string data;
  for (int i = 0; i < kRecords; ++i) {
    data += (i == 0 ? "\"" : ",\"") + name(i) +
            R"(":{"input_args":[{"type":"torch.Tensor","dtype":"torch.float32","shape":[1],"data_name":")" +
            name(i) + R"(.input.0.npy"}]})";
  }
  const float value = 1;
  ASSERT_TRUE(WriteNpy(folder_.path() / "t.npy", BorrowTensor(Dtype::kF32, {1}, &value)));
  for (const char* side : {"npu", "bench"}) {
    const fs::path folder = folder_.path() / side, tensors = folder / "dump_tensor_data";
    fs::create_directories(tensors);
    std::ofstream(folder / "dump.json") << R"({"task":"tensor","level":"L1","data":{)" << data << "}}";
    for (int i = 0; i < kRecords; ++i)
      fs::create_hard_link(folder_.path() / "t.npy", tensors / (name(i) + ".input.0.npy"));
  }
  settings_.npu_path = folder_.path() / "npu" / "dump.json";
  settings_.bench_path = folder_.path() / "bench" / "dump.json";
  settings_.output_path.clear();
  settings_.outputs = {{"/dev/full", ReportFormat::kCsv}};
  std::uint64_t num_measured = 0;
  settings_.hooks.on_progress = [&](const CompareProgress& done) { num_measured = done.items_done; };
  const auto outcome = Run();
  ASSERT_FALSE(outcome);
  EXPECT_NE(outcome.error().Message().find("No space left"), std::string::npos);
  EXPECT_LT(num_measured, std::uint64_t{kRecords}) << "measured to the end though nothing can be written";

  settings_.outputs.clear();
  settings_.output_path = folder_.path() / "out";
  settings_.diff_analyze = true;
  fs::create_directories(settings_.output_path);
  fs::create_symlink("/dev/full", settings_.output_path / "compare_result_20260101000000.json");
  ASSERT_FALSE(Run());
  EXPECT_NE(log_.find("No space left"), std::string::npos) << "ends without a word";
}

TEST_F(MsprobeRun, AFileInTheWayOfTheOutputFolderIsTold) {
  WriteFiles(Data(1, 1), Data(1, 1));
  std::ofstream(settings_.output_path) << "x";
  EXPECT_FALSE(Run());
  EXPECT_NE(log_.find("cannot be created"), std::string::npos) << log_;
}

TEST_F(MsprobeRun, MergesCsvResultsOfTwoRanks) {
  for (const char* rank : {"rank0", "rank1"}) {
    Write(settings_.npu_path / rank / "dump.json", Data(2, 1.5));
    Write(settings_.bench_path / rank / "dump.json", Data(2, 1));
  }
  ASSERT_TRUE(Run()) << log_;
  std::ofstream(folder_.path() / "merge.yaml") << "api:\n  - Functional.relu.1\n";
  const auto sink = [](LogLevel, std::string_view) {};
  ASSERT_TRUE(
      MergeResults(settings_.output_path, folder_.path() / "merged", folder_.path() / "merge.yaml", sink));
  EXPECT_FALSE(fs::is_empty(folder_.path() / "merged"));
  EXPECT_FALSE(
      MergeResults(settings_.output_path, folder_.path() / "merged", folder_.path() / "absent.yaml", sink));
}

TEST_F(MsprobeRun, MergesResultsThatHaveEstimates) {
  const auto with_values = [](std::string data) {
    for (std::size_t at = data.find("\"Max\""); at != std::string::npos; at = data.find("\"Max\"", at)) {
      const std::string_view values = "\"values\":\"AAAAAAAA8D8=\",";
      data.insert(at, values);
      at += values.size() + 1;
    }
    return data;
  };
  for (const char* rank : {"rank0", "rank1"}) {
    Write(settings_.npu_path / rank / "dump.json", with_values(Data(2, 1.5)));
    Write(settings_.bench_path / rank / "dump.json", with_values(Data(2, 1)));
  }
  ASSERT_TRUE(Run()) << log_;
  bool has_estimates = false;
  for (const auto& file : fs::directory_iterator(settings_.output_path)) {
    std::ifstream table(file.path());
    std::string header;
    std::getline(table, header);
    has_estimates = has_estimates || header.find("Error estimate,Cosine estimate") != std::string::npos;
  }
  EXPECT_TRUE(has_estimates);
  std::ofstream(folder_.path() / "merge.yaml") << "api:\n  - Functional.relu.1\n";
  std::string log;
  const auto sink = [&](LogLevel, std::string_view text) { log += text; };
  ASSERT_TRUE(
      MergeResults(settings_.output_path, folder_.path() / "merged", folder_.path() / "merge.yaml", sink))
      << log;
  EXPECT_FALSE(fs::is_empty(folder_.path() / "merged")) << log;
}

TEST_F(MsprobeRun, TellsWhichArgumentDiffersAndTakesAFolderThatIsADump) {
  const auto record = [](const char* eps, double out) {
    return R"("Functional.norm.0.forward":{"input_args":[)" + Tensor(1) + R"(,{"type":"float","value":)" +
           eps + R"(}],"input_kwargs":{},"output":[)" + Tensor(out) + "]}";
  };
  Write(settings_.npu_path / "dump.json", record("0.1", 3));
  Write(settings_.bench_path / "dump.json", record("1e-05", 1));
  const Result<CompareOutcome> outcome = Run();
  ASSERT_TRUE(outcome);
  ASSERT_EQ(outcome->ranks.size(), 1u);
  const Culprit& found = outcome->ranks[0].culprit.value();
  ASSERT_EQ(found.arguments.size(), 1u);
  EXPECT_EQ(found.arguments[0].name, "Functional.norm.0.forward.input.1");
  EXPECT_EQ(found.arguments[0].target, "0.1");
  EXPECT_EQ(found.arguments[0].golden, "1e-05");
  EXPECT_NE(outcome->text.find("differs   target 0.1   golden 1e-05"), std::string::npos);
}

}  // namespace
}  // namespace vernier::msprobe

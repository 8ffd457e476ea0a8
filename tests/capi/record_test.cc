// The recorder behind the C API: what the border adds to record.h.
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "temporary_folder.h"
#include "vernier/c_api.h"

namespace vernier {
namespace {

class RecorderCalls : public testing::Test {
 protected:
  ~RecorderCalls() override { VnCloseRecorder(recorder_); }

  void Open(const char* options) {
    ASSERT_EQ(VnRecorderOpen(options, &recorder_), VN_OK) << VnLastError()->message;
    const std::string begin = R"({"folder":")" + folder_.path().string() +
                              R"(/rank0","header":{"task":"statistics","level":"L1"},"stack":false})";
    ASSERT_EQ(VnRecorderBegin(recorder_, begin.c_str()), VN_OK) << VnLastError()->message;
  }
  VnStatus Put(const std::string& name, const std::string& text, const std::vector<int64_t>& words,
               uint32_t flags = VN_PUT_FINISH, uint32_t* seen = nullptr) {
    return VnRecorderPut(recorder_, name.data(), name.size(), text.data(), text.size(), words.data(),
                         words.size(), -1, flags, seen);
  }
  std::string Document() const {
    std::ifstream file(folder_.path() / "rank0" / "dump.json");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<int64_t> Words(uint32_t flags = 0) const {
    return {reinterpret_cast<int64_t>(data_), 0, 0, VnDtypeCode("torch.float32"), flags, 1, 2, 1};
  }

  TemporaryFolder folder_;
  VnRecorder* recorder_ = nullptr;
  const float data_[2] = {3, 4};
};

TEST_F(RecorderCalls, TakeParents) {
  Open(R"({"threads":1})");
  EXPECT_EQ(VnRecorderConstruct(recorder_, "a", 1, nullptr, 0, -1), VN_OK);
  EXPECT_EQ(VnRecorderConstruct(recorder_, "b\"", 2, "a", 1, -1), VN_OK);
  EXPECT_EQ(VnRecorderConstruct(nullptr, "a", 1, nullptr, 0, -1), VN_FAILED);
  ASSERT_EQ(VnRecorderEnd(recorder_), VN_OK);
  std::ifstream file(folder_.path() / "rank0" / "construct.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, "{\n \"a\": null,\n \"b\\\"\": \"a\"\n}");
}

TEST_F(RecorderCalls, TakeIdentitiesAndTheStateOfTheStep) {
  Open(R"({"identity":true})");
  const std::string state = R"({"rng":{"seed":7}})";
  EXPECT_EQ(VnRecorderState(recorder_, state.data(), state.size()), VN_OK);
  EXPECT_EQ(VnRecorderState(recorder_, "[]", 2), VN_FAILED);
  std::vector<int64_t> words = Words(VN_TENSOR_PLACED | VN_TENSOR_PARAMETER);
  words[1] = 3;        // storage
  words.push_back(5);  // offset
  ASSERT_EQ(Put("a", "{\"output\":[\x01]}", words, VN_PUT_FINISH | VN_PUT_REPEATED), VN_OK);
  ASSERT_EQ(VnRecorderEnd(recorder_), VN_OK);
  std::ifstream file(folder_.path() / "rank0" / "identity.jsonl");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(text.ends_with(state + "\n[\"a\",{\"output\":[[3,0,1,5]]},true]\n")) << text;
}

TEST(DtypeCode, KnowsOurNames) {
  EXPECT_GE(VnDtypeCode("float32"), 0);
  EXPECT_EQ(VnDtypeCode("float32"), VnDtypeCode("torch.float32"));
  EXPECT_NE(VnDtypeCode("float32"), VnDtypeCode("float64"));
  EXPECT_EQ(VnDtypeCode("qint8"), -1);
  EXPECT_EQ(VnDtypeCode(nullptr), -1);
}

TEST_F(RecorderCalls, RecordATensor) {
  Open(R"({"summary":"md5","threads":1})");
  uint32_t seen = 7;
  ASSERT_EQ(Put("A.0.forward", "{\"output\":[\x01]}", Words(VN_TENSOR_REQUIRES_GRAD), VN_PUT_FINISH, &seen),
            VN_OK);
  EXPECT_EQ(seen, 0u);
  ASSERT_EQ(VnRecorderFlush(recorder_), VN_OK);
  EXPECT_EQ(Document(),
            "{\n \"task\": \"statistics\",\n \"level\": \"L1\",\n \"dump_data_dir\": null,\n \"data\": {\n"
            "  \"A.0.forward\": {\n   \"output\": [\n    {\n     \"type\": \"torch.Tensor\",\n"
            "     \"dtype\": \"torch.float32\",\n     \"shape\": [\n      2\n     ],\n     \"Max\": 4.0,\n"
            "     \"Min\": 3.0,\n     \"Mean\": 3.5,\n     \"Norm\": 5.0,\n     \"requires_grad\": true,\n"
            "     \"md5\": \"7fd65497\"\n    }\n   ]\n  }\n }\n}");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "rank0" / "stack.json"));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "rank0" / "construct.json"));
  VnRecordTotals totals{};
  totals.struct_bytes = sizeof totals;
  ASSERT_EQ(VnRecorderTotals(recorder_, &totals), VN_OK);
  EXPECT_EQ(totals.num_records, 1u);
  EXPECT_EQ(totals.num_tensors, 1u);
  EXPECT_EQ(totals.num_measured, 1u);
}

TEST_F(RecorderCalls, FillManySlotsAtOnce) {
  Open("{}");
  std::vector<int64_t> words;
  for (int64_t slot : {10, 11}) {
    std::vector<int64_t> tensor = Words(VN_TENSOR_DEFERRED);
    tensor[0] = slot;
    words.insert(words.end(), tensor.begin(), tensor.end());
  }
  ASSERT_EQ(Put("A", "{\"x\":[\x01,\x01]}", words), VN_OK);
  const int64_t slots[] = {11, 10};
  std::vector<int64_t> values;
  for (const double value : {1.5, 2.5, 3.5, 4.5}) values.push_back(std::bit_cast<int64_t>(value));
  values.insert(values.end(), {1, -2, 3, 4});
  const uint8_t kinds[] = {VN_CELL_DOUBLE, VN_CELL_DOUBLE, VN_CELL_DOUBLE, VN_CELL_DOUBLE,
                           VN_CELL_BOOL,   VN_CELL_INT,    VN_CELL_UINT,   VN_CELL_NONE};
  ASSERT_EQ(VnRecorderFill(recorder_, slots, 2, values.data(), kinds, nullptr), VN_OK);
  const std::string text = Document();
  EXPECT_NE(text.find("\"Max\": true,\n     \"Min\": -2,\n     \"Mean\": 3,\n     \"Norm\": null,"),
            std::string::npos);
  EXPECT_NE(text.find("\"Max\": 1.5,\n     \"Min\": 2.5,\n     \"Mean\": 3.5,\n     \"Norm\": 4.5,"),
            std::string::npos);
  EXPECT_EQ(VnRecorderFill(recorder_, slots, 1, values.data(), nullptr, nullptr), VN_FAILED);
}

TEST_F(RecorderCalls, DescribeATensor) {
  Open("{}");
  const char* text = nullptr;
  size_t num_bytes = 0;
  const std::vector<int64_t> words = Words();
  ASSERT_EQ(VnRecorderDescribe(recorder_, "x", 1, words.data(), words.size(), 0, &text, &num_bytes), VN_OK);
  EXPECT_EQ(std::strlen(text), num_bytes);
  EXPECT_NE(std::string(text).find("\"Norm\": 5.0"), std::string::npos);
}

TEST_F(RecorderCalls, CompareACallWithAnEarlierRecordingOfIt) {
  const std::filesystem::path reference = folder_.path() / "reference";
  std::filesystem::create_directories(reference);
  const auto record = [](const char* md5) {
    return std::string(R"({"input_args": [], "output": [{"type": "torch.Tensor", "shape": [2], "md5": ")") +
           md5 + "\"}]}";
  };
  std::ofstream(reference / "dump.json") << R"({"data": {"A": )" << record("1") << "}}";
  Open(R"({"diff_nums":1})");
  uint32_t what = 0, is_problem = 0;
  uint64_t num_found = 0;
  const char* says = nullptr;
  EXPECT_EQ(VnRecorderCompared(recorder_, &is_problem, &says), VN_FAILED) << "with what?";
  EXPECT_EQ(VnRecorderCompareWith(recorder_, (folder_.path() / "none").c_str()), VN_FAILED);
  EXPECT_EQ(VnRecorderCompareWith(recorder_, nullptr), VN_FAILED);
  ASSERT_EQ(VnRecorderCompareWith(recorder_, reference.c_str()), VN_OK);
  const std::string parts =
      R"([["{\"input_args\":[],\"output\":[\u0001]}", "{\"type\":\"torch.Tensor\",\"shape\":[2],\"md5\":\"2\"}"]])";
  const auto compare = [&](const char** out) {
    return VnRecorderCompareCall(recorder_, "A", 1, parts.data(), parts.size(), 0, &what, &num_found, out);
  };
  EXPECT_EQ(compare(nullptr), VN_FAILED);
  ASSERT_EQ(compare(&says), VN_OK);
  EXPECT_EQ(what, VN_CALL_STORE | VN_CALL_STOP);
  EXPECT_EQ(num_found, 1u);
  EXPECT_EQ(std::string(says).find("same inputs, different output: A; recording stopped here"), 0u) << says;
  ASSERT_EQ(VnRecorderCompared(recorder_, &is_problem, &says), VN_OK);
  EXPECT_EQ(is_problem, 0u);
}

TEST_F(RecorderCalls, SayWhatIsWrong) {
  struct {
    const char *options, *where;
  } const cases[] = {
      {R"({"summary":"sha"})", "options.summary"},
      {R"({"threads":-1})", "options.threads"},
      {R"({"colour":1})", "options.colour"},
      {R"({"dedup":3})", "options.dedup"},
      {R"({"staging_bytes":0})", "options.staging_bytes"},
      {"[]", "options"},
      {nullptr, "options"},
  };
  for (const auto& bad : cases) {
    VnRecorder* none = nullptr;
    EXPECT_EQ(VnRecorderOpen(bad.options, &none), VN_FAILED);
    EXPECT_EQ(none, nullptr);
    EXPECT_STREQ(VnLastError()->where, bad.where);
  }
  ASSERT_EQ(VnRecorderOpen("{}", &recorder_), VN_OK);
  EXPECT_EQ(VnRecorderBegin(recorder_, "{}"), VN_FAILED);
  EXPECT_EQ(VnRecorderBegin(recorder_, R"({"folder":"x","file":"a/b"})"), VN_FAILED);
  EXPECT_EQ(Put("A", "{}", {}), VN_FAILED);  // nothing has begun
  EXPECT_EQ(VnRecorderFlush(recorder_), VN_OK);
  EXPECT_EQ(VnRecorderEnd(nullptr), VN_FAILED);
  VnCloseRecorder(nullptr);
}

}  // namespace
}  // namespace vernier

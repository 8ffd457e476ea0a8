#include "profiles/torchair/shrink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "format/npy.h"
#include "temporary_folder.h"

namespace vernier::torchair {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using namespace std::chrono_literals;

class ShrinkTest : public testing::Test {
 protected:
  ShrinkTest() {
    options_.folder = folder_.path().string();
    options_.on_log = [this](LogLevel level, std::string_view line) {
      if (level >= LogLevel::kInfo) lines_ += std::string(line) + "\n";
    };
  }
  fs::path WriteFloats(const std::string& name, const std::vector<float>& values) {
    const fs::path path = folder_.path() / name;
    EXPECT_TRUE(
        WriteNpy(path, BorrowTensor(Dtype::kF32, {static_cast<std::int64_t>(values.size())}, values.data())));
    return path;
  }
  fs::path WriteText(const std::string& name, const std::string& text) {
    std::ofstream(folder_.path() / name) << text;
    return folder_.path() / name;
  }
  std::string ReadText(const std::string& name) const {
    std::ifstream file(folder_.path() / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  TemporaryFolder folder_;
  ShrinkOptions options_;
  std::string lines_;
};

TEST_F(ShrinkTest, ReplacesAFileAndSaysWhatItKept) {
  const fs::path path = WriteFloats("a.npy", {3, -4, 0});
  options_.keep = {"min", "max", "mean", "norm", "crc32", "shape", "dtype"};
  const ShrinkOutcome outcome = Shrink(options_).value();
  EXPECT_EQ(outcome.num_converted, 1u);
  EXPECT_EQ(outcome.num_left, 0u);
  EXPECT_FALSE(fs::exists(path));
  const std::string array = ReadText("a_min_max.npy");
  float values[2];
  std::memcpy(values, array.data() + array.size() - sizeof values, sizeof values);
  EXPECT_EQ(values[0], -4);
  EXPECT_EQ(values[1], 3);
  EXPECT_EQ(ReadText("a_info.json"),
            "{\"data\": {\"min\": -4.0, \"max\": 3.0, \"mean\": -0.3333333333333333, \"norm\": 5.0, "
            "\"crc32\": \"cc583ecb\", \"shape\": [3], \"dtype\": \"float32\"}}\n");
}

TEST_F(ShrinkTest, LeavesWhatItCannotReadAndGoesOn) {
  const fs::path bad = WriteText("Add.Add_1.1.1.1", "no dump");
  const fs::path text = WriteText("graph.txt", "name: \"g\"");
  const fs::path good = WriteFloats("b.npy", {1});
  const ShrinkOutcome outcome = Shrink(options_).value();
  EXPECT_EQ(outcome.num_converted, 1u);
  EXPECT_EQ(outcome.num_left, 1u);
  EXPECT_TRUE(fs::exists(bad));
  EXPECT_TRUE(fs::exists(text));
  EXPECT_FALSE(fs::exists(good));
  EXPECT_THAT(lines_, HasSubstr("Add.Add_1.1.1.1"));
  EXPECT_THAT(lines_, HasSubstr("graph.txt: skipped"));
}

TEST_F(ShrinkTest, LeavesAFileThatGrows) {
  const fs::path path = WriteFloats("a.npy", {1, 2});
  std::jthread writer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::ofstream(path, std::ios::app) << "more";
      std::this_thread::sleep_for(20ms);
    }
  });
  const ShrinkOutcome outcome = Shrink(options_).value();
  EXPECT_EQ(outcome.num_converted, 0u);
  EXPECT_EQ(outcome.num_left, 1u);
  EXPECT_TRUE(fs::exists(path));
  EXPECT_THAT(lines_, HasSubstr("still being written"));
}

TEST_F(ShrinkTest, AnEmptyTensorIsNanWhereItsTypeHasOne) {
  WriteFloats("floats.npy", {});
  const std::int32_t* none = nullptr;
  ASSERT_TRUE(WriteNpy(folder_.path() / "integers.npy", BorrowTensor(Dtype::kI32, {0}, none)));
  const ShrinkOutcome outcome = Shrink(options_).value();
  EXPECT_EQ(outcome.num_converted, 1u);
  EXPECT_TRUE(fs::exists(folder_.path() / "floats_min_max.npy"));
  EXPECT_TRUE(fs::exists(folder_.path() / "integers.npy"));
}

TEST_F(ShrinkTest, WatchesUntilNothingHappens) {
  options_.watch = true;
  options_.until_idle = 1200ms;
  std::jthread writer([&] {
    std::this_thread::sleep_for(700ms);
    WriteFloats("late.npy", {1, 2});
  });
  const ShrinkOutcome outcome = Shrink(options_).value();
  EXPECT_EQ(outcome.num_converted, 1u);
  EXPECT_TRUE(fs::exists(folder_.path() / "late_min_max.npy"));
}

TEST_F(ShrinkTest, KeepsTheOriginalWhereNothingCanBeWritten) {
  const fs::path path = WriteFloats("a.npy", {1, 2});
  fs::create_directory(folder_.path() / "a_min_max.npy");  // nothing can take its name
  const ShrinkOutcome outcome = Shrink(options_).value();
  EXPECT_EQ(outcome.num_left, 1u);
  EXPECT_TRUE(fs::exists(path));
}

TEST_F(ShrinkTest, NeedsAFolder) {
  options_.folder = WriteFloats("a.npy", {1}).string();
  EXPECT_FALSE(Shrink(options_));
  options_.folder = "/nowhere/at/all";
  EXPECT_EQ(Shrink(options_).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace vernier::torchair

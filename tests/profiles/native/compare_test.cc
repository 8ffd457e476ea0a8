#include "profiles/native/native.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "format/npy.h"
#include "temporary_folder.h"

namespace vernier::native {
namespace {

using testing::ElementsAre;

class CompareTest : public testing::Test {
 protected:
  void Put(const std::string& name, const std::vector<float>& values) {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    const Shape shape = {static_cast<std::int64_t>(values.size())};
    ASSERT_TRUE(WriteNpy(folder_.path() / name, BorrowTensor(Dtype::kF32, shape, values.data())));
  }
  Result<CompareOutcome> Compare(const std::string& target, const std::string& golden,
                                 CompareHooks hooks = {}) {
    CompareRequest request;
    request.target = folder_.path() / target;
    request.golden = folder_.path() / golden;
    hooks.on_rows = [this](const std::string&, std::span<const std::string>, const RowBlock& rows,
                           std::span<const Status> statuses) {
      for (std::size_t i = 0; i < rows.size(); ++i)
        rows_.push_back(std::string(rows.row(i)[0].text) + " " + std::string(Name(statuses[i])));
    };
    hooks.on_progress = [this](const CompareProgress& progress) { num_bytes_ = progress.num_bytes; };
    return native::Compare(request, hooks);
  }

  TemporaryFolder folder_;
  std::vector<std::string> rows_;
  std::uint64_t num_bytes_ = 0;
};

TEST_F(CompareTest, TheShareWithoutAPartnerIsTheUsersToSet) {
  for (const char* name : {"t/a.npy", "g/a.npy", "t/b.npy"}) Put(name, {1, 2});
  EXPECT_EQ(Compare("t", "g")->verdict, RunVerdict::kUnknown);
  CompareRequest request;
  request.target = folder_.path() / "t";
  request.golden = folder_.path() / "g";
  request.rules = folder_.path() / "rules.json";
  EXPECT_FALSE(native::Compare(request, {})) << "there is no such file";
  std::ofstream(request.rules) << R"({"thresholds": {"unmatched_share": 0.9}})";
  EXPECT_EQ(native::Compare(request, {})->verdict, RunVerdict::kNoise);
}

TEST_F(CompareTest, GivesARowForEachTensorOfEitherSide) {
  Put("t/a.npy", {1, 2});
  Put("t/b.npy", {1});
  Put("t/c.npy", {1, 2, 3});
  Put("g/a.npy", {1, 2});
  Put("g/c.npy", {1, 2, 4});
  Put("g/d.npy", {1});
  const Result<CompareOutcome> outcome = Compare("t", "g");
  ASSERT_TRUE(outcome);
  EXPECT_THAT(rows_, ElementsAre("a pass", "b unmatched", "c fail", "d unmatched"));
  EXPECT_EQ(
      SummaryText(outcome->ranks[0]),
      "compared 2 of 3 target / 3 golden tensors (exact 2); 1 only in target, 1 only in golden; 1 failed");
  EXPECT_EQ(outcome->status, 1);
  EXPECT_EQ(num_bytes_, 40u);
}

TEST_F(CompareTest, NamesTheFirstThatFails) {
  Put("t/a.npy", {1, 2});
  Put("t/b.npy", {1, 2});
  Put("t/c.npy", {7, 7});
  Put("g/a.npy", {1, 2});
  Put("g/b.npy", {1, 3});
  Put("g/c.npy", {1, 3});
  const Result<CompareOutcome> outcome = Compare("t", "g");
  ASSERT_TRUE(outcome);
  const std::optional<Culprit>& culprit = outcome->ranks[0].culprit;
  ASSERT_TRUE(culprit);
  EXPECT_EQ(culprit->record, "b");
  EXPECT_EQ(culprit->reason, "output");
  EXPECT_THAT(culprit->why, testing::StartsWith("the first that fails, in the order of the file: 1 of 2 "));
  EXPECT_EQ(culprit->row, 1u);
  EXPECT_FALSE(Compare("t/a.npy", "g/a.npy")->ranks[0].culprit);
}

TEST_F(CompareTest, PairsTwoFilesOfOneTensorWhateverTheirNames) {
  Put("x.npy", {1, 2});
  Put("y.npy", {1, 2});
  EXPECT_EQ(Compare("x.npy", "y.npy")->status, 0);
  EXPECT_THAT(rows_, ElementsAre("x pass"));
}

TEST_F(CompareTest, DoesNotDoSoForFolders) {
  Put("t/x.npy", {1});
  Put("g/y.npy", {1});
  EXPECT_EQ(Compare("t", "g")->status, 2);
  EXPECT_THAT(rows_, ElementsAre("x unmatched", "y unmatched"));
}

TEST_F(CompareTest, StopsWhenAsked) {
  Put("t/a.npy", {1});
  Put("g/a.npy", {1});
  std::stop_source source;
  source.request_stop();
  CompareHooks hooks;
  hooks.stop = source.get_token();
  const Result<CompareOutcome> outcome = Compare("t", "g", hooks);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kCancelled);
}

TEST_F(CompareTest, FailsClosed) {
  Put("t/a.npy", {1});
  Put("g/a.npy", {1});
  EXPECT_EQ(Compare("t", "g")->status, 0);
  Put("t/b.npy", {1});
  Put("g/b.npy", {1});
  std::filesystem::resize_file(folder_.path() / "t/b.npy", 20);
  const Result<CompareOutcome> damaged = Compare("t", "g");
  EXPECT_EQ(damaged->status, 2) << "one could not be judged";
  EXPECT_THAT(damaged->text, testing::HasSubstr("1 could not be judged"));
  Put("t/c.npy", {1});
  Put("g/c.npy", {2});
  EXPECT_EQ(Compare("t", "g")->status, 1);
}

TEST(CompareColumns, HaveKeysOfTheirOwnAndAValueForEveryKindOfRow) {
  std::map<std::string_view, int> seen;
  for (const Column& column : Columns()) {
    EXPECT_EQ(++seen[column.key], 1) << column.key;
    EXPECT_FALSE(column.help.empty());
  }
  TensorInfo info;
  info.name = "n";
  PairMeasures measures;
  CompareRow only_golden, pair;
  only_golden.golden = pair.target = pair.golden = &info;
  pair.matched = MatchRule::kFuzzy;
  pair.measures = &measures;
  TextArena arena;
  for (const Column& column : Columns()) {
    EXPECT_NO_THROW(column.value(only_golden, arena));
    EXPECT_NO_THROW(column.value(pair, arena));
  }
}

}  // namespace
}  // namespace vernier::native

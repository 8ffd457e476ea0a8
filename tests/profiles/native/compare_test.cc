#include "vernier/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "format/npy.h"
#include "temporary_folder.h"

namespace vernier {
namespace {

using testing::ElementsAre;

class CompareTest : public testing::Test {
 protected:
  void Put(const std::string& name, const std::vector<float>& values) {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    const Shape shape = {static_cast<std::int64_t>(values.size())};
    ASSERT_TRUE(WriteNpy(folder_.path() / name, BorrowTensor(Dtype::kF32, shape, values.data())));
  }
  Result<CompareSummary> Compare(const std::string& target, const std::string& golden,
                                 const BatchHooks& hooks = {}) {
    const Result<Dump> a = Dump::Open(folder_.path() / target), b = Dump::Open(folder_.path() / golden);
    const Result<Pairing> pairing = PairDumps(*a, *b, {});
    num_bytes_ = NumBytes(*a, *b, *pairing);
    const auto add = [this](const CompareRow& row) {
      const std::vector<Cell> cells = CompareCells(row);
      rows_.push_back(std::get<std::string>(cells[0]) + " " + std::string(Name(row.verdict.status)));
    };
    return CompareDumps(*a, *b, *pairing, {}, add, hooks);
  }

  TemporaryFolder folder_;
  std::vector<std::string> rows_;
  std::uint64_t num_bytes_ = 0;
};

TEST_F(CompareTest, GivesARowForEachTensorOfEitherSide) {
  Put("t/a.npy", {1, 2});
  Put("t/b.npy", {1});
  Put("t/c.npy", {1, 2, 3});
  Put("g/a.npy", {1, 2});
  Put("g/c.npy", {1, 2, 4});
  Put("g/d.npy", {1});
  const Result<CompareSummary> summary = Compare("t", "g");
  ASSERT_TRUE(summary);
  EXPECT_THAT(rows_, ElementsAre("a pass", "b unmatched", "c fail", "d unmatched"));
  EXPECT_EQ(
      summary->Text(),
      "compared 2 of 3 target / 3 golden tensors (exact 2); 1 only in target, 1 only in golden; 1 failed");
  EXPECT_EQ(summary->verdict(), Status::kFail);
  EXPECT_EQ(num_bytes_, 40u);
}

TEST_F(CompareTest, PairsTwoFilesOfOneTensorWhateverTheirNames) {
  Put("x.npy", {1, 2});
  Put("y.npy", {1, 2});
  EXPECT_EQ(Compare("x.npy", "y.npy")->verdict(), Status::kPass);
  EXPECT_THAT(rows_, ElementsAre("x pass"));
}

TEST_F(CompareTest, DoesNotDoSoForFolders) {
  Put("t/x.npy", {1});
  Put("g/y.npy", {1});
  EXPECT_EQ(Compare("t", "g")->verdict(), Status::kError);
  EXPECT_THAT(rows_, ElementsAre("x unmatched", "y unmatched"));
}

TEST_F(CompareTest, StopsWhenAsked) {
  Put("t/a.npy", {1});
  Put("g/a.npy", {1});
  std::stop_source source;
  source.request_stop();
  BatchHooks hooks;
  hooks.stop = source.get_token();
  const Result<CompareSummary> summary = Compare("t", "g", hooks);
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().code, ErrorCode::kCancelled);
}

TEST(CompareSummary, FailsClosed) {
  CompareSummary summary;
  EXPECT_EQ(summary.verdict(), Status::kError) << "nothing was compared";
  summary.num_passed = 1;
  EXPECT_EQ(summary.verdict(), Status::kPass);
  summary.num_errors = 1;
  EXPECT_EQ(summary.verdict(), Status::kError);
  EXPECT_THAT(summary.Text(), testing::HasSubstr("1 could not be judged"));
  summary.num_failed = 1;
  EXPECT_EQ(summary.verdict(), Status::kFail);
}

TEST(CompareColumns, HaveKeysOfTheirOwnAndAValueForEveryKindOfRow) {
  std::map<std::string_view, int> seen;
  for (const CompareColumn& column : CompareColumns()) {
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
  for (const CompareRow* row : {&only_golden, &pair})
    EXPECT_EQ(CompareCells(*row).size(), CompareColumns().size());
}

}  // namespace
}  // namespace vernier

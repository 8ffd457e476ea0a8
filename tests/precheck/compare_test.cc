#include "precheck/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "precheck/csv_rows.h"
#include "precheck/details_table.h"
#include "temporary_folder.h"

namespace vernier::precheck {
namespace {

using ::testing::HasSubstr;

struct TestRow {
  std::string name;
  std::vector<std::pair<Detail, std::string>> cells;
};

std::string Table(const std::vector<TestRow>& rows, Header header = Header::kEnglish) {
  std::string text = CsvHeading(kDetailColumns, header);
  for (const TestRow& row : rows) {
    std::vector<std::string> cells(kNumDetails);
    cells[At(Detail::kName)] = row.name;
    cells[At(Detail::kDeviceDtype)] = "torch.float32";
    cells[At(Detail::kShape)] = "(4, 8)";
    for (const auto& [column, text_of] : row.cells) cells[At(column)] = text_of;
    AppendCsvRow(cells, text);
  }
  return text;
}

std::vector<std::pair<Detail, std::string>> Benchmark(const std::string& rmse) {
  return {{Detail::kRmse, rmse},
          {Detail::kSmallValue, "0"},
          {Detail::kMaxRelative, "0"},
          {Detail::kMeanRelative, "0"},
          {Detail::kBalance, "0"}};
}

class ComparePrecisionTest : public ::testing::Test {
 protected:
  Result<PrecisionSummary> Compare(const std::string& npu, const std::string& gpu) {
    std::ofstream(folder_.path() / "npu.csv") << npu;
    std::ofstream(folder_.path() / "gpu.csv") << gpu;
    PrecisionRequest request;
    request.npu = folder_.path() / "npu.csv";
    request.gpu = folder_.path() / "gpu.csv";
    request.folder = folder_.path() / "out";
    return ComparePrecision(request, {});
  }
  static std::string TextOf(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  TemporaryFolder folder_;
};

TEST_F(ComparePrecisionTest, LimitsDependOnTheLevelOfTheApi) {
  // RMSE 1.3 times the gpu's: within 2 at L0, beyond 1.2 at L2.
  const std::vector<TestRow> npu = {{"Functional.softmax.0.forward.output.0", Benchmark("1.3")},
                                    {"Functional.layer_norm.0.forward.output.0", Benchmark("1.3")}};
  const std::vector<TestRow> gpu = {{"Functional.softmax.0.forward.output.0", Benchmark("1")},
                                    {"Functional.layer_norm.0.forward.output.0", Benchmark("1")}};
  const PrecisionSummary summary = Compare(Table(npu), Table(gpu, Header::kChinese)).value();
  EXPECT_EQ(summary.num_passed, 1u);
  ASSERT_EQ(summary.num_failed, 1u);
  EXPECT_EQ(summary.failed[0].name, "Functional.layer_norm.0");
  EXPECT_EQ(summary.failed[0].failed_by, "forward: RMSE");
  EXPECT_THAT(TextOf(summary.details), HasSubstr("ratio 1.3 is above 1.2"));
}

TEST_F(ComparePrecisionTest, RowsWithoutOrWithSeveralPartnersAreCounted) {
  const TestRow a{"Torch.a.0.forward.output.0", Benchmark("0")},
      b{"Torch.b.0.forward.output.0", Benchmark("0")};
  const TestRow c{"Torch.c.0.forward.output.0", Benchmark("0")};
  const PrecisionSummary summary = Compare(Table({a, b, c}), Table({b, c, c})).value();
  EXPECT_EQ(summary.num_without_partner, 1u);
  EXPECT_EQ(summary.num_duplicates, 1u);
  EXPECT_EQ(summary.num_passed, 1u);
  EXPECT_EQ(summary.num_skipped, 1u);
  EXPECT_THAT(TextOf(summary.result), HasSubstr("Torch.c.0,SKIP, ,"));
}

TEST_F(ComparePrecisionTest, BlankCellsOfTheRightStandardLetTheFilledOneJudge) {
  const TestRow row{"Torch.mul.0.forward.output.0", {{Detail::kMeanUlp, "1"}, {Detail::kUlpShare, "0"}}};
  const PrecisionSummary summary = Compare(Table({row}), Table({row})).value();
  EXPECT_EQ(summary.num_passed, 1u);
  EXPECT_THAT(TextOf(summary.details), HasSubstr("judged by ULP error comparison"));
}

TEST_F(ComparePrecisionTest, ACellThatIsNoNumberCostsItsRow) {
  const TestRow bad{"Torch.a.0.forward.output.0", Benchmark("many")},
      good{"Torch.b.0.forward.output.0", Benchmark("0")};
  const PrecisionSummary summary = Compare(Table({bad, good}), Table({bad, good})).value();
  EXPECT_EQ(summary.num_skipped, 1u);
  EXPECT_EQ(summary.num_passed, 1u);
  EXPECT_THAT(TextOf(summary.details), HasSubstr("expected a number, found 'many'"));
}

TEST_F(ComparePrecisionTest, MissingColumnsAreNamedAndNothingIsWritten) {
  const Result<PrecisionSummary> summary = Compare("API name,Shape\r\nx,y\r\n", Table({}));
  ASSERT_FALSE(summary);
  EXPECT_THAT(summary.error().Message(), HasSubstr("Root-mean-square error (RMSE)"));
  EXPECT_THAT(summary.error().Message(), HasSubstr("npu.csv"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "out"));
}

TEST(DetailsTable, ReadsShortRowsAsBlank) {
  const DetailsTable table =
      DetailsTable::FromText(CsvHeading(kDetailColumns, Header::kEnglish) + "a,b\r\n", "x").value();
  EXPECT_EQ(table.rows()[0][Detail::kName], "a");
  EXPECT_EQ(table.rows()[0][Detail::kRmse], "");
  EXPECT_FALSE(DetailsTable::FromText("", "x"));
}

}  // namespace
}  // namespace vernier::precheck

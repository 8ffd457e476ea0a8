#include "report/result_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "temporary_folder.h"

namespace vernier {
namespace {

using testing::ElementsAre;

struct Sample {
  std::string name;
  double error;
  Status status;
};
const std::vector<Sample> kSamples = {{"b", 0.5, Status::kFail},
                                      {"a", 0.1, Status::kPass},
                                      {"d", std::nan(""), Status::kError},
                                      {"c", 0.9, Status::kFail},
                                      {"e", 0.2, Status::kUnmatched}};

class ResultReportsTest : public testing::Test {
 protected:
  ResultReports Create(const SelectOptions& select, int num_threads = 1) {
    ResultReports::Options options;
    options.files = {{folder_.path() / "r.csv", ReportFormat::kCsv}};
    options.columns = {{"name", Good::kNeither}, {"error", Good::kSmall}};
    options.select = select;
    options.num_threads = num_threads;
    return *ResultReports::Create(std::move(options));
  }
  static void Add(const std::vector<Sample>& samples, std::uint64_t first_row, ResultReports& reports) {
    ResultBatch batch(2);
    batch.first_row = first_row;
    for (const Sample& sample : samples) {
      batch.rows.cells.insert(batch.rows.cells.end(), {Cell(sample.name), Cell(sample.error)});
      batch.rows.colours.push_back(RowColour::kNone);
      batch.statuses.push_back(sample.status);
      batch.severities.push_back(sample.error);
    }
    ASSERT_TRUE(reports.Render(batch));
    ASSERT_TRUE(reports.Take(batch));
  }
  std::string Written(const SelectOptions& select) {
    ResultReports reports = Create(select);
    Add(kSamples, 0, reports);
    const auto shown = reports.Finish();
    EXPECT_TRUE(shown);
    shown_.clear();
    for (const KeptRow& row : *shown) shown_.emplace_back(row.kept.cells()[0].text);
    return Text();
  }
  std::string Text() const {
    std::ifstream in(folder_.path() / "r.csv", std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TemporaryFolder folder_;
  std::vector<std::string> shown_;
};

TEST_F(ResultReportsTest, WritesRowsAsTheyComeAndKeepsTheWorst) {
  EXPECT_EQ(Written({{}, "", 3}), "name,error\nb,0.5\na,0.1\nd,nan\nc,0.9\ne,0.2\n");
  EXPECT_THAT(shown_, ElementsAre("c", "b", "d"));
}

TEST_F(ResultReportsTest, LeavesOutWhatIsNotWanted) {
  EXPECT_EQ(Written({{"failed", "unmatched"}, "", 9}), "name,error\nb,0.5\nc,0.9\ne,0.2\n");
  EXPECT_THAT(shown_, ElementsAre("c", "b", "e"));
}

TEST_F(ResultReportsTest, SortsByAColumnWorstFirst) {
  EXPECT_EQ(Written({{}, "error", 2}), "name,error\nd,nan\nc,0.9\nb,0.5\ne,0.2\na,0.1\n");
  EXPECT_THAT(shown_, ElementsAre("d", "c"));
  EXPECT_EQ(Written({{"failed"}, "name", 0}), "name,error\nb,0.5\nc,0.9\n");
}

TEST_F(ResultReportsTest, SortedReportsAreTheSameForAnyNumberOfThreads) {
  std::vector<Sample> many;
  for (int i = 0; i < 3000; ++i) many.push_back({"n" + std::to_string(i * 7919 % 3000), 0, Status::kPass});
  std::string first;
  for (const int num_threads : {1, 2, 5}) {
    ResultReports reports = Create({{}, "name", 0}, num_threads);
    for (std::size_t row = 0; row < many.size(); row += 1000)
      Add({many.begin() + static_cast<std::ptrdiff_t>(row),
           many.begin() + static_cast<std::ptrdiff_t>(row) + 1000},
          row, reports);
    ASSERT_TRUE(reports.Finish());
    if (first.empty()) first = Text();
    EXPECT_EQ(std::count(first.begin(), first.end(), '\n'), 3001);
    EXPECT_TRUE(Text() == first);
  }
}

TEST_F(ResultReportsTest, NamesWordsThatMeanNothing) {
  ResultReports::Options options;
  options.columns = {{"name"}};
  options.select.sort = "nam";
  EXPECT_EQ(ResultReports::Create(options).error().Message(),
            "--sort nam: invalid argument: did you mean name? [BAD_ARGUMENT]");
  options.select = {{"good"}, "", 0};
  EXPECT_FALSE(ResultReports::Create(options));
}

TEST(OutputFileOf, TellsTheFormatByTheEndingUnlessToldOtherwise) {
  EXPECT_EQ(OutputFileOf("a.xlsx", "")->format, ReportFormat::kXlsx);
  EXPECT_EQ(OutputFileOf("a", "jsonl")->format, ReportFormat::kJsonl);
  EXPECT_EQ(OutputFileOf("-", "")->path, "/dev/stdout");
  EXPECT_EQ(OutputFileOf("-", "json")->format, ReportFormat::kJson);
  EXPECT_FALSE(OutputFileOf("a.txt", ""));
}

}  // namespace
}  // namespace vernier

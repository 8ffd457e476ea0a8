#include "precheck/result_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "precheck/csv_rows.h"
#include "temporary_folder.h"

namespace vernier::precheck {
namespace {

using ::testing::HasSubstr;

constexpr const char* kStamp = "20240102030405";

std::string TextOf(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void AppendTo(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary | std::ios::app) << text;
}

class ResultFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ResultFiles files = ResultFiles::Create(folder_.path() / "new", kStamp, "", Header::kEnglish).value();
    result_ = files.result();
    details_ = files.details();
    for (const char* name : {"Torch.add.0", "Torch.add.1"})
      ASSERT_TRUE(files.Append(name, UncheckedCall(name, Verdict::kSkip, "two\nlines")));
    result_text_ = TextOf(result_);
    details_text_ = TextOf(details_);
  }

  TemporaryFolder folder_;
  std::filesystem::path result_, details_;
  std::string result_text_, details_text_;
};

TEST_F(ResultFilesTest, GoesOnWithoutChangingWhatIsThere) {
  ResultFiles files = ResultFiles::Resume(result_).value();
  EXPECT_TRUE(files.IsDone("Torch.add.1"));
  EXPECT_FALSE(files.IsDone("Torch.add.2"));
  EXPECT_EQ(files.stamp(), kStamp);
  ASSERT_TRUE(files.Append("Torch.add.2", UncheckedCall("Torch.add.2", Verdict::kError, "x")));
  EXPECT_EQ(TextOf(result_), result_text_ + "Torch.add.2,error, ,x\r\n");
  EXPECT_EQ(TextOf(details_).substr(0, details_text_.size()), details_text_);
}

TEST_F(ResultFilesTest, DropsExactlyTheRowThatWasCut) {
  // The last row of each file, cut after every one of its bytes.
  const std::size_t start = result_text_.rfind("Torch.add.1"),
                    details_start = details_text_.rfind("Torch.add.1");
  for (std::size_t end = start; end < result_text_.size(); ++end) {
    std::ofstream(result_, std::ios::binary) << result_text_.substr(0, end);
    std::ofstream(details_, std::ios::binary) << details_text_;
    const ResultFiles files = ResultFiles::Resume(result_).value();
    EXPECT_TRUE(files.IsDone("Torch.add.0"));
    EXPECT_FALSE(files.IsDone("Torch.add.1"));
    EXPECT_EQ(TextOf(result_), result_text_.substr(0, start));
    EXPECT_EQ(TextOf(details_),
              details_text_.substr(0, details_start));  // details without a result go as well
  }
}

TEST_F(ResultFilesTest, DropsDetailsOfACallThatWasInterruptedBetweenTheTwoFiles) {
  AppendTo(details_, "Torch.mul.0.forward.output.0, ,,\r\nTorch.mul.0.forward.output.1,\"cut in a te");
  ASSERT_TRUE(ResultFiles::Resume(result_));
  EXPECT_EQ(TextOf(details_), details_text_);
  EXPECT_EQ(TextOf(result_), result_text_);
}

TEST_F(ResultFilesTest, RefusesOtherNamesOtherColumnsAndAMissingPartner) {
  EXPECT_THAT(ResultFiles::Resume(folder_.path() / "result.csv").error().Message(), HasSubstr("14 digits"));
  const std::filesystem::path lonely = folder_.path() / "accuracy_checking_result_20240102030406.csv";
  std::filesystem::copy_file(result_, lonely);
  EXPECT_THAT(ResultFiles::Resume(lonely).error().Message(),
              HasSubstr("accuracy_checking_details_20240102030406"));
  std::ofstream(details_, std::ios::binary) << "a,b\r\n";
  EXPECT_EQ(ResultFiles::Resume(result_).error().code, ErrorCode::kBadHeader);
}

TEST_F(ResultFilesTest, NeverReplacesAFile) {
  EXPECT_FALSE(ResultFiles::Create(result_.parent_path(), kStamp, "", Header::kEnglish));
  EXPECT_EQ(TextOf(result_), result_text_);
}

TEST(CsvRow, MakesFormulasHarmlessAndBlanksVisible) {
  std::string row;
  const std::string cells[] = {"=cmd", "", "-0.5", "@x"};
  AppendCsvRow(cells, row);
  EXPECT_EQ(row, "'=cmd, ,-0.5,'@x\r\n");
}

}  // namespace
}  // namespace vernier::precheck

// Errors of operators and their file, through the C API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "temporary_folder.h"
#include "vernier/c_api.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;

VnTensor Floats(const std::vector<float>& values, const int64_t* shape) {
  return {values.data(), "float32", 1, shape, nullptr};
}

TEST(CApiXray, GivesARowAndWritesIt) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "xpu.csv";
  const std::vector<float> cpu = {1, 2, 3}, device = {1, 2.5F, 3};
  const int64_t shape[] = {3};
  const VnTensor a = Floats(cpu, shape), b = Floats(device, shape);
  VnTable* row = nullptr;
  ASSERT_EQ(VnErrorCounts(&a, &b, 2, nullptr, &row), VN_OK);
  ASSERT_EQ(VnTableNumColumns(row), 9U);
  EXPECT_STREQ(VnTableColumn(row, 0), "is_pass");
  EXPECT_STREQ(VnTableColumn(row, 8), "1e-2");
  std::vector<VnCell> cells(9);
  ASSERT_EQ(VnTableRow(row, 0, cells.data(), cells.size()), VN_OK);
  EXPECT_EQ(std::string(cells[0].text, cells[0].text_bytes), "fail");
  EXPECT_EQ(cells[5].number, 0.5);
  EXPECT_EQ(cells[7].integer, 1);

  ASSERT_EQ(VnBeginDetails(path.c_str(), 2), VN_OK);
  ASSERT_EQ(VnAppendDetails(path.c_str(), 2, "1", "op", "cpu", nullptr, nullptr, row), VN_OK);
  ASSERT_EQ(VnAppendDetails(path.c_str(), 2, "2", "op", "cpu", "skip", "why", nullptr), VN_OK);
  EXPECT_EQ(VnAppendDetails(path.c_str(), 3, "1", "op", "cpu", nullptr, nullptr, row), VN_FAILED);
  EXPECT_EQ(VnAppendDetails(path.c_str(), 2, nullptr, "op", "cpu", "skip", "why", nullptr), VN_FAILED);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("\n1,op,torch.float,[3],1,3,fail,0.5,1,1,cpu,\"1 of 3 elements differs"));
  EXPECT_THAT(text.str(), HasSubstr("\n2,op,,,,,skip,,,,cpu,why\n"));
  VnCloseTable(row);
}

TEST(CApiXray, RefusesWhatMakesNoSense) {
  const std::vector<float> one = {1};
  const int64_t shape[] = {1};
  const VnTensor tensor = Floats(one, shape);
  VnTable* row = nullptr;
  EXPECT_EQ(VnErrorCounts(&tensor, &tensor, 0, nullptr, &row), VN_FAILED);
  EXPECT_THAT(VnLastError()->message, HasSubstr("expected a number from 1 to 30"));
  EXPECT_EQ(VnErrorCounts(&tensor, nullptr, 6, nullptr, &row), VN_FAILED);
  EXPECT_EQ(VnErrorCounts(&tensor, &tensor, 6, nullptr, nullptr), VN_FAILED);
  EXPECT_EQ(VnBeginDetails(nullptr, 6), VN_FAILED);
}

TEST(CApiXray, WritesTextsWholeAndTensorsWithoutWaiting) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "dump.json";
  ASSERT_EQ(VnWriteText(path.c_str(), "{}\0\n", 4), VN_OK);
  EXPECT_EQ(std::filesystem::file_size(path), 4U);
  EXPECT_EQ(VnWriteText(path.c_str(), nullptr, 4), VN_FAILED);
  const std::vector<float> one = {1};
  const int64_t shape[] = {1};
  const VnTensor tensor = Floats(one, shape);
  const std::string waiting = folder.path() / "a.pt", quick = folder.path() / "b.pt";
  ASSERT_EQ(VnWritePt(waiting.c_str(), &tensor), VN_OK);
  ASSERT_EQ(VnWritePtUnsynced(quick.c_str(), &tensor), VN_OK);
  EXPECT_EQ(std::filesystem::file_size(waiting), std::filesystem::file_size(quick));
}

}  // namespace
}  // namespace vernier

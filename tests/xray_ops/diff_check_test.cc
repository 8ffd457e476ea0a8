#include "xray_ops/diff_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "temporary_folder.h"

namespace vernier::xray_ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kHeader =
    "name,op_name,dtype,shape,min-val,max-val,is_pass,max,1e-1,1e-2,device,message\n";

class DiffCheck : public ::testing::Test {
 protected:
  Result<DiffTable> Run(const std::string& xpu, const std::string& gpu,
                        const std::string& xpu_header = kHeader, const std::string& gpu_header = kHeader) {
    std::ofstream(folder_.path() / "xpu.csv") << xpu_header << xpu;
    std::ofstream(folder_.path() / "gpu.csv") << gpu_header << gpu;
    return DiffDetails(folder_.path() / "xpu.csv", folder_.path() / "gpu.csv");
  }
  // The verdict on one operator.
  std::string Verdict(const std::string& xpu, const std::string& gpu) {
    const std::string start = "1,op,torch.float,\"[2, 3]\",0,1,";
    const auto table = Run(start + xpu + ",x,\n", start + gpu + ",g,\n");
    return table && table->rows.size() == 1 ? std::string(Name(table->rows[0].status)) : "?";
  }
  TemporaryFolder folder_;
};

TEST_F(DiffCheck, JudgesOrderByOrder) {
  EXPECT_EQ(Verdict("pass,9,9,9", "fail,0,0,0"), "pass");
  EXPECT_EQ(Verdict("fail,2e-3,0,1", "fail,1e-3,0,1"), "pass");
  EXPECT_EQ(Verdict("fail,2.1e-3,0,1", "fail,1e-3,0,1"), "fail");
  EXPECT_EQ(Verdict("fail,1e-3,0,2", "fail,1e-3,0,1"), "fail");
  EXPECT_EQ(Verdict("fail,1e-3,1,0", "fail,1e-3,0,1"), "fail");
  EXPECT_EQ(Verdict("fail,inf,1,1", "fail,inf,1,1"), "pass");
  EXPECT_EQ(Verdict("fail,nan,1,1", "fail,inf,1,1"), "fail");
  EXPECT_EQ(Verdict("fail,,,", "pass,0,0,0"), "fail");
  EXPECT_EQ(Verdict("error,,,", "pass,0,0,0"), "error");
  EXPECT_EQ(Verdict("skip,,,", "fail,0,0,0"), "skip");
  EXPECT_EQ(Verdict("fail,1,1,1", "error,,,"), "fail");
  EXPECT_EQ(Verdict("PASS,1,1,1", "error,,,"), "pass");
  EXPECT_EQ(Verdict("what,1,1,1", "pass,1,1,1"), "error");
}

TEST_F(DiffCheck, TakesABlankDtypeForNoDisagreement) {
  const auto verdict = [&](const std::string& xpu, const std::string& gpu) {
    const auto table = Run("1,op," + xpu + ",x,\n", "1,op," + gpu + ",g,\n");
    return table ? std::string(Name(table->rows[0].status)) : "?";
  };
  EXPECT_EQ(verdict(",,,,error,,,", "torch.float,[2],0,1,pass,0,0,0"), "error");
  EXPECT_EQ(verdict("torch.float,[2],0,1,fail,1,1,1", ",,,,error,,,"), "fail");
  EXPECT_EQ(verdict("torch.float,[2],0,1,skip,,,", "torch.int64,[2],0,1,pass,0,0,0"), "mismatch");
  EXPECT_EQ(verdict("torch.float,[2],0,1,pass,0,0,0", "torch.float,[],0,1,error,,,"), "mismatch");
}

TEST_F(DiffCheck, KeepsTheOrderOfTheFirstFileAndTheTextsOfBoth) {
  const auto table =
      Run("b,op,torch.float,[2],-0.5,1.50,pass,1.91E-06,0,0,x,\n"
          "a,op,torch.float,[2],0,1,pass,0,0,0,x,\n"
          "c,op,torch.float,[2],0,1,pass,0,0,0,x,\n",
          "a,op,torch.float,[2],7,8,pass,3e-7,1,2,g,\n"
          "d,op,torch.float,[2],0,1,fail,5,0,0,g,\n"
          "b,op,torch.float,[3],0,1,pass,0,0,0,g,\n");
  ASSERT_TRUE(table) << table.error().Message();
  EXPECT_EQ(table->num_joined, 2U);
  EXPECT_THAT(table->columns,
              ElementsAre("name", "op_name", "dtype", "shape", "min-val", "max-val", "is_pass", "xpu_max",
                          "gpu_max", "xpu_1e-1", "gpu_1e-1", "xpu_1e-2", "gpu_1e-2"));
  ASSERT_EQ(table->rows.size(), 4U);
  EXPECT_THAT(table->rows[0].texts, ElementsAre("b", "op", "torch.float", "[2]", "-0.5", "1.50", "mismatch",
                                                "1.91E-06", "0", "0", "0", "0", "0"));
  EXPECT_THAT(table->rows[1].texts, ElementsAre("a", "op", "torch.float", "[2]", "0", "1", "pass", "0",
                                                "3e-7", "0", "1", "0", "2"));
  EXPECT_THAT(table->rows[2].texts,
              ElementsAre("c", "op", "torch.float", "[2]", "0", "1", "unmatched", "0", "", "0", "", "0", ""));
  EXPECT_THAT(table->rows[3].texts,
              ElementsAre("d", "op", "torch.float", "[2]", "0", "1", "unmatched", "", "5", "", "0", "", "0"));
  EXPECT_THAT(table->counts, ElementsAre(0U, 1U, 0U, 2U, 0U, 1U));
}

TEST_F(DiffCheck, TakesTheOrdersThatBothHave) {
  const auto table = Run("a,op,f,[],0,1,fail,1,3,9,x,\n", "a,op,f,[],0,1,fail,1,3,g,\n", kHeader,
                         "name,op_name,dtype,shape,min-val,max-val,is_pass,max,1e-1,device\n");
  ASSERT_TRUE(table);
  EXPECT_EQ(table->columns.size(), 11U);
  EXPECT_EQ(table->rows[0].status, DiffStatus::kPass);
}

TEST_F(DiffCheck, JoinsRowsOfOneNameInTheirOrder) {
  const auto table =
      Run("a,op,f,[],0,1,pass,1,0,0,x,\na,op,f,[],0,1,pass,2,0,0,x,\n",
          "a,op,f,[],0,1,pass,3,0,0,g,\na,op,f,[],0,1,pass,4,0,0,g,\na,op2,f,[],0,1,pass,5,0,0,g,\n");
  ASSERT_TRUE(table);
  EXPECT_EQ(table->num_joined, 2U);
  EXPECT_EQ(table->rows[1].texts[8], "4");
  EXPECT_EQ(table->rows[2].status, DiffStatus::kUnmatched);
}

TEST_F(DiffCheck, SaysWhatCannotBeRead) {
  const std::string row = "a,op,f,[],0,1,pass,1,0,0,x,\n";
  EXPECT_THAT(Run(row, row, "name,op_name\n").error().Message(), HasSubstr("xpu.csv"));
  EXPECT_THAT(Run(row, row, "name,op_name\n").error().Message(), HasSubstr("it has no column dtype"));
  EXPECT_THAT(Run(row, "", kHeader, "").error().Message(), HasSubstr("it is empty"));
  EXPECT_THAT(Run(row, "b,op,f,[],0,1,pass,1,0,0,x,\n").error().Message(), HasSubstr("1 rows (first: a)"));
  EXPECT_EQ(DiffDetails(folder_.path() / "none.csv", folder_.path() / "gpu.csv").error().code,
            ErrorCode::kNotFound);
  const auto torn = Run(row + "b,op,f,[],0,", row);
  ASSERT_TRUE(torn);
  EXPECT_EQ(torn->rows.size(), 1U);
  ASSERT_EQ(torn->problems.size(), 1U);
  EXPECT_THAT(torn->problems[0], HasSubstr("xpu.csv: row 3 has 6 of 10 cells"));
}

TEST_F(DiffCheck, WritesFilesAndAFramedScreen) {
  const auto table =
      Run("00004-aten,aten.linspace.default,torch.float,[10],0,47,pass,0,0,0,x,\n"
          "00037-aten,aten.add.Tensor,torch.float,\"[260, 1152]\",-29.09375,33.75,fail,1,2,3,x,\n",
          "00004-aten,aten.linspace.default,torch.float,[10],0,47,pass,1.91e-06,0,0,g,\n"
          "00037-aten,aten.add.Tensor,torch.float,\"[260, 1152]\",-29.09375,33.75,pass,0,0,0,g,\n");
  ASSERT_TRUE(table);
  ASSERT_TRUE(WriteDiff(*table, folder_.path() / "result.csv"));
  std::ostringstream text;
  text << std::ifstream(folder_.path() / "result.csv").rdbuf();
  EXPECT_EQ(
      text.str(),
      "name,op_name,dtype,shape,min-val,max-val,is_pass,xpu_max,gpu_max,xpu_1e-1,gpu_1e-1,xpu_1e-2,gpu_1e-2\n"
      "00004-aten,aten.linspace.default,torch.float,[10],0,47,pass,0,1.91e-06,0,0,0,0\n"
      "00037-aten,aten.add.Tensor,torch.float,\"[260, 1152]\",-29.09375,33.75,fail,1,0,2,0,3,0\n");
  ASSERT_TRUE(WriteDiff(*table, folder_.path() / "result.xlsx"));
  EXPECT_FALSE(WriteDiff(*table, folder_.path() / "result.doc"));
  EXPECT_EQ(DiffScreen(*table, 10),
            "+------------+-----------------------+-------------+-------------+-----------+---------+--------"
            "-+---------+----------+\n"
            "| name       | op_name               | dtype       | shape       |   min-val | max-val | "
            "is_pass | xpu_max |  gpu_max |\n"
            "+------------+-----------------------+-------------+-------------+-----------+---------+--------"
            "-+---------+----------+\n"
            "| 00037-aten | aten.add.Tensor       | torch.float | [260, 1152] | -29.09375 |   33.75 | fail   "
            " |       1 |        0 |\n"
            "| 00004-aten | aten.linspace.default | torch.float | [10]        |         0 |      47 | pass   "
            " |       0 | 1.91E-06 |\n"
            "+------------+-----------------------+-------------+-------------+-----------+---------+--------"
            "-+---------+----------+\n");
  EXPECT_THAT(DiffScreen(*table, 1), ::testing::Not(HasSubstr("linspace")));
}

}  // namespace
}  // namespace vernier::xray_ops

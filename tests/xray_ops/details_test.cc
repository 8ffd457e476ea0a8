#include "xray_ops/details.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "temporary_folder.h"

namespace vernier::xray_ops {
namespace {

constexpr const char* kHeader =
    "name,op_name,dtype,shape,min-val,max-val,is_pass,max,1e-1,1e-2,1e-3,1e-4,1e-5,1e-6,device,message\n";

std::string TextOf(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Details, WritesTheColumnsOfTheSpecification) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "new" / "xpu.csv";
  ASSERT_TRUE(BeginDetails(path, 6));
  EXPECT_EQ(TextOf(path), kHeader);
  const std::vector<float> cpu = {-29.09375F, 33.75F}, device = {-29.09375F, 33.7500038F};
  const Shape shape = {1, 2};
  const auto counts = CountErrors(BorrowTensor(Dtype::kF32, shape, cpu.data()),
                                  BorrowTensor(Dtype::kF32, shape, device.data()), 6);
  ASSERT_TRUE(counts);
  const KeptCells cells = CountCells(*counts, 6);
  ASSERT_TRUE(AppendDetails(path, 6, {"00037-aten", "aten.add.Tensor", "xpu:0", "", "", cells.cells()}));
  ASSERT_TRUE(
      AppendDetails(path, 6, {"00038-aten", "aten.foo.default", "xpu:0", "skip", "no \"foo\",\nhere", {}}));
  EXPECT_EQ(TextOf(path),
            std::string(kHeader) +
                "00037-aten,aten.add.Tensor,torch.float,\"[1, 2]\",-29.09375,33.75,pass,3.81469727e-06,"
                "0,0,0,0,0,1,xpu:0,\n"
                "00038-aten,aten.foo.default,,,,,skip,,,,,,,,xpu:0,\"no \"\"foo\"\",\\nhere\"\n");
}

TEST(Details, NamesDtypesAsTorchPrintsThem) {
  const std::vector<std::int64_t> values = {-3, 9007199254740993};
  const TensorView view = BorrowTensor(Dtype::kI64, {2}, values.data());
  const KeptCells cells = CountCells(*CountErrors(view, view, 1), 1);
  std::vector<std::string> texts;
  for (const Cell& cell : cells.cells()) texts.push_back(CellText(cell));
  EXPECT_THAT(texts,
              ::testing::ElementsAre("pass", "torch.int64", "[2]", "-3", "9007199254740993", "0.0", "", "0"));
}

TEST(Details, AppendsWithoutABeginning) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "gpu.csv";
  ASSERT_TRUE(AppendDetails(path, 6, {"1", "op", "cpu", "error", "why", {}}));
  EXPECT_EQ(TextOf(path), std::string(kHeader) + "1,op,,,,,error,,,,,,,,cpu,why\n");
}

TEST(Details, KeepsRowsOfManyThreadsWhole) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "all.csv";
  ASSERT_TRUE(BeginDetails(path, 6));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&path, thread] {
      for (int i = 0; i < 100; ++i) {
        const std::string name = std::to_string(thread) + "-" + std::to_string(i);
        EXPECT_TRUE(AppendDetails(path, 6, {name, "op", "cpu", "pass", "", {}}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::istringstream lines(TextOf(path));
  std::set<std::string> seen;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), 15) << line;
    seen.insert(line);
  }
  EXPECT_EQ(seen.size(), 401U);
}

TEST(Details, SaysWhatCannotBeWritten) {
  const TemporaryFolder folder;
  EXPECT_FALSE(AppendDetails(folder.path(), 6, {"1", "op", "cpu", "pass", "", {}}));
  EXPECT_FALSE(BeginDetails(folder.path() / "x.csv", 0));
  const std::vector<float> one = {1};
  const TensorView view = BorrowTensor(Dtype::kF32, {1}, one.data());
  const KeptCells cells = CountCells(*CountErrors(view, view, 3), 3);
  EXPECT_FALSE(AppendDetails(folder.path() / "x.csv", 6, {"1", "op", "cpu", "", "", cells.cells()}));
}

}  // namespace
}  // namespace vernier::xray_ops

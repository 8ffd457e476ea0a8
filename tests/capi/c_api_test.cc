#include "vernier/c_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "temporary_folder.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;

template <class T, void (*kClose)(T*)>
struct Owner {
  T* handle = nullptr;
  Owner() = default;
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() { kClose(handle); }
  T** out() { return &handle; }
};
using Table = Owner<VnTable, VnCloseTable>;
using DumpHandle = Owner<VnDump, VnCloseDump>;
using Loaded = Owner<VnLoaded, VnCloseLoaded>;
using Cancel = Owner<VnCancel, VnCloseCancel>;

std::map<std::string, VnCell> RowOf(const VnTable* table, size_t row = 0) {
  std::vector<VnCell> cells(VnTableNumColumns(table));
  EXPECT_EQ(VnTableRow(table, row, cells.data(), cells.size()), VN_OK);
  std::map<std::string, VnCell> by_name;
  for (size_t i = 0; i < cells.size(); ++i) by_name[VnTableColumn(table, i)] = cells[i];
  return by_name;
}
std::map<std::string, VnCell> RowOf(const Table& table) { return RowOf(table.handle); }

std::string Text(const VnCell& cell) {
  EXPECT_EQ(cell.kind, VN_CELL_TEXT);
  return {cell.text, cell.text_bytes};
}

VnTensor Floats(const float* data, const std::vector<int64_t>& shape,
                const int64_t* strides_bytes = nullptr) {
  return {data, "float32", static_cast<int32_t>(shape.size()), shape.data(), strides_bytes};
}

TEST(CApi, GivesTheStatisticsOfATensor) {
  const std::array<float, 4> values = {-1, 0, 2, NAN};
  const std::vector<int64_t> shape = {2, 2};
  const VnTensor tensor = Floats(values.data(), shape);
  Table table;
  ASSERT_EQ(VnStats(&tensor, nullptr, table.out()), VN_OK);
  ASSERT_EQ(VnTableNumRows(table.handle), 1U);
  auto row = RowOf(table);
  EXPECT_EQ(row["num_elements"].integer, 4);
  EXPECT_EQ(row["num_nan"].integer, 1);
  EXPECT_EQ(row["num_zero"].integer, 1);
  EXPECT_EQ(row["finite_max"].number, 2);
  EXPECT_TRUE(std::isnan(row["max"].number));
  EXPECT_EQ(row["crc32"].kind, VN_CELL_NONE);
}

TEST(CApi, GathersWhatDoesNotLieInCOrder) {
  const std::array<float, 6> values = {1, 2, 3, 4, 5, 6};
  const std::array<float, 6> transposed_values = {1, 4, 2, 5, 3, 6};
  const std::vector<int64_t> shape = {3, 2};
  const std::array<int64_t, 2> column_major = {4, 12};
  const std::array<int64_t, 2> reversed = {-8, -4};
  const VnTensor transposed = Floats(values.data(), shape, column_major.data());
  const VnTensor plain = Floats(transposed_values.data(), shape);
  const VnTensor backwards = Floats(&values[5], shape, reversed.data());
  const std::array<float, 6> backwards_values = {6, 5, 4, 3, 2, 1};
  const VnTensor backwards_plain = Floats(backwards_values.data(), shape);
  for (const auto& [strided, expected] :
       {std::pair{&transposed, &plain}, std::pair{&backwards, &backwards_plain}}) {
    Table table;
    ASSERT_EQ(VnPair(strided, expected, nullptr, table.out()), VN_OK);
    EXPECT_EQ(RowOf(table)["num_unequal"].integer, 0);
  }
}

TEST(CApi, SaysWhatIsWrongWithATensor) {
  const std::array<float, 4> values{};
  const std::vector<int64_t> shape = {4}, negative = {-1}, overflowing = {INT64_MAX, INT64_MAX};
  VnTensor unknown = Floats(values.data(), shape);
  unknown.dtype = "float7";
  VnTensor many = Floats(values.data(), shape);
  many.ndim = 1000;
  const VnTensor no_data = Floats(nullptr, shape);
  const VnTensor bad_shape = Floats(values.data(), negative);
  const VnTensor huge = Floats(values.data(), overflowing);
  const std::vector<std::pair<const VnTensor*, std::string>> cases = {
      {&unknown, "UNSUPPORTED"}, {&many, "BAD_ARGUMENT"}, {&no_data, "BAD_ARGUMENT"},
      {&bad_shape, "BAD_SHAPE"}, {&huge, "BAD_SHAPE"},    {nullptr, "BAD_ARGUMENT"}};
  for (const auto& [tensor, key] : cases) {
    Table table;
    EXPECT_EQ(VnStats(tensor, nullptr, table.out()), VN_FAILED);
    EXPECT_EQ(VnLastError()->key, key) << VnLastError()->message;
    EXPECT_THAT(VnLastError()->message, HasSubstr("tensor"));
  }
}

TEST(CApi, KeepsTheLastErrorOfEachThread) {
  VnDump* dump = nullptr;
  ASSERT_EQ(VnOpenDump("/nonexistent/first", nullptr, &dump), VN_FAILED);
  std::thread([] {
    VnDump* other = nullptr;
    ASSERT_EQ(VnOpenDump("/nonexistent/second", nullptr, &other), VN_FAILED);
    EXPECT_THAT(VnLastError()->where, HasSubstr("second"));
  }).join();
  EXPECT_THAT(VnLastError()->where, HasSubstr("first"));
  EXPECT_STREQ(VnLastError()->key, "NOT_FOUND");
}

TEST(CApi, RefusesAPairOfDifferentShapes) {
  const std::array<float, 4> values{};
  const std::vector<int64_t> square = {2, 2}, flat = {4};
  const VnTensor a = Floats(values.data(), square), b = Floats(values.data(), flat);
  Table table;
  EXPECT_EQ(VnPair(&a, &b, nullptr, table.out()), VN_FAILED);
  EXPECT_STREQ(VnLastError()->key, "SHAPE_MISMATCH");
}

TEST(CApi, StopsWhenAsked) {
  const std::vector<float> values(1 << 20);
  const std::vector<int64_t> shape = {1 << 20};
  const VnTensor tensor = Floats(values.data(), shape);
  Cancel cancel;
  ASSERT_EQ(VnNewCancel(cancel.out()), VN_OK);
  VnRequestCancel(cancel.handle);
  VnOptions options;
  VnInitOptions(&options);
  options.cancel = cancel.handle;
  Table stats, pair;
  EXPECT_EQ(VnStats(&tensor, &options, stats.out()), VN_CANCELLED);
  EXPECT_EQ(VnPair(&tensor, &tensor, &options, pair.out()), VN_CANCELLED);
  EXPECT_STREQ(VnLastError()->key, "CANCELLED");
}

TEST(CApi, UnderstandsTheSmallerOptionsOfAnOlderCaller) {
  const std::array<float, 1> values{};
  const std::vector<int64_t> shape = {1};
  const VnTensor tensor = Floats(values.data(), shape);
  VnOptions options;
  VnInitOptions(&options);
  options.crc32 = 1;
  options.struct_bytes = offsetof(VnOptions, crc32);  // such a caller knows nothing from here on
  Table table;
  ASSERT_EQ(VnStats(&tensor, &options, table.out()), VN_OK);
  EXPECT_EQ(RowOf(table)["crc32"].kind, VN_CELL_NONE);
}

TEST(CApi, ReadsBackWhatItWrote) {
  const TemporaryFolder folder;
  const std::array<float, 6> values = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> shape = {2, 3};
  const VnTensor tensor = Floats(values.data(), shape);
  const std::array<const char*, 2> names = {"one", "two"};
  const std::array<VnTensor, 2> both = {tensor, tensor};
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  ASSERT_EQ(VnWriteNpy(path("x.npy").c_str(), &tensor), VN_OK);
  ASSERT_EQ(VnWritePt(path("x.pt").c_str(), &tensor), VN_OK);
  ASSERT_EQ(VnWriteSafetensors(path("x.safetensors").c_str(), names.data(), both.data(), 2), VN_OK);
  for (const char* name : {"x.npy", "x.pt", "x.safetensors"}) {
    SCOPED_TRACE(name);
    Loaded loaded;
    VnTensor read;
    {
      DumpHandle dump;
      ASSERT_EQ(VnOpenDump(path(name).c_str(), nullptr, dump.out()), VN_OK);
      VnTensorInfo info;
      ASSERT_EQ(VnDumpInfo(dump.handle, 0, &info), VN_OK);
      EXPECT_STREQ(info.dtype, "float32");
      EXPECT_EQ(info.num_bytes, 24U);
      EXPECT_EQ(info.damage, nullptr);
      EXPECT_EQ(VnDumpInfo(dump.handle, VnDumpCount(dump.handle), &info), VN_FAILED);
      ASSERT_EQ(VnDumpLoad(dump.handle, 0, loaded.out()), VN_OK);
    }  // the elements outlive the dump
    ASSERT_EQ(VnLoadedTensor(loaded.handle, &read), VN_OK);
    Table table;
    ASSERT_EQ(VnPair(&read, &tensor, nullptr, table.out()), VN_OK);
    EXPECT_EQ(RowOf(table)["num_unequal"].integer, 0);
  }
}

TEST(CApi, ComparesTwoFiles) {
  const TemporaryFolder folder;
  const std::array<float, 3> golden_values = {1, 2, 3}, target_values = {1, 2.5, 3};
  const std::vector<int64_t> shape = {3};
  const VnTensor golden = Floats(golden_values.data(), shape), target = Floats(target_values.data(), shape);
  const std::array<const char*, 2> names = {"same", "other"};
  const std::array<VnTensor, 2> goldens = {golden, golden}, targets = {golden, target};
  const std::string golden_path = (folder.path() / "golden.safetensors").string();
  const std::string target_path = (folder.path() / "target.safetensors").string();
  ASSERT_EQ(VnWriteSafetensors(golden_path.c_str(), names.data(), goldens.data(), 2), VN_OK);
  ASSERT_EQ(VnWriteSafetensors(target_path.c_str(), names.data(), targets.data(), 2), VN_OK);
  const std::string request = R"({"target": ")" + target_path + R"(", "golden": ")" + golden_path + "\"}";
  struct Heard {
    int lines = 0, steps = 0;
  } heard;
  VnCompareHooks hooks{sizeof(VnCompareHooks), nullptr, &heard, nullptr, nullptr, 1};
  hooks.on_progress = [](void* context, uint64_t, uint64_t, uint64_t, uint64_t) {
    ++static_cast<Heard*>(context)->steps;
  };
  Owner<VnOutcome, VnCloseOutcome> outcome;
  ASSERT_EQ(VnCompareRecordings(request.c_str(), &hooks, outcome.out()), VN_OK) << VnLastError()->message;
  const VnTable* rows = VnOutcomeRows(outcome.handle);
  ASSERT_EQ(VnTableNumRows(rows), 2U);
  EXPECT_EQ(Text(RowOf(rows, 0)["verdict"]), "pass");
  EXPECT_EQ(Text(RowOf(rows, 1)["verdict"]), "fail");
  EXPECT_EQ(RowOf(rows, 1)["max_abs"].number, 0.5);
  EXPECT_THAT(VnOutcomeJson(outcome.handle), HasSubstr("\"status\": 1"));
  EXPECT_GT(heard.steps, 0);
  EXPECT_EQ(VnCompareRecordings("{\"targt\": 1}", nullptr, outcome.out()), VN_FAILED);
  EXPECT_STREQ(VnLastError()->where, "request.targt");
}

TEST(CApi, AnswersNullInsteadOfCrashing) {
  const float value = 1;
  const std::vector<int64_t> shape = {1};
  const VnTensor tensor = Floats(&value, shape);
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "x.npy").string();
  ASSERT_EQ(VnWriteNpy(path.c_str(), &tensor), VN_OK);
  DumpHandle dump;
  ASSERT_EQ(VnOpenDump(path.c_str(), nullptr, dump.out()), VN_OK);
  Table table;
  ASSERT_EQ(VnStats(&tensor, nullptr, table.out()), VN_OK);
  VnTable* row = nullptr;
  VnTensorInfo info;
  VnTensor read;
  VnLoaded* loaded = nullptr;
  VnCell cell;
  const char* name = nullptr;

  VnInitOptions(nullptr);
  EXPECT_EQ(VnDumpCount(nullptr), 0u);
  EXPECT_EQ(VnTableNumRows(nullptr), 0u);
  EXPECT_EQ(VnTableNumColumns(nullptr), 0u);
  EXPECT_EQ(VnTableColumn(nullptr, 0), nullptr);
  const std::pair<const char*, VnStatus> failed[] = {
      {"cancel", VnNewCancel(nullptr)},
      {"row", VnStats(&tensor, nullptr, nullptr)},
      {"tensor", VnStats(nullptr, nullptr, &row)},
      {"row", VnPair(&tensor, &tensor, nullptr, nullptr)},
      {"golden", VnPair(&tensor, nullptr, nullptr, &row)},
      {"table", VnTableRow(nullptr, 0, &cell, 1)},
      {"cells", VnTableRow(table.handle, 0, nullptr, 100)},
      {"path", VnOpenDump(nullptr, nullptr, dump.out())},
      {"dump", VnOpenDump(path.c_str(), nullptr, nullptr)},
      {"dump", VnDumpInfo(nullptr, 0, &info)},
      {"info", VnDumpInfo(dump.handle, 0, nullptr)},
      {"dump", VnDumpLoad(nullptr, 0, &loaded)},
      {"loaded", VnDumpLoad(dump.handle, 0, nullptr)},
      {"loaded", VnLoadedTensor(nullptr, &read)},
      {"path", VnWritePt(nullptr, &tensor)},
      {"names", VnWriteSafetensors(path.c_str(), nullptr, &tensor, 1)},
      {"name", VnWriteSafetensors(path.c_str(), &name, &tensor, 1)},
      {"request", VnCompareRecordings(nullptr, nullptr, nullptr)},
      {"outcome", VnCompareRecordings("{}", nullptr, nullptr)},
  };
  for (const auto& [argument, status] : failed) EXPECT_EQ(status, VN_FAILED) << argument;
  EXPECT_EQ(VnStats(&tensor, nullptr, nullptr), VN_FAILED);
  EXPECT_STREQ(VnLastError()->where, "row");
  EXPECT_EQ(VnMain(1, nullptr), 2);
}

}  // namespace
}  // namespace vernier

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "vernier/c_api.h"

namespace {

struct Handle {
  VnPrecheck* precheck = nullptr;
  explicit Handle(const char* settings = "{}") { EXPECT_EQ(VnPrecheckOpen(settings, &precheck), VN_OK); }
  ~Handle() { VnClosePrecheck(precheck); }
};

std::string LastError() { return VnLastError()->message; }

struct Pair {
  std::vector<double> bench = {1, 2};
  std::vector<float> device = {1, 2};
  int64_t shape[1] = {2};
  VnTensor bench_tensor{bench.data(), "float64", 1, shape, nullptr};
  VnTensor device_tensor{device.data(), "torch.float32", 1, shape, nullptr};
  VnCheckedPair pair{sizeof(VnCheckedPair), &bench_tensor, &device_tensor, nullptr, 0};
};

TEST(PrecheckCApi, JudgesACallFromBeginToFinish) {
  const Handle handle;
  const Pair pair;
  ASSERT_EQ(VnPrecheckBegin(handle.precheck, "Torch.add.0", "add"), VN_OK);
  ASSERT_EQ(VnPrecheckTensors(handle.precheck, VN_FORWARD, &pair.pair), VN_OK);
  ASSERT_EQ(VnPrecheckSkip(handle.precheck, VN_BACKWARD, "no backward input"), VN_OK);
  EXPECT_STREQ(VnPrecheckVerdict(handle.precheck, VN_FORWARD), "pass");
  EXPECT_STREQ(VnPrecheckVerdict(handle.precheck, VN_BACKWARD), "SKIP");
  const char* json = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(VnPrecheckFinish(handle.precheck, &json, &bytes), VN_OK);
  EXPECT_EQ(std::strlen(json), bytes);
  EXPECT_NE(std::strstr(json, "Torch.add.0.forward.output.0"), nullptr);
  EXPECT_NE(std::strstr(json, "no backward input"), nullptr);
}

TEST(PrecheckCApi, RefusesWrongSettings) {
  VnPrecheck* precheck = nullptr;
  for (const char* settings :
       {"{\"policy\": \"x\"}", "{\"precision\": 21}", "{\"threads\": -1}", "{\"other\": 1}", "[",
        "{\"rules\": {\"no_such\": 1}}", "{\"policy\": 3}", ""}) {
    EXPECT_EQ(VnPrecheckOpen(settings, &precheck), VN_FAILED) << settings;
    EXPECT_FALSE(LastError().empty());
  }
  EXPECT_EQ(precheck, nullptr);
}

TEST(PrecheckCApi, AnswersNullInsteadOfCrashing) {
  const Handle handle;
  const Pair pair;
  VnTable* row = nullptr;
  const char* json = nullptr;
  size_t bytes = 0;
  VnClosePrecheck(nullptr);
  EXPECT_STREQ(VnPrecheckVerdict(nullptr, VN_FORWARD), " ");
  EXPECT_STREQ(VnPrecheckVerdict(handle.precheck, 7), " ");
  const char* words[] = {"pass", nullptr};
  EXPECT_EQ(VnPrecheckRollUp(words, 2), nullptr);
  EXPECT_STREQ(VnPrecheckRollUp(words, 1), "pass");
  EXPECT_STREQ(VnPrecheckRollUp(nullptr, 0), " ");
  VnCheckedPair empty{sizeof(VnCheckedPair), nullptr, nullptr, nullptr, 0};
  const VnStatus failed[] = {
      VnPrecheckOpen(nullptr, nullptr),
      VnPrecheckMetrics(nullptr, &pair.pair, &row),
      VnPrecheckMetrics(handle.precheck, &empty, &row),
      VnPrecheckMetrics(handle.precheck, &pair.pair, nullptr),
      VnPrecheckBegin(handle.precheck, nullptr, "add"),
      VnPrecheckTensors(handle.precheck, VN_FORWARD, nullptr),
      VnPrecheckTensors(handle.precheck, 5, &pair.pair),
      VnPrecheckDropout(nullptr, VN_FORWARD, &pair.pair),
      VnPrecheckPlain(handle.precheck, VN_FORWARD, nullptr, "x", 1),
      VnPrecheckMismatch(handle.precheck, VN_FORWARD, "type", nullptr, "x"),
      VnPrecheckSkip(handle.precheck, 9, "x"),
      VnPrecheckInput(nullptr, "x", &pair.bench_tensor),
      VnPrecheckRow(handle.precheck, &row),  // nothing was judged
      VnPrecheckFinish(handle.precheck, nullptr, &bytes),
      VnPrecheckFinish(nullptr, &json, &bytes),
  };
  for (const VnStatus status : failed) EXPECT_EQ(status, VN_FAILED);
  EXPECT_EQ(row, nullptr);
}

}  // namespace

// Many pairs at once: order, errors, stopping, and the same bits for any number of threads and instruction
// set.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>
#include <vector>

#include "core/mapped_file.h"
#include "measure/kernels_internal.h"
#include "vernier/measure.h"

namespace vernier {
namespace {

constexpr Groups kEverything = Group::kDiff | Group::kStats | Group::kRelative | Group::kClose | Group::kUlp |
                               Group::kThresholds | Group::kPrecheck | Group::kDetails | Group::kErrors;

struct Data {
  std::vector<std::vector<float>> target, golden;
  LoadedPair Load(std::size_t i, Dtype dtype = Dtype::kF32) const {
    const auto n = static_cast<std::int64_t>(target[i].size() * sizeof(float) / ItemBytes(dtype));
    return {BorrowTensor(dtype, {n}, target[i].data()), BorrowTensor(dtype, {n}, golden[i].data())};
  }
};

// Sizes around the chunk size, and special values here and there.
Data MakeData() {
  Data data;
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const std::size_t n : {600'001u, 3u, 0u, 262'144u, 262'145u, 40u, 1000u}) {
    std::vector<float> t(n), g(n);
    for (std::size_t i = 0; i < n; ++i) {
      g[i] = normal(random);
      t[i] = g[i] * (1 + 1e-3f * normal(random));
      if (random() % 5000 == 0) t[i] = NAN;
      if (random() % 5000 == 0) t[i] = g[i] = HUGE_VALF;
    }
    data.target.push_back(t);
    data.golden.push_back(g);
  }
  return data;
}

bool SameBits(const PairMeasures& a, const PairMeasures& b) {
  // Compared field by field through bytes of the doubles and counts; padding is left out.
  const auto same = [](double x, double y) { return std::memcmp(&x, &y, sizeof x) == 0; };
  return a.num_elements == b.num_elements && same(a.dot, b.dot) && same(a.sum_sq_target, b.sum_sq_target) &&
         same(a.sum_sq_golden, b.sum_sq_golden) && same(a.sum_sq_diff, b.sum_sq_diff) &&
         same(a.sum_abs_diff, b.sum_abs_diff) && same(a.sum_diff, b.sum_diff) &&
         same(a.max_abs_diff, b.max_abs_diff) && a.max_abs_diff_index == b.max_abs_diff_index &&
         a.num_both_nan == b.num_both_nan && a.num_nan_target_only == b.num_nan_target_only &&
         a.first_special_mismatch == b.first_special_mismatch &&
         same(a.target.finite_sum, b.target.finite_sum) &&
         same(a.target.finite_sum_sq, b.target.finite_sum_sq) &&
         same(a.target.finite_min, b.target.finite_min) && same(a.golden.finite_max, b.golden.finite_max) &&
         same(a.max_relative, b.max_relative) && same(a.sum_relative, b.sum_relative) &&
         a.num_relative_below_1e3 == b.num_relative_below_1e3 && a.num_close == b.num_close &&
         a.num_unequal() == b.num_unequal() && a.max_ulp == b.max_ulp && same(a.sum_ulp, b.sum_ulp) &&
         a.num_abs_above == b.num_abs_above && a.precheck.num_small == b.precheck.num_small &&
         same(a.precheck.normal_sum_sq_diff, b.precheck.normal_sum_sq_diff);
}

std::vector<PairMeasures> Measure(const Data& data, Dtype dtype, Relative relative, int num_threads) {
  MeasureOptions options;
  options.groups = kEverything;
  options.relative = relative;
  options.num_threads = num_threads;
  std::vector<PairMeasures> results;
  MeasurePairs(
      data.target.size(), [&](std::size_t i) -> Result<LoadedPair> { return data.Load(i, dtype); }, options,
      [&](std::size_t i, const Result<PairMeasures>& measures) {
        EXPECT_EQ(i, results.size());
        results.push_back(measures.value());
      });
  return results;
}

class EveryDtype : public testing::TestWithParam<Dtype> {};

TEST_P(EveryDtype, GivesTheSameBitsForAnyThreadsAndInstructionSet) {
  const Data data = MakeData();
  const std::vector<std::string_view> targets = internal::AvailableTargets();
  for (const Relative relative : {Relative::kFloor, Relative::kStoredType}) {
    internal::ForceTarget("PLAIN");
    const std::vector<PairMeasures> want = Measure(data, GetParam(), relative, 1);
    const auto check = [&](std::string_view target, int num_threads) {
      internal::ForceTarget(target);
      const std::vector<PairMeasures> got = Measure(data, GetParam(), relative, num_threads);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(SameBits(got[i], want[i])) << "pair " << i << " " << target << " " << num_threads;
      }
    };
    for (const std::string_view target : targets) check(target, 2);
    for (const int num_threads : {1, 7}) check(targets.front(), num_threads);
  }
  internal::ForceTarget("");
}

INSTANTIATE_TEST_SUITE_P(MeasurePairs, EveryDtype,
                         testing::Values(Dtype::kF32, Dtype::kF16, Dtype::kBF16, Dtype::kF64, Dtype::kC64,
                                         Dtype::kI32, Dtype::kI8),
                         [](const auto& test) { return std::string(Name(test.param)); });

TEST(MeasurePairs, OneBadPairCostsOneRow) {
  const Data data = MakeData();
  std::vector<bool> good;
  MeasurePairs(
      data.target.size(),
      [&](std::size_t i) -> Result<LoadedPair> {
        if (i == 1) return Error{ErrorCode::kTruncated, "some.pt", ""};
        if (i == 3) throw std::bad_alloc();
        return data.Load(i);
      },
      {}, [&](std::size_t, const Result<PairMeasures>& measures) { good.push_back(measures.has_value()); });
  EXPECT_EQ(good, (std::vector<bool>{true, false, true, false, true, true, true}));
}

TEST(MeasurePairs, AFileThatShrinksWhileItIsReadIsThatRowsError) {
  char name[] = "/tmp/vernier_batch_test_XXXXXX";
  const int fd = mkstemp(name);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, 8 << 20), 0);
  std::vector<Result<PairMeasures>> results;
  MeasureOptions options;
  options.num_threads = 1;
  MeasurePairs(
      3,
      [&](std::size_t i) -> Result<LoadedPair> {
        VN_ASSIGN_OR_RETURN(const FileRef file, MappedFile::Open(name));
        TensorView view = BorrowTensor(Dtype::kF32, {static_cast<std::int64_t>(file->bytes().size() / 4)},
                                       file->bytes().data());
        view.file = file;
        if (i == 1 && ftruncate(fd, 5 << 20) != 0) return Error{ErrorCode::kIo, name, "ftruncate"};
        return LoadedPair{view, view};
      },
      options, [&](std::size_t, const Result<PairMeasures>& measures) { results.push_back(measures); });
  close(fd);
  std::filesystem::remove(name);
  ASSERT_EQ(results.size(), 3u);
  EXPECT_TRUE(results[0]);
  ASSERT_FALSE(results[1]);
  EXPECT_EQ(results[1].error().code, ErrorCode::kFileChanged);
  EXPECT_EQ(results[1].error().where, name);
  EXPECT_TRUE(results[2]);
}

TEST(MeasurePairs, StopsWhenAskedAndSaysHowFarItIs) {
  const Data data = MakeData();
  std::stop_source stop;
  std::size_t delivered = 0;
  MeasureProgress last;
  BatchHooks hooks;
  hooks.stop = stop.get_token();
  hooks.on_progress = [&](const MeasureProgress& progress) {
    EXPECT_GE(progress.bytes_done, last.bytes_done);
    last = progress;
  };
  MeasureOptions options;
  options.num_threads = 1;
  MeasurePairs(
      100, [&](std::size_t) -> Result<LoadedPair> { return data.Load(5); }, options,
      [&](std::size_t, const Result<PairMeasures>&) {
        if (++delivered == 10) stop.request_stop();
      },
      hooks);
  EXPECT_EQ(delivered, 10u);
  EXPECT_EQ(last.items_done, 10u);
  EXPECT_EQ(last.bytes_done, 10u * 2 * 40 * 4);
}

TEST(MeasureTensors, GivesTheSameBitsForAnyThreads) {
  const Data data = MakeData();
  const auto run = [&](int num_threads) {
    std::vector<double> numbers;
    StatsOptions options;
    options.num_threads = num_threads;
    options.crc32 = true;
    MeasureTensors(
        data.target.size(), [&](std::size_t i) -> Result<TensorView> { return data.Load(i).target; }, options,
        [&](std::size_t, const Result<TensorStats>& stats) {
          for (const double value : {stats->finite_sum, stats->centered_sum_sq, double{stats->crc32 * 1.0}}) {
            numbers.push_back(value);
          }
        });
    return numbers;
  };
  EXPECT_EQ(run(1), run(2));
  EXPECT_EQ(run(1), run(7));
}

}  // namespace
}  // namespace vernier

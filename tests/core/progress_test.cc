#include "core/progress.h"

#include <gtest/gtest.h>

#include <string>

namespace vernier {
namespace {

TEST(Progress, DrawsABarWithRateAndTimeLeft) {
  EXPECT_EQ(ProgressText("compare", 0.5, 1.25e9, true, 65, true),
            "compare  [############            ]   50%  1.2 GB/s  1:05 left");
  EXPECT_EQ(ProgressText("inspect", 1, 12, false, 0, false), "inspect  100%  12/s  0:00 left");
  EXPECT_EQ(ProgressText("x", 0.01, 3e6, true, 7384, false), "x    1%  3 MB/s  2:03:04 left");
}

TEST(Progress, StaysInItsBoundsWhenTheTotalWasWrong) {
  EXPECT_EQ(ProgressText("x", 1.5, 0, true, 0, true),
            "x  [########################]  100%  0 MB/s  0:00 left");
  EXPECT_EQ(ProgressText("x", -1, 0, true, 1e300, false), "x    0%  0 MB/s  1000:00:00 left");
}

std::string Written(ProgressStyle style) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* stream = open_memstream(&text, &size);
  {
    Progress progress(stream, style, "job", 10, 0);
    for (int i = 0; i <= 10; ++i) progress.Update(static_cast<std::uint64_t>(i), 0);
  }
  std::fclose(stream);
  std::string written(text, size);
  std::free(text);
  return written;
}

TEST(Progress, SaysNothingOfAShortJobOrWhenQuiet) {
  EXPECT_EQ(Written(ProgressStyle::kAuto), "");
  EXPECT_EQ(Written(ProgressStyle::kQuiet), "");
}

}  // namespace
}  // namespace vernier

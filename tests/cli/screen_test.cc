#include "cli/screen.h"

#include <gtest/gtest.h>

namespace vernier {
namespace {

TEST(SizeText, UsesTheLargestUnitThatFits) {
  EXPECT_EQ(SizeText(0), "0 bytes");
  EXPECT_EQ(SizeText(1), "1 byte");
  EXPECT_EQ(SizeText(1023), "1023 bytes");
  EXPECT_EQ(SizeText(1536), "1.5 KiB");
  EXPECT_EQ(SizeText(std::uint64_t{200} << 20), "200 MiB");
  EXPECT_EQ(SizeText(~std::uint64_t{0}), "16384 PiB");
}

}  // namespace
}  // namespace vernier

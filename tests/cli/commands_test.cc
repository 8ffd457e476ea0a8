#include "cli/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vernier {
namespace {

using ::testing::HasSubstr;

TEST(Overview, SetsEveryCommandApartFromItsSummary) {
  const std::string overview = Overview();
  for (const Command& command : Commands()) {
    EXPECT_THAT(overview, HasSubstr("\n  " + std::string(command.name) + "  "));
    EXPECT_THAT(overview, HasSubstr("  " + std::string(command.summary) + "\n"));
  }
}

}  // namespace
}  // namespace vernier

#include "judge/along.h"

#include <gtest/gtest.h>

namespace vernier {
namespace {

using Parts = std::vector<std::pair<std::string, double>>;

Parts Along(const std::vector<std::pair<const char*, float>>& calls, std::size_t most) {
  Calls all;
  std::vector<Facts> facts;
  std::vector<std::size_t> first{0};
  for (const auto& [place, error] : calls) {
    Call call;
    call.place = place;
    all.push_back(call);
    Facts output;
    output.role = Role::kOutput;
    output.flags = Facts::kMeasured;
    output.error = error;
    facts.push_back(output);
    first.push_back(facts.size());
  }
  return ErrorsAlong({all, all, Alignment(), facts, first}, most);
}

TEST(ErrorsAlong, CutsTheModelWhereItsPartsStillFit) {
  const Parts parts =
      Along({{"m.embed#0", 0}, {"m.h.0.a#0", 1}, {"m.h.0.b#0", 2}, {"m.h.1.a#0", 3}, {"head#0", 4}}, 4);
  EXPECT_EQ(parts, (Parts{{"embed", 0}, {"h0", 2}, {"h1", 3}, {"head", 4}}));
}

TEST(ErrorsAlong, MergesWhatIsTooMuch) {
  std::vector<std::pair<const char*, float>> calls(100, {"", 0.F});
  calls[99].second = 7;
  const Parts parts = Along(calls, 10);
  ASSERT_EQ(parts.size(), 10u);
  EXPECT_EQ(parts[9].second, 7);
  EXPECT_EQ(parts[8].second, 0);
}

TEST(ErrorsAlong, HasNothingToShowOfNothing) { EXPECT_TRUE(Along({}, 10).empty()); }

}  // namespace
}  // namespace vernier

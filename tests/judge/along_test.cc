#include "judge/along.h"

#include <gtest/gtest.h>

namespace vernier {
namespace {

using Parts = std::vector<std::pair<std::string, double>>;

struct Made {
  const char* place;
  float error;
  Pass pass = Pass::kForward;
};

Parts Along(const std::vector<Made>& calls, std::size_t most) {
  Calls all;
  std::vector<Facts> facts;
  std::vector<std::size_t> first{0};
  for (const auto& [place, error, pass] : calls) {
    Call call;
    call.place = place;
    call.pass = pass;
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

TEST(ErrorsAlong, SaysMoreOfPartsThatWouldHaveTheSameName) {
  const Parts parts = Along({{"t.wte#0", 0},
                             {"t.h.0.ln_1#0", 1},
                             {"t.h.0.attn#0", 2},
                             {"t.h.1.ln_1#0", 3},
                             {"t.h.1.attn#0", 4},
                             {"t.ln_f#0", 5}},
                            8);
  EXPECT_EQ(parts,
            (Parts{{"wte", 0}, {"h0.ln_1", 1}, {"h0.attn", 2}, {"h1.ln_1", 3}, {"h1.attn", 4}, {"ln_f", 5}}));
  EXPECT_EQ(Along({{"a.0.m.x#0", 1}, {"b.0.m.x#0", 2}, {"b.0.n.x#0", 3}, {"x#0", 4}}, 8),
            (Parts{{"a0.m.x", 1}, {"b0.m.x", 2}, {"n.x", 3}, {"x", 4}}));
  EXPECT_EQ(Along({{"h.3#0", 1}, {"h3#0", 2}}, 8), (Parts{{"h3", 1}, {"h3", 2}}))
      << "there is no more to say";
}

TEST(ErrorsAlong, CutsLessDeepWhereNamesWouldNotFitALine) {
  std::vector<std::string> places;
  for (const char* block : {"0", "1", "2"}) {
    for (const char* part : {"ln_1", "attention", "ln_2", "mlp"})
      places.push_back(std::string("transformer.h.") + block + '.' + part + "#0");
  }
  std::vector<Made> calls;
  for (const std::string& place : places) calls.push_back({place.c_str(), 0});
  calls[5].error = 1;
  EXPECT_EQ(Along(calls, 16), (Parts{{"h0", 0}, {"h1", 1}, {"h2", 0}}));
  calls.resize(4);
  EXPECT_EQ(Along(calls, 16), (Parts{{"ln_1", 0}, {"attention", 0}, {"ln_2", 0}, {"mlp", 0}}));
}

TEST(ErrorsAlong, LeavesTheOptimizerOut) {
  constexpr Pass kBackward = Pass::kBackward;
  EXPECT_EQ(Along({{"", 1}, {"", 2}, {"", 9, kBackward}, {"", 5}, {"", 6}}, 8), (Parts{{"", 1}, {"", 2}}));
  EXPECT_EQ(Along({{"a#0", 1}, {"a#0", 9, kBackward}, {"", 5}, {"a#1", 3}}, 8), (Parts{{"a", 3}}))
      << "the model once more, and then it";
}

TEST(ErrorsAlong, MergesWhatIsTooMuch) {
  std::vector<Made> calls(100, {"", 0.F});
  calls[99].error = 7;
  const Parts parts = Along(calls, 10);
  ASSERT_EQ(parts.size(), 10u);
  EXPECT_EQ(parts[9].second, 7);
  EXPECT_EQ(parts[8].second, 0);
}

TEST(ErrorsAlong, HasNothingToShowOfNothing) { EXPECT_TRUE(Along({}, 10).empty()); }

}  // namespace
}  // namespace vernier

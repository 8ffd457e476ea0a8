#include "judge/align.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>

namespace vernier {
namespace {

// "kind" or "kind@place", with :N for a signature of its own; "M:path" is a module, "<" in front a backward
// call.
class Side {
 public:
  explicit Side(std::initializer_list<const char*> texts) {
    for (const char* text : texts) Add(text);
  }
  const Calls& calls() const { return calls_; }
  std::uint64_t Signature(std::uint32_t call) const { return signatures_[call]; }

 private:
  void Add(std::string text) {
    Call call;
    if (text.starts_with("<")) {
      call.pass = Pass::kBackward;
      text.erase(0, 1);
    }
    call.is_module = text.starts_with("M:");
    std::uint64_t signature = 0;
    if (const std::size_t colon = text.find(':', 2); colon != std::string::npos) {
      signature = std::stoull(text.substr(colon + 1));
      text.resize(colon);
    }
    const std::size_t at = text.find('@');
    call.kind = Keep(text.substr(0, at));
    call.place = at == std::string::npos ? "" : Keep(text.substr(at + 1));
    if (call.is_module) call.place = Keep(text.substr(2)), call.kind = "Module.X";
    std::size_t count = 0;
    for (const Call& other : calls_) count += other.kind == call.kind && other.pass == call.pass;
    call.name =
        Keep(std::string(call.kind) + '.' + std::to_string(count) + (call.pass == Pass::kForward ? "" : "b"));
    call.twin = Keep(std::string(call.kind) + '.' + std::to_string(count));
    calls_.push_back(call);
    signatures_.push_back(signature);
  }
  std::string_view Keep(std::string text) { return texts_.emplace_back(std::move(text)); }

  std::deque<std::string> texts_;
  Calls calls_;
  std::vector<std::uint64_t> signatures_;
};

Alignment Align(const Side& target, const Side& golden) {
  return AlignCalls({target.calls(),
                     golden.calls(),
                     [&](std::uint32_t call) { return target.Signature(call); },
                     [&](std::uint32_t call) { return golden.Signature(call); },
                     {}});
}

using Partners = std::vector<std::uint32_t>;

TEST(AlignCalls, PairsTheSameCallsByName) {
  const Side side{"linear", "add", "linear"};
  const Alignment found = Align(side, side);
  EXPECT_EQ(found.golden_of, (Partners{0, 1, 2}));
  EXPECT_EQ(found.how, std::vector<PairedBy>(3, PairedBy::kName));
}

TEST(AlignCalls, AnAdditionalCallShiftsNothing) {
  const Side golden{"linear", "gelu", "linear", "add", "norm", "add"};
  const Side target{"linear", "add:9", "gelu", "linear", "add", "norm", "add"};
  EXPECT_EQ(Align(target, golden).golden_of, (Partners{0, kNoCall, 1, 2, 3, 4, 5}));
}

TEST(AlignCalls, TellsTwoCallsOfOneGapApartByTheirSignatures) {
  const Side golden{"linear", "add:1", "norm"};
  EXPECT_EQ(Align(Side{"linear", "add:9", "add:1", "norm"}, golden).golden_of, (Partners{0, kNoCall, 1, 2}));
  EXPECT_EQ(Align(Side{"linear", "add:1", "add:9", "norm"}, golden).golden_of, (Partners{0, 1, kNoCall, 2}));
}

TEST(AlignCalls, AMissingCallLeavesTheOthersWhereTheyAre) {
  const Side golden{"norm", "linear", "add", "norm", "linear", "add", "norm"};
  const Side target{"norm", "linear", "norm", "linear", "add", "norm"};
  const Alignment found = Align(target, golden);
  EXPECT_EQ(found.golden_of, (Partners{0, 1, 3, 4, 5, 6}));
  EXPECT_EQ(found.target_of[2], kNoCall);
}

TEST(AlignCalls, FollowsPlacesWhenCallsAreInAnotherOrder) {
  const Side golden{"linear@q", "linear@k", "matmul@a"};
  const Side target{"linear@k", "linear@q", "matmul@a"};
  const Alignment found = Align(target, golden);
  EXPECT_EQ(found.golden_of, (Partners{1, 0, 2}));
  EXPECT_EQ(found.how[0], PairedBy::kPlace);
}

TEST(AlignCalls, PairsARenamedModuleByItsOrderAndSaysHowItWouldBeCalled) {
  const Side golden{"linear@h.0.mlp#0", "M:h.0.mlp#0", "linear@h.1.mlp#0", "M:h.1.mlp#0"};
  const Side target{"linear@h.0.mlp#0", "M:h.0.mlp#0", "linear@h.1.ffn#0", "M:h.1.ffn#0"};
  const Alignment found = Align(target, golden);
  EXPECT_EQ(found.golden_of, (Partners{0, 1, 2, 3}));
  EXPECT_EQ(found.how[2], PairedBy::kOrder);
  ASSERT_EQ(found.renames.size(), 1u);
  EXPECT_EQ(found.renames[0], (std::pair<std::string, std::string>(".ffn.", ".mlp.")));
}

TEST(AlignCalls, ProposesEachNameThatDiffersOnceAndTheMostFrequentFirst) {
  const Side golden{"linear", "M:blocks.0.attn#0", "norm", "M:blocks.1.attn#0", "gelu", "M:blocks.1.mlp#0"};
  const Side target{"linear", "M:h.0.attention#0", "norm", "M:h.1.attention#0", "gelu", "M:h.1.mlp#0"};
  const Alignment found = Align(target, golden);
  const std::vector<std::pair<std::string, std::string>> renames = {{".h.", ".blocks."},
                                                                    {".attention.", ".attn."}};
  EXPECT_EQ(found.renames, renames);
}

TEST(AlignCalls, ProposesNoNumberForAnother) {
  const Side golden{"linear", "M:blocks.0#0", "norm", "M:blocks.1#0", "gelu"};
  const Side target{"linear", "M:h.1#0", "norm", "M:h.2#0", "gelu"};
  const std::vector<std::pair<std::string, std::string>> renames = {{".h.", ".blocks."}};
  EXPECT_EQ(Align(target, golden).renames, renames) << "1 means another module there";
}

TEST(AlignCalls, PairsBackwardCallsThroughTheirForwardCalls) {
  const Side golden{"linear", "add", "norm", "add", "<add", "<norm", "<add", "<linear"};
  const Side target{"linear", "add:9", "norm", "add", "add", "<add", "<add", "<norm", "<add", "<linear"};
  const Alignment found = Align(target, golden);
  EXPECT_EQ(found.golden_of, (Partners{0, 1, 2, 3, kNoCall, 4, 6, 5, kNoCall, 7}));
}

TEST(AlignCalls, HoldsOneFusedCallAgainstTheLastOfThoseItReplaces) {
  const Side golden{"linear@a", "matmul@a", "mul@a", "softmax@a", "dot@a", "linear@b", "<dot@a", "<mul@a"};
  const Side target{"linear@a", "attention@a", "linear@b", "<attention@a"};
  const Alignment found = Align(target, golden);
  EXPECT_EQ(found.golden_of, (Partners{0, 4, 5, 6}));
  EXPECT_EQ(found.how[1], PairedBy::kFused);
  ASSERT_EQ(found.fused.size(), 1u);
  EXPECT_EQ(found.fused[0].target, Partners{1});
  EXPECT_EQ(found.fused[0].golden, (Partners{1, 2, 3, 4}));
  for (std::uint32_t i = 0; i < golden.calls().size(); ++i) EXPECT_FALSE(found.IsGoldenAlone(i)) << i;
}

TEST(AlignCalls, AMissingCallIsNotFused) {
  const Side golden{"linear@a", "mul@a", "linear@b"}, target{"linear@a", "linear@b"};
  const Alignment found = Align(target, golden);
  EXPECT_TRUE(found.fused.empty());
  EXPECT_TRUE(found.IsGoldenAlone(1));
}

TEST(AlignCalls, KeepsWhatIsGiven) {
  const Side golden{"a", "b"}, target{"x", "y"};
  const Alignment found = AlignCalls({target.calls(), golden.calls(), {}, {}, {1, kNoCall}});
  EXPECT_EQ(found.golden_of[0], 1u);
}

TEST(AlignCalls, EndsWithNothingOnASide) {
  const Side some{"a", "b"}, none{};
  EXPECT_EQ(Align(some, none).golden_of, (Partners{kNoCall, kNoCall}));
  EXPECT_TRUE(Align(none, some).golden_of.empty());
}

}  // namespace
}  // namespace vernier

#include "format/pickle.h"

#include <sys/mman.h>

#include <cstring>

#include "format/format_testing.h"
#include "format/little_endian.h"
#include "gmock/gmock.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;
using Kind = PickleKind;
using namespace std::string_literals;

Result<PickleTree> Parse(const std::string& text) { return ParsePickle(AsBytes(text)); }

// The trees refer to the text, so it is kept.
struct Parsed {
  explicit Parsed(std::string pickle) : text(std::move(pickle)), tree(Parse(text)) {
    EXPECT_TRUE(tree) << tree.error().Message();
  }
  const PickleValue& root() const { return tree->root; }
  const std::vector<PickleValue>& items(const PickleValue& value) const {
    return tree->objects[value.object].items;
  }

  std::string text;
  Result<PickleTree> tree;
};

Error ErrorOf(const std::string& text) {
  const auto tree = Parse(text);
  EXPECT_FALSE(tree) << text;
  return tree ? Error{} : tree.error();
}

TEST(Pickle, ReadsScalarsOfEveryProtocol) {
  struct Case {
    std::string text;
    Kind kind;
    std::int64_t integer;
  };
  const Case cases[] = {
      {"N.", Kind::kNone, 0},
      {"\x88.", Kind::kBool, 1},
      {"\x89.", Kind::kBool, 0},
      {"I01\n.", Kind::kBool, 1},
      {"I-17\n.", Kind::kInt, -17},
      {"L123456789012L\n.", Kind::kInt, 123456789012},
      {"K\xff.", Kind::kInt, 255},
      {"M\x01\x02.", Kind::kInt, 513},
      {"J\xff\xff\xff\xff.", Kind::kInt, -1},
      {"\x8a\x00."s, Kind::kInt, 0},
      {"\x8a\x02\x00\x80."s, Kind::kInt, -32768},
      {"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x40."s, Kind::kInt, std::int64_t{1} << 62},
      {"\x8b\x01\x00\x00\x00\x05."s, Kind::kInt, 5},
      {"\x80\x04\x95\x02\x00\x00\x00\x00\x00\x00\x00K\x07."s, Kind::kInt, 7},
  };
  for (const Case& one : cases) {
    const Parsed parsed(one.text);
    EXPECT_EQ(parsed.root().kind, one.kind) << one.text;
    EXPECT_EQ(parsed.root().integer, one.integer) << one.text;
  }
  EXPECT_EQ(Parsed("G\x3f\xf8\0\0\0\0\0\0."s).root().real, 1.5);
  EXPECT_EQ(Parsed("F-2.5\n.").root().real, -2.5);
  EXPECT_EQ(Parsed("\x8a\x09\1\1\1\1\1\1\1\1\1.").root().kind, Kind::kOpaque);  // more than 64 bits
}

TEST(Pickle, PassesOverTextsThatNoNameCanBe) {
  constexpr std::size_t kHugeBytes = (std::size_t{1} << 32) + 16;
  void* const memory = mmap(nullptr, kHugeBytes + 10, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const bytes = static_cast<std::byte*>(memory);
  bytes[0] = std::byte{0x8e};  // BINBYTES8
  std::memcpy(bytes + 1, &kHugeBytes, sizeof kHugeBytes);
  bytes[9 + kHugeBytes] = std::byte{'.'};
  const auto tree = ParsePickle({bytes, kHugeBytes + 10});
  ASSERT_TRUE(tree) << tree.error().Message();
  EXPECT_EQ(tree->root.kind, Kind::kOpaque);
  munmap(memory, kHugeBytes + 10);
}

TEST(Pickle, ReadsTextsAndBytes) {
  for (const std::string& text : {"X\2\0\0\0hi."s, "\x8c\2hi."s, "U\2hi."s, "T\2\0\0\0hi."s, "S'hi'\n."s,
                                  "Vhi\n."s, "\x8d\2\0\0\0\0\0\0\0hi."s}) {
    const Parsed parsed(text);
    EXPECT_EQ(parsed.root().kind, Kind::kText);
    EXPECT_EQ(TextOf(parsed.root()), "hi");
  }
  for (const std::string& text :
       {"B\2\0\0\0hi."s, "C\2hi."s, "\x8e\2\0\0\0\0\0\0\0hi."s, "\x96\2\0\0\0\0\0\0\0hi."s}) {
    EXPECT_EQ(Parsed(text).root().kind, Kind::kBytes);
  }
}

TEST(Pickle, BuildsContainers) {
  const Parsed tuple("(K\1K\2t.");
  EXPECT_EQ(tuple.root().kind, Kind::kTuple);
  EXPECT_EQ(tuple.items(tuple.root()).size(), 2u);
  EXPECT_EQ(Parsed("K\1K\2K\3\x87.").tree->objects[0].items.size(), 3u);
  const Parsed list("](K\1K\2eK\3a.");
  EXPECT_EQ(list.items(list.root()).size(), 3u);
  const Parsed dict("}(U\1aK\1U\1bK\2uU\1cK\3s.");
  EXPECT_EQ(dict.root().kind, Kind::kDict);
  EXPECT_EQ(dict.items(dict.root()).size(), 6u);
  const Parsed set("\x8f(K\1K\2\x90.");
  EXPECT_EQ(set.items(set.root()).size(), 2u);
  const Parsed ordered("ccollections\nOrderedDict\n)RU\1aK\1s.");
  EXPECT_EQ(ordered.root().kind, Kind::kDict);
  EXPECT_EQ(ordered.items(ordered.root()).size(), 2u);
  const Parsed ordered_pairs(
      "ccollections\nOrderedDict\n](U\1aK\1\x86"
      "e\x85R.");
  EXPECT_EQ(ordered_pairs.items(ordered_pairs.root()).size(), 2u);
}

TEST(Pickle, RemembersByEveryMemoOpcode) {
  for (const std::string& text : {"]p0\n0g0\n."s, "]q\0000h\0."s, "]r\0\0\0\0000j\0\0\0\0."s,
                                  "]\x94"
                                  "0h\0."s}) {
    EXPECT_EQ(Parsed(text).root().kind, Kind::kList) << text;
  }
}

TEST(Pickle, KeepsCallsOfTensorFunctionsWithTheirArguments) {
  const Parsed parsed("ctorch._utils\n_rebuild_tensor_v2\n(K\1K\2tR.");
  EXPECT_EQ(parsed.root().kind, Kind::kCall);
  const PickleObject& call = parsed.tree->objects[parsed.root().object];
  EXPECT_EQ(call.callee->role, PickleRole::kTensor);
  EXPECT_EQ(call.items.size(), 2u);
}

TEST(Pickle, CountsItsBytesSoThatAnotherMayFollow) { EXPECT_EQ(Parsed("K\1.K\2.").tree->num_bytes, 3u); }

TEST(Pickle, NamesEveryGlobalItDoesNotKnow) {
  const std::pair<std::string, std::string> cases[] = {
      {"cos\nsystem\n(U\2lstR.", "os.system"},
      {"cposix\nsystem\n.", "posix.system"},
      {"cbuiltins\neval\n(U\1xtR.", "builtins.eval"},
      {"c__builtin__\nexec\n.", "__builtin__.exec"},
      {"cbuiltins\ngetattr\n.", "builtins.getattr"},
      {"ctorch.hub\nload\n.", "torch.hub.load"},
      {"(U\2lsios\nsystem\n.", "os.system"},
      {"(cos\nsystem\nU\2lso.", "os.system"},
      {"\x8c\2os\x8c\6system\x93.", "os.system"},
      {"csubprocess\nPopen\n)\x81.", "subprocess.Popen"},
      {"ctorch\nload\n.", "torch.load"},
  };
  for (const auto& [text, name] : cases) {
    const Error error = ErrorOf(text);
    EXPECT_EQ(error.code, ErrorCode::kUnsafePickle) << name;
    EXPECT_THAT(error.Message(), HasSubstr(name + " at byte"));
  }
}

TEST(Pickle, CallsNothingThatWasComputed) {
  // The result of a call, a text, and a global taken out of the memo as an argument are not called.
  EXPECT_EQ(ErrorOf("U\2os)R.").code, ErrorCode::kUnsafePickle);
  EXPECT_EQ(ErrorOf("ctorch._utils\n_rebuild_tensor_v2\n)R)R.").code, ErrorCode::kUnsafePickle);
}

TEST(Pickle, NamesUnsupportedAndUnknownOpcodes) {
  EXPECT_THAT(ErrorOf("\x82\1.").Message(), HasSubstr("EXT1"));
  EXPECT_THAT(ErrorOf("\x97.").Message(), HasSubstr("NEXT_BUFFER"));
  EXPECT_THAT(ErrorOf("Pabc\n.").Message(), HasSubstr("PERSID"));
  EXPECT_THAT(ErrorOf("\xfe.").Message(), HasSubstr("unknown opcode 254"));
  EXPECT_THAT(ErrorOf("\x80\x09.").Message(), HasSubstr("protocol 9"));
}

TEST(Pickle, RefusesStacksThatRunDry) {
  for (const std::string& text :
       {"."s,     "0."s,          "a."s,   "K\1a."s, "s."s,   "u."s,  "t."s,      "\x87."s,  "R."s,
        ")R."s,   "b."s,          "Q."s,   "(R."s,   "q\0."s, "2."s,  "}(K\1u."s, "(K\1d."s, "K\1K\2a."s,
        "\x93."s, "K\1K\2\x93."s, "h\7."s, "e."s,    "o."s,   "(o."s, "1."s}) {
    EXPECT_FALSE(Parse(text)) << text;
  }
}

TEST(Pickle, RefusesLengthsBeyondTheFile) {
  for (const std::string& text :
       {"X\xff\xff\xff\x7f"s, "X\xff\xff\xff\xff."s, "\x8e\xff\xff\xff\xff\xff\xff\xff\xff."s,
        "\x8b\xff\xff\xff\xff."s, "\x95\xff\xff\xff\xff\xff\xff\xff\x7f."s}) {
    EXPECT_EQ(ErrorOf(text).code, ErrorCode::kTruncated) << text;
  }
}

TEST(Pickle, RefusesAMemoIndexThatOnlyEatsMemory) {
  EXPECT_EQ(ErrorOf("Nr\xff\xff\xff\xff.").code, ErrorCode::kBadHeader);
  EXPECT_EQ(ErrorOf("Np99999999999999\n.").code, ErrorCode::kBadHeader);
  EXPECT_EQ(ErrorOf("Np-1\n.").code, ErrorCode::kBadHeader);
}

TEST(Pickle, EndsOnListsThatHoldThemselves) { EXPECT_EQ(Parsed("]q\0h\0a."s).root().kind, Kind::kList); }

TEST(Pickle, TakesManyNestedMarksAndTuples) {
  // A million levels: nothing here recurses.
  const Parsed parsed(")" + std::string(1000000, '\x85') + ".");
  EXPECT_EQ(parsed.tree->objects.size(), 1000001u);
  EXPECT_FALSE(Parse(std::string(1000000, '(')));
}

TEST(Pickle, SurvivesEveryDamage) {
  for (const char* name : {"pt_bare_legacy.pt", "pt_checkpoint_legacy_protocol4.pt"}) {
    ForEachDamage(ReadBytes(DataFile(name)), [](const Bytes& bytes) {
      std::size_t at = 0;
      while (at < bytes.size()) {
        const auto tree = ParsePickle(std::span(bytes).subspan(at));
        if (!tree) return;
        ASSERT_GT(tree->num_bytes, 0u);
        at += tree->num_bytes;
      }
    });
  }
}

}  // namespace
}  // namespace vernier

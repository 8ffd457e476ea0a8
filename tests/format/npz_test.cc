#include "format/npz.h"

#include "format/format_testing.h"
#include "gmock/gmock.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;

Result<Entries> List(const FileRef& file) {
  VN_ASSIGN_OR_RETURN(const std::vector<ZipMember> members, ListZip(file));
  return ListNpz(file, members);
}

void ExpectTheSavedArrays(const std::string& name, bool in_place) {
  const FileRef file = MappedFile::Open(DataFile(name)).value();
  const Entries entries = List(file).value();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].info.name, "a");
  EXPECT_EQ(entries[1].info.name, "layer.0/weight");
  EXPECT_EQ(entries[2].info.name, "empty");
  const TensorView a = LoadEntry(entries[0], file).value();
  EXPECT_EQ(a.shape, (Shape{2, 3}));
  EXPECT_EQ(BytesOf(a), ZeroToFive(Dtype::kF32));
  EXPECT_EQ(a.file != nullptr, in_place);
  EXPECT_EQ(BytesOf(LoadEntry(entries[1], file).value()), ZeroToFive(Dtype::kF64));
  EXPECT_EQ(LoadEntry(entries[2], file)->shape, Shape{0});
}

TEST(Npz, UsesStoredArraysInPlace) { ExpectTheSavedArrays("npz_stored.npz", true); }

TEST(Npz, UnpacksDeflatedArrays) { ExpectTheSavedArrays("npz_deflated.npz", false); }

TEST(Npz, DamagesOnlyTheMemberThatIsWrong) {
  const FileRef file = MappedFile::Open(DataFile("npz_one_bad.npz")).value();
  const Entries entries = List(file).value();
  ASSERT_EQ(entries.size(), 3u) << "notes.txt is no array";
  EXPECT_EQ(BytesOf(LoadEntry(entries[0], file).value()), ZeroToFive(Dtype::kF32));
  EXPECT_EQ(LoadEntry(entries[1], file).error().code, ErrorCode::kUnsupported);
  const Error garbage = LoadEntry(entries[2], file).error();
  EXPECT_EQ(garbage.code, ErrorCode::kBadMagic);
  EXPECT_THAT(garbage.Message(), HasSubstr("npz_one_bad.npz: garbage.npy"));
}

TEST(Npz, ChecksTheChecksumOfWhatItUnpacks) {
  Bytes bytes = ReadBytes(DataFile("npz_deflated.npz"));
  const FileRef good = MappedFile::FromBytes(bytes, "x.npz");
  const ZipMember member = ListZip(good)->at(0);
  // Every change of the data is found, by deflate itself or by the checksum.
  for (std::uint64_t i = 0; i < member.stored_bytes; ++i) {
    Bytes bad = bytes;
    bad[member.data_offset_bytes + i] ^= std::byte{1};
    const FileRef file = MappedFile::FromBytes(bad, "x.npz");
    const Result<Entries> entries = List(file);
    ASSERT_TRUE(entries);
    EXPECT_FALSE(LoadEntry(entries->at(0), file)) << i;
    EXPECT_TRUE(LoadEntry(entries->at(1), file)) << i;
  }
}

TEST(Npz, SurvivesEveryCutAndEveryChangedByte) {
  for (const char* name : {"npz_stored.npz", "npz_deflated.npz"}) {
    ExpectSurvivesDamage(ReadBytes(DataFile(name)), List);
  }
}

}  // namespace
}  // namespace vernier

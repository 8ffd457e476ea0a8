#include "format/zip.h"

#include <fcntl.h>
#include <libdeflate.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/format_testing.h"
#include "format/little_endian.h"
#include "gmock/gmock.h"
#include "temporary_folder.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kEndBytes = 22;

Bytes Join(const std::vector<std::span<const std::byte>>& pieces) {
  Bytes bytes;
  for (const auto piece : pieces) bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}

Bytes Zip(const std::vector<std::pair<std::string, std::string>>& members) {
  ZipLayout layout;
  for (const auto& [name, text] : members) layout.Add(name, AsBytes(text));
  return Join(layout.Finish());
}

// An archive of one deflated member, as other programs write it.
struct Deflated {
  std::string text = std::string(5000, 'x') + "end";
  std::uint32_t unpacked_bytes = 5003;
  std::uint16_t method = 8, flags = 0;

  std::string packed() const {
    std::string out(1 << 16, '\0');
    libdeflate_compressor* compressor = libdeflate_alloc_compressor(6);
    out.resize(libdeflate_deflate_compress(compressor, text.data(), text.size(), out.data(), out.size()));
    libdeflate_free_compressor(compressor);
    return out;
  }
  void AppendFields(std::string& out, const std::string& data) const {
    AppendLittle<std::uint16_t>(out, 20);
    AppendLittle<std::uint16_t>(out, flags);
    AppendLittle<std::uint16_t>(out, method);
    AppendLittle<std::uint32_t>(out, 0);
    AppendLittle<std::uint32_t>(out, libdeflate_crc32(0, text.data(), text.size()));
    AppendLittle<std::uint32_t>(out, static_cast<std::uint32_t>(data.size()));
    AppendLittle<std::uint32_t>(out, unpacked_bytes);
    AppendLittle<std::uint16_t>(out, 1);
    AppendLittle<std::uint16_t>(out, 0);
  }
  Bytes File() const {
    const std::string data = packed();
    std::string out = "PK\x03\x04";
    AppendFields(out, data);
    out += "a" + data;
    const std::size_t directory_at = out.size();
    out += std::string("PK\x01\x02\x14\0", 6);
    AppendFields(out, data);
    out += std::string(2 + 2 + 2 + 4 + 4, '\0') + "a";
    const std::size_t directory_bytes = out.size() - directory_at;
    out += std::string("PK\x05\x06\0\0\0\0\1\0\1\0", 12);
    AppendLittle<std::uint32_t>(out, static_cast<std::uint32_t>(directory_bytes));
    AppendLittle<std::uint32_t>(out, static_cast<std::uint32_t>(directory_at));
    AppendLittle<std::uint16_t>(out, 0);
    return ToBytes(out);
  }
};

FileRef File(Bytes bytes) { return MappedFile::FromBytes(std::move(bytes), "x.zip"); }

Error ErrorOf(Bytes bytes) {
  const auto members = ListZip(File(std::move(bytes)));
  EXPECT_FALSE(members);
  return members ? Error{} : members.error();
}

template <class T>
Bytes With(Bytes bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
  return bytes;
}

// Where the record of the directory with this number begins.
std::size_t DirectoryAt(const Bytes& bytes, int number = 0) {
  std::size_t at = std::string::npos;
  for (int i = 0; i <= number; ++i) at = AsText(bytes).find("PK\x01\x02", i == 0 ? 0 : at + 1);
  return at;
}

TEST(Zip, ReadsBackWhatItLaysOut) {
  const FileRef file = File(Zip({{"a/b", "hello"}, {"empty", ""}, {"c", std::string(1000, 'z')}}));
  const auto members = ListZip(file);
  ASSERT_TRUE(members) << members.error().Message();
  ASSERT_EQ(members->size(), 3u);
  EXPECT_EQ(members->at(0).name, "a/b");
  EXPECT_EQ(AsText(StoredBytes(file, members->at(0))), "hello");
  EXPECT_EQ(members->at(1).stored_bytes, 0u);
  EXPECT_EQ(*UnzipMember(file, members->at(2)), ToBytes(std::string(1000, 'z')));
  for (const ZipMember& member : *members) EXPECT_EQ(member.data_offset_bytes % ZipLayout::kAlignBytes, 0u);
}

TEST(Zip, ReadsAnEmptyArchiveAndLeavesFoldersOut) {
  EXPECT_TRUE(LooksLikeZip(Zip({})));
  EXPECT_EQ(ListZip(File(Zip({})))->size(), 0u);
  EXPECT_EQ(ListZip(File(Zip({{"folder/", ""}, {"folder/a", "x"}})))->size(), 1u);
}

TEST(Zip, InflatesAndChecksTheChecksum) {
  const FileRef file = File(Deflated().File());
  const auto members = ListZip(file);
  ASSERT_TRUE(members) << members.error().Message();
  EXPECT_TRUE(members->at(0).deflated);
  EXPECT_EQ(*UnzipMember(file, members->at(0)), ToBytes(Deflated().text));
  ZipMember wrong = members->at(0);
  wrong.crc32 ^= 1;
  EXPECT_THAT(UnzipMember(file, wrong).error().Message(), HasSubstr("checksum"));
}

TEST(Zip, RefusesAMemberThatClaimsToUnpackToMoreThanDeflateCan) {
  Deflated bomb;
  bomb.unpacked_bytes = 0xfffffff0;
  const Error error = ErrorOf(bomb.File());
  EXPECT_EQ(error.code, ErrorCode::kTooLarge);
  EXPECT_THAT(error.Message(), HasSubstr("x.zip: zip member 'a'"));
}

TEST(Zip, RefusesSizesThatAreNotWhatIsInflated) {
  for (const std::uint32_t claimed : {5002u, 5004u}) {
    Deflated wrong;
    wrong.unpacked_bytes = claimed;
    const FileRef file = File(wrong.File());
    const auto members = ListZip(file);
    ASSERT_TRUE(members);
    EXPECT_FALSE(UnzipMember(file, members->at(0)));
  }
}

TEST(Zip, NamesEncryptionAndOtherMethods) {
  Deflated encrypted;
  encrypted.flags = 1;
  EXPECT_THAT(ErrorOf(encrypted.File()).Message(), HasSubstr("encrypted"));
  Deflated lzma;
  lzma.method = 14;
  EXPECT_THAT(ErrorOf(lzma.File()).Message(), HasSubstr("method 14"));
}

TEST(Zip, RefusesMembersThatOverlap) {
  const Bytes good = Zip({{"a", std::string(200, 'q')}, {"b", "123"}});
  const auto members = ListZip(File(good));
  ASSERT_TRUE(members);
  // A copy of the second member inside of the first one's data, and the directory points there.
  const auto second = good.begin() + static_cast<std::ptrdiff_t>(AsText(good).find("PK\x03\x04", 4));
  const auto second_end = good.begin() + static_cast<std::ptrdiff_t>(members->at(1).data_offset_bytes + 3);
  const std::uint64_t inside = members->at(0).data_offset_bytes;
  Bytes bad = good;
  std::copy(second, second_end, bad.begin() + static_cast<std::ptrdiff_t>(inside));
  bad = With(bad, DirectoryAt(bad, 1) + 42, static_cast<std::uint32_t>(inside));
  EXPECT_THAT(ErrorOf(bad).Message(), HasSubstr("'b': the header is damaged: overlaps 'a'"));
}

TEST(Zip, RefusesTheSameNameTwice) {
  EXPECT_THAT(ErrorOf(Zip({{"same", "1"}, {"same", "2"}})).Message(), HasSubstr("twice"));
}

TEST(Zip, RefusesADirectoryThatDisagreesWithTheLocalHeaders) {
  const Bytes good = Zip({{"name", "data"}});
  const std::size_t record = DirectoryAt(good);
  EXPECT_THAT(ErrorOf(With(good, record + 24, std::uint32_t{5})).Message(), HasSubstr("sizes"));
  EXPECT_THAT(ErrorOf(With(good, record + 42, std::uint32_t{1})).Message(), HasSubstr("no local header"));
  EXPECT_THAT(ErrorOf(With(good, record + 46, 'N')).Message(), HasSubstr("disagrees"));
  EXPECT_THAT(ErrorOf(With(good, record + 20, std::uint64_t{0x7000000070000000})).Message(),
              HasSubstr("past"));
}

TEST(Zip, RefusesTwoEndRecords) {
  Bytes bytes = Zip({{"a", "x"}});
  // The first one's comment is the second one.
  const Bytes end(bytes.end() - kEndBytes, bytes.end());
  bytes.insert(bytes.end(), end.begin(), end.end());
  bytes = With(bytes, bytes.size() - 2 * kEndBytes + 20, static_cast<std::uint16_t>(kEndBytes));
  EXPECT_THAT(ErrorOf(bytes).Message(), HasSubstr("two of them"));
}

TEST(Zip, RefusesBytesInFrontAndBehind) {
  Bytes front = Zip({{"a", "x"}}), behind = front;
  front.insert(front.begin(), 7, std::byte{0});
  EXPECT_FALSE(ListZip(File(front)));
  behind.push_back(std::byte{0});
  EXPECT_EQ(ErrorOf(behind).code, ErrorCode::kTruncated);
}

TEST(Zip, ReadsWhatPythonWritesInAStreamWithZip64) {
  const auto file = MappedFile::Open(DataFile("zip_stream64.zip"));
  ASSERT_TRUE(file);
  const auto members = ListZip(*file);
  ASSERT_TRUE(members) << members.error().Message();
  ASSERT_EQ(members->size(), 2u);
  EXPECT_EQ(*UnzipMember(*file, members->at(0)), ToBytes(std::string(300, 'x')));
  EXPECT_EQ(*UnzipMember(*file, members->at(1)), ToBytes("hello"));
}

// Four members, two of them beyond 4 GiB, in a file that is mostly a hole.
TEST(Zip, CrossesFourGibibytes) {
  constexpr std::size_t kHugeBytes = (std::size_t{1} << 32) + 4096;
  void* zeros = mmap(nullptr, kHugeBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(zeros, MAP_FAILED);
  ZipLayout layout;
  layout.Add("before", AsBytes("1"));
  layout.Add("huge", {static_cast<const std::byte*>(zeros), kHugeBytes}, /*crc32=*/0x12345678);
  layout.Add("after", AsBytes("2"));
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "huge.zip";
  const int descriptor = open(path.c_str(), O_CREAT | O_WRONLY, 0600);
  ASSERT_GE(descriptor, 0);
  off_t at = 0;
  for (const std::span<const std::byte> piece : layout.Finish()) {
    if (piece.size() != kHugeBytes) {
      ASSERT_EQ(pwrite(descriptor, piece.data(), piece.size(), at), static_cast<ssize_t>(piece.size()));
    }
    at += static_cast<off_t>(piece.size());
  }
  close(descriptor);
  munmap(zeros, kHugeBytes);
  EXPECT_EQ(static_cast<std::uint64_t>(at), layout.size_bytes());

  const auto file = MappedFile::Open(path);
  ASSERT_TRUE(file) << file.error().Message();
  const auto members = ListZip(*file);
  ASSERT_TRUE(members) << members.error().Message();
  ASSERT_EQ(members->size(), 3u);
  EXPECT_EQ(members->at(1).stored_bytes, kHugeBytes);
  EXPECT_EQ(members->at(1).crc32, 0x12345678u);
  EXPECT_GT(members->at(2).data_offset_bytes, kHugeBytes);
  EXPECT_EQ(*UnzipMember(*file, members->at(2)), ToBytes("2"));
}

TEST(Zip, CountsMoreMembersThanSixteenBitsHold) {
  ZipLayout layout;
  for (int i = 0; i < 70000; ++i) layout.Add(std::to_string(i), {});
  const FileRef file = File(Join(layout.Finish()));
  const auto members = ListZip(file);
  ASSERT_TRUE(members) << members.error().Message();
  EXPECT_EQ(members->size(), 70000u);
  EXPECT_EQ(members->back().name, "69999");
}

TEST(Zip, SurvivesEveryDamage) {
  const auto list_and_unzip = [](Bytes bytes) {
    const FileRef file = File(std::move(bytes));
    const auto members = ListZip(file);
    if (!members) return;
    for (const ZipMember& member : *members) {
      if (member.unpacked_bytes < 1 << 20) static_cast<void>(UnzipMember(file, member));
    }
  };
  ForEachDamage(Zip({{"a/b", "hello"}, {"c", "zz"}}), list_and_unzip);
  ForEachDamage(Deflated().File(), list_and_unzip);
  ForEachDamage(ReadBytes(DataFile("zip_stream64.zip")), list_and_unzip);
}

}  // namespace
}  // namespace vernier

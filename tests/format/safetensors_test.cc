#include "format/safetensors.h"

#include "format/format_testing.h"
#include "format/little_endian.h"
#include "gmock/gmock.h"
#include "temporary_folder.h"

namespace vernier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

FileRef Safetensors(const std::string& header, std::size_t data_bytes = 64) {
  std::string text;
  AppendLittle(text, static_cast<std::uint64_t>(header.size()));
  return MappedFile::FromBytes(ToBytes(text + header + std::string(data_bytes, '\0')), "x.safetensors");
}

std::vector<std::string> Names(const Entries& entries) {
  std::vector<std::string> names;
  for (const TensorEntry& entry : entries) names.push_back(entry.info.name);
  return names;
}

const TensorEntry& Find(const Entries& entries, std::string_view name) {
  for (const TensorEntry& entry : entries) {
    if (entry.info.name == name) return entry;
  }
  ADD_FAILURE() << name << " is missing";
  return entries.front();
}

constexpr Dtype kDtypes[] = {Dtype::kF64,      Dtype::kF32,    Dtype::kF16, Dtype::kBF16,
                             Dtype::kF8E4M3FN, Dtype::kF8E5M2, Dtype::kI64, Dtype::kI32,
                             Dtype::kI16,      Dtype::kI8,     Dtype::kU8,  Dtype::kU16,
                             Dtype::kU32,      Dtype::kU64,    Dtype::kC64, Dtype::kBool};

TEST(Safetensors, ReadsEveryDtypeThatItsLibraryWrites) {
  const FileRef file = MappedFile::Open(DataFile("all.safetensors")).value();
  const Entries entries = ListSafetensors(file).value();
  EXPECT_EQ(entries.size(), std::size(kDtypes) + 2);
  for (const Dtype dtype : kDtypes) {
    const Result<TensorView> view = LoadEntry(Find(entries, Name(dtype)), file);
    ASSERT_TRUE(view) << view.error().Message();
    EXPECT_EQ(view->dtype, dtype);
    EXPECT_EQ(view->shape, (Shape{2, 3}));
    EXPECT_EQ(BytesOf(*view), ZeroToFive(dtype)) << Name(dtype);
    EXPECT_TRUE(view->file) << "not used in place";
  }
  EXPECT_EQ(LoadEntry(Find(entries, "scalar"), file)->shape, Shape{});
  EXPECT_EQ(LoadEntry(Find(entries, "empty"), file)->shape, (Shape{0, 3}));
}

TEST(Safetensors, KeepsTheOrderOfTheHeader) {
  const Entries entries = ListSafetensors(Safetensors(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},
      "__metadata__":{"x":"y"},"a":{"data_offsets":[0,1],"shape":[1],"dtype":"U8"}})"))
                              .value();
  EXPECT_THAT(Names(entries), ElementsAre("b", "a"));
  EXPECT_EQ(entries[0].source.offset_bytes, entries[1].source.offset_bytes + 1);
}

TEST(Safetensors, DamagesOnlyTheTensorThatIsWrong) {
  const struct {
    const char* entry;
    ErrorCode code;
  } cases[] = {
      {R"({"dtype":"F4","shape":[2],"data_offsets":[8,16]})", ErrorCode::kUnsupported},
      {R"({"dtype":"F32","shape":[3],"data_offsets":[8,16]})", ErrorCode::kBadShape},
      {R"({"dtype":"F32","shape":[2],"data_offsets":[16,8]})", ErrorCode::kBadShape},
      {R"({"dtype":"F32","shape":[-2],"data_offsets":[8,16]})", ErrorCode::kBadShape},
      {R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[8,8]})", ErrorCode::kBadShape},
      {R"({"dtype":"F32","shape":[3],"data_offsets":[60,72]})", ErrorCode::kTruncated},
      {R"({"dtype":"F32","shape":[0],"data_offsets":[65,65]})", ErrorCode::kTruncated},
      {R"({"dtype":"U8","shape":[8],"data_offsets":[18446744073709551607,18446744073709551615]})",
       ErrorCode::kTruncated},
      {R"({"dtype":"F32","shape":[2]})", ErrorCode::kBadHeader},
      {R"({"dtype":"F32","shape":[2],"data_offsets":[8]})", ErrorCode::kBadHeader},
      {R"({"dtype":"F32","shape":[2],"data_offsets":[4,12]})", ErrorCode::kBadHeader},  // overlaps
  };
  for (const auto& c : cases) {
    const FileRef file = Safetensors(R"({"good":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"bad":)" +
                                     std::string(c.entry) + "}");
    const Result<Entries> entries = ListSafetensors(file);
    ASSERT_TRUE(entries) << entries.error().Message();
    EXPECT_TRUE(LoadEntry(entries->at(0), file)) << c.entry;
    const Result<TensorView> bad = LoadEntry(entries->at(1), file);
    ASSERT_FALSE(bad) << c.entry;
    EXPECT_EQ(bad.error().code, c.code) << bad.error().Message();
    EXPECT_THAT(bad.error().Message(), HasSubstr("x.safetensors: bad"));
  }
}

TEST(Safetensors, RefusesHeadersThatCannotBeRead) {
  for (
      const char* header : {
          "",
          "{",
          "[]",
          "{} {}",
          R"({"a":1})",
          R"({"a":{"dtype":1,"shape":[],"data_offsets":[0,4]}})",
          R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})",
          R"({"a":{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4]}})",
          R"({"a":{"dtype":"F32","shape":[],"data_offsets":[-1,4]}})",
          R"({"a":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}})",
          R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[],"data_offsets":[4,8]}})",
          "{\"\xff\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
      }) {
    const Result<Entries> entries = ListSafetensors(Safetensors(header));
    ASSERT_FALSE(entries) << header;
    EXPECT_EQ(entries.error().code, ErrorCode::kBadHeader) << entries.error().Message();
    EXPECT_THAT(entries.error().Message(), HasSubstr("x.safetensors"));
  }
}

TEST(Safetensors, RefusesHeaderLengthsBeyondTheFile) {
  const auto code_of = [](std::uint64_t length) {
    std::string text;
    AppendLittle(text, length);
    return ListSafetensors(MappedFile::FromBytes(ToBytes(text + "{}"), "x.safetensors")).error().code;
  };
  EXPECT_EQ(code_of(3), ErrorCode::kTruncated);
  EXPECT_EQ(code_of(100'000'000), ErrorCode::kTruncated);
  EXPECT_EQ(code_of(100'000'001), ErrorCode::kTooLarge);
  EXPECT_EQ(code_of(UINT64_MAX), ErrorCode::kTooLarge);
}

TEST(Safetensors, SurvivesEveryCutAndEveryChangedByte) {
  ExpectSurvivesDamage(ReadBytes(DataFile("all.safetensors")), ListSafetensors);
}

TEST(Safetensors, KeepsTheTensorsInFrontOfACut) {
  const Bytes good = ReadBytes(DataFile("all.safetensors"));
  const Bytes cut(good.begin(), good.end() - 1);
  const FileRef file = MappedFile::FromBytes(cut, "cut.safetensors");
  const Entries entries = ListSafetensors(file).value();
  int num_damaged = 0;
  for (const TensorEntry& entry : entries) num_damaged += !LoadEntry(entry, file);
  EXPECT_EQ(num_damaged, 1);
}

TEST(Safetensors, WritesWhatItReads) {
  const TemporaryFolder folder;
  std::vector<Bytes> data;
  std::vector<NamedTensor> tensors;
  for (const Dtype dtype : kDtypes) data.push_back(ZeroToFive(dtype));
  // A byte in front: what comes after it must still lie at multiples of its size.
  tensors.push_back({"first", BorrowTensor(Dtype::kU8, {}, data[0].data())});
  for (std::size_t i = 0; i < std::size(kDtypes); ++i) {
    tensors.push_back({std::string(Name(kDtypes[i])), BorrowTensor(kDtypes[i], {2, 3}, data[i].data())});
  }
  tensors.push_back({"empty", BorrowTensor(Dtype::kF32, {4, 0}, nullptr)});
  tensors.push_back(
      {"quote\" back\\ line\n bell\x07 \xc3\xa4", BorrowTensor(Dtype::kU8, {}, data[0].data())});
  tensors.push_back({std::string(10'000, 'n'), BorrowTensor(Dtype::kU8, {}, data[0].data())});
  const std::filesystem::path path = folder.path() / "x.safetensors";
  const Result<Done> written = WriteSafetensors(path, tensors);
  ASSERT_TRUE(written) << written.error().Message();

  const FileRef file = MappedFile::Open(path).value();
  const Entries entries = ListSafetensors(file).value();
  ASSERT_EQ(entries.size(), tensors.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const TensorView view = LoadEntry(entries[i], file).value();
    EXPECT_EQ(entries[i].info.name, tensors[i].name);
    EXPECT_EQ(view.dtype, tensors[i].tensor.dtype);
    EXPECT_EQ(view.shape, tensors[i].tensor.shape);
    EXPECT_EQ(BytesOf(view), BytesOf(tensors[i].tensor));
    EXPECT_EQ(entries[i].source.offset_bytes % std::min<std::size_t>(8, ItemBytes(view.dtype)), 0u);
  }
}

TEST(Safetensors, WritesAnEmptyFile) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteSafetensors(folder.path() / "x.safetensors", {}));
  const FileRef file = MappedFile::Open(folder.path() / "x.safetensors").value();
  EXPECT_TRUE(LooksLikeSafetensors(file->bytes()));
  EXPECT_TRUE(ListSafetensors(file)->empty());
}

TEST(Safetensors, DoesNotWriteWhatTheFormatCannotHold) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "x.safetensors";
  const auto code_of = [&](std::vector<NamedTensor> tensors) {
    return WriteSafetensors(path, tensors).error().code;
  };
  const TensorView byte = BorrowTensor(Dtype::kU8, {0}, nullptr);
  EXPECT_EQ(code_of({{"a", BorrowTensor(Dtype::kC128, {0}, nullptr)}}), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of({{"a", byte}, {"a", byte}}), ErrorCode::kBadArgument);
  EXPECT_EQ(code_of({{"__metadata__", byte}}), ErrorCode::kBadArgument);
  EXPECT_EQ(code_of({{"\xff", byte}}), ErrorCode::kBadArgument);
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace vernier

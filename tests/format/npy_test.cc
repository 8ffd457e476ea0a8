#include "format/npy.h"

#include "format/format_testing.h"
#include "format/little_endian.h"
#include "gmock/gmock.h"
#include "temporary_folder.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;

struct NamedDtype {
  const char* descr;
  Dtype dtype;
};
constexpr NamedDtype kDtypes[] = {
    {"f2", Dtype::kF16},   {"f4", Dtype::kF32},  {"f8", Dtype::kF64}, {"c8", Dtype::kC64},
    {"c16", Dtype::kC128}, {"i1", Dtype::kI8},   {"i2", Dtype::kI16}, {"i4", Dtype::kI32},
    {"i8", Dtype::kI64},   {"u1", Dtype::kU8},   {"u2", Dtype::kU16}, {"u4", Dtype::kU32},
    {"u8", Dtype::kU64},   {"b1", Dtype::kBool},
};

FileRef Fixture(const std::string& name) { return MappedFile::Open(DataFile(name)).value(); }

Result<TensorView> Load(const FileRef& file) {
  VN_ASSIGN_OR_RETURN(const Entries entries, ListNpy(file));
  return LoadEntry(entries.at(0), file);
}

// A version 1 file with this header and these many bytes of data.
FileRef Npy(const std::string& header, std::size_t data_bytes = 64) {
  std::string text = "\x93NUMPY";
  text += std::string("\x01\x00", 2);
  AppendLittle(text, static_cast<std::uint16_t>(header.size()));
  return MappedFile::FromBytes(ToBytes(text + header + std::string(data_bytes, '\0')), "x.npy");
}

Error ErrorOf(const std::string& header, std::size_t data_bytes = 64) {
  const Result<Entries> entries = ListNpy(Npy(header, data_bytes));
  EXPECT_FALSE(entries) << header;
  return entries ? Error{} : entries.error();
}

TEST(Npy, ReadsEveryDtypeThatNumPyWrites) {
  for (const NamedDtype& row : kDtypes) {
    const Result<TensorView> view = Load(Fixture("npy_" + std::string(row.descr) + ".npy"));
    ASSERT_TRUE(view) << view.error().Message();
    EXPECT_EQ(view->dtype, row.dtype);
    EXPECT_EQ(view->shape, (Shape{2, 3}));
    EXPECT_EQ(BytesOf(*view), ZeroToFive(row.dtype)) << row.descr;
    EXPECT_TRUE(view->file) << "not used in place";
  }
}

TEST(Npy, TurnsBigEndianFortranOrderAround) {
  for (const NamedDtype& row : kDtypes) {
    const Result<TensorView> view = Load(Fixture("npy_" + std::string(row.descr) + "_big_fortran.npy"));
    ASSERT_TRUE(view) << view.error().Message();
    EXPECT_EQ(BytesOf(*view), ZeroToFive(row.dtype)) << row.descr;
  }
  std::vector<std::int32_t> numbers(24);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int32_t>(i);
  EXPECT_EQ(BytesOf(Load(Fixture("npy_cube_fortran.npy")).value()), BytesOf(numbers));
}

TEST(Npy, ReadsEveryVersion) {
  for (const char* name : {"npy_version2.npy", "npy_version3.npy"}) {
    EXPECT_EQ(BytesOf(Load(Fixture(name)).value()), ZeroToFive(Dtype::kF32)) << name;
  }
  Bytes version4 = ReadBytes(DataFile("npy_f4.npy"));
  version4[6] = std::byte{4};
  const Result<Entries> entries = ListNpy(MappedFile::FromBytes(version4, "x.npy"));
  EXPECT_EQ(entries.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(entries.error().Message(), HasSubstr("version 4.0"));
}

TEST(Npy, ReadsScalarsVectorsAndEmptyArrays) {
  EXPECT_EQ(Load(Fixture("npy_scalar.npy"))->shape, Shape{});
  EXPECT_EQ(BytesOf(Load(Fixture("npy_scalar.npy")).value()), BytesOf(std::vector<float>{7}));
  EXPECT_EQ(Load(Fixture("npy_empty.npy"))->shape, (Shape{0, 3}));
  EXPECT_EQ(BytesOf(Load(Fixture("npy_vector.npy")).value()), ZeroToFive(Dtype::kF32));
}

TEST(Npy, NamesTheDescrItDoesNotRead) {
  const struct {
    const char *file, *says;
  } cases[] = {{"npy_object.npy", "'|O': Python objects"},
               {"npy_structured.npy", "descr [('a', '<f4'), ('b', '<i8')]: a structured array"},
               {"npy_text.npy", "'<U2': text"},
               {"npy_void.npy", "'|V2': raw bytes; bfloat16"},
               {"npy_date.npy", "'<M8[s]': dates"}};
  for (const auto& c : cases) {
    const Result<Entries> entries = ListNpy(Fixture(c.file));
    ASSERT_FALSE(entries) << c.file;
    EXPECT_EQ(entries.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(entries.error().Message(), HasSubstr(c.says));
    EXPECT_THAT(entries.error().Message(), HasSubstr(c.file));
  }
  EXPECT_THAT(ErrorOf("{'descr': '<f16', 'fortran_order': False, 'shape': ()}").detail, HasSubstr("'<f16'"));
  EXPECT_THAT(ErrorOf("{'descr': '', 'fortran_order': False, 'shape': ()}").detail, HasSubstr("descr ''"));
}

TEST(Npy, AcceptsEveryWayToWriteTheSameHeader) {
  for (const char* header : {
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n",
           "{'shape': (2, 3), 'descr': '<f4', 'fortran_order': False}",
           "{\"descr\":\"<f4\",\"fortran_order\":False,\"shape\":(2,3,)}",
           " { 'descr' : '=f4' , 'fortran_order' : False , 'shape' : ( 2L , 3L ) , } \n\n",
           "{'descr': '|f4', 'fortran_order': False, 'shape': (2, 3)}",
           "{'descr': 'f4', 'fortran_order': False, 'shape': (2, 3)}",
           "{'descr': 'float32', 'fortran_order': False, 'shape': (2, 3)}",
       }) {
    const Result<TensorView> view = Load(Npy(header));
    ASSERT_TRUE(view) << view.error().Message();
    EXPECT_EQ(view->dtype, Dtype::kF32) << header;
    EXPECT_EQ(view->shape, (Shape{2, 3})) << header;
  }
  EXPECT_EQ(Load(Npy("{'descr': 'bfloat16', 'fortran_order': False, 'shape': (1,)}"))->dtype, Dtype::kBF16);
  EXPECT_EQ(Load(Npy("{'descr': '|?', 'fortran_order': False, 'shape': (1,)}"))->dtype, Dtype::kBool);
}

TEST(Npy, RefusesHeadersThatAreNotWhatNumPyWrites) {
  for (const char* header : {
           "",
           "descr",
           "{",
           "{}",
           "{'descr': '<f4', 'fortran_order': False}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'shape': (3,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}",
           "{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}",
           "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': [2]}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2,}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} + 1",
           "{'descr': '<f\\x34', 'fortran_order': False, 'shape': (2,)}",
           "{'descr': '<f4",
           "{descr: '<f4', 'fortran_order': False, 'shape': (2,)}",
           "__import__('os').system('true')",
       }) {
    EXPECT_EQ(ErrorOf(header).code, ErrorCode::kBadHeader) << header;
  }
}

TEST(Npy, RefusesShapesThatCannotBe) {
  const auto with_shape = [](const std::string& shape) {
    return "{'descr': '<f4', 'fortran_order': True, 'shape': " + shape + ", }";
  };
  for (const char* shape :
       {"(-1,)", "(2, -3)", "(4294967296, 4294967296)", "(2305843009213693952,)", "(9223372036854775807, 2)",
        "(9223372036854775808,)", "(99999999999999999999999,)"}) {
    EXPECT_EQ(ErrorOf(with_shape(shape)).code, ErrorCode::kBadShape) << shape;
  }
  EXPECT_EQ(ErrorOf(with_shape("(17,)")).code, ErrorCode::kTruncated);
  EXPECT_EQ(ErrorOf(with_shape("(2305843009213693951,)")).code, ErrorCode::kTruncated);
  EXPECT_TRUE(ListNpy(Npy(with_shape("(0, 9223372036854775807, 5)"))));
  std::string deep = "(";
  for (int i = 0; i < 65; ++i) deep += "1,";
  EXPECT_EQ(ErrorOf(with_shape(deep + ")")).code, ErrorCode::kUnsupported);
}

TEST(Npy, RefusesHeaderLengthsBeyondTheFile) {
  Bytes bytes = ReadBytes(DataFile("npy_version2.npy"));
  const auto with_length = [&](std::uint32_t length) {
    std::memcpy(bytes.data() + 8, &length, 4);
    return ListNpy(MappedFile::FromBytes(bytes, "x.npy")).error().code;
  };
  EXPECT_EQ(with_length(4000), ErrorCode::kTruncated);
  EXPECT_EQ(with_length(UINT32_MAX), ErrorCode::kTooLarge);
}

TEST(Npy, SurvivesEveryCutAndEveryChangedByte) {
  for (const char* name : {"npy_f4.npy", "npy_c16_big_fortran.npy", "npy_scalar.npy", "npy_version3.npy"}) {
    ExpectSurvivesDamage(ReadBytes(DataFile(name)), ListNpy);
  }
}

TEST(Npy, ReportsEveryCutAsTruncated) {
  const Bytes good = ReadBytes(DataFile("npy_f4.npy"));
  for (std::size_t size = 0; size < good.size(); ++size) {
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    const Result<Entries> entries = ListNpy(MappedFile::FromBytes(cut, "cut.npy"));
    ASSERT_FALSE(entries) << size;
    EXPECT_EQ(entries.error().code, ErrorCode::kTruncated) << size;
    EXPECT_THAT(entries.error().Message(), HasSubstr("cut.npy"));
  }
}

TEST(Npy, WritesWhatItReads) {
  const TemporaryFolder folder;
  for (const NamedDtype& row : kDtypes) {
    for (const Shape& shape : {Shape{}, Shape{6}, Shape{2, 3}, Shape{1, 2, 3}, Shape{3, 0}}) {
      const Bytes data = ZeroToFive(row.dtype);
      const std::filesystem::path path = folder.path() / "x.npy";
      const Result<Done> written = WriteNpy(path, BorrowTensor(row.dtype, shape, data.data()));
      ASSERT_TRUE(written) << written.error().Message();
      const TensorView view = Load(MappedFile::Open(path).value()).value();
      EXPECT_EQ(view.dtype, row.dtype);
      EXPECT_EQ(view.shape, shape);
      EXPECT_TRUE(std::equal(view.bytes().begin(), view.bytes().end(), data.begin()));
    }
  }
}

TEST(Npy, WritesTheSameBytesAsNumPy) {
  const TemporaryFolder folder;
  for (const NamedDtype& row : kDtypes) {
    const Bytes data = ZeroToFive(row.dtype);
    ASSERT_TRUE(WriteNpy(folder.path() / "x.npy", BorrowTensor(row.dtype, {2, 3}, data.data())));
    EXPECT_EQ(ReadBytes(folder.path() / "x.npy"),
              ReadBytes(DataFile("npy_" + std::string(row.descr) + ".npy")))
        << row.descr;
  }
}

TEST(Npy, DoesNotWriteDtypesThatNumPyHasNoNameFor) {
  const TemporaryFolder folder;
  const Result<Done> written = WriteNpy(folder.path() / "x.npy", BorrowTensor(Dtype::kBF16, {0}, nullptr));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(written.error().Message(), HasSubstr("bfloat16 in .npy; write .pt or .safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "x.npy"));
}

}  // namespace
}  // namespace vernier

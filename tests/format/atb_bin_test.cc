#include "format/atb_bin.h"

#include <gtest/gtest.h>

#include "format_testing.h"

namespace vernier {
namespace {

constexpr const char* kHead = "$Version=1.0\n$Object.Count=1\nformat=2\ndtype=%s\ndims=%s\n$End=1\n";

Result<Entries> List(const std::string& dtype, const std::string& dims, const std::string& data) {
  std::string text = kHead;
  text.replace(text.find("%s"), 2, dtype);
  text.replace(text.find("%s"), 2, dims);
  return ListAtbBin(MappedFile::FromBytes(ToBytes(text + data), "test.bin"));
}

TEST(AtbBin, ReadsAFileOfTheOtherStack) {
  const FileRef file = MappedFile::Open(DataFile("atb.bin").string()).value();
  ASSERT_TRUE(LooksLikeAtbBin(file->bytes()));
  const Entries entries = ListAtbBin(file).value();
  ASSERT_EQ(entries.size(), 1u);
  const TensorView view = LoadEntry(entries[0], file).value();
  EXPECT_EQ(view.shape, (Shape{2, 3}));
  EXPECT_EQ(BytesOf(view), ZeroToFive(Dtype::kF32));
}

TEST(AtbBin, KnowsEveryTypeOfTheRuntime) {
  for (const auto& [number, dtype] : {std::pair{"1", Dtype::kF16},
                                      {"2", Dtype::kI8},
                                      {"3", Dtype::kI32},
                                      {"9", Dtype::kI64},
                                      {"12", Dtype::kBool},
                                      {"27", Dtype::kBF16}}) {
    const Result<Entries> entries = List(number, "2", std::string(2 * ItemBytes(dtype), 'x'));
    ASSERT_TRUE(entries) << number;
    EXPECT_EQ((*entries)[0].info.dtype, dtype);
  }
}

TEST(AtbBin, RefusesWhatDoesNotFit) {
  EXPECT_EQ(List("0", "2", "1234567").error().code, ErrorCode::kBadShape);
  EXPECT_EQ(List("0", "2", "123456789").error().code, ErrorCode::kBadShape);
  EXPECT_EQ(List("5", "2", "12345678").error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(List("x", "2", "12345678").error().code, ErrorCode::kBadHeader);
  EXPECT_EQ(List("0", "-2", "12345678").error().code, ErrorCode::kBadHeader);
  EXPECT_EQ(List("0", "2,x", "12345678").error().code, ErrorCode::kBadHeader);
  EXPECT_EQ(List("0", "2\ndata=other.bin", "12345678").error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(List("0", "2\na line", "12345678").error().code, ErrorCode::kBadHeader);
  const std::string unfinished = "$Version=1.0\ndtype=0\n";
  EXPECT_EQ(ListAtbBin(MappedFile::FromBytes(ToBytes(unfinished), "x")).error().code, ErrorCode::kTruncated);
}

}  // namespace
}  // namespace vernier

#include "format/entry.h"

#include <numeric>

#include "format/format_testing.h"
#include "gmock/gmock.h"

namespace vernier {
namespace {

using ::testing::HasSubstr;

TensorEntry Entry(Dtype dtype, Shape shape, std::uint64_t offset_bytes = 0,
                  std::vector<std::int64_t> strides = {}) {
  TensorEntry entry;
  entry.info.name = "t";
  entry.info.dtype = dtype;
  entry.info.num_elements = NumElements(shape, dtype).value();
  entry.info.shape = std::move(shape);
  entry.source.offset_bytes = offset_bytes;
  entry.source.strides = std::move(strides);
  return entry;
}

FileRef File(Bytes bytes) { return MappedFile::FromBytes(std::move(bytes), "f.bin"); }

std::vector<std::int32_t> Iota(std::size_t count) {
  std::vector<std::int32_t> values(count);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(LoadEntry, UsesTheFilesOwnBytesWhenTheyAreInOrder) {
  const FileRef file = File(BytesOf(Iota(8)));
  const TensorView view = LoadEntry(Entry(Dtype::kI32, {2, 3}, 4), file).value();
  EXPECT_EQ(view.data, file->bytes().data() + 4);
  EXPECT_EQ(view.file, file);
}

TEST(LoadEntry, UsesTheFilesOwnBytesWhenStridesAreThoseOfCOrder) {
  const FileRef file = File(BytesOf(Iota(6)));
  // The stride of a dimension of one is never taken.
  const TensorView view = LoadEntry(Entry(Dtype::kI32, {1, 2, 3}, 0, {INT64_MAX, 3, 1}), file).value();
  EXPECT_EQ(view.data, file->bytes().data());
}

// A plain loop over all index tuples.
std::vector<std::int32_t> GatherPlainly(const std::vector<std::int32_t>& from, const Shape& shape,
                                        const std::vector<std::int64_t>& strides) {
  std::vector<std::int32_t> out;
  std::vector<std::int64_t> index(shape.size(), 0);
  for (;;) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) offset += index[i] * strides[i];
    out.push_back(from[static_cast<std::size_t>(offset)]);
    std::size_t i = shape.size();
    while (i > 0 && ++index[i - 1] == shape[i - 1]) index[--i] = 0;
    if (i == 0) return out;
  }
}

TEST(LoadEntry, GathersLikeThePlainLoop) {
  const struct {
    Shape shape;
    std::vector<std::int64_t> strides;
  } cases[] = {
      {{3, 4}, {1, 3}},                     // Fortran order
      {{2, 3, 4}, {1, 2, 6}},               // the same with three dimensions
      {{70, 33}, {1, 70}},                  // more than a tile each way
      {{5}, {2}},                           // every other element
      {{4, 5}, {0, 1}},                     // rows repeat
      {{4, 5}, {1, 0}},                     // columns repeat
      {{2, 1, 3, 2}, {1, 99, 2, 6}},        // a dimension of one
      {{3, 2, 5, 4}, {1, 60, 12, 3}},       // shuffled
      {{2, 2, 2, 2, 2}, {1, 2, 4, 8, 16}},  // many dimensions
      {{33, 2, 34}, {68, 34, 1}},           // C order
  };
  const std::vector<std::int32_t> numbers = Iota(4000);
  const FileRef file = File(BytesOf(numbers));
  for (const auto& c : cases) {
    const Result<TensorView> view = LoadEntry(Entry(Dtype::kI32, c.shape, 0, c.strides), file);
    ASSERT_TRUE(view) << view.error().Message();
    EXPECT_EQ(BytesOf(*view), BytesOf(GatherPlainly(numbers, c.shape, c.strides))) << ShapeText(c.shape);
  }
}

TEST(LoadEntry, TransposesItemsOfEverySize) {
  for (const Dtype dtype : {Dtype::kI8, Dtype::kF16, Dtype::kF32, Dtype::kC64, Dtype::kC128}) {
    const std::size_t item = ItemBytes(dtype);
    Bytes bytes;
    for (int i = 0; i < 6; ++i) bytes.insert(bytes.end(), item, std::byte(i));
    const TensorView view = LoadEntry(Entry(dtype, {2, 3}, 0, {1, 2}), File(bytes)).value();
    Bytes expected;
    for (const int i : {0, 2, 4, 1, 3, 5}) expected.insert(expected.end(), item, std::byte(i));
    EXPECT_EQ(BytesOf(view), expected) << Name(dtype);
  }
}

TEST(LoadEntry, SwapsBigEndianNumbersAndBothHalvesOfComplexOnes) {
  Bytes bytes;
  for (int i = 0; i < 16; ++i) bytes.push_back(std::byte(i));
  const auto load = [&](Dtype dtype, std::int64_t count) {
    TensorEntry entry = Entry(dtype, {count});
    entry.source.big_endian = true;
    const Bytes loaded = BytesOf(LoadEntry(entry, File(bytes)).value());
    return std::vector<int>{std::to_integer<int>(loaded[0]), std::to_integer<int>(loaded[loaded.size() / 2])};
  };
  EXPECT_EQ(load(Dtype::kU8, 16), (std::vector<int>{0, 8}));
  EXPECT_EQ(load(Dtype::kF16, 8), (std::vector<int>{1, 9}));
  EXPECT_EQ(load(Dtype::kF32, 4), (std::vector<int>{3, 11}));
  EXPECT_EQ(load(Dtype::kF64, 2), (std::vector<int>{7, 15}));
  EXPECT_EQ(load(Dtype::kC64, 2), (std::vector<int>{3, 11}));
  EXPECT_EQ(load(Dtype::kC128, 1), (std::vector<int>{7, 15}));
}

TEST(LoadEntry, GivesScalarsAndEmptyTensors) {
  const FileRef file = File(BytesOf(Iota(2)));
  EXPECT_EQ(LoadEntry(Entry(Dtype::kI32, {}, 4), file)->num_bytes(), 4u);
  EXPECT_EQ(LoadEntry(Entry(Dtype::kI32, {0, 5}, 0, {5, 1}), file)->num_bytes(), 0u);
  EXPECT_EQ(LoadEntry(Entry(Dtype::kI32, {0}), File({}))->num_bytes(), 0u);
}

TEST(LoadEntry, RefusesWhatLiesOutsideTheFile) {
  const FileRef file = File(BytesOf(Iota(6)));
  const TensorEntry bad[] = {
      Entry(Dtype::kI32, {7}),
      Entry(Dtype::kI32, {6}, 1),
      Entry(Dtype::kI32, {1}, UINT64_MAX),
      Entry(Dtype::kI32, {1}, UINT64_MAX - 3),
      Entry(Dtype::kI32, {2, 3}, 0, {1, 3}),
      Entry(Dtype::kI32, {2, 2}, 0, {INT64_MAX, 1}),
      Entry(Dtype::kI32, {5, 2}, 0, {INT64_MAX, INT64_MAX}),
      Entry(Dtype::kI32, {2, 3}, 0, {std::int64_t{1} << 62, 1}),
  };
  for (const TensorEntry& entry : bad) {
    const Result<TensorView> view = LoadEntry(entry, file);
    ASSERT_FALSE(view) << ShapeText(entry.info.shape);
    EXPECT_EQ(view.error().code, ErrorCode::kTruncated);
    EXPECT_THAT(view.error().Message(), HasSubstr("f.bin: t: "));
  }
}

TEST(LoadEntry, RefusesNegativeStridesAndTooFewOfThem) {
  const FileRef file = File(BytesOf(Iota(6)));
  EXPECT_EQ(LoadEntry(Entry(Dtype::kI32, {3}, 8, {-1}), file).error().code, ErrorCode::kBadShape);
  EXPECT_EQ(LoadEntry(Entry(Dtype::kI32, {2, 3}, 0, {1}), file).error().code, ErrorCode::kBadShape);
}

TEST(LoadEntry, RefusesToWriteOutWhatRepeatsWithoutEnd) {
  const Result<TensorView> view =
      LoadEntry(Entry(Dtype::kI32, {std::int64_t{1} << 40}, 0, {0}), File(BytesOf(Iota(1))));
  ASSERT_FALSE(view);
  EXPECT_EQ(view.error().code, ErrorCode::kTooLarge);
}

TEST(LoadEntry, GivesTheDamageAndWrongUnpackedSizes) {
  TensorEntry entry = Entry(Dtype::kI32, {2});
  entry.source.unpack = [](const FileRef&) -> Result<Bytes> { return Bytes(7); };
  EXPECT_EQ(LoadEntry(entry, File({})).error().code, ErrorCode::kBadShape);
  entry.source.unpack = [](const FileRef&) -> Result<Bytes> { return Bytes(8); };
  EXPECT_EQ(LoadEntry(entry, File({}))->num_bytes(), 8u);
  entry.info.damage = Error{ErrorCode::kUnsupported, "f: t", "why"};
  EXPECT_EQ(LoadEntry(entry, File({})).error().detail, "why");
}

}  // namespace
}  // namespace vernier

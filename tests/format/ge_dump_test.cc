// Dump files that data/make_ge_data.py encoded; it shares nothing with the reader.
#include "format/ge_dump.h"

#include <gtest/gtest.h>

#include <cmath>

#include "format/little_endian.h"
#include "format_testing.h"

namespace vernier {
namespace {

FileRef Open(const std::string& name) { return MappedFile::Open(DataFile(name).string()).value(); }

template <class T>
std::vector<T> ValuesOf(const GeTensorView& loaded) {
  const TensorView view = InMemory(loaded.view).value();
  std::vector<T> values(static_cast<std::size_t>(view.num_elements));
  EXPECT_EQ(values.size() * sizeof(T), view.num_bytes());
  std::memcpy(values.data(), view.data, values.size() * sizeof(T));
  return values;
}

template <class T>
std::vector<T> Load(const FileRef& file, const GeTensor& tensor) {
  const Result<GeTensorView> loaded = LoadGeTensor(file, tensor, GeForm::kPlainOrder);
  EXPECT_TRUE(loaded) << loaded.error().Message();
  return loaded ? ValuesOf<T>(*loaded) : std::vector<T>();
}

TEST(GeDump, HasInputsThenOutputsWhereTheyLie) {
  const FileRef file = Open("ge_plain.dump");
  ASSERT_TRUE(LooksLikeGeDump(file->bytes()));
  const GeDump dump = ParseGeDump(file->bytes()).value();
  ASSERT_EQ(dump.inputs.size(), 2u);
  ASSERT_EQ(dump.outputs.size(), 2u);
  EXPECT_EQ(Load<float>(file, dump.inputs[0]), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(Load<std::int64_t>(file, dump.inputs[1]), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(Load<std::uint16_t>(file, dump.outputs[0])[5], 0x4500);
  EXPECT_EQ(Load<std::uint16_t>(file, dump.outputs[1])[5], 0x40a0);
  EXPECT_EQ(FindGeType(dump.outputs[1].type)->shown(), Dtype::kF32);
  const auto text = [&](const GeBlob& blob) {
    return std::string(AsText(file->bytes().subspan(blob.offset_bytes, blob.size_bytes)));
  };
  EXPECT_EQ(text(dump.buffers.at(0)), "buf");
  EXPECT_EQ(text(dump.spaces.at(0)), "space");
}

TEST(GeDump, IsListedAsTensors) {
  const FileRef file = Open("ge_layouts.dump");
  const Entries entries = ListGeDump(file).value();
  ASSERT_EQ(entries.size(), 5u);
  EXPECT_EQ(entries[0].info.name, "input.0");
  EXPECT_EQ(entries[4].info.name, "output.2");
  for (const TensorEntry& entry : entries) {
    const TensorView view = LoadEntry(entry, file).value();
    ASSERT_EQ(view.num_elements, 24u) << entry.info.name;
    for (std::size_t i = 0; i < 24; ++i) {  // 0, 1, 2, … as halves
      const auto half = LoadLittle<std::uint16_t>(view.bytes(), 2 * i);
      const float value = half == 0 ? 0 : std::ldexp(1 + (half & 0x3ff) / 1024.0f, (half >> 10) - 15);
      EXPECT_EQ(value, static_cast<float>(i)) << entry.info.name;
    }
  }
}

TEST(GeDump, UndoesLayoutsAlsoFromTheMiddle) {
  const FileRef file = Open("ge_layouts.dump");
  const GeDump dump = ParseGeDump(file->bytes()).value();
  for (const auto* tensors : {&dump.inputs, &dump.outputs}) {
    for (const GeTensor& tensor : *tensors) {
      const GeTensorView loaded = LoadGeTensor(file, tensor, GeForm::kPlainOrder).value();
      ASSERT_NE(loaded.view.source, nullptr);
      const std::vector<std::uint16_t> whole = ValuesOf<std::uint16_t>(loaded);
      for (std::size_t first = 0; first < whole.size(); ++first) {
        for (std::size_t count = 1; first + count <= whole.size(); ++count) {
          std::vector<std::uint16_t> part(count);
          loaded.view.source->Read(first, count, reinterpret_cast<std::byte*>(part.data()));
          ASSERT_EQ(part, std::vector<std::uint16_t>(whole.begin() + first, whole.begin() + first + count));
        }
      }
    }
  }
}

TEST(GeDump, DecodesPackedTypes) {
  const FileRef file = Open("ge_packed.dump");
  const GeDump dump = ParseGeDump(file->bytes()).value();
  EXPECT_EQ(Load<std::int8_t>(file, dump.inputs[0]), (std::vector<std::int8_t>{0, 1, 2, -1}));
  EXPECT_EQ(Load<std::uint8_t>(file, dump.inputs[1]), (std::vector<std::uint8_t>{1, 0, 1, 0, 0, 0, 0, 1}));
  const std::vector<double> hifloat8 = Load<double>(file, dump.outputs[0]);
  EXPECT_EQ(hifloat8[0], 0);
  EXPECT_TRUE(std::isnan(hifloat8[1]));
  EXPECT_EQ(hifloat8[2], 1);
  EXPECT_EQ(hifloat8[3], HUGE_VAL);
  EXPECT_EQ(hifloat8[4], -HUGE_VAL);
  const Result<GeTensorView> text = LoadGeTensor(file, dump.outputs[3], GeForm::kPlainOrder);
  EXPECT_EQ(text.error().code, ErrorCode::kUnsupported);
}

// Every code against the definition, worked out bit by bit.
TEST(Hifloat8, HasTheValuesOfItsDefinition) {
  const struct {
    int bits;
    double value;
  } known[] = {{0x01, 0x1p-22}, {0x07, 0x1p-16}, {0x08, 1.0},     {0x0f, 1.875},        {0x10, 2.0},
               {0x18, 0.5},     {0x1f, 0.9375},  {0x20, 4.0},     {0x28, 8.0},          {0x30, 0x1p-2},
               {0x38, 0x1p-3},  {0x40, 0x1p4},   {0x4f, 224.0},   {0x50, 0x1p-4},       {0x60, 0x1p8},
               {0x6e, 0x1p15},  {0x70, 0x1p-8},  {0x7e, 0x1p-15}, {0x7f, 1.5 * 0x1p-15}};
  for (const auto& row : known) {
    EXPECT_EQ(Hifloat8Value(static_cast<std::uint8_t>(row.bits)), row.value) << std::hex << row.bits;
    EXPECT_EQ(Hifloat8Value(static_cast<std::uint8_t>(row.bits | 0x80)), -row.value) << std::hex << row.bits;
  }
}

TEST(GeDump, CutAtEveryByteFailsOrLosesTensorsAtTheEnd) {
  const Bytes whole = ReadBytes(DataFile("ge_plain.dump"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const FileRef file = MappedFile::FromBytes(Bytes(whole.begin(), whole.begin() + size), "cut");
    const Result<GeDump> dump = ParseGeDump(file->bytes());
    if (!dump) continue;
    ASSERT_EQ(dump->inputs.size(), 2u) << size;
    for (const auto* tensors : {&dump->inputs, &dump->outputs}) {
      for (const GeTensor& tensor : *tensors)
        static_cast<void>(LoadGeTensor(file, tensor, GeForm::kPlainOrder));
    }
  }
}

std::string Varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  return out + static_cast<char>(value);
}
std::string Number(int field, std::uint64_t value) { return Varint(field << 3) + Varint(value); }
std::string Text(int field, const std::string& text) {
  return Varint(field << 3 | 2) + Varint(text.size()) + text;
}
FileRef Dump(const std::string& header, const std::string& payload) {
  std::string file;
  AppendLittle(file, std::uint64_t{header.size()});
  return MappedFile::FromBytes(ToBytes(file + header + payload), "made");
}
std::string Output(const std::string& type, std::uint64_t size, std::uint64_t address = 1) {
  return Text(3, type + Number(2, 2) + Text(3, Text(1, Varint(2))) + Number(6, size) + Number(9, address));
}

TEST(GeDump, PassesOverUnknownFields) {
  const FileRef file =
      Dump(Number(77, 5) + Output(Number(1, 1) + Text(99, "?") + Varint(98 << 3 | 5) + "1234", 8) +
               Varint(76 << 3 | 1) + "12345678",
           std::string(8, '\0'));
  const GeDump dump = ParseGeDump(file->bytes()).value();
  EXPECT_EQ(Load<float>(file, dump.outputs.at(0)), (std::vector<float>{0, 0}));
}

TEST(GeDump, ATextWhereANumberShouldBeCostsItsTensorOnly) {
  const FileRef file = Dump(Output(Text(1, "float"), 8) + Output(Number(1, 1), 8), std::string(16, '\0'));
  const GeDump dump = ParseGeDump(file->bytes()).value();
  EXPECT_EQ(LoadGeTensor(file, dump.outputs.at(0), GeForm::kStored).error().code, ErrorCode::kBadHeader);
  EXPECT_TRUE(LoadGeTensor(file, dump.outputs.at(1), GeForm::kStored));
}

TEST(GeDump, LeavesOutWhatHasNoAddressWhereTheFileDoes) {
  const FileRef file =
      Dump(Output(Number(1, 1), 8, 0) + Output(Number(1, 7), 8), std::string("\1\0\0\0\2\0\0\0", 8));
  const GeDump dump = ParseGeDump(file->bytes()).value();
  EXPECT_EQ(Load<std::int32_t>(file, dump.outputs.at(1)), (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(LoadGeTensor(file, dump.outputs.at(0), GeForm::kStored).error().code, ErrorCode::kBadShape);
}

TEST(GeDump, AnOlderSchemaHasItsSpacesWhereTheAttributesAre) {
  const std::string space = Text(7, Number(1, 0) + Number(3, 4)),
                    attribute = Text(7, Text(1, "a") + Text(2, "b"));
  const FileRef file = Dump(space + attribute, "abcd");
  EXPECT_EQ(ParseGeDump(file->bytes()).value().spaces.size(), 1u);
}

TEST(GeDump, SaysWhatIsWrong) {
  const auto error_of = [](const Bytes& bytes) { return ParseGeDump(bytes).error(); };
  EXPECT_EQ(error_of({}).code, ErrorCode::kTruncated);
  EXPECT_EQ(error_of(ToBytes("12345678")).code, ErrorCode::kTruncated);
  EXPECT_EQ(error_of(ToBytes(std::string("\xff\0\0\0\0\0\0\0ab", 10))).code, ErrorCode::kTruncated);
  EXPECT_EQ(error_of(ToBytes(std::string("\2\0\0\0\0\0\0\0\xff\xff", 10))).code, ErrorCode::kBadHeader);
  EXPECT_EQ(error_of(ToBytes(std::string("\4\0\0\0\0\0\0\0ZZZZ", 12))).code, ErrorCode::kUnsupported);
  const FileRef number = Dump(Number(3, 1), "");
  EXPECT_EQ(error_of(Bytes(number->bytes().begin(), number->bytes().end())).code, ErrorCode::kBadHeader);
}

TEST(PlainOrder, LeavesAloneWhatDoesNotFit) {
  std::string note;
  const auto find = [&](std::uint64_t format, Shape shape, Shape original, std::int64_t groups = 0) {
    note.clear();
    return PlainOrder::Find({format, groups, shape, original}, 1 << 20, note);
  };
  EXPECT_FALSE(find(2, {2, 3, 4, 5}, {2, 3, 4, 5}));  // ND of four dimensions has no conversion
  EXPECT_EQ(note, "ND has no conversion");
  EXPECT_FALSE(find(29, {1, 1, 16, 16}, {5}));  // one dimension is not converted at all
  EXPECT_TRUE(note.empty());
  EXPECT_FALSE(find(29, {3, 1, 1, 16, 16}, {2, 5, 6}));  // another number of matrices
  EXPECT_FALSE(note.empty());
  EXPECT_FALSE(find(4, {8, 1, 16, 16}, {4, 2, 2, 2}, 2));  // an ungrouped array that claims two groups
  EXPECT_FALSE(note.empty());
  EXPECT_FALSE(find(29, {1, 1, 16, 16}, {std::int64_t{1} << 62, 1 << 30}));
  EXPECT_FALSE(find(1, {1, 2, 2, 3}, {0, 3, 2, 2}));
  EXPECT_TRUE(find(1, {1, 2, 2, 3}, {1, 3, 2, 2}));
  EXPECT_FALSE(find(1, {1, 2, 3}, {1, 2, 3}));  // three dimensions are ND whatever the name
  EXPECT_EQ(find(32, {1, 2, 1, 3, 3, 16}, {1, 5, 2, 3, 3})->shape(), (Shape{1, 5, 2, 3, 3}));
}

}  // namespace
}  // namespace vernier

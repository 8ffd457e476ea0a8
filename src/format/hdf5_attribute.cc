// Attributes: single texts and numbers, in the header or, when these are many, in a fractal heap.
#include <algorithm>
#include <bit>
#include <utility>

#include "format/hdf5_internal.h"
#include "format/little_endian.h"

namespace vernier {
namespace {

// An attribute message, taken apart.
struct RawAttribute {
  std::string_view name;
  ByteSpan type, space, data;
};

std::optional<RawAttribute> Split(const Hdf5File& file, ByteSpan message) {
  Hdf5Cursor cursor = file.In(message);
  const std::uint64_t version = cursor.Number(1), flags = cursor.Number(1);
  const std::uint64_t name_bytes = cursor.Number(2), type_bytes = cursor.Number(2),
                      space_bytes = cursor.Number(2);
  if (version == 3) cursor.Skip(1);  // how the name is encoded
  if (!cursor.ok() || version < 1 || version > 3 || (version > 1 && flags != 0)) return std::nullopt;
  // Before version 2 each part is padded to 8 bytes.
  const auto take = [&](std::uint64_t num_bytes) {
    const ByteSpan part = cursor.Take(num_bytes);
    if (version == 1) cursor.Skip((8 - num_bytes % 8) % 8);
    return part;
  };
  RawAttribute raw;
  raw.name = AsText(take(name_bytes));
  raw.name = raw.name.substr(0, raw.name.find('\0'));
  raw.type = take(type_bytes);
  raw.space = take(space_bytes);
  raw.data = cursor.Take(cursor.left());
  return cursor.ok() ? std::optional(raw) : std::nullopt;
}

std::uint64_t Bits(ByteSpan bytes, bool big_endian) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<std::uint64_t>(bytes[big_endian ? bytes.size() - 1 - i : i]);
    bits |= byte << 8 * i;
  }
  return bits;
}

}  // namespace

// The texts of a global heap collection, by their number. Each collection is walked once.
Result<ByteSpan> Hdf5AttributeReader::HeapObject(std::uint64_t address, std::uint64_t number) {
  auto known = heaps_.find(address);
  if (known == heaps_.end()) {
    known = heaps_.emplace(address, std::map<std::uint64_t, ByteSpan>()).first;
    constexpr std::uint64_t kObjectHeaderBytes = 8;
    Hdf5Cursor start = file_.From(address);
    start.Signature("GCOL");
    start.Skip(4);
    const std::uint64_t heap_bytes = start.Length();
    const auto heap = start.ok() ? file_.Bytes(address, heap_bytes) : std::nullopt;
    if (!heap) return Hdf5Error("global heap", address, "damaged");
    VN_RETURN_IF_ERROR(file_.Spend(heap_bytes));
    Hdf5Cursor cursor = file_.In(*heap);
    cursor.Skip(start.at());
    while (cursor.left() >= kObjectHeaderBytes + file_.length_bytes()) {
      const std::uint64_t index = cursor.Number(2);
      cursor.Skip(6);
      const std::uint64_t num_bytes = cursor.Length();
      if (index == 0) break;  // what is free
      const ByteSpan object = cursor.Take(num_bytes);
      cursor.Skip(std::min<std::uint64_t>((8 - num_bytes % 8) % 8, cursor.left()));
      if (!cursor.ok()) return Hdf5Error("global heap", address, "damaged");
      known->second.emplace(index, object);
    }
  }
  const auto found = known->second.find(number);
  if (found == known->second.end()) return Hdf5Error("global heap", address, "an object is missing");
  return found->second;
}

std::optional<Hdf5Value> Hdf5AttributeReader::Value(ByteSpan type_message, ByteSpan space_message,
                                                    ByteSpan data) {
  const Result<Hdf5Type> type = ParseHdf5Type(file_, type_message);
  const Result<Hdf5Space> space = ParseHdf5Space(file_, space_message);
  if (!type || !space || data.size() < type->item_bytes) return std::nullopt;
  if (std::any_of(space->shape.begin(), space->shape.end(), [](std::int64_t size) { return size != 1; }))
    return std::nullopt;
  data = data.first(type->item_bytes);
  if (type->is_text && type->is_variable) {
    Hdf5Cursor cursor = file_.In(data);
    const std::uint64_t num_bytes = cursor.Number(4), address = cursor.Address(), number = cursor.Number(4);
    if (!cursor.ok()) return std::nullopt;
    if (num_bytes == 0) return Hdf5Value(std::string());
    const Result<ByteSpan> text = HeapObject(address, number);
    if (!text) return std::nullopt;
    return Hdf5Value(std::string(AsText(*text).substr(0, num_bytes)));
  }
  if (type->is_text) {
    const std::string_view text = AsText(data);
    return Hdf5Value(std::string(text.substr(0, text.find('\0'))));
  }
  if (!type->dtype) return std::nullopt;
  const std::uint64_t bits = Bits(data, type->big_endian);
  switch (Class(*type->dtype)) {
    case DtypeClass::kBool:
    case DtypeClass::kUnsigned:
      return Hdf5Value(static_cast<std::int64_t>(bits));
    case DtypeClass::kSigned: {
      const auto unused = static_cast<int>(64 - 8 * data.size());
      return Hdf5Value(static_cast<std::int64_t>(bits << unused) >> unused);
    }
    case DtypeClass::kFloat:
      if (*type->dtype == Dtype::kF64) return Hdf5Value(std::bit_cast<double>(bits));
      if (*type->dtype == Dtype::kF32)
        return Hdf5Value(static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

Hdf5Attributes Hdf5AttributeReader::Read(const Hdf5Messages& messages, std::string_view only) {
  Hdf5Attributes attributes;
  const auto add = [&](ByteSpan message) {
    const std::optional<RawAttribute> raw = Split(file_, message);
    if (!raw || (!only.empty() && raw->name != only)) return;
    if (std::optional<Hdf5Value> value = Value(raw->type, raw->space, raw->data))
      attributes.emplace_back(raw->name, *std::move(value));
  };
  for (const Hdf5Message& message : messages) {
    if (message.type == hdf5_message::kAttribute) add(message.data);
    if (message.type != hdf5_message::kAttributeInfo) continue;
    Hdf5Cursor cursor = file_.In(message.data);
    cursor.Skip(1);
    if ((cursor.Number(1) & 1) != 0) cursor.Skip(2);
    const std::uint64_t heap = cursor.Address(), tree = cursor.Address();
    if (!cursor.ok() || heap == kHdf5Undefined) continue;
    const Result<std::vector<ByteSpan>> objects = Hdf5HeapObjects(file_, heap, tree, /*id_at=*/0);
    if (!objects) continue;  // the tensor is there all the same
    for (const ByteSpan object : *objects) add(object);
  }
  return attributes;
}

}  // namespace vernier

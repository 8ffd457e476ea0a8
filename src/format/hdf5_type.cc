// Dataspace and datatype messages.
#include <algorithm>
#include <array>

#include "format/hdf5_internal.h"
#include "format/little_endian.h"

namespace vernier {
namespace {

enum TypeClass : unsigned {
  kFixed = 0,
  kFloat = 1,
  kString = 3,
  kCompound = 6,
  kEnum = 8,
  kVariable = 9,
  kComplex = 11
};

constexpr std::string_view kClassNames[] = {"integer",   "float",           "time",     "string",
                                            "bit field", "opaque",          "compound", "reference",
                                            "enum",      "variable length", "array",    "complex"};

// The part of a datatype that all of them have.
struct TypeHeader {
  unsigned type_class = 0, version = 0, flags = 0;
  std::uint32_t num_bytes = 0;
};

TypeHeader ReadHeader(Hdf5Cursor& cursor) {
  const auto first = static_cast<unsigned>(cursor.Number(1));
  TypeHeader header{first & 15, first >> 4, static_cast<unsigned>(cursor.Number(3)), 0};
  header.num_bytes = static_cast<std::uint32_t>(cursor.Number(4));
  return header;
}

struct FloatLayout {
  Dtype dtype;
  unsigned num_bits, exponent_at, exponent_bits, mantissa_bits, exponent_bias;
};
// clang-format off
constexpr FloatLayout kFloatLayouts[] = {
    {Dtype::kF64,    64, 52, 11, 52, 1023},
    {Dtype::kF32,    32, 23,  8, 23,  127},
    {Dtype::kF16,    16, 10,  5, 10,   15},
    {Dtype::kBF16,   16,  7,  8,  7,  127},
    {Dtype::kF8E5M2,  8,  2,  5,  2,   15},
};
// clang-format on

std::optional<Dtype> FloatDtype(const TypeHeader& header, Hdf5Cursor& cursor) {
  const std::uint64_t bit_offset = cursor.Number(2), precision = cursor.Number(2);
  const std::uint64_t exponent_at = cursor.Number(1), exponent_bits = cursor.Number(1);
  const std::uint64_t mantissa_at = cursor.Number(1), mantissa_bits = cursor.Number(1),
                      bias = cursor.Number(4);
  const unsigned sign_at = header.flags >> 8 & 0xff, normalization = header.flags >> 4 & 3;
  const bool vax_order = (header.flags & 0x40) != 0;
  if (bit_offset != 0 || mantissa_at != 0 || normalization != 2 || vax_order) return std::nullopt;
  for (const FloatLayout& layout : kFloatLayouts) {
    if (header.num_bytes * 8u == layout.num_bits && precision == layout.num_bits &&
        sign_at == layout.num_bits - 1 && exponent_at == layout.exponent_at &&
        exponent_bits == layout.exponent_bits && mantissa_bits == layout.mantissa_bits &&
        bias == layout.exponent_bias) {
      return layout.dtype;
    }
  }
  return std::nullopt;
}

std::optional<Dtype> FixedDtype(const TypeHeader& header, Hdf5Cursor& cursor) {
  constexpr Dtype kSigned[] = {Dtype::kI8, Dtype::kI16, Dtype::kI32, Dtype::kI64};
  constexpr Dtype kUnsigned[] = {Dtype::kU8, Dtype::kU16, Dtype::kU32, Dtype::kU64};
  const std::uint64_t bit_offset = cursor.Number(2), precision = cursor.Number(2);
  const bool is_signed = (header.flags & 8) != 0;
  for (unsigned i = 0; i < 4; ++i) {
    if (header.num_bytes != 1u << i || precision != 8u << i || bit_offset != 0) continue;
    return is_signed ? kSigned[i] : kUnsigned[i];
  }
  return std::nullopt;
}

struct Number {
  std::optional<Dtype> dtype;
  bool big_endian = false;
  std::uint32_t num_bytes = 0;
};

Number ReadNumber(Hdf5Cursor& cursor) {
  const TypeHeader header = ReadHeader(cursor);
  Number number;
  number.big_endian = (header.flags & 1) != 0;
  number.num_bytes = header.num_bytes;
  if (header.type_class == kFixed) number.dtype = FixedDtype(header, cursor);
  if (header.type_class == kFloat) number.dtype = FloatDtype(header, cursor);
  return number;
}

// Member names end with a zero, and before version 3 are padded to 8 bytes with it.
std::string_view MemberName(const TypeHeader& header, Hdf5Cursor& cursor) {
  const std::string_view name = cursor.TextUntilNul();
  if (header.version < 3) cursor.Skip((8 - (name.size() + 1) % 8) % 8);
  return name;
}

std::uint64_t MemberOffset(const TypeHeader& header, Hdf5Cursor& cursor) {
  unsigned num_bytes = 4;
  if (header.version >= 3) {  // as few as can hold the size
    for (num_bytes = 1; num_bytes < 4 && header.num_bytes >> num_bytes * 8 != 0;) ++num_bytes;
  }
  const std::uint64_t offset = cursor.Number(num_bytes);
  if (header.version == 1) cursor.Skip(1 + 3 + 4 + 4 + 4 * 4);  // dimensions, which nobody used
  return offset;
}

void SetComplex(const TypeHeader& header, const Number& part, Hdf5Type& type) {
  if (header.num_bytes != 2 * std::uint64_t{part.num_bytes}) return;
  if (part.dtype == Dtype::kF32) type.dtype = Dtype::kC64;
  if (part.dtype == Dtype::kF64) type.dtype = Dtype::kC128;
  type.big_endian = part.big_endian;
}

// h5py writes a complex number as a compound of "r" and "i".
void ReadComplex(const TypeHeader& header, Hdf5Cursor& cursor, Hdf5Type& type) {
  if ((header.flags & 0xffff) != 2) return;
  constexpr std::string_view kNames[] = {"r", "i"};
  Number parts[2];
  for (unsigned i = 0; i < 2; ++i) {
    const std::string_view name = MemberName(header, cursor);
    const std::uint64_t offset = MemberOffset(header, cursor);
    parts[i] = ReadNumber(cursor);
    if (!cursor.ok() || name != kNames[i] || offset != i * std::uint64_t{parts[0].num_bytes}) return;
  }
  if (parts[0].dtype != parts[1].dtype || parts[0].big_endian != parts[1].big_endian) return;
  SetComplex(header, parts[0], type);
}

// h5py writes bool as an enum of FALSE and TRUE over int8.
void ReadBool(const TypeHeader& header, Hdf5Cursor& cursor, Hdf5Type& type) {
  if ((header.flags & 0xffff) != 2 || header.num_bytes != 1) return;
  if (ReadNumber(cursor).num_bytes != 1) return;
  const std::string_view first = MemberName(header, cursor), second = MemberName(header, cursor);
  const std::uint64_t first_value = cursor.Number(1), second_value = cursor.Number(1);
  if (cursor.ok() && first == "FALSE" && second == "TRUE" && first_value == 0 && second_value == 1) {
    type.dtype = Dtype::kBool;
  }
}

}  // namespace

Result<Hdf5Space> ParseHdf5Space(const Hdf5File& file, ByteSpan message) {
  constexpr std::uint64_t kMaxRank = 32, kNull = 2;  // the format's own limit; a space without elements
  Hdf5Cursor cursor = file.In(message);
  const std::uint64_t version = cursor.Number(1), rank = cursor.Number(1), flags = cursor.Number(1);
  const std::uint64_t kind = cursor.Number(1);  // reserved in version 1
  if (version == 1) cursor.Skip(4);
  if (!cursor.ok() || rank > kMaxRank || (version != 1 && version != 2)) {
    return Error{ErrorCode::kBadHeader, "hdf5 dataspace", "damaged"};
  }
  Hdf5Space space;
  if (version == 2 && kind == kNull) {
    space.shape = {0};
    return space;
  }
  for (std::uint64_t i = 0; i < rank; ++i) space.shape.push_back(static_cast<std::int64_t>(cursor.Length()));
  const std::uint64_t unlimited =
      file.length_bytes() == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << file.length_bytes() * 8) - 1;
  for (std::uint64_t i = 0; i < rank; ++i) {
    const std::uint64_t size = flags & 1 ? cursor.Length() : static_cast<std::uint64_t>(space.shape[i]);
    space.max_shape.push_back(size == unlimited ? kHdf5Undefined : size);
  }
  if (!cursor.ok()) return Error{ErrorCode::kTruncated, "hdf5 dataspace", ""};
  return space;
}

Result<Hdf5Type> ParseHdf5Type(const Hdf5File& file, ByteSpan message) {
  Hdf5Cursor cursor = file.In(message);
  const TypeHeader header = ReadHeader(cursor);
  if (!cursor.ok()) return Error{ErrorCode::kBadHeader, "hdf5 datatype", "damaged, or in a shared heap"};
  Hdf5Type type;
  type.item_bytes = header.num_bytes;
  switch (header.type_class) {
    case kFixed:
    case kFloat: {
      Hdf5Cursor again = file.In(message);
      const Number number = ReadNumber(again);
      if (!again.ok()) return Error{ErrorCode::kBadHeader, "hdf5 datatype", "damaged"};
      type.dtype = number.dtype;
      type.big_endian = number.big_endian;
      break;
    }
    case kCompound:
      ReadComplex(header, cursor, type);
      break;
    case kComplex:
      SetComplex(header, ReadNumber(cursor), type);
      break;
    case kEnum:
      ReadBool(header, cursor, type);
      break;
    case kString:
      type.is_text = true;
      break;
    case kVariable:
      type.is_text = (header.flags & 15) == 1;
      type.is_variable = true;
      break;
    default:
      break;
  }
  const std::string_view name =
      header.type_class < std::size(kClassNames) ? kClassNames[header.type_class] : "unknown";
  type.description = "datatype " + std::string(name) + " of " + std::to_string(header.num_bytes) + " bytes";
  return type;
}

}  // namespace vernier

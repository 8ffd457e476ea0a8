#include "format/ge_types.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

namespace vernier {
namespace {

using enum GeDecoding;
using D = Dtype;

// clang-format off
constexpr GeType kTypes[] = {
    {0,  "undefined",  D::kI8},
    {1,  "float32",    D::kF32},
    {2,  "float16",    D::kF16},
    {3,  "int8",       D::kI8},
    {4,  "uint8",      D::kU8},
    {5,  "int16",      D::kI16},
    {6,  "uint16",     D::kU16},
    {7,  "int32",      D::kI32},
    {8,  "int64",      D::kI64},
    {9,  "uint32",     D::kU32},
    {10, "uint64",     D::kU64},
    {11, "bool",       D::kBool},
    {12, "float64",    D::kF64},
    {13, "string",     {}},
    {14, "dual sub int8", {}},
    {15, "dual sub uint8", {}},
    {16, "complex64",  D::kC64},
    {17, "complex128", D::kC128},
    {18, "quantised int8", {}},
    {19, "quantised int16", {}},
    {20, "quantised int32", {}},
    {21, "quantised uint8", {}},
    {22, "quantised uint16", {}},
    {23, "resource",   D::kI64},
    {24, "string reference", {}},
    {25, "dual",       {}},
    {26, "variant",    {}},
    {27, "bfloat16",   D::kBF16, kPlain, D::kF32},
    {28, "int4",       D::kI8, kNibbles},
    {29, "uint1",      D::kU8, kBits},
    {30, "int2",       {}},
    {31, "uint2",      {}},
    {32, "complex32",  {}},
    {33, "hifloat8",   D::kF64, kHifloat8},
    {34, "float8_e5m2",   D::kF8E5M2, kPlain, D::kF64},
    {35, "float8_e4m3fn", D::kF8E4M3FN, kPlain, D::kF64},
    {36, "float8_e8m0",   {}},
    {37, "float6_e3m2",   {}},
    {38, "float6_e2m3",   {}},
    {39, "float4_e2m1",   {}},
    {40, "float4_e1m2",   {}},
};
// clang-format on

constexpr bool NumbersAreIndexes() {
  for (std::size_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i].number != i) return false;
  }
  return true;
}
static_assert(NumbersAreIndexes());

constexpr std::uint64_t kBitsOfAByte = 8, kNibblesOfAByte = 2;

std::array<double, 256> Hifloat8Table() {
  std::array<double, 256> table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = Hifloat8Value(static_cast<std::uint8_t>(i));
  return table;
}

}  // namespace

const GeType* FindGeType(std::uint64_t number) {
  return number < std::size(kTypes) ? &kTypes[number] : nullptr;
}

std::uint64_t NumStoredElements(const GeType& type, std::uint64_t num_bytes) {
  switch (type.decoding) {
    case kBits:
      return num_bytes * kBitsOfAByte;
    case kNibbles:
      return num_bytes * kNibblesOfAByte;
    case kHifloat8:
      return num_bytes;
    case kPlain:
      break;
  }
  return num_bytes / ItemBytes(*type.dtype);
}

// The prefix behind the sign says how many bits the exponent has; what is left is the mantissa.
double Hifloat8Value(std::uint8_t bits) {
  struct Row {
    int prefix_bits, prefix, exponent_bits;
  };
  static constexpr Row kRows[] = {{2, 0b11, 4}, {2, 0b10, 3}, {2, 0b01, 2}, {3, 0b001, 1}, {4, 0b0001, 0}};
  constexpr int kBitsBehindSign = 7;
  const double sign = bits & 0x80 ? -1.0 : 1.0;
  const int rest = bits & 0x7f;
  if (rest == 0) return bits == 0 ? 0.0 : std::numeric_limits<double>::quiet_NaN();
  if (rest == 0x6f) return sign * std::numeric_limits<double>::infinity();
  for (const Row& row : kRows) {
    if (rest >> (kBitsBehindSign - row.prefix_bits) != row.prefix) continue;
    const int mantissa_bits = kBitsBehindSign - row.prefix_bits - row.exponent_bits;
    const int mantissa = rest & ((1 << mantissa_bits) - 1);
    int exponent = 0;
    if (row.exponent_bits > 0) {
      const int field = rest >> mantissa_bits & ((1 << row.exponent_bits) - 1);
      const int hidden = 1 << (row.exponent_bits - 1);  // the leading bit of the magnitude is not stored
      const int magnitude = hidden | (field & (hidden - 1));
      exponent = field & hidden ? -magnitude : magnitude;
    }
    return sign * std::ldexp(1.0 + std::ldexp(mantissa, -mantissa_bits), exponent);
  }
  constexpr int kDenormalBias = 23;
  return sign * std::ldexp(1.0, rest - kDenormalBias);
}

void DecodeElements(const GeType& type, std::span<const std::byte> stored, std::uint64_t first,
                    std::size_t count, std::byte* out) {
  const auto bits_at = [&](std::uint64_t index) {
    return std::to_integer<std::uint8_t>(stored[static_cast<std::size_t>(index)]);
  };
  if (type.decoding == kHifloat8) {
    static const std::array<double, 256> table = Hifloat8Table();
    for (std::size_t i = 0; i < count; ++i)
      std::memcpy(out + i * sizeof(double), &table[bits_at(first + i)], sizeof(double));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t at = first + i;
    if (type.decoding == kBits) {
      const auto shift = static_cast<int>(kBitsOfAByte - 1 - at % kBitsOfAByte);
      out[i] = static_cast<std::byte>(bits_at(at / kBitsOfAByte) >> shift & 1);
    } else {
      const int half = bits_at(at / kNibblesOfAByte) >> (at % kNibblesOfAByte == 0 ? 0 : 4) & 0xf;
      out[i] = static_cast<std::byte>(static_cast<std::int8_t>(half >= 8 ? half - 16 : half));
    }
  }
}

}  // namespace vernier

// The element types of GE dump files by their numbers, and what their bits mean where no type of ours says
// so. See docs/formats/ge_dump.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "vernier/dtype.h"

namespace vernier {

// How stored bytes become elements of GeType::dtype.
enum class GeDecoding : std::uint8_t {
  kPlain,     // they are that
  kBits,      // uint1: eight elements in a byte, the most significant bit first
  kNibbles,   // int4: two elements in a byte, the low half first
  kHifloat8,  // one byte for each element
};

struct GeType {
  std::uint32_t number = 0;
  std::string_view name;
  std::optional<Dtype> dtype = std::nullopt;  // none: not supported
  GeDecoding decoding = GeDecoding::kPlain;
  // What other tools take the elements for: the dtype in reports and converted files where that is another.
  std::optional<Dtype> read_as = std::nullopt;

  Dtype shown() const { return read_as ? *read_as : *dtype; }  // REQUIRES: dtype
};
// None: no such number is known.
const GeType* FindGeType(std::uint64_t number);

// Elements in so many stored bytes.
std::uint64_t NumStoredElements(const GeType& type, std::uint64_t num_bytes);
// Elements [first, first + count) of what is stored, as type.dtype. REQUIRES: type.decoding != kPlain, and
// `stored` holds them.
void DecodeElements(const GeType& type, std::span<const std::byte> stored, std::uint64_t first,
                    std::size_t count, std::byte* out);

double Hifloat8Value(std::uint8_t bits);

}  // namespace vernier

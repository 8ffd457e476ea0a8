// Little-endian numbers in a span of bytes, whatever the machine.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>

namespace vernier {

static_assert(std::endian::native == std::endian::little,
              "TensorView's bytes are little endian and used in place");

// REQUIRES: offset + sizeof(T) <= bytes.size()
template <std::integral T>
T LoadLittle(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <std::integral T>
void AppendLittle(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

inline std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace vernier

#include "core/base64.h"

#include <array>
#include <cstdint>

namespace vernier {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kNoDigit = 64;

constexpr std::array<std::uint8_t, 256> kValues = [] {
  std::array<std::uint8_t, 256> values{};
  values.fill(kNoDigit);
  for (std::size_t i = 0; i < kDigits.size(); ++i)
    values[static_cast<unsigned char>(kDigits[i])] = static_cast<std::uint8_t>(i);
  return values;
}();

}  // namespace

void AppendBase64(std::span<const std::byte> bytes, std::string& out) {
  const std::size_t before = out.size();
  out.resize(before + (bytes.size() + 2) / 3 * 4, '=');
  char* to = out.data() + before;
  for (std::size_t i = 0; i < bytes.size(); i += 3, to += 4) {
    const std::size_t count = bytes.size() - i < 3 ? bytes.size() - i : 3;
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8 | (k < count ? std::to_integer<std::uint32_t>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k <= count; ++k) to[k] = kDigits[three >> (18 - 6 * k) & 63];
  }
}

std::optional<std::vector<std::byte>> DecodeBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const std::size_t count = i + 4 == text.size() ? 4 - padding : 4;
    std::uint32_t four = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::uint8_t value = k < count ? kValues[static_cast<unsigned char>(text[i + k])] : 0;
      if (value == kNoDigit) return std::nullopt;
      four = four << 6 | value;
    }
    for (std::size_t k = 0; k + 1 < count; ++k) bytes.push_back(static_cast<std::byte>(four >> (16 - 8 * k)));
  }
  return bytes;
}

}  // namespace vernier

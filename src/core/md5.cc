#include "core/md5.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace vernier {
namespace {

// RFC 1321: how far each step rotates, four in turn for each of the four rounds.
constexpr int kRotations[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

std::array<std::uint32_t, 64> SineTable() {
  std::array<std::uint32_t, 64> table{};
  for (std::size_t i = 0; i < table.size(); ++i)
    table[i] =
        static_cast<std::uint32_t>(std::floor(std::abs(std::sin(static_cast<double>(i) + 1)) * 0x1p32));
  return table;
}

void AddBlock(const std::byte* block, std::array<std::uint32_t, 4>& state) {
  static const std::array<std::uint32_t, 64> sines = SineTable();
  std::uint32_t words[16];
  std::memcpy(words, block, sizeof words);
  auto [a, b, c, d] = state;
  for (unsigned i = 0; i < 64; ++i) {
    std::uint32_t mixed = 0;
    unsigned word = i;
    switch (i / 16) {
      case 0:
        mixed = (b & c) | (~b & d);
        break;
      case 1:
        mixed = (d & b) | (~d & c);
        word = (5 * i + 1) % 16;
        break;
      case 2:
        mixed = b ^ c ^ d;
        word = (3 * i + 5) % 16;
        break;
      default:
        mixed = c ^ (b | ~d);
        word = (7 * i) % 16;
    }
    const std::uint32_t next = b + std::rotl(a + mixed + sines[i] + words[word], kRotations[i / 16][i % 4]);
    a = d;
    d = c;
    c = b;
    b = next;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
}

}  // namespace

std::array<std::uint8_t, 16> Md5(std::span<const std::byte> bytes) {
  constexpr std::size_t kBlockBytes = 64, kLengthBytes = 8;
  std::vector<std::byte> padded(bytes.begin(), bytes.end());
  padded.push_back(std::byte{0x80});
  while (padded.size() % kBlockBytes != kBlockBytes - kLengthBytes) padded.push_back(std::byte{0});
  const std::uint64_t num_bits = std::uint64_t{bytes.size()} * 8;
  padded.resize(padded.size() + kLengthBytes);
  std::memcpy(padded.data() + padded.size() - kLengthBytes, &num_bits, kLengthBytes);
  std::array<std::uint32_t, 4> state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  for (std::size_t at = 0; at < padded.size(); at += kBlockBytes) AddBlock(padded.data() + at, state);
  std::array<std::uint8_t, 16> digest{};
  std::memcpy(digest.data(), state.data(), digest.size());
  return digest;
}

std::string NameBasedUuid(std::string_view name) {
  // RFC 4122: the name space of domain names in front, the version and the variant over some of the bits.
  static constexpr std::uint8_t kDnsSpace[] = {0x6b, 0xa7, 0xb8, 0x10, 0x9d, 0xad, 0x11, 0xd1,
                                               0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8};
  std::vector<std::byte> bytes(std::size(kDnsSpace) + name.size());
  std::memcpy(bytes.data(), kDnsSpace, std::size(kDnsSpace));
  if (!name.empty()) std::memcpy(bytes.data() + std::size(kDnsSpace), name.data(), name.size());
  std::array<std::uint8_t, 16> digest = Md5(bytes);
  digest[6] = static_cast<std::uint8_t>((digest[6] & 0x0f) | 0x30);
  digest[8] = static_cast<std::uint8_t>((digest[8] & 0x3f) | 0x80);
  std::string text;
  constexpr std::string_view kHex = "0123456789abcdef";
  for (const std::uint8_t byte : digest) {
    text += kHex[byte >> 4];
    text += kHex[byte & 0xf];
  }
  return text;
}

}  // namespace vernier

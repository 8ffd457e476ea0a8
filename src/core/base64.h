// Bytes as printable text, as RFC 4648 has it, with padding.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vernier {

void AppendBase64(std::span<const std::byte> bytes, std::string& out);
// Nothing where the text is none: a strange character, a length that is no multiple of four, padding inside.
std::optional<std::vector<std::byte>> DecodeBase64(std::string_view text);

}  // namespace vernier

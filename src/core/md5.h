// MD5, for names that other tools make with it; not for anything that must be safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace vernier {

std::array<std::uint8_t, 16> Md5(std::span<const std::byte> bytes);

// The 32 hexadecimal digits of uuid.uuid3(uuid.NAMESPACE_DNS, name) in Python, without dashes.
std::string NameBasedUuid(std::string_view name);

}  // namespace vernier

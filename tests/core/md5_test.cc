#include "core/md5.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace vernier {
namespace {

std::string Hex(std::string_view text) {
  std::string hex;
  for (const std::uint8_t byte : Md5(std::as_bytes(std::span(text)))) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    hex += digits;
  }
  return hex;
}

TEST(Md5, GivesTheDigestsOfItsSpecification) {
  EXPECT_EQ(Hex(""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(Hex("abc"), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(Hex("12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
            "57edf4a22be3c955ac49da2e2107b67a");
}

TEST(NameBasedUuid, IsPythonsUuid3) {
  EXPECT_EQ(NameBasedUuid("python.org"), "6fa459eaee8a3ca4894edb77e160355e");
}

}  // namespace
}  // namespace vernier

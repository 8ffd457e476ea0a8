#include "profiles/torchair/extremes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace vernier::torchair {
namespace {

template <class T>
Extremes Of(Dtype dtype, const std::vector<T>& values) {
  return FindExtremes(BorrowTensor(dtype, {static_cast<std::int64_t>(values.size())}, values.data()), dtype,
                      {true, true});
}

TEST(FindExtremes, IsExactWhereDoubleIsNot) {
  const std::int64_t large = (std::int64_t{1} << 62) + 1;
  const Extremes e = Of<std::int64_t>(Dtype::kI64, {large, -large, 0});
  EXPECT_EQ(static_cast<std::int64_t>(e.max.bits), large);
  EXPECT_EQ(static_cast<std::int64_t>(e.min.bits), -large);
  const Extremes u = Of<std::uint64_t>(Dtype::kU64, {~std::uint64_t{0}, 1});
  EXPECT_EQ(u.max.bits, ~std::uint64_t{0});
  EXPECT_EQ(u.min.bits, 1u);
}

TEST(FindExtremes, LetsANanWin) {
  std::vector<float> values(200'000, 1.0f);
  values[3] = -5;
  EXPECT_EQ(Of(Dtype::kF32, values).min.number.real(), -5);
  values[150'000] = NAN;
  EXPECT_TRUE(std::isnan(Of(Dtype::kF32, values).min.number.real()));
  EXPECT_TRUE(std::isnan(Of(Dtype::kF32, values).max.number.real()));
}

TEST(FindExtremes, OrdersComplexNumbersByTheirParts) {
  const Extremes e = Of<std::complex<float>>(Dtype::kC64, {{1, 5}, {1, -5}, {0, 9}});
  EXPECT_EQ(e.min.number, std::complex<double>(0, 9));
  EXPECT_EQ(e.max.number, std::complex<double>(1, 5));
}

// The whole of numpy.promote_types() for the types that dumps have.
TEST(Promoted, IsNumPys) {
  using D = Dtype;
  const D types[] = {D::kBool, D::kI8,  D::kI16, D::kI32, D::kI64, D::kU8,  D::kU16,
                     D::kU32,  D::kU64, D::kF16, D::kF32, D::kF64, D::kC64, D::kC128};
  const char* const rows[] = {"?bhilBHIQefdFD", "bbhilhildefdFD", "hhhilhildffdFD", "iiiiliilddddDD",
                              "llllllllddddDD", "BhhilBHIQefdFD", "HiiilHHIQffdFD", "IllllIIIQdddDD",
                              "QddddQQQQdddDD", "eefddefddefdFD", "fffddffddffdFD", "ddddddddddddDD",
                              "FFFDDFFDDFFDFD", "DDDDDDDDDDDDDD"};
  const auto code = [](D dtype) -> char {
    switch (dtype) {
      case D::kBool:
        return '?';
      case D::kI8:
        return 'b';
      case D::kI16:
        return 'h';
      case D::kI32:
        return 'i';
      case D::kI64:
        return 'l';
      case D::kU8:
        return 'B';
      case D::kU16:
        return 'H';
      case D::kU32:
        return 'I';
      case D::kU64:
        return 'Q';
      case D::kF16:
        return 'e';
      case D::kF32:
        return 'f';
      case D::kF64:
        return 'd';
      case D::kC64:
        return 'F';
      default:
        return 'D';
    }
  };
  for (std::size_t a = 0; a < std::size(types); ++a) {
    for (std::size_t b = 0; b < std::size(types); ++b) {
      EXPECT_EQ(code(Promoted(types[a], types[b])), rows[a][b]) << Name(types[a]) << " " << Name(types[b]);
    }
  }
}

TEST(AppendAs, WritesEveryHalf) {
  for (int bits = 0; bits < 0x7c00; ++bits) {
    const double value =
        bits < 0x400 ? bits * 0x1p-24 : std::ldexp(1 + (bits & 0x3ff) / 1024.0, (bits >> 10) - 15);
    std::string out;
    AppendAs({Dtype::kF64, value, 0}, Dtype::kF16, out);
    std::uint16_t got = 0;
    std::memcpy(&got, out.data(), 2);
    ASSERT_EQ(got, bits);
  }
}

}  // namespace
}  // namespace vernier::torchair

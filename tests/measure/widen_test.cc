#include "measure/widen_internal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace vernier::internal {
namespace {

template <class W, class T>
std::vector<W> Read(Dtype dtype, const std::vector<T>& stored, std::uint64_t num_elements,
                    bool real_only = false, bool like_complex = false) {
  const TensorView tensor = BorrowTensor(dtype, {static_cast<std::int64_t>(num_elements)}, stored.data());
  const Reader reader = MakeReader(tensor, {real_only, false, like_complex});
  std::vector<W> buffer(kBlockElements);
  const W* values = ReadBlock(reader, 0, reader.num_numbers, PlainKernels(), buffer.data());
  return std::vector<W>(values, values + reader.num_numbers);
}

TEST(Widen, DecodesTheCornersOfEvery8BitFloat) {
  const std::vector<std::uint8_t> bits = {0x00, 0x01, 0x08, 0x38, 0x7e, 0x7f, 0x80, 0xb8, 0xff};
  const auto e4m3fn = Read<float>(Dtype::kF8E4M3FN, bits, bits.size());
  EXPECT_EQ(e4m3fn[1], 0x1p-9f);
  EXPECT_EQ(e4m3fn[2], 0x1p-6f);
  EXPECT_EQ(e4m3fn[3], 1.0f);
  EXPECT_EQ(e4m3fn[4], 448.0f);
  EXPECT_TRUE(std::isnan(e4m3fn[5]));
  EXPECT_TRUE(std::signbit(e4m3fn[6]));
  EXPECT_EQ(e4m3fn[7], -1.0f);
  EXPECT_TRUE(std::isnan(e4m3fn[8]));

  const std::vector<std::uint8_t> e5 = {0x01, 0x04, 0x3c, 0x7b, 0x7c, 0x7d, 0xfc};
  const auto e5m2 = Read<float>(Dtype::kF8E5M2, e5, e5.size());
  EXPECT_EQ(e5m2[0], 0x1p-16f);
  EXPECT_EQ(e5m2[1], 0x1p-14f);
  EXPECT_EQ(e5m2[2], 1.0f);
  EXPECT_EQ(e5m2[3], 57344.0f);
  EXPECT_EQ(e5m2[4], HUGE_VALF);
  EXPECT_TRUE(std::isnan(e5m2[5]));
  EXPECT_EQ(e5m2[6], -HUGE_VALF);

  const std::vector<std::uint8_t> fnuz = {0x80, 0x7f, 0x40, 0x01};
  const auto e4m3fnuz = Read<float>(Dtype::kF8E4M3FNUZ, fnuz, fnuz.size());
  EXPECT_TRUE(std::isnan(e4m3fnuz[0]));
  EXPECT_EQ(e4m3fnuz[1], 240.0f);
  EXPECT_EQ(e4m3fnuz[2], 1.0f);
  EXPECT_EQ(e4m3fnuz[3], 0x1p-10f);
  const auto e5m2fnuz = Read<float>(Dtype::kF8E5M2FNUZ, fnuz, fnuz.size());
  EXPECT_TRUE(std::isnan(e5m2fnuz[0]));
  EXPECT_EQ(e5m2fnuz[1], 57344.0f);
  EXPECT_EQ(e5m2fnuz[2], 1.0f);
  EXPECT_EQ(e5m2fnuz[3], 0x1p-17f);
}

TEST(Widen, KeepsIntegersExact) {
  EXPECT_EQ(Read<float>(Dtype::kI16, std::vector<std::int16_t>{-32768, 32767}, 2),
            (std::vector<float>{-32768, 32767}));
  EXPECT_EQ(Read<double>(Dtype::kU32, std::vector<std::uint32_t>{4294967295u}, 1),
            (std::vector<double>{4294967295.0}));
  EXPECT_EQ(Read<float>(Dtype::kBool, std::vector<std::uint8_t>{0, 1, 7}, 3), (std::vector<float>{0, 1, 1}));
}

TEST(Widen, SeesAComplexNumberAsItsParts) {
  const std::vector<float> stored = {1, 2, 3, 4};
  EXPECT_EQ(Read<float>(Dtype::kC64, stored, 2), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(Read<float>(Dtype::kC64, stored, 2, /*real_only=*/true), (std::vector<float>{1, 3}));
  EXPECT_EQ(Read<float>(Dtype::kF32, stored, 4, false, /*like_complex=*/true),
            (std::vector<float>{1, 0, 2, 0, 3, 0, 4, 0}));
}

}  // namespace
}  // namespace vernier::internal

#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>

#include "measure/plain_kernels_internal.h"
#include "measure/widen_internal.h"

namespace vernier::internal {
namespace {

// How an 8-bit float spends its bits. fnuz kinds have one NaN (0x80), no infinity and no negative zero.
struct Float8Layout {
  int mantissa_bits, bias;
  bool has_infinity, fnuz;
};

constexpr float Pow2(int exponent) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
}

constexpr float DecodeFloat8(std::uint8_t bits, Float8Layout layout) {
  const int mantissa_mask = (1 << layout.mantissa_bits) - 1;
  const int exponent_mask = 0x7f >> layout.mantissa_bits;
  const int mantissa = bits & mantissa_mask, exponent = bits >> layout.mantissa_bits & exponent_mask;
  const float sign = bits & 0x80 ? -1.0f : 1.0f;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (layout.fnuz && bits == 0x80) return kNan;
  if (!layout.fnuz && exponent == exponent_mask) {
    if (layout.has_infinity) return mantissa ? kNan : sign * std::numeric_limits<float>::infinity();
    if (mantissa == mantissa_mask) return kNan;
  }
  const float fraction = static_cast<float>(mantissa) * Pow2(-layout.mantissa_bits);
  return exponent == 0 ? sign * fraction * Pow2(1 - layout.bias)
                       : sign * (1.0f + fraction) * Pow2(exponent - layout.bias);
}

constexpr std::array<float, 256> Float8Table(Float8Layout layout) {
  std::array<float, 256> table{};
  for (int i = 0; i < 256; ++i)
    table[static_cast<std::size_t>(i)] = DecodeFloat8(static_cast<std::uint8_t>(i), layout);
  return table;
}

template <class T>
constexpr Float8Layout kLayout = {};
template <>
constexpr Float8Layout kLayout<Float8E4M3FN> = {3, 7, false, false};
template <>
constexpr Float8Layout kLayout<Float8E5M2> = {2, 15, true, false};
template <>
constexpr Float8Layout kLayout<Float8E4M3FNUZ> = {3, 8, false, true};
template <>
constexpr Float8Layout kLayout<Float8E5M2FNUZ> = {2, 16, false, true};

template <class T>
constexpr std::array<float, 256> kFloat8Values = Float8Table(kLayout<T>);

template <class T>
auto ValueOf(T stored) {
  if constexpr (plain::kIsFloat8<T>) {
    return kFloat8Values<T>[stored.bits];
  } else if constexpr (std::is_same_v<T, Bool>) {
    return stored.bits != 0 ? 1.0f : 0.0f;
  } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    return stored.real();  // a Reader never asks for this: it reads the parts as numbers of their own
  } else {
    return plain::ValueOf(stored);
  }
}

template <class W>
void ReadStepped(const std::byte* from, Dtype number, std::size_t step_bytes, std::size_t count,
                 std::size_t out_step, W* out) {
  VisitDtype(number, [&](auto type) {
    using T = typename decltype(type)::type;
    for (std::size_t i = 0; i < count; ++i) {
      T stored;
      std::memcpy(&stored, from + i * step_bytes, sizeof(T));
      out[i * out_step] = static_cast<W>(ValueOf(stored));
    }
  });
}

Dtype NumberType(Dtype dtype) {
  return dtype == Dtype::kC64 ? Dtype::kF32 : dtype == Dtype::kC128 ? Dtype::kF64 : dtype;
}

}  // namespace

std::size_t Reader::OffsetBytes(std::uint64_t first) const {
  const std::uint64_t items = parts == Parts::kRealOnly                ? first * 2
                              : parts == Parts::kRealWithZeroImaginary ? first / 2
                                                                       : first;
  return static_cast<std::size_t>(items * ItemBytes(number));
}

Reader MakeReader(const TensorView& tensor, const ReaderOptions& options) {
  const bool is_complex = Class(tensor.dtype) == DtypeClass::kComplex;
  Reader reader{NumberType(tensor.dtype), Parts::kAll,  tensor.data,       tensor.num_elements,
                tensor.source.get(),      tensor.dtype, options.as_float32};
  if (is_complex && options.real_part_only) reader.parts = Parts::kRealOnly;
  if (is_complex && !options.real_part_only) reader.num_numbers *= 2;
  if (!is_complex && options.like_complex && !options.real_part_only) {
    reader.parts = Parts::kRealWithZeroImaginary;
    reader.num_numbers *= 2;
  }
  return reader;
}

bool FitsFloat(const Reader& reader) {
  if (reader.as_float32) return true;
  if (Class(reader.number) == DtypeClass::kFloat) return reader.number != Dtype::kF64;
  return ItemBytes(reader.number) <= 2;
}

double MinNormal(Dtype number) {
  return VisitDtype(number, [](auto type) -> double {
    using T = typename decltype(type)::type;
    if constexpr (plain::kIsFloat8<T>) return Pow2(1 - kLayout<T>.bias);
    if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::min();
    if constexpr (std::is_same_v<T, Float16>) return 0x1p-14;
    return std::is_same_v<T, BFloat16> ? FLT_MIN : 0;  // integers have no denormals
  });
}

template <class W>
const W* ReadBlock(const Reader& reader, std::uint64_t first, std::size_t count, const Kernels& kernels,
                   W* buffer) {
  constexpr std::size_t kLargestItemBytes = 16;
  thread_local std::byte collected[kBlockElements * kLargestItemBytes];
  const std::byte* from = collected;
  if (reader.source == nullptr) {
    from = reader.data + reader.OffsetBytes(first);
  } else {
    // Numbers come in twos where a complex element is all of its parts.
    const bool in_twos = reader.parts == Parts::kRealWithZeroImaginary ||
                         (reader.parts == Parts::kAll && reader.element != reader.number);
    const std::uint64_t first_element = in_twos ? first / 2 : first;
    const std::size_t num_elements = in_twos ? (count + 1) / 2 : count;
    if (!in_twos && reader.parts == Parts::kAll && std::is_same_v<W, float> && reader.number == Dtype::kF32) {
      reader.source->Read(first_element, num_elements, reinterpret_cast<std::byte*>(buffer));
      return buffer;
    }
    reader.source->Read(first_element, num_elements, collected);
  }
  const std::size_t item_bytes = ItemBytes(reader.number);
  if (reader.parts == Parts::kRealWithZeroImaginary) {
    // Blocks start at even numbers, so a block holds whole elements, but for an odd last count.
    for (std::size_t i = 1; i < count; i += 2) buffer[i] = 0;
    ReadStepped(from, reader.number, item_bytes, (count + 1) / 2, 2, buffer);
    return buffer;
  }
  if (reader.parts == Parts::kRealOnly) {
    ReadStepped(from, reader.number, 2 * item_bytes, count, 1, buffer);
    return buffer;
  }
  constexpr bool kDouble = std::is_same_v<W, double>;
  if (reader.number == (kDouble ? Dtype::kF64 : Dtype::kF32)) {
    if (reader.source == nullptr) return reinterpret_cast<const W*>(from);
    std::memcpy(buffer, from, count * sizeof(W));  // the other side of a pair collects in the same place
    return buffer;
  }
  if constexpr (kDouble) {
    if (reader.number == Dtype::kF32) {
      kernels.widen_f32(from, count, buffer);
      return buffer;
    }
  } else {
    if (reader.number == Dtype::kF16) {
      kernels.widen_f16(from, count, buffer);
      return buffer;
    }
    if (reader.number == Dtype::kBF16) {
      kernels.widen_bf16(from, count, buffer);
      return buffer;
    }
  }
  ReadStepped(from, reader.number, item_bytes, count, 1, buffer);
  return buffer;
}

template const float* ReadBlock(const Reader&, std::uint64_t, std::size_t, const Kernels&, float*);
template const double* ReadBlock(const Reader&, std::uint64_t, std::size_t, const Kernels&, double*);

}  // namespace vernier::internal

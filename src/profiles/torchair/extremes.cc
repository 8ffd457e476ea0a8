#include "profiles/torchair/extremes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "measure/summary.h"
#include "vernier/measure.h"

namespace vernier::torchair {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kElementsOfAPiece = std::size_t{1} << 16;

AnyNumber Float(double value, Dtype dtype) { return {dtype, value, 0}; }
AnyNumber Integer(std::int64_t bits, Dtype dtype) { return {dtype, 0, static_cast<std::uint64_t>(bits)}; }

bool IsUnsigned64(Dtype dtype) { return dtype == Dtype::kU64; }

bool IsLess(const AnyNumber& a, const AnyNumber& b) {
  switch (Class(a.dtype)) {
    case DtypeClass::kFloat:
      return a.number.real() < b.number.real();
    case DtypeClass::kComplex:  // NumPy orders by the real part, then the imaginary one
      return a.number.real() < b.number.real() ||
             (a.number.real() == b.number.real() && a.number.imag() < b.number.imag());
    default:
      return IsUnsigned64(a.dtype) ? a.bits < b.bits
                                   : static_cast<std::int64_t>(a.bits) < static_cast<std::int64_t>(b.bits);
  }
}

// As NumPy: a NaN wins, whatever comes.
void Merge(const Extremes& next, Extremes& all) {
  if (all.num_elements == 0) {
    all.min = next.min;
    all.max = next.max;
  } else if (!all.min.is_nan()) {
    if (next.min.is_nan() || IsLess(next.min, all.min)) all.min = next.min;
    if (next.max.is_nan() || IsLess(all.max, next.max)) all.max = next.max;
  }
  all.num_elements += next.num_elements;
  all.sum += next.sum;
  all.sum_sq += next.sum_sq;
}

// A piece whose elements lie one behind the other.
Extremes OfPiece(Dtype stored, Dtype dtype, const std::byte* data, std::size_t count, bool sums) {
  const std::int64_t shape = static_cast<std::int64_t>(count), stride = 1;
  SummaryRequest request;
  request.sums_of_integers = sums;
  const Summary summary = Summarize({stored, data, {&shape, 1}, {&stride, 1}}, request);
  Extremes piece;
  piece.num_elements = count;
  piece.sum = summary.sum;
  piece.sum_sq = summary.sum_sq;
  if (Class(stored) == DtypeClass::kFloat) {
    piece.min = Float(summary.has_nan() ? kNan : summary.min, dtype);
    piece.max = Float(summary.has_nan() ? kNan : summary.max, dtype);
  } else {
    piece.min = Integer(summary.integer_min, dtype);
    piece.max = Integer(summary.integer_max, dtype);
  }
  return piece;
}

template <class T>
Extremes OfComplexPiece(Dtype dtype, const std::byte* data, std::size_t count) {
  Extremes piece;
  for (std::size_t i = 0; i < count; ++i) {
    std::complex<T> value;
    std::memcpy(&value, data + i * sizeof value, sizeof value);
    Extremes one;
    one.num_elements = 1;
    one.min = one.max = {dtype, {value.real(), value.imag()}, 0};
    one.sum = value.real();
    one.sum_sq = std::norm(std::complex<double>(value.real(), value.imag()));
    Merge(one, piece);
  }
  return piece;
}

Extremes OfPiece(const TensorView& tensor, Dtype dtype, std::uint64_t first, std::size_t count,
                 const std::byte* bytes, bool sums) {
  if (tensor.dtype == Dtype::kC64) return OfComplexPiece<float>(dtype, bytes, count);
  if (tensor.dtype == Dtype::kC128) return OfComplexPiece<double>(dtype, bytes, count);
  if (HasSummary(tensor.dtype)) return OfPiece(tensor.dtype, dtype, bytes, count, sums);
  std::vector<double> values(count);
  ReadNumbers(tensor, first, count, values.data());
  return OfPiece(Dtype::kF64, dtype, reinterpret_cast<const std::byte*>(values.data()), count, sums);
}

std::uint16_t HalfBits(double value) {
  // Only numbers that a half holds exactly come here, and NaN.
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (std::isinf(value)) return sign | 0x7c00;
  if (magnitude < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<int>(magnitude * 0x1p24));
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);  // in [0.5, 1)
  const int mantissa = static_cast<int>((fraction * 2 - 1) * 1024);
  return static_cast<std::uint16_t>(sign | (exponent + 14) << 10 | mantissa);
}

template <class T>
void AppendBytes(T value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// The place of a type in its class: NumPy promotes to the smallest that holds both.
std::size_t IntegerBytes(Dtype dtype) { return dtype == Dtype::kBool ? 0 : ItemBytes(dtype); }

Dtype SignedOf(std::size_t num_bytes) {
  return num_bytes <= 1   ? Dtype::kI8
         : num_bytes <= 2 ? Dtype::kI16
         : num_bytes <= 4 ? Dtype::kI32
                          : Dtype::kI64;
}
Dtype FloatOf(std::size_t num_bytes) {
  return num_bytes <= 2 ? Dtype::kF16 : num_bytes <= 4 ? Dtype::kF32 : Dtype::kF64;
}
// The smallest float for an integer.
std::size_t FloatBytesFor(Dtype integer) {
  const std::size_t num_bytes = IntegerBytes(integer);
  return num_bytes <= 1 ? 2 : num_bytes <= 2 ? 4 : 8;
}

bool IsInteger(Dtype dtype) {
  const DtypeClass kind = Class(dtype);
  return kind == DtypeClass::kSigned || kind == DtypeClass::kUnsigned || kind == DtypeClass::kBool;
}

Dtype PromotedIntegers(Dtype a, Dtype b) {
  if (a == Dtype::kBool) return b;
  if (b == Dtype::kBool) return a;
  const std::size_t size_a = ItemBytes(a), size_b = ItemBytes(b);
  if (Class(a) == Class(b)) return size_a >= size_b ? a : b;
  const Dtype is_signed = Class(a) == DtypeClass::kSigned ? a : b;
  const std::size_t unsigned_bytes = Class(a) == DtypeClass::kSigned ? size_b : size_a;
  if (unsigned_bytes >= 8) return Dtype::kF64;
  return SignedOf(std::max(ItemBytes(is_signed), 2 * unsigned_bytes));
}

}  // namespace

Extremes FindExtremes(const TensorView& tensor, Dtype dtype, const ExtremesRequest& request) {
  Extremes all;
  all.min.dtype = all.max.dtype = dtype;
  const std::size_t item_bytes = ItemBytes(tensor.dtype);
  std::vector<std::byte> collected;
  if (tensor.source != nullptr) collected.resize(kElementsOfAPiece * item_bytes);
  for (std::uint64_t first = 0; first < tensor.num_elements; first += kElementsOfAPiece) {
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(kElementsOfAPiece, tensor.num_elements - first));
    const std::byte* bytes = collected.data();
    if (tensor.source != nullptr) {
      tensor.source->Read(first, count, collected.data());
    } else {
      bytes = tensor.data + static_cast<std::size_t>(first) * item_bytes;
    }
    Merge(OfPiece(tensor, dtype, first, count, bytes, request.sums), all);
    if (request.crc32) all.crc32 = Crc32({bytes, count * item_bytes}, all.crc32);
  }
  return all;
}

Dtype Promoted(Dtype a, Dtype b) {
  if (IsInteger(a) && IsInteger(b)) return PromotedIntegers(a, b);
  const auto float_bytes = [](Dtype dtype) -> std::size_t {
    if (IsInteger(dtype)) return dtype == Dtype::kBool ? 0 : FloatBytesFor(dtype);
    return Class(dtype) == DtypeClass::kComplex ? ItemBytes(dtype) / 2 : ItemBytes(dtype);
  };
  const std::size_t num_bytes = std::max(float_bytes(a), float_bytes(b));
  if (Class(a) == DtypeClass::kComplex || Class(b) == DtypeClass::kComplex)
    return num_bytes <= 4 ? Dtype::kC64 : Dtype::kC128;
  return FloatOf(num_bytes);
}

bool HoldsNan(Dtype dtype) { return !IsInteger(dtype); }

void AppendAs(const AnyNumber& number, Dtype dtype, std::string& out) {
  std::complex<double> value = number.number;
  if (IsInteger(number.dtype)) {
    value = IsUnsigned64(number.dtype) ? static_cast<double>(number.bits)
                                       : static_cast<double>(static_cast<std::int64_t>(number.bits));
  }
  switch (dtype) {
    case Dtype::kF16:
      return AppendBytes(HalfBits(value.real()), out);
    case Dtype::kF32:
      return AppendBytes(static_cast<float>(value.real()), out);
    case Dtype::kF64:
      return AppendBytes(value.real(), out);
    case Dtype::kC64:
      AppendBytes(static_cast<float>(value.real()), out);
      return AppendBytes(static_cast<float>(value.imag()), out);
    case Dtype::kC128:
      AppendBytes(value.real(), out);
      return AppendBytes(value.imag(), out);
    default:
      // Little endian: the low bytes of the number are the number in a smaller type.
      out.append(reinterpret_cast<const char*>(&number.bits), ItemBytes(dtype));
  }
}

}  // namespace vernier::torchair

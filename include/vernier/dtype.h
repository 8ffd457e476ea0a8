// Every element type we read, in one list. The enum, the names, the sizes and the only switch are made from
// it.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace vernier {

// Storage types of the formats that C++20 has no type for. Only src/measure gives them a value.
struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};
struct Float8E4M3FN {
  std::uint8_t bits;
};
struct Float8E5M2 {
  std::uint8_t bits;
};
struct Float8E4M3FNUZ {
  std::uint8_t bits;
};
struct Float8E5M2FNUZ {
  std::uint8_t bits;
};
struct Bool {
  std::uint8_t bits;
};

enum class DtypeClass { kFloat, kSigned, kUnsigned, kBool, kComplex };

// clang-format off
#define VN_FOR_EACH_DTYPE(X)                                                \
  X(kF64,          double,               "float64",         kFloat)         \
  X(kF32,          float,                "float32",         kFloat)         \
  X(kF16,          Float16,              "float16",         kFloat)         \
  X(kBF16,         BFloat16,             "bfloat16",        kFloat)         \
  X(kF8E4M3FN,     Float8E4M3FN,         "float8_e4m3fn",   kFloat)         \
  X(kF8E5M2,       Float8E5M2,           "float8_e5m2",     kFloat)         \
  X(kF8E4M3FNUZ,   Float8E4M3FNUZ,       "float8_e4m3fnuz", kFloat)         \
  X(kF8E5M2FNUZ,   Float8E5M2FNUZ,       "float8_e5m2fnuz", kFloat)         \
  X(kC64,          std::complex<float>,  "complex64",       kComplex)       \
  X(kC128,         std::complex<double>, "complex128",      kComplex)       \
  X(kI8,           std::int8_t,          "int8",            kSigned)        \
  X(kI16,          std::int16_t,         "int16",           kSigned)        \
  X(kI32,          std::int32_t,         "int32",           kSigned)        \
  X(kI64,          std::int64_t,         "int64",           kSigned)        \
  X(kU8,           std::uint8_t,         "uint8",           kUnsigned)      \
  X(kU16,          std::uint16_t,        "uint16",          kUnsigned)      \
  X(kU32,          std::uint32_t,        "uint32",          kUnsigned)      \
  X(kU64,          std::uint64_t,        "uint64",          kUnsigned)      \
  X(kBool,         Bool,                 "bool",            kBool)
// clang-format on

enum class Dtype : std::uint8_t {
#define VN_ENUM(id, type, name, kind) id,
  VN_FOR_EACH_DTYPE(VN_ENUM)
#undef VN_ENUM
};

// The one switch over Dtype: calls fn(std::type_identity<StorageType>{}).
template <class Fn>
constexpr decltype(auto) VisitDtype(Dtype dtype, Fn&& fn) {
  switch (dtype) {
#define VN_CASE(id, type, name, kind) \
  case Dtype::id:                     \
    return fn(std::type_identity<type>{});
    VN_FOR_EACH_DTYPE(VN_CASE)
#undef VN_CASE
  }
  __builtin_unreachable();
}

constexpr std::size_t ItemBytes(Dtype dtype) {
  return VisitDtype(dtype, [](auto type) { return sizeof(typename decltype(type)::type); });
}

std::string_view Name(Dtype dtype);  // "float32"
DtypeClass Class(Dtype dtype);
// Accepts our name, with or without "torch." in front.
std::optional<Dtype> ParseDtype(std::string_view name);

}  // namespace vernier

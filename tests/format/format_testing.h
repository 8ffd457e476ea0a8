// What the tests of the decoders share.
#pragma once

#include <array>
#include <complex>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "core/mapped_file.h"
#include "format/entry.h"
#include "gtest/gtest.h"

namespace vernier {

inline std::filesystem::path DataFile(const std::string& name) {
  return std::filesystem::path(VN_TEST_DATA) / name;
}

inline Bytes ReadBytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return Bytes(begin, begin + text.size());
}

inline Bytes ToBytes(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return Bytes(begin, begin + text.size());
}

template <class T>
Bytes BytesOf(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline Bytes BytesOf(const TensorView& view) { return Bytes(view.bytes().begin(), view.bytes().end()); }

// 0, 1, 2, 3, 4, 5 in `dtype`, as data/make_numpy_data.py writes them.
inline Bytes ZeroToFive(Dtype dtype) {
  const auto small_floats = [&]() -> std::vector<std::uint16_t> {
    switch (dtype) {
      case Dtype::kF16:
        return {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500};
      case Dtype::kBF16:
        return {0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0};
      case Dtype::kF8E4M3FN:
        return {0, 0x38, 0x40, 0x44, 0x48, 0x4a};
      case Dtype::kF8E5M2:
        return {0, 0x3c, 0x40, 0x42, 0x44, 0x45};
      case Dtype::kBool:
        return {0, 1, 0, 1, 0, 1};
      default:
        return {0, 1, 2, 3, 4, 5};
    }
  }();
  Bytes bytes;
  for (int i = 0; i < 6; ++i) {
    VisitDtype(dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      T item{};
      if constexpr (std::is_arithmetic_v<T>) {
        item = static_cast<T>(i);
      } else if constexpr (requires { item.real(); }) {
        item = T(static_cast<typename T::value_type>(i), static_cast<typename T::value_type>(-i));
      } else {
        item.bits = static_cast<decltype(item.bits)>(small_floats[static_cast<std::size_t>(i)]);
      }
      const auto* begin = reinterpret_cast<const std::byte*>(&item);
      bytes.insert(bytes.end(), begin, begin + sizeof(T));
    });
  }
  return bytes;
}

// Looks at every byte of every tensor, so that a sanitizer sees a view that leaves its file.
inline void ReadEverything(const Entries& entries, const FileRef& file) {
  for (const TensorEntry& entry : entries) {
    const Result<TensorView> view = LoadEntry(entry, file);
    if (!view) {
      EXPECT_FALSE(view.error().Message().empty());
      continue;
    }
    ASSERT_EQ(NumElements(view->shape, view->dtype).value(), view->num_elements);
    if (view->file && view->num_bytes() > 0) {
      ASSERT_GE(view->data, file->bytes().data());
      ASSERT_LE(view->num_bytes(),
                static_cast<std::size_t>(file->bytes().data() + file->bytes().size() - view->data));
    }
    std::byte sum{};
    for (const std::byte byte : view->bytes()) sum ^= byte;
    volatile std::byte sink = sum;
    static_cast<void>(sink);
  }
}

// Calls fn with `good` cut off at every byte, and with every byte of it changed in several ways.
template <class Fn>
void ForEachDamage(const Bytes& good, const Fn& fn) {
  for (std::size_t size = 0; size < good.size(); ++size)
    fn(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)));
  for (std::size_t i = 0; i < good.size(); ++i) {
    const std::byte was = good[i];
    for (const std::byte now : {std::byte{0}, std::byte{0xff}, was ^ std::byte{1}, was ^ std::byte{0x10}}) {
      Bytes bad = good;
      bad[i] = now;
      fn(std::move(bad));
    }
  }
}

// Lists and loads every damaged variant of `good`: an error or a view inside the file, never a crash.
template <class List>
void ExpectSurvivesDamage(const Bytes& good, const List& list) {
  ForEachDamage(good, [&](Bytes bytes) {
    const FileRef file = MappedFile::FromBytes(std::move(bytes), "damaged");
    const Result<Entries> entries = list(file);
    if (entries) ReadEverything(*entries, file);
  });
}

}  // namespace vernier

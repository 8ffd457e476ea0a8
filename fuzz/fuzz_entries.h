// What every fuzz target of a decoder does with what it decoded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/mapped_file.h"
#include "format/entry.h"

namespace vernier {

inline FileRef FuzzFile(const std::uint8_t* data, std::size_t size_bytes) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  return MappedFile::FromBytes(Bytes(begin, begin + size_bytes), "fuzz");
}

// Loads every tensor and looks at each of its bytes, so that the sanitizer sees a view that leaves its file.
// Large ones, which repeat a few bytes, would only cost time.
inline void LoadAll(const Result<Entries>& entries, const FileRef& file) {
  constexpr std::uint64_t kMaxLoadedBytes = std::uint64_t{1} << 22;
  if (!entries) return static_cast<void>(entries.error().Message());
  for (const TensorEntry& entry : *entries) {
    if (entry.info.num_bytes() > kMaxLoadedBytes) continue;
    const Result<TensorView> view = LoadEntry(entry, file);
    if (!view) continue;
    std::byte sum{};
    for (const std::byte byte : view->bytes()) sum ^= byte;
    volatile std::byte sink = sum;
    static_cast<void>(sink);
  }
}

}  // namespace vernier

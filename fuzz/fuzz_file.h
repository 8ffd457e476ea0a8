// For readers that take a path: the bytes of the fuzzer in a file, and in memory as a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace vernier {

// A folder in memory, made once for each process; a fuzzer runs in a loop and never comes to remove it.
inline const std::filesystem::path& FuzzFolder() {
  static const std::filesystem::path folder = [] {
    std::string name = "/dev/shm/vernier-fuzz-XXXXXX";
    const char* made = mkdtemp(name.data());
    if (made == nullptr) std::abort();
    static const std::filesystem::path path = made;
    std::atexit([] {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    });
    return path;
  }();
  return folder;
}

inline std::filesystem::path FuzzPath(const char* name, const std::uint8_t* data, std::size_t size_bytes) {
  const std::filesystem::path path = FuzzFolder() / name;
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr || (size_bytes > 0 && std::fwrite(data, 1, size_bytes, file) != size_bytes))
    std::abort();
  std::fclose(file);
  return path;
}

inline std::string_view FuzzText(const std::uint8_t* data, std::size_t size_bytes) {
  return {reinterpret_cast<const char*>(data), size_bytes};
}

}  // namespace vernier

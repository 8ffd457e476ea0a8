// The yardstick: what it costs merely to look at bytes of files that lie in the page cache.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace vernier::bench {

inline double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Maps each file and adds up its 64-bit words, the files cut into windows that the threads take in turn.
// Gives the sum, so that no compiler can leave the reading out.
inline std::uint64_t ReadPlainly(const std::vector<std::string>& files, int num_threads) {
  constexpr std::size_t kWindowBytes = std::size_t{4} << 20;
  struct Window {
    const std::string* file;
    std::size_t offset, size;
  };
  std::vector<Window> windows;
  for (const std::string& file : files) {
    struct stat status;
    if (stat(file.c_str(), &status) != 0) continue;
    const auto size = static_cast<std::size_t>(status.st_size);
    for (std::size_t offset = 0; offset < size; offset += kWindowBytes) {
      windows.push_back({&file, offset, std::min(kWindowBytes, size - offset)});
    }
  }
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> total{0};
  const auto work = [&] {
    for (std::size_t i; (i = next++) < windows.size();) {
      const Window& window = windows[i];
      const int fd = open(window.file->c_str(), O_RDONLY);
      void* data = mmap(nullptr, window.size, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(window.offset));
      close(fd);
      if (data == MAP_FAILED) continue;
      const auto* words = static_cast<const std::uint64_t*>(data);
      std::uint64_t sums[4] = {};
      for (std::size_t k = 0; k + 4 <= window.size / 8; k += 4) {
        for (std::size_t j = 0; j < 4; ++j) sums[j] += words[k + j];
      }
      total += sums[0] + sums[1] + sums[2] + sums[3];
      munmap(data, window.size);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < num_threads; ++i) threads.emplace_back(work);
  }
  return total;
}

}  // namespace vernier::bench

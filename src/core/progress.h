// Tells a person how far a long job is.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace vernier {

// "compare  [####    ]   43%  1.2 GB/s  0:05 left", without the brackets unless `with_bar`.
std::string ProgressText(std::string_view label, double fraction, double per_second, bool bytes,
                         double seconds_left, bool with_bar);

enum class ProgressStyle { kAuto, kQuiet };

// On a terminal a bar that redraws itself ("compare  [####    ]  43%  1.2 GB/s  0:05 left"), otherwise a
// plain line every few seconds; nothing at all for jobs shorter than a second, or when quiet. Update() may be
// called from any one thread at a time and is cheap enough for every item. Takes the stream as the only thing
// under src/ that is handed one: it never opens stdout or stderr itself.
class Progress {
 public:
  // `total_bytes` may be 0 when unknown: then items count.
  Progress(std::FILE* stream, ProgressStyle style, std::string label, std::uint64_t total_items,
           std::uint64_t total_bytes);
  ~Progress();  // clears the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Update(std::uint64_t items_done, std::uint64_t bytes_done);

 private:
  using Clock = std::chrono::steady_clock;
  std::FILE* stream_;
  bool quiet_, terminal_, drawn_ = false;
  std::string label_;
  std::uint64_t total_items_, total_bytes_;
  Clock::time_point start_, last_draw_;
};

}  // namespace vernier

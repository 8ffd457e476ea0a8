// Replaces finished dump files by small ones with the minimum and maximum of each tensor, while the dump goes
// on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "vernier/compare.h"
#include "vernier/result.h"

namespace vernier::torchair {

// What --keep may name. Everything but the first two goes to <name>_info.json.
std::span<const std::string_view> KeepWords();

struct ShrinkOptions {
  std::string folder;
  std::vector<std::string> keep = {"min", "max"};       // of KeepWords()
  bool watch = false;                                   // go on until it is stopped
  std::optional<std::chrono::milliseconds> until_idle;  // with watch: or until nothing changed for so long
  int num_threads = 0;
  std::stop_token stop;
  std::function<void(const CompareProgress&)> on_progress;  // of a pass, in bytes
  LogSink on_log;  // what was left and why; kDebug: what was converted
};

struct ShrinkOutcome {
  std::uint64_t num_converted = 0, num_left = 0;
  std::uint64_t bytes_before = 0, bytes_after = 0;  // of what was converted
};

// A file is touched when its size and time of change stayed the same for two looks and nobody has it open; it
// is removed when what replaces it is on disk. Fails when the folder cannot be read.
Result<ShrinkOutcome> Shrink(const ShrinkOptions& options);

}  // namespace vernier::torchair

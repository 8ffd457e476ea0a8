// Dump files -> files that NumPy and torch read.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "vernier/compare.h"
#include "vernier/result.h"

namespace vernier::torchair {

enum class ConvertTo : std::uint8_t { kNpy, kPt, kSafetensors };

struct ConvertOptions {
  std::string path;           // a dump file, or a folder of them
  std::string output_folder;  // created when it is not there
  ConvertTo to = ConvertTo::kPt;
  bool subfolders = true;   // also those of a folder; their names are kept below the output folder
  bool every_file = false;  // of a folder: also those whose names promise no dump
  bool tensors_may_fail =
      false;  // a tensor of a type that cannot be written does not make its file a failed one
  int num_threads = 0;
  std::stop_token stop;
  std::function<void(const CompareProgress&)> on_progress;
  LogSink on_log;
};

struct ConvertOutcome {
  std::uint64_t num_files = 0, num_written = 0;  // dump files; files written
  std::vector<std::string> failed;               // paths; also listed in convert_failed_file_list.txt
};

// GE dump files, and ATB's tensor files where a name ends in .bin; tensors as they are stored, no layout is
// undone. Fails when nothing is to be converted, when the output cannot be written or when it is stopped
// (kCancelled).
Result<ConvertOutcome> ConvertDumps(const ConvertOptions& options);

// An overflow record, which a device writes instead of tensors, as JSON.
Result<std::string> OverflowJson(std::span<const std::byte> bytes);

}  // namespace vernier::torchair

// What each tensor of an HDF5 recording holds, as the guide's `summary` shows it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/result_reports.h"
#include "vernier/measure.h"
#include "vernier/result.h"

namespace vernier::xray {

struct SummaryOptions {
  bool trust_attributes = false;  // what the recorder wrote beside the data, which is not read
  int num_threads = 0;
};

struct SummaryRow {
  std::uint64_t index = 0;
  std::optional<std::int64_t> step;
  std::int64_t rank = 0;
  std::string key, dtype, shape;
  bool has_numbers = false;  // false: empty, or unreadable
  double min = 0, max = 0, mean = 0, std = 0;
  std::uint64_t num_nan = 0, num_inf = 0;
  std::optional<Error> error;
};

// Every tensor of the file, step by step in the order of creation. `on_progress` as in BatchHooks, with how
// much there is.
struct SummaryHooks {
  std::stop_token stop;
  std::function<void(const MeasureProgress& done, std::uint64_t num_items, std::uint64_t num_bytes)>
      on_progress;
};
Result<std::vector<SummaryRow>> SummarizeRecording(const std::string& path, const SummaryOptions& options,
                                                   const SummaryHooks& hooks);

// The guide's table, and a line for each tensor that could not be read.
std::string SummaryTable(std::span<const SummaryRow> rows);
// The same with full precision and more columns, into a .csv, .json, .jsonl or .xlsx.
Result<Done> WriteSummary(std::span<const SummaryRow> rows, const OutputFile& file);

}  // namespace vernier::xray

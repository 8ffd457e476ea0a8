// The details CSV of the unit tests: one row for each result of an operator, written while they run.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "xray_ops/error_counts.h"

namespace vernier::xray_ops {

// Beside the counts, whose columns are 1e-1, 1e-2, …
inline constexpr std::string_view kFirstColumns[] = {"name",    "op_name", "dtype",   "shape",
                                                     "min-val", "max-val", "is_pass", "max"};
inline constexpr std::string_view kLastColumns[] = {"device", "message"};
std::string OrderColumn(int order);  // "1e-3"

// What was counted, as cells under these columns: is_pass, dtype, shape, min-val, max-val, max, message, and
// the orders. The counts are blank when nothing could be counted.
std::vector<std::string> CountColumns(int num_orders);
KeptCells CountCells(const ErrorCounts& counts, int num_orders);

struct DetailRow {
  std::string_view name;     // "00004-aten"
  std::string_view op_name;  // "aten.linspace.default"
  std::string_view device;
  std::string_view is_pass;      // "pass", "fail", "error" or "skip"; empty: the one of the counts
  std::string_view message;      // the same
  std::span<const Cell> counts;  // of CountCells(); empty: nothing was compared, the cells are blank
};

// A file with the header alone, in the place of what was there.
Result<Done> BeginDetails(const std::filesystem::path& path, int num_orders);
// Appends a row as a whole; fails when its counts have another number of orders. Processes and threads may do
// so at once; the first one writes the header when there is no file.
Result<Done> AppendDetails(const std::filesystem::path& path, int num_orders, const DetailRow& row);

}  // namespace vernier::xray_ops

// summary_diff_check: the details of two machines side by side, and which operators one of them computes
// worse.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "vernier/report.h"
#include "vernier/result.h"

namespace vernier::xray_ops {

// Worst first.
enum class DiffStatus : std::uint8_t { kFail, kMismatch, kError, kUnmatched, kSkip, kPass };
inline constexpr std::size_t kNumDiffStatuses = 6;
std::string_view Name(DiffStatus status);  // "fail", …

// The columns that are shown on a screen: the first ones of the result.
inline constexpr std::size_t kNumShownColumns = 9;

struct DiffRow {
  DiffStatus status = DiffStatus::kPass;
  std::vector<std::string> texts;  // one for each column
};

struct DiffTable {
  std::vector<std::string> columns;
  std::vector<DiffRow> rows;  // in the order of the first file, then what only the second one has
  std::uint64_t num_joined = 0;
  std::array<std::uint64_t, kNumDiffStatuses> counts{};  // of rows, by status
  std::vector<std::string> problems;                     // rows of the files that cannot be used
};

// `xpu` is the device in question, `gpu` what it is held against: details CSVs. Fails when one cannot be read
// or no row has a partner.
Result<DiffTable> DiffDetails(const std::filesystem::path& xpu, const std::filesystem::path& gpu);
// As csv, xlsx, json or jsonl, by its ending.
Result<Done> WriteDiff(const DiffTable& table, const std::filesystem::path& path);
// The worst rows, `most_rows` of them, in a frame.
std::string DiffScreen(const DiffTable& table, std::size_t most_rows);

}  // namespace vernier::xray_ops

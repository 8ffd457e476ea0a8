// What a run is asked to do, from command line, compare.json and mapping files.
#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/msprobe/log.h"
#include "profiles/msprobe/match.h"
#include "profiles/msprobe/row.h"
#include "vernier/report.h"

namespace vernier::msprobe {

// The whole of one comparison. A plain struct: behaviour first, then what only changes speed and talk.
struct Settings {
  Generation generation = Generation::kClassic;
  std::filesystem::path npu_path, bench_path, output_path = "./output";
  std::optional<std::string> stack_path;  // classic, single rank
  bool show_given_stack = false;          // -s
  bool advise = true;                     // not -c
  bool fuzzy = false;
  bool highlight = false;
  bool diff_analyze = false;
  std::optional<std::string> data_mapping_path;
  bool cell_mapping = false;
  std::optional<std::string> cell_mapping_path;
  ReportFormat format = ReportFormat::kXlsx;
  bool log_rows = false;          // a line or two for each row of real data
  std::string rules_path;         // thresholds and messages of the user's own
  std::string timestamp;          // YYYYMMDDhhmmss; empty: now
  bool whole_files_only = false;  // a dump.json that ends in the middle is an error
  bool write_summary = true;      // our own summary.json beside the results

  int num_threads = 0;
  std::stop_token stop;
  std::function<void(std::uint64_t items_done, std::uint64_t num_items, std::uint64_t bytes_done)>
      on_progress;
};

// The mappings of a run, read once. Empty optionals: not asked for.
struct Mappings {
  std::optional<DataMapping> data;
  std::optional<CellMapping> cell;
};
Result<Mappings> ReadMappings(const Settings& settings, Log& log);

// compare.json: fills the paths, stack_path and log_rows.
Result<Done> ReadCompareJson(const std::string& path, Settings& settings, Log& log);

// The checks the reference makes of a path before it reads or creates it. `strict`: the classic generation.
Result<Done> CheckInputFile(const std::filesystem::path& path, bool strict, Log& log);
Result<Done> CreateOutputFolder(const std::filesystem::path& path, bool strict, Log& log);

}  // namespace vernier::msprobe

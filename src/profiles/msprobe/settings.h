// What a run is asked to do, from command line, compare.json and mapping files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/msprobe/log.h"
#include "profiles/msprobe/match.h"
#include "profiles/msprobe/row.h"
#include "report/result_reports.h"
#include "vernier/match.h"

namespace vernier::msprobe {

// The whole of one comparison. A plain struct: behaviour first, then what only changes speed and talk.
struct Settings {
  Generation generation = Generation::kClassic;
  std::filesystem::path npu_path, bench_path;
  std::filesystem::path output_path;      // a folder; empty: no files but `outputs`
  std::vector<OutputFile> outputs;        // single files; only for a single rank
  std::optional<std::string> stack_path;  // classic, single rank
  bool show_given_stack = false;          // -s
  bool advise = true;                     // not -c
  MatchMode match = MatchMode::kExact;
  std::vector<std::pair<std::string, std::string>> renames;
  bool highlight = false;
  bool diff_analyze = false;
  std::optional<std::string> data_mapping_path;
  bool cell_mapping = false;
  std::optional<std::string> cell_mapping_path;
  ReportFormat format = ReportFormat::kXlsx;
  SelectOptions select;
  bool strict = false;     // rows without a partner count as a difference
  bool log_rows = false;   // a line or two for each row of real data
  std::string rules_path;  // thresholds and messages of the user's own
  std::string timestamp;   // in the names of results, see ResultStamp; empty: now
  // As strict as msprobe: a dump.json that ends in the middle, a whole dump and a file against a folder are
  // errors.
  bool as_msprobe = false;

  int num_threads = 0;
  CompareHooks hooks;

  bool Writes(ReportFormat wanted) const;  // one of the reports is of that format
};

// The mappings of a run, read once. Empty optionals: not asked for.
struct Mappings {
  std::optional<DataMapping> data;
  std::optional<CellMapping> cell;
};
Outcome<Mappings> ReadMappings(const Settings& settings, Log& log);

// compare.json: fills the paths and the options stack_path and log_rows.
Outcome<Done> ReadCompareJson(const std::string& path, CompareRequest& request, Log& log);

// The checks the reference makes of a path before it reads or creates it. `strict`: the classic generation.
Outcome<Done> CheckInputFile(const std::filesystem::path& path, bool strict, Log& log);
Outcome<Done> CreateOutputFolder(const std::filesystem::path& path, bool strict, Log& log);

}  // namespace vernier::msprobe

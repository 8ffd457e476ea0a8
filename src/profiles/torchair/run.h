// Everything under two roots: which ranks, graphs and tokens stand against which, and their reports.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "judge/rules.h"
#include "report/result_reports.h"
#include "vernier/compare.h"

namespace vernier::torchair {

// What a run is asked to do.
struct Settings {
  std::string target, golden;
  std::optional<std::uint64_t> rank;    // only this one
  bool digests = false;                 // compare checksums instead of values
  bool highlight = false;               // colours in xlsx
  bool as_msprobe = false;              // a rank that fails ends the run
  std::filesystem::path output_folder;  // empty: no reports but `outputs`
  std::vector<OutputFile> outputs;      // single files; only for a single report
  ReportFormat format = ReportFormat::kCsv;
  SelectOptions select;
  bool strict = false;  // items without a partner count as a difference
  int num_threads = 0;
  Rules rules = Rules::Verdict();
};

Result<CompareOutcome> Run(const Settings& settings, const CompareHooks& hooks);

}  // namespace vernier::torchair

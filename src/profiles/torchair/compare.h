// The pairs of one graph -> measured and judged rows, in order.
#pragma once

#include <cstdint>
#include <string>

#include "profiles/torchair/columns.h"
#include "profiles/torchair/match.h"
#include "report/result_reports.h"
#include "vernier/compare.h"

namespace vernier::torchair {

struct GraphCounts {
  RankOutcome outcome;
  std::uint64_t num_counts_differ = 0;   // pairs that are left out: they have different numbers of elements
  std::uint64_t num_one_sided_int8 = 0;  // pairs that are left out: int8 on one side only
  std::uint64_t num_same = 0;            // pairs without any difference
  std::string first_failure;             // "Add_2 (token 0, outputs 0): …"; empty: none
};

struct GraphOptions {
  Mode mode = Mode::kReal;
  bool highlight = false;
  std::string rank;  // for hooks.on_rows
  int num_threads = 0;
};

// The rows go to `reports`, in the order of the target's times. Fails when it is stopped (kCancelled) or a
// report cannot be written.
Result<GraphCounts> ComparePairs(const Matching& matching, const GraphOptions& options,
                                 const CompareHooks& hooks, ResultReports& reports);

}  // namespace vernier::torchair

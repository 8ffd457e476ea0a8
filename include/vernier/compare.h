// compare: two Dumps -> a row for each of their tensors, and a summary. All stages in one call, with our own
// columns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vernier/judge.h"
#include "vernier/match.h"
#include "vernier/measure.h"
#include "vernier/read.h"
#include "vernier/report.h"
#include "vernier/result.h"

namespace vernier {

struct CompareOptions {
  // What changes the answer.
  double rtol = -1, atol = -1;  // negative: torch.testing.assert_close's for the dtypes of each pair
  JudgeOptions judge;
  // What only changes the speed.
  int num_threads = 0;  // 0: one per core
};

// One tensor of either side. What it points to lives during the call of the sink only.
struct CompareRow {
  const TensorInfo* target = nullptr;      // null: only in golden
  const TensorInfo* golden = nullptr;      // null: only in target
  std::optional<MatchRule> matched;        // set: both sides are
  const PairMeasures* measures = nullptr;  // null: not compared
  const Error* error = nullptr;            // why it could not be compared
  Verdict verdict;
};

struct CompareSummary {
  std::uint64_t num_target = 0, num_golden = 0;             // tensors
  std::uint64_t num_compared = 0;                           // pairs that were measured
  std::array<std::uint64_t, kNumMatchRules> num_matched{};  // by MatchRule
  std::uint64_t num_only_target = 0, num_only_golden = 0;
  std::uint64_t num_passed = 0, num_failed = 0, num_errors = 0;

  std::uint64_t num_pairs() const;
  // kFail: a pair failed. kError: none failed, but one could not be judged, or there was none. kPass: all
  // passed.
  Status verdict() const;
  // "compared 126 of 128 target / 130 golden tensors (exact 120, fuzzy 6); 2 only in target, 4 only in
  // golden; 3 failed"
  std::string Text() const;
};

// One at a time, in target order, then what is only in golden.
using CompareSink = std::function<void(const CompareRow& row)>;

// As Match(), but two files of a single tensor each are paired whatever the tensors' names.
Result<Pairing> PairDumps(const Dump& target, const Dump& golden, const MatchOptions& options);
// Bytes that comparing the pairs reads, of both sides.
std::uint64_t NumBytes(const Dump& target, const Dump& golden, const Pairing& pairing);

// Fails only when it is stopped (kCancelled). REQUIRES: the pairing is of these dumps
Result<CompareSummary> CompareDumps(const Dump& target, const Dump& golden, const Pairing& pairing,
                                    const CompareOptions& options, const CompareSink& sink,
                                    const BatchHooks& hooks = {});

// The columns of our own report, in order.
enum class Good : std::uint8_t { kNeither, kSmall, kLarge };
struct CompareColumn {
  std::string_view key;   // in reports and for --sort
  Good good;              // which end of the numbers is the good one
  std::string_view help;  // one line
  Cell (*value)(const CompareRow& row);
};
std::span<const CompareColumn> CompareColumns();
std::vector<std::string> CompareColumnKeys();
std::vector<Cell> CompareCells(const CompareRow& row);
RowColour ColourOf(Status status);

}  // namespace vernier

// Our own comparison: two tensor files, checkpoints or folders of them, with our own columns.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "profiles/worst_pairs.h"
#include "report/result_reports.h"
#include "vernier/compare.h"
#include "vernier/measure.h"
#include "vernier/read.h"

namespace vernier::native {

// One tensor of either side. What it points to lives while its cells are made.
struct CompareRow {
  const TensorInfo* target = nullptr;      // null: only in golden
  const TensorInfo* golden = nullptr;      // null: only in target
  std::optional<MatchRule> matched;        // set: both sides are
  const PairMeasures* measures = nullptr;  // null: not compared
  const Error* error = nullptr;            // why it could not be compared
  Verdict verdict;
};

struct Column {
  std::string_view key;   // in reports and for --sort
  Good good;              // which end of the numbers is the good one
  std::string_view help;  // one line
  Cell (*value)(const CompareRow& row, TextArena& arena);
};
std::span<const Column> Columns();

// As Match(), but two files of a single tensor each are paired whatever the tensors' names.
Result<Pairing> PairDumps(const Dump& target, const Dump& golden, const MatchOptions& options);

// The rows go to `reports`, in target order, then what is only in golden. Gives the counts and, in
// `first_bad`, the first row in file order that failed and the first that could not be judged; `worst` is
// given every pair that was measured. Fails when it is stopped (kCancelled) or a report cannot be written.
// REQUIRES: the pairing is of these dumps
Result<RankOutcome> CompareDumps(const Dump& target, const Dump& golden, const Pairing& pairing,
                                 const CompareRequest& request, const CompareHooks& hooks,
                                 ResultReports& reports, std::vector<KeptRow>& first_bad,
                                 WorstPairPicker& worst);

// A pair whose elements can be measured: as many on both sides.
Result<LoadedPair> LoadPairOf(const Dump& target, const Dump& golden, const Pair& pair);

// "compared 126 of 128 target / 130 golden tensors (exact 120, fuzzy 6); 2 only in target, 4 only in golden;
// 3 failed"
std::string SummaryText(const RankOutcome& outcome);

// At most one screen: the rows, what was left out, the summary, what to look at first.
struct ScreenContent {
  std::vector<KeptRow> rows;       // to be shown, in this order
  std::uint64_t num_rows = 0;      // there were
  std::vector<KeptRow> first_bad;  // at most one that failed and one that could not be judged
  RankOutcome outcome;
};
std::string ScreenText(const ScreenContent& content, std::size_t width, bool colour);
std::string VerdictText(const ScreenContent& content, bool colour);  // its last lines

// The family: anything that can be opened as tensors.
bool Recognises(const std::string& path);
Result<CompareOutcome> Compare(const CompareRequest& request, const CompareHooks& hooks);

}  // namespace vernier::native

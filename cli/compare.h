// `vernier compare` is several commands under one name; see the table in compare.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "vernier/compare.h"

namespace vernier {

struct CompareProfile {
  std::string_view name;
  bool (*recognises)(const Args& args);
  ExitCode (*run)(const Args& args);
  std::string (*help)();
};

ExitCode RunNativeCompare(const Args& args);
std::string HelpNativeCompare();

// A row that outlives its dumps, for sorting and for the screen.
struct KeptRow {
  std::size_t position = 0;  // in report order
  Status status = Status::kPass;
  double severity = 0;  // larger is worse; comparable within one status
  std::vector<Cell> cells;
};
// Orders rows by status (fail, error, unmatched, pass), then by severity.
bool IsWorse(const KeptRow& a, const KeptRow& b);

// At most one screen: the rows, what was left out, the summary, what to look at first.
struct CompareScreen {
  std::vector<KeptRow> rows;   // to be shown, in this order
  std::uint64_t num_rows = 0;  // there were
  std::vector<KeptRow>
      first_bad;  // the first in file order that failed or could not be judged, at most one of each
  CompareSummary summary;
  std::vector<std::string> written;  // names of the reports
};
std::string CompareScreenText(const CompareScreen& screen, std::size_t width, bool colour);

}  // namespace vernier

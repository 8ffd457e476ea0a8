#include "profiles/row_verdict.h"

#include <fmt/format.h>

#include "core/text.h"

namespace vernier {

bool IsSame(const PairMeasures& measures) {
  return measures.max_abs_diff == 0 && measures.num_special_mismatches() == 0;
}

void JudgeRows(const RowVerdict& rows, const Rules& rules, RankOutcome& outcome) {
  const double share = rules.Threshold(rows.fuses ? "unmatched_rows" : "unmatched_share");
  const std::uint64_t num_alone = outcome.num_only_target() + outcome.num_only_golden;
  const double all = static_cast<double>(outcome.num_target + outcome.num_golden);
  if (outcome.num_matched == 0) outcome.doubts.push_back("no tensor has a partner");
  if (outcome.num_errors > 0)
    outcome.doubts.push_back(Plural(outcome.num_errors, "tensor") + " could not be read or judged");
  if (outcome.num_matched > 0 && static_cast<double>(num_alone) > share * all)
    outcome.doubts.push_back(fmt::format("{:.0f} % have no partner ({} only in target, {} only in golden)",
                                         100.0 * static_cast<double>(num_alone) / all,
                                         outcome.num_only_target(), outcome.num_only_golden));
  outcome.verdict = outcome.num_failed > 0                                    ? RunVerdict::kDiverged
                    : !outcome.doubts.empty() || outcome.num_measured == 0    ? RunVerdict::kUnknown
                    : num_alone == 0 && rows.num_same == outcome.num_measured ? RunVerdict::kIdentical
                                                                              : RunVerdict::kNoise;
}

}  // namespace vernier

// The verdict of families that know rows, and not which call made which.
#pragma once

#include <cstdint>

#include "judge/rules.h"
#include "vernier/compare.h"
#include "vernier/measure.h"

namespace vernier {

struct RowVerdict {
  std::uint64_t num_same = 0;  // pairs without any difference
  bool fuses = false;          // of an honest pair many rows have no partner
};
void JudgeRows(const RowVerdict& rows, const Rules& rules, RankOutcome& outcome);
bool IsSame(const PairMeasures& measures);  // no element differs

}  // namespace vernier

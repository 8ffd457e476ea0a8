// Columns that are computed from the recorded statistics or checksums of the two sides.
#pragma once

#include "profiles/msprobe/row.h"

namespace vernier::msprobe {

// Fills metrics, and in the classic generation result and message. New texts are kept in the arena.
void CompareStatistics(const Profile& profile, const Rules& rules, ResultRow& row, TextArena& arena);
// Fills result; in the current generation the verdict replaces it later.
void CompareMd5(ResultRow& row);

}  // namespace vernier::msprobe

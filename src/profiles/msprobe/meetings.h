// Where the ranks of one job meet, by what each of them recorded of it.
#pragma once

#include <vector>

#include "judge/ranks.h"
#include "profiles/msprobe/dump.h"
#include "profiles/msprobe/trace.h"

namespace vernier::msprobe {

// In the order of the calls of `trace`, which is that of `dump`. `rank`: the dump's own number; -1: unknown.
std::vector<Meeting> MeetingsOf(const Dump& dump, const Trace& trace, int rank);

}  // namespace vernier::msprobe

// Verdicts and colour marks: what relates the rows of one record to each other.
#pragma once

#include <span>

#include "profiles/msprobe/row.h"

namespace vernier::msprobe {

// Classic, -hl: fills colour and appends the reasons to message. `rows` are the rows of one record, in table
// order.
void MarkRecord(Mode mode, const Rules& rules, std::span<ResultRow> rows);
// Current: replaces result and message.
void JudgeRecord(Mode mode, const Rules& rules, std::span<ResultRow> rows);

}  // namespace vernier::msprobe

// A whole comparison of the msprobe profile: two files or two trees in, result files out.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "profiles/msprobe/rank.h"
#include "profiles/msprobe/settings.h"

namespace vernier::msprobe {

// Fails when nothing was compared because something is wrong; the log tells what. Stopped: kCancelled.
Result<CompareOutcome> RunCompare(Settings settings);

// The rows of a rank that --top asks for; empty: none.
std::string ShownRowsText(const RankResult& result, const CompareHooks::Screen& screen);
// Our own verdict in one screen, and as summary.json.
std::string VerdictText(const CompareOutcome& outcome);
std::string RankText(const RankOutcome& outcome);  // of one rank
std::string VerdictJson(const CompareOutcome& outcome, Generation generation);
// The command that looks closer at what was found first; empty: none.
std::string NextCommand(const CompareOutcome& outcome);
// 0 nothing beyond the thresholds, 1 differences, 2 could not judge: no rows matched, or a rank was skipped.
int ExitStatus(const CompareOutcome& outcome, bool strict);

}  // namespace vernier::msprobe

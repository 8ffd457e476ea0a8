// A whole comparison of the msprobe profile: two files or two trees in, result files out.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "profiles/msprobe/settings.h"
#include "profiles/msprobe/summary.h"

namespace vernier::msprobe {

struct RunOutcome {
  std::vector<RankSummary> ranks;  // in the order in which they were compared
  std::vector<std::filesystem::path> written;
  std::uint64_t num_skipped_ranks = 0;
  std::vector<std::string> first_differences;  // -da: "rank_0: Functional.relu.0.forward"
};

// Fails when nothing was compared because something is wrong; the log tells what. Stopped: kCancelled.
Result<RunOutcome> RunCompare(Settings settings, const LogSink& sink);

// Local time as YYYYMMDDhhmmss.
std::string TimestampNow();
// Our own verdict in one screen, and as summary.json.
std::string VerdictText(const RunOutcome& outcome, const Settings& settings);
std::string VerdictJson(const RunOutcome& outcome, const Settings& settings);
// 0 nothing beyond the thresholds, 1 differences, 2 could not judge: no rows matched, or a rank was skipped.
int ExitStatus(const RunOutcome& outcome);

}  // namespace vernier::msprobe

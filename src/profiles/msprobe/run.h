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
// The commands that look closer at what was found; `folder` is where a config.json may be written, empty:
// none. What is written is added to the outcome.
Result<Done> FindNext(const std::filesystem::path& folder, std::string_view stamp, CompareOutcome& outcome);

}  // namespace vernier::msprobe

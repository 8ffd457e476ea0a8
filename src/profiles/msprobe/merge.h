// merge_result: one metric of several ranks side by side.
#pragma once

#include <filesystem>

#include "profiles/msprobe/log.h"

namespace vernier::msprobe {

// Reads the compare results (xlsx, or csv when there is no xlsx) in `input`, writes
// multi_ranks_compare_merge_*.xlsx. Fails as told in log.h.
Outcome<Done> MergeResults(const std::filesystem::path& input, const std::filesystem::path& output,
                           const std::filesystem::path& config, const LogSink& sink);

}  // namespace vernier::msprobe

// `vernier compare`: its options, under whose spelling they may come, and running what they ask for.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/commands.h"
#include "cli/log.h"
#include "cli/options.h"
#include "vernier/compare.h"

namespace vernier {

// One option for every family of dumps; each may be given in msprobe's command lines too.
struct CompareOption {
  Option option;
  std::string_view type, group;  // for the help page
  Result<Done> (*take)(const std::string& text, CompareRequest& request);
};
std::span<const CompareOption> CompareOptions();
// Copies what the user gave into the request.
Result<Done> TakeCompareOptions(const ParsedOptions& parsed, CompareRequest& request);

Result<int> ParseThreads(const std::string& text);  // the value of --threads

struct CompareRun {
  bool quiet = false;
  bool as_msprobe = false;  // the verdict is logged, and a finished run ends with 0
};
ExitCode RunRequest(const CompareRequest& request, const CompareRun& run, Logger& logger);

}  // namespace vernier

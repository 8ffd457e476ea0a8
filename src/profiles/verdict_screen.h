// What a person reads of a comparison: the verdict, who is to blame, why, and what to do next. The same for
// every family, for one rank and for a thousand; at most 24 lines of 100 columns.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "vernier/compare.h"

namespace vernier {

// The verdict of all ranks together, and the status of the command that goes with it.
RunVerdict VerdictOf(const CompareOutcome& outcome);
int StatusOf(const CompareOutcome& outcome, bool strict);

// The rank whose culprit came first; null: none has one.
const RankOutcome* FirstToBlame(const CompareOutcome& outcome);

std::string_view Heading(RunVerdict verdict);  // "IDENTICAL", …
// `seconds` < 0: not told.
std::string VerdictScreen(const CompareOutcome& outcome, bool colour, double seconds);
// Of families that show a table of their own: the heading, and the verdict in two or three lines.
std::string HeadingOf(const RankOutcome& rank, bool colour);
std::string VerdictLines(const RankOutcome& rank, bool colour);
// The same of one rank, for the front page of its table.
std::string RankScreen(const RankOutcome& rank);
// "argument eps differs   target 0.1   golden 1e-05", of a record's own.
std::string ArgumentText(const Outside& argument, std::string_view record);
// summary.json. `profile`: which rules the rows were judged by; empty: none to name.
std::string SummaryJson(const CompareOutcome& outcome, std::string_view profile);

// Adds summary.json beside the results of a run, named after its stamp; "" writes none.
Result<Done> WriteSummary(const std::filesystem::path& folder, std::string_view stamp,
                          std::string_view profile, CompareOutcome& outcome);

}  // namespace vernier

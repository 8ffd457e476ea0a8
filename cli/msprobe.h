// The command lines of msprobe, under its name and under ours.
#pragma once

#include <string>
#include <string_view>

#include "cli/commands.h"

namespace vernier {

// Whether the words (without the program's name) are to be read as msprobe's.
bool IsMsprobeName(std::string_view program);
bool IsMsprobeLine(const Args& words);    // -f pytorch COMMAND …
bool IsMsprobeCompare(const Args& args);  // what follows "compare"

// A whole command line. Under the name msprobe a finished run ends with 0 and a failed one with 1, as that
// tool does; under our own name exit codes are ours.
ExitCode RunMsprobe(const Args& words, bool as_msprobe);
// Rows of our own tables.
ExitCode RunMsprobeCompare(const Args& args);
std::string HelpMsprobeCompare();
ExitCode RunParseAs(const Args& args, bool as_msprobe);
ExitCode RunMergeResult(const Args& args);
std::string HelpMergeResult();

}  // namespace vernier

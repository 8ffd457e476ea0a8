// The table of subcommands and what they all share.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vernier {

// The first three mean what they mean for diff: same, differs, could not tell.
enum class ExitCode : int { kSame = 0, kDiffers = 1, kCannotTell = 2, kInterrupted = 130 };

// The words behind the subcommand's name.
using Args = std::vector<std::string>;

struct Command {
  std::string_view name;
  std::string_view summary;
  ExitCode (*run)(const Args& args);
  std::string (*help)();
};
std::span<const Command> Commands();
const Command* FindCommand(std::string_view name);  // null when there is none

std::string Overview();  // what `vernier --help` prints
ExitCode UnknownCommand(std::string_view name);

// One file each.
ExitCode RunCompare(const Args& args);
std::string HelpCompare();
ExitCode RunInspect(const Args& args);
std::string HelpInspect();
ExitCode RunAccCheck(const Args& args);
std::string HelpAccCheck();
ExitCode RunMultiAccCheck(const Args& args);
std::string HelpMultiAccCheck();
ExitCode RunApiPrecisionCompare(const Args& args);
std::string HelpApiPrecisionCompare();
ExitCode RunSummary(const Args& args);
std::string HelpSummary();
ExitCode RunParse(const Args& args);
std::string HelpParse();
ExitCode RunShrink(const Args& args);
std::string HelpShrink();
ExitCode RunEnv(const Args& args);
std::string HelpEnv();
ExitCode RunJprof(const Args& args);
std::string HelpJprof();
ExitCode RunSummaryDiffCheck(const Args& args);
std::string HelpSummaryDiffCheck();
ExitCode RunHelp(const Args& args);
std::string HelpHelp();

}  // namespace vernier

#include "cli/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "cli/msprobe.h"
#include "cli/screen.h"
#include "core/text.h"

namespace vernier {
namespace {

// clang-format off
constexpr Command kCommands[] = {
    {"compare", "compare two dumps, checkpoints or tensor files", RunCompare, HelpCompare},
    {"inspect", "list the tensors under a path",                  RunInspect, HelpInspect},
    {"summary", "table of an HDF5 recording's tensors",           RunSummary, HelpSummary},
    {"merge_result", "put one metric of several ranks side by side", RunMergeResult, HelpMergeResult},
    {"jprof", "turn an operator recording into unit tests", RunJprof, HelpJprof},
    {"summary_diff_check", "join the unit tests' results of two machines", RunSummaryDiffCheck, HelpSummaryDiffCheck},
    {"acc_check", "run every recorded API by itself and judge its outputs", RunAccCheck, HelpAccCheck},
    {"multi_acc_check", "the same with several processes and devices", RunMultiAccCheck, HelpMultiAccCheck},
    {"api_precision_compare", "judge one device's outputs against another's", RunApiPrecisionCompare, HelpApiPrecisionCompare},
    {"parse",   "convert binary dumps of graph mode for NumPy and torch", RunParse, HelpParse},
    {"shrink",  "replace dump files of graph mode by their minima and maxima", RunShrink, HelpShrink},
    {"env",     "print what a bug report needs",                  RunEnv,     HelpEnv},
    {"help",    "explain a command",                              RunHelp,    HelpHelp},
};
// clang-format on

std::size_t LongestName() {
  std::size_t longest = 0;
  for (const Command& command : kCommands) longest = std::max(longest, command.name.size());
  return longest;
}

}  // namespace

std::span<const Command> Commands() { return kCommands; }

const Command* FindCommand(std::string_view name) {
  const auto* row = std::find_if(std::begin(kCommands), std::end(kCommands),
                                 [name](const Command& command) { return command.name == name; });
  return row == std::end(kCommands) ? nullptr : row;
}

std::string Overview() {
  std::string text =
      "Tells whether tensors that should agree do, and where they start to differ.\n\n"
      "Usage: vernier COMMAND [OPTIONS]\n\n"
      "Commands:\n";
  for (const Command& command : kCommands) {
    text += fmt::format("  {:<{}}  {}\n", command.name, LongestName(), command.summary);
  }
  return text +
         "\n"
         "vernier COMMAND --help explains a command and shows examples; vernier --version prints the "
         "version.\n\n"
         "Exit status: 0 nothing beyond the thresholds, 1 differences found, 2 could not tell, 130 "
         "interrupted.\n";
}

ExitCode UnknownCommand(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) names.push_back(command.name);
  const std::string_view guess = DidYouMean(name, names);
  return Complain(fmt::format("unknown command {}", Printable(name)),
                  guess.empty() ? "vernier --help" : fmt::format("did you mean vernier {}?", guess));
}

}  // namespace vernier

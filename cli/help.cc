// `vernier help`: the help of every command, on the screen and as docs/cli.md.
#include <fmt/format.h>

#include "cli/arguments.h"
#include "cli/screen.h"

namespace vernier {
namespace {

struct HelpArgs {
  std::string command;
  bool markdown = false;
  std::unique_ptr<CLI::App> Declare() {
    auto app = NewApp("help", "Explain a command.", "Examples:\n  vernier help compare\n");
    app->add_option("COMMAND", command, "the command to explain; all of them when left out")->type_name("");
    app->add_flag("--markdown", markdown, "all of it as the page docs/cli.md");
    return app;
  }
};

std::string MarkdownPage() {
  std::string page =
      "# The command line\n\n"
      "Printed by `vernier help --markdown`; change the tables under `cli/`, not this page.\n\n"
      "```\n" +
      Overview() + "```\n";
  for (const Command& command : Commands()) {
    page += fmt::format("\n## vernier {}\n\n```\n{}```\n", command.name, command.help());
  }
  return page;
}

}  // namespace

std::string HelpHelp() {
  HelpArgs args;
  return HelpText(*args.Declare());
}

ExitCode RunHelp(const Args& args) {
  HelpArgs help;
  const auto app = help.Declare();
  if (const auto code = Parse(*app, args)) return *code;
  if (help.markdown || help.command.empty()) {
    Say(stdout, help.markdown ? MarkdownPage() : Overview());
    return ExitCode::kSame;
  }
  const Command* command = FindCommand(help.command);
  if (!command) return UnknownCommand(help.command);
  Say(stdout, command->help());
  return ExitCode::kSame;
}

}  // namespace vernier

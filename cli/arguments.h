// Option groups that commands share, so that a flag means the same everywhere.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/help_text.h"
#include "vernier/result.h"

namespace vernier {

// An App with our habits.
std::unique_ptr<CLI::App> NewApp(const std::string& command, const std::string& description,
                                 const std::string& examples);

// Empty when the command may go on; otherwise help was printed (kSame) or a mistake explained (kCannotTell).
std::optional<ExitCode> Parse(CLI::App& app, const Args& args);

// Where reports go, and in which format.
struct ReportArgs {
  std::vector<std::string> outputs;
  std::string format;
  void Declare(CLI::App& app);
};

void DeclareQuiet(CLI::App& app, bool& quiet);

struct SpeedArgs {
  int num_threads = 0;
  bool quiet = false;
  void Declare(CLI::App& app);
};

}  // namespace vernier

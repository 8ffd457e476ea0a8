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
#include "vernier/match.h"
#include "vernier/report.h"
#include "vernier/result.h"

namespace vernier {

// An App with our habits.
std::unique_ptr<CLI::App> NewApp(const std::string& command, const std::string& description,
                                 const std::string& examples);

// Empty when the command may go on; otherwise help was printed (kSame) or a mistake explained (kCannotTell).
std::optional<ExitCode> Parse(CLI::App& app, const Args& args);

struct MatchArgs {
  std::string mode = "exact";
  std::vector<std::string> renames;
  void Declare(CLI::App& app);
  Result<MatchOptions> Options() const;
};

// Where reports go, and in which format.
struct ReportArgs {
  std::vector<std::string> outputs;
  std::string format;
  void Declare(CLI::App& app);
};

// One report that was asked for.
class ReportFile {
 public:
  static Result<ReportFile> Create(const std::string& output, const std::string& format,
                                   const std::vector<std::string>& columns);
  Result<Done> Write(std::span<const Cell> cells, RowColour colour);
  Result<Done> Finish();
  bool is_stdout() const { return is_stdout_; }
  const std::string& name() const { return name_; }

 private:
  Result<Done> Tolerate(Result<Done> result);
  std::string name_;
  bool is_stdout_ = false;
  bool closed_ = false;  // standard output, and nobody reads it any more
  std::unique_ptr<ReportWriter> writer_;
};

// All of them, or the error of the first that cannot be created.
Result<std::vector<ReportFile>> CreateReports(const ReportArgs& args,
                                              const std::vector<std::string>& columns);

struct SpeedArgs {
  int num_threads = 0;
  bool quiet = false;
  void Declare(CLI::App& app);
};

// The position of `word` among `choices`, or an error that names them and guesses.
Result<std::size_t> Choose(const std::string& option, const std::string& word,
                           std::span<const std::string_view> choices);

}  // namespace vernier

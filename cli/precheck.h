// What the commands of the pre-check share: how their options are taken under our name and under msprobe's.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cli/commands.h"
#include "cli/options.h"
#include "precheck/columns.h"
#include "precheck/rules.h"
#include "precheck/standards.h"

namespace vernier {

// `as_msprobe`: exit codes and name as that tool's.
ExitCode RunPrecheckCommand(std::string_view command, const Args& args, bool as_msprobe);
// Whether a word names one of them, old names included: run_ut, multi_run_ut.
bool IsPrecheckCommand(std::string_view word);

// One command line that is being taken apart.
class PrecheckLine {
 public:
  PrecheckLine(std::string_view command, std::span<const Option> options, bool as_msprobe)
      : command_(command), options_(options), as_msprobe_(as_msprobe) {}

  // The exit code when there is nothing more to do.
  std::optional<ExitCode> Parse(const Args& args, const std::string& help);
  ExitCode BadCommandLine(std::string_view problem) const;
  // A finished run: 0 always as msprobe.
  ExitCode Finished(ExitCode code) const { return as_msprobe_ ? ExitCode::kSame : code; }
  ExitCode Failed(const Error& error) const;

  // Options that several commands have.
  Result<precheck::Policy> policy() const;
  Result<precheck::Header> header() const;
  Result<precheck::Rules> rules() const;

  const ParsedOptions& parsed() const { return parsed_; }
  bool as_msprobe() const { return as_msprobe_; }

 private:
  std::string_view command_;
  std::span<const Option> options_;
  bool as_msprobe_;
  ParsedOptions parsed_;
};

// One file each.
ExitCode AccCheckOnce(const Args& args, bool as_msprobe);
ExitCode AccCheckInParallel(const Args& args, bool as_msprobe);
ExitCode ApiPrecisionCompare(const Args& args, bool as_msprobe);

}  // namespace vernier

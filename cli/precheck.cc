#include "cli/precheck.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/screen.h"
#include "core/json_cursor.h"
#include "core/mapped_file.h"
#include "core/text.h"

namespace vernier {
namespace {

struct PrecheckCommand {
  std::string_view name, old_name;
  ExitCode (*run)(const Args& args, bool as_msprobe);
};
constexpr PrecheckCommand kPrecheckCommands[] = {
    {"acc_check", "run_ut", AccCheckOnce},
    {"multi_acc_check", "multi_run_ut", AccCheckInParallel},
    {"api_precision_compare", "", ApiPrecisionCompare},
};

const PrecheckCommand* FindPrecheckCommand(std::string_view word) {
  for (const PrecheckCommand& command : kPrecheckCommands) {
    if (word == command.name || (!command.old_name.empty() && word == command.old_name)) return &command;
  }
  return nullptr;
}

}  // namespace

bool IsPrecheckCommand(std::string_view word) { return FindPrecheckCommand(word) != nullptr; }

ExitCode RunPrecheckCommand(std::string_view command, const Args& args, bool as_msprobe) {
  return FindPrecheckCommand(command)->run(args, as_msprobe);
}

std::optional<ExitCode> PrecheckLine::Parse(const Args& args, const std::string& help) {
  if (std::find(args.begin(), args.end(), "-h") != args.end() ||
      std::find(args.begin(), args.end(), "--help") != args.end()) {
    Say(stdout, help);
    return ExitCode::kSame;
  }
  Result<ParsedOptions> parsed = ParsedOptions::Parse(args, options_);
  if (!parsed) return BadCommandLine(parsed.error().detail);
  parsed_ = *std::move(parsed);
  return std::nullopt;
}

ExitCode PrecheckLine::BadCommandLine(std::string_view problem) const {
  return Complain(fmt::format("{}: {}", command_, Printable(problem)),
                  fmt::format("{} {} --help", as_msprobe_ ? "msprobe" : "vernier", command_));
}

ExitCode PrecheckLine::Failed(const Error& error) const {
  Complain(error);
  return as_msprobe_ ? ExitCode::kDiffers : ExitCode::kCannotTell;
}

Result<precheck::Policy> PrecheckLine::policy() const {
  VN_ASSIGN_OR_RETURN(const std::size_t choice,
                      Choose("--policy", parsed_.Get("--policy", "manual"), precheck::kPolicyNames));
  return static_cast<precheck::Policy>(choice);
}

Result<precheck::Header> PrecheckLine::header() const {
  VN_ASSIGN_OR_RETURN(const std::size_t choice,
                      Choose("--header", parsed_.Get("--header", "en"), precheck::kHeaderNames));
  return static_cast<precheck::Header>(choice);
}

Result<precheck::Rules> PrecheckLine::rules() const {
  const std::optional<std::string> path = parsed_.Find("--rules");
  if (!path) return precheck::Rules::Shipped();
  VN_ASSIGN_OR_RETURN(const FileRef file, MappedFile::Open(*path));
  return precheck::Rules::With(TextOf(file), *path);
}

}  // namespace vernier

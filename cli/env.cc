// `vernier env`: what a bug report needs.
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "cli/arguments.h"
#include "cli/build_info.h"
#include "cli/screen.h"
#include "core/json_writer.h"
#include "core/threads.h"
#include "vernier/measure.h"

namespace vernier {
namespace {

struct EnvArgs {
  bool json = false;
  std::unique_ptr<CLI::App> Declare() {
    auto app = NewApp(
        "env",
        "Print what a bug report needs: versions, machine, instruction set, who measures accelerators.",
        "Examples:\n  vernier env\n  vernier env --json\n");
    app->add_flag("--json", json, "as one JSON object");
    return app;
  }
};

std::string CpuModel() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string SystemName() {
  std::ifstream release("/etc/os-release");
  for (std::string line; std::getline(release, line);) {
    if (!line.starts_with("PRETTY_NAME=")) continue;
    line.erase(0, line.find('=') + 1);
    std::erase(line, '"');
    return line;
  }
  return "unknown";
}

std::string KernelName() {
  utsname name = {};
  if (uname(&name) != 0) return "unknown";
  return fmt::format("{} {} {}", name.sysname, name.release, name.machine);
}

std::string MemoryText() {
  struct sysinfo info = {};
  if (sysinfo(&info) != 0) return "unknown";
  return SizeText(std::uint64_t{info.totalram} * info.mem_unit);
}

// Between single quotes of the shell.
std::string Quoted(std::string_view word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

using Facts = std::vector<std::pair<std::string, std::string>>;

// What torch has to say about devices, where a Python with it is named: as the command of the wheel does.
void AddTorch(Facts& facts) {
  const char* const python = std::getenv("VERNIER_PYTHON");
  if (python == nullptr || *python == '\0') {
    facts.emplace_back("torch", "not asked: set VERNIER_PYTHON to a Python that has it");
    return;
  }
  const std::string command = Quoted(python) + " -m vernier.record.meters 2>/dev/null";
  std::FILE* const output = popen(command.c_str(), "r");
  std::string text;
  for (int c; output != nullptr && (c = std::fgetc(output)) != EOF;) text += static_cast<char>(c);
  if (output == nullptr || pclose(output) != 0 || text.empty()) {
    facts.emplace_back("torch", fmt::format("none in {}", python));
    return;
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t tab = line.find('\t');
    if (tab != std::string::npos) facts.emplace_back(line.substr(0, tab), line.substr(tab + 1));
  }
}

Facts AllFacts() {
  Facts facts = {
      {"vernier", kVersion},
      {"build", fmt::format("{}, {}", kBuildType, kCompiler)},
      {"instruction set", std::string(ActiveTargetName())},
      {"also possible", fmt::format("{}", fmt::join(TargetNames(), " "))},
      {"cpu", CpuModel()},
      {"cores", std::to_string(NumThreads(0))},
      {"memory", MemoryText()},
      {"system", SystemName()},
      {"kernel", KernelName()},
      {"glibc", gnu_get_libc_version()},
  };
  for (const LibraryVersion& library : kLibraries) facts.emplace_back(library.name, library.version);
  AddTorch(facts);
  return facts;
}

}  // namespace

std::string HelpEnv() {
  EnvArgs args;
  return HelpText(*args.Declare());
}

ExitCode RunEnv(const Args& args) {
  EnvArgs env;
  const auto app = env.Declare();
  if (const auto code = Parse(*app, args)) return *code;
  const Facts facts = AllFacts();
  if (!env.json) {
    for (const auto& [name, value] : facts) Say(stdout, fmt::format("{:<16}{}\n", name, value));
    return ExitCode::kSame;
  }
  std::string json = "{";
  for (const auto& [name, value] : facts) {
    if (json.size() > 1) json += ", ";
    AppendJsonString(name, json, JsonText::kUtf8);
    json += ": ";
    AppendJsonString(value, json, JsonText::kUtf8);
  }
  Say(stdout, json + "}\n");
  return ExitCode::kSame;
}

}  // namespace vernier

// From a verdict to the next look: statistics are recorded again as tensors around the culprit, tensors are
// looked at element by element.
#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "core/atomic_file.h"
#include "core/json_writer.h"
#include "core/text.h"
#include "profiles/msprobe/run.h"
#include "profiles/msprobe/tree.h"
#include "profiles/verdict_screen.h"

namespace vernier::msprobe {
namespace {

namespace fs = std::filesystem;

// The number behind a word in a path: 3 of ".../step3/rank0/dump.json". The last one: folders above the dumps
// have names of their own.
int NumberBehind(std::string_view word, const fs::path& path) {
  int found = -1;
  for (const fs::path& part : path) {
    const std::string name = part.string();
    if (name.starts_with(word) && name.size() > word.size() &&
        name.find_first_not_of("0123456789", word.size()) == std::string::npos)
      found = RankNumber(name);
  }
  return found;
}

// Inside modules it is the calls that went wrong.
std::string LevelOf(const RankOutcome& rank) {
  if (rank.level == "L0") return "mix";
  return rank.level.empty() ? "L1" : rank.level;
}

// What a recording takes for dump_path.
bool IsRecordable(const fs::path& path) {
  const std::string text = path.string();
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || std::string_view("_.:/-").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

std::string ConfigJson(const RankOutcome& rank, const fs::path& recorded,
                       const std::vector<std::string>& calls, const fs::path& dump_path) {
  const auto quoted = [](std::string_view text) {
    std::string json;
    AppendJsonString(text, json, JsonText::kUtf8);
    return json;
  };
  const auto numbers = [](int number) {
    return number < 0 ? std::string("[]") : fmt::format("[{}]", number);
  };
  std::string list;
  for (const std::string& name : calls)
    list += fmt::format("{}\n      {}", list.empty() ? "" : ",", quoted(name));
  return fmt::format(
      "{{\n  \"task\": \"tensor\",\n  \"dump_path\": {},\n  \"rank\": {},\n  \"step\": {},\n  \"level\": "
      "{},\n"
      "  \"tensor\": {{\n    \"scope\": [],\n    \"list\": [{}\n    ],\n    \"data_mode\": [\"all\"]\n  "
      "}}\n}}\n",
      quoted(dump_path.string()), numbers(NumberBehind("rank", fs::absolute(recorded))),
      numbers(NumberBehind("step", fs::absolute(recorded))), quoted(LevelOf(rank)), list);
}

}  // namespace

Result<Done> FindNext(const fs::path& folder, std::string_view stamp, CompareOutcome& outcome) {
  const RankOutcome* const rank = FirstToBlame(outcome);
  if (rank == nullptr) return Done{};
  const Culprit& found = *rank->culprit;
  if (!found.target_file.empty()) {
    outcome.next.push_back(fmt::format("vernier compare {} {} --worst 10", ShellWord(found.target_file),
                                       ShellWord(found.golden_file)));
    return Done{};
  }
  if (rank->mode == Name(Mode::kReal) || found.around.empty()) return Done{};
  if (folder.empty()) {
    outcome.next.push_back(
        "the same command with -o FOLDER writes the config.json that records this call's tensors");
    return Done{};
  }
  if (!IsRecordable(fs::absolute(folder))) {
    outcome.next.push_back(
        "the same command with -o FOLDER, whose path has no characters but letters, digits and _ . : / -");
    return Done{};
  }
  const fs::path next = folder / fmt::format("next_{}", stamp);
  for (const bool is_target : {true, false}) {
    const char* const side = is_target ? "target" : "golden";
    const fs::path dump_path = next / side, config = dump_path / "config.json";
    std::error_code failed;
    fs::create_directories(dump_path, failed);
    if (failed) return Error{ErrorCode::kIo, dump_path.string(), failed.message()};
    VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(config));
    VN_RETURN_IF_ERROR(
        file.Write(ConfigJson(*rank, is_target ? rank->target : rank->golden,
                              is_target ? found.around : found.golden_around, fs::absolute(dump_path))));
    VN_RETURN_IF_ERROR(file.Commit());
    outcome.written.push_back(config);
    outcome.next.push_back(
        fmt::format("VERNIER_CONFIG={} YOUR PROGRAM, as the {} ran", ShellWord(config.string()), side));
  }
  outcome.next.push_back(fmt::format("vernier compare {} {} -o {}", ShellWord((next / "target").string()),
                                     ShellWord((next / "golden").string()),
                                     ShellWord((next / "result").string())));
  return Done{};
}

}  // namespace vernier::msprobe

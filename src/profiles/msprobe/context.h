// Where in the model a divergence lies: what the recording's side files say about it.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "profiles/msprobe/stack.h"
#include "vernier/compare.h"

namespace vernier::msprobe {

// Fills in the module and the line of the user's program from construct.json and stack.json beside the dump.
// A recording without these files stays without them.
void AddContext(const std::filesystem::path& dump_json, RankOutcome& outcome);

// The innermost line of a record's stack that is not the framework's own; empty: not known.
std::string UserLine(const Result<StackFile>& stacks, std::string_view name);

// What identity.jsonl beside a dump says of where it was recorded: {"torch", "2.9.0"}, {"device", …}. Empty:
// it says nothing.
std::map<std::string, std::string> EnvironmentOf(const std::filesystem::path& dump_json);

}  // namespace vernier::msprobe

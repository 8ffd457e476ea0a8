// jprof: the dump.json of an operator recording -> a folder of unit tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "vernier/result.h"
#include "xray_ops/blacklist.h"

namespace vernier::xray_ops {

struct JprofOptions {
  std::filesystem::path dump_json;
  std::filesystem::path output = "pytests";
  bool cpu_init = false;               // inputs are drawn on the CPU
  bool load = true;                    // saved tensors are used; else all are drawn
  std::optional<Blacklist> blacklist;  // what it has gets no test
};

struct JprofOutcome {
  std::uint64_t num_calls = 0;  // in the recording
  std::uint64_t num_tests = 0;
  std::uint64_t num_blacklisted = 0;
  std::uint64_t num_files = 0, num_missing = 0;  // named by the tests
  std::string first_missing;
  std::vector<std::string> problems;  // of calls that got no test: "ops[3]: args.0: unknown kind x"
  std::uint64_t num_problems = 0;     // of which the first ones are told
  std::string version;                // that recorded it, when it is another one
};

// Makes the folder whole or not at all. One that is there is replaced when all in it came from here; else it
// fails. `on_progress` may be empty; gives false to stop.
Result<JprofOutcome> GenerateTests(
    const JprofOptions& options,
    const std::function<bool(std::uint64_t done, std::uint64_t total)>& on_progress);

}  // namespace vernier::xray_ops

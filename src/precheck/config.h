// The settings of acc_check that have a file: rules/precheck_config.yaml, and what -config says differently.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "precheck/rules.h"
#include "vernier/result.h"

namespace vernier::precheck {

struct Config {
  std::vector<std::string> white_list, black_list;
  std::filesystem::path error_data_path;
  int precision = 14;
  std::vector<std::string> quantised;

  // Whether the lists let an API run; `api` is its bare name.
  bool Admits(const Rules& rules, std::string_view api) const;
};

// As shipped.
Result<Config> DefaultConfig();
// A config.json (its object acc_check replaces the lists and the path) or a yaml file (its keys replace those
// shipped). An unknown key, a value of the wrong type and a name that is no API's are errors.
Result<Config> ReadConfig(const std::filesystem::path& path);
Result<Config> ConfigFromText(std::string_view text, const std::filesystem::path& path);

}  // namespace vernier::precheck

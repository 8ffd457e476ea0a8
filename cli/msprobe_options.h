// Options as Python's argparse takes them: words of several letters behind one dash, optional values.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cli/commands.h"
#include "vernier/result.h"

namespace vernier {

enum class OptionValue { kNone, kOptional, kRequired };

struct MsprobeOption {
  std::string_view short_name, name;  // "-o", "--output_path"; either may be empty
  OptionValue value = OptionValue::kNone;
  bool required = false;
  std::string_view help;

  std::string_view key() const { return name.empty() ? short_name : name; }
};

// What was given, by key. An option without its optional value maps to an empty text.
class ParsedOptions {
 public:
  // Fails with a sentence for the user: unknown word, missing value, missing option.
  static Result<ParsedOptions> Parse(const Args& words, std::span<const MsprobeOption> options);
  bool Has(std::string_view key) const { return given_.find(key) != given_.end(); }
  std::string Get(std::string_view key, std::string_view otherwise = {}) const;
  std::optional<std::string> Find(std::string_view key) const;

 private:
  std::map<std::string, std::string, std::less<>> given_;
};

// One line for each option.
std::string OptionsHelp(std::span<const MsprobeOption> options);

}  // namespace vernier

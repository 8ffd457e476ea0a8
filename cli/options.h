// Options as Python's argparse takes them: words of several letters behind one dash, optional values.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "vernier/result.h"

namespace vernier {

enum class OptionValue { kNone, kOptional, kRequired, kSeveral };  // kSeveral: one or more

struct Option {
  std::string_view short_name, name;  // "-o", "--output_path"; either may be empty
  OptionValue value = OptionValue::kNone;
  bool required = false;
  std::string_view help;

  std::string_view key() const { return name.empty() ? short_name : name; }
};

// What was given, by key. An option without its optional value has an empty text.
class ParsedOptions {
 public:
  // Fails with a sentence for the user: unknown word, missing value, missing option.
  static Result<ParsedOptions> Parse(const Args& words, std::span<const Option> options);
  bool Has(std::string_view key) const { return given_.find(key) != given_.end(); }
  std::string Get(std::string_view key, std::string_view otherwise = {}) const;
  std::optional<std::string> Find(std::string_view key) const;
  const std::vector<std::string>& All(std::string_view key) const;  // of one that may be repeated

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> given_;
};

// One line for each option.
std::string OptionsHelp(std::span<const Option> options);

}  // namespace vernier

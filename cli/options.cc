#include "cli/options.h"

#include <fmt/format.h>

#include <algorithm>

namespace vernier {
namespace {

const Option* FindOption(std::string_view word, std::span<const Option> options) {
  for (const Option& option : options) {
    if (word == option.name || word == option.short_name) return &option;
  }
  // argparse takes an unambiguous beginning of a long name.
  const Option* found = nullptr;
  if (!word.starts_with("--") || word.size() < 3) return nullptr;
  for (const Option& option : options) {
    if (!option.name.starts_with(word)) continue;
    if (found != nullptr) return nullptr;
    found = &option;
  }
  return found;
}

bool LooksLikeOption(std::string_view word) { return word.size() > 1 && word[0] == '-'; }

std::string NamesOf(const Option& option) {
  if (option.short_name.empty() || option.name.empty()) return std::string(option.key());
  return fmt::format("{}/{}", option.short_name, option.name);
}

Error Mistake(std::string text) { return Error{ErrorCode::kBadArgument, "", std::move(text)}; }

}  // namespace

Result<ParsedOptions> ParsedOptions::Parse(const Args& words, std::span<const Option> options) {
  ParsedOptions parsed;
  std::string unknown;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    std::optional<std::string> attached;
    if (const std::size_t equals = word.find('=');
        word.starts_with("--") && equals != std::string_view::npos) {
      attached = std::string(word.substr(equals + 1));
      word = word.substr(0, equals);
    }
    const Option* option = FindOption(word, options);
    if (option == nullptr) {
      unknown += ' ' + words[i];
      continue;
    }
    std::string& value = parsed.given_[std::string(option->key())].emplace_back();
    if (option->value == OptionValue::kNone) {
      if (attached)
        return Mistake(
            fmt::format("argument {}: ignored explicit argument '{}'", NamesOf(*option), *attached));
      continue;
    }
    if (attached) {
      value = *attached;
    } else if (i + 1 < words.size() && !LooksLikeOption(words[i + 1])) {
      value = words[++i];
      while (option->value == OptionValue::kSeveral && i + 1 < words.size() && !LooksLikeOption(words[i + 1]))
        parsed.given_[std::string(option->key())].push_back(words[++i]);
    } else if (option->value != OptionValue::kOptional) {
      return Mistake(fmt::format("argument {}: expected one argument", NamesOf(*option)));
    }
  }
  std::string missing;
  for (const Option& option : options) {
    if (option.required && !parsed.Has(option.key()))
      missing += (missing.empty() ? "" : ", ") + NamesOf(option);
  }
  if (!missing.empty()) return Mistake("the following arguments are required: " + missing);
  if (!unknown.empty()) return Mistake("unrecognized arguments:" + unknown);
  return parsed;
}

std::string ParsedOptions::Get(std::string_view key, std::string_view otherwise) const {
  return Find(key).value_or(std::string(otherwise));
}

std::optional<std::string> ParsedOptions::Find(std::string_view key) const {
  const auto found = given_.find(key);
  if (found == given_.end() || found->second.back().empty()) return std::nullopt;
  return found->second.back();
}

const std::vector<std::string>& ParsedOptions::All(std::string_view key) const {
  static const std::vector<std::string> none;
  const auto found = given_.find(key);
  return found == given_.end() ? none : found->second;
}

std::string OptionsHelp(std::span<const Option> options) {
  std::string text;
  for (const Option& option : options) {
    std::string names = option.short_name.empty() ? "" : std::string(option.short_name);
    if (!option.name.empty()) names += (names.empty() ? "" : ", ") + std::string(option.name);
    text += fmt::format("  {:<38}{}{}\n", names, option.required ? "required; " : "", option.help);
  }
  return text;
}

}  // namespace vernier

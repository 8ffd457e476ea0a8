// The options that only one family of dumps has: each a row of its table, whose settings it changes.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/text.h"
#include "vernier/compare.h"

namespace vernier {

template <class Settings>
struct OptionRow {
  FamilyOption option;
  Result<Done> (*take)(const std::string& name, const std::string& text, Settings& settings);
};

inline Result<bool> BoolOf(const std::string& name, const std::string& text) {
  constexpr std::string_view kBools[] = {"false", "true"};
  VN_ASSIGN_OR_RETURN(const std::size_t choice, Choose(name, text, kBools));
  return choice == 1;
}

// `what`: the dumps that they are for, in the message about one that is not in the table.
template <class Settings, std::size_t kCount>
Result<Done> TakeFamilyOptions(const std::map<std::string, std::string>& options,
                               const OptionRow<Settings> (&rows)[kCount], std::string_view what,
                               Settings& settings) {
  for (const auto& [name, text] : options) {
    const OptionRow<Settings>* found = nullptr;
    for (const OptionRow<Settings>& row : rows) {
      if (row.option.name == name) found = &row;
    }
    if (found == nullptr)
      return Error{ErrorCode::kBadArgument, name, "not an option for " + std::string(what)};
    VN_RETURN_IF_ERROR(found->take(name, text, settings));
  }
  return Done{};
}

// For help texts; `rows` is a table of static lifetime.
template <class Settings, std::size_t kCount>
std::vector<FamilyOption> OptionsOf(const OptionRow<Settings> (&rows)[kCount]) {
  std::vector<FamilyOption> all;
  for (const OptionRow<Settings>& row : rows) all.push_back(row.option);
  return all;
}

}  // namespace vernier

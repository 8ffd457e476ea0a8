#include "cli/help_text.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>
#include <vector>

namespace vernier {
namespace {

constexpr std::size_t kLineWidth = 100, kTextColumn = 24;

// `text` from column kTextColumn on; the caller has written `used` columns of the first line.
std::string Wrapped(const std::string& text, std::size_t used) {
  const std::string margin = "\n" + std::string(kTextColumn, ' ');
  std::string out = used + 2 > kTextColumn ? margin : std::string(kTextColumn - used, ' ');
  std::size_t column = kTextColumn;
  for (const std::string& word : CLI::detail::split(text, ' ')) {
    if (column > kTextColumn && column + 1 + word.size() > kLineWidth) {
      out += margin;
      column = kTextColumn;
    }
    if (column > kTextColumn) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out + "\n";
}

// "-o, --output FILE"
std::string Heading(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name() + (option.get_expected_max() > 1 ? "..." : "");
  std::string names;
  for (const std::string& name : option.get_snames()) names += (names.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames()) names += (names.empty() ? "--" : ", --") + name;
  const bool takes_value = option.get_items_expected_max() > 0;
  return takes_value ? names + " " + option.get_type_name() : names;
}

std::string Entry(const CLI::Option& option) {
  const std::string start = "  " + Heading(option);
  const std::string fallback = option.get_default_str();
  return start +
         Wrapped(option.get_description() + (fallback.empty() ? "" : " [" + fallback + "]"), start.size());
}

}  // namespace

std::string HelpText(const CLI::App& app) {
  std::vector<std::pair<std::string, std::string>> sections;
  std::string usage = "Usage: " + app.get_name();
  for (const CLI::Option* option : app.get_options()) {
    const bool positional = option->get_positional();
    if (positional) usage += option->get_required() ? " " + Heading(*option) : " [" + Heading(*option) + "]";
    const std::string name = positional ? "Arguments" : option->get_group();
    auto section =
        std::find_if(sections.begin(), sections.end(), [&name](const auto& s) { return s.first == name; });
    if (section == sections.end()) section = sections.insert(sections.end(), {name, ""});
    section->second += Entry(*option);
  }
  // The arguments stand first, our own --help last.
  std::stable_sort(sections.begin(), sections.end(), [](const auto& a, const auto& b) {
    const auto rank = [](const std::string& name) {
      return name == "Arguments" ? 0 : name == "Options" ? 2 : 1;
    };
    return rank(a.first) < rank(b.first);
  });
  std::string text = app.get_description() + "\n\n" + usage + " [OPTIONS]\n";
  for (const auto& [name, entries] : sections) text += fmt::format("\n{}:\n{}", name, entries);
  return text + "\n" + app.get_footer();
}

}  // namespace vernier

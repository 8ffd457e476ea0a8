#include "judge/rules.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <span>

#include "core/json_cursor.h"
#include "core/mapped_file.h"
#include "core/text.h"
#include "judge/rules_shipped.h"

namespace vernier {
namespace {

std::vector<std::string> TakeTexts(JsonCursor& cursor) {
  std::vector<std::string> texts;
  std::string buffer;
  cursor.ForEachElement([&] { texts.emplace_back(cursor.TakeString(buffer)); });
  return texts;
}

constexpr std::string_view kSections[] = {"thresholds", "messages", "lists"};

template <class Table>
std::vector<std::string_view> KeysOf(const Table& table) {
  std::vector<std::string_view> keys;
  keys.reserve(table.size());
  for (const auto& [key, value] : table) keys.push_back(key);
  return keys;
}

std::string Guess(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view guess = DidYouMean(word, known);
  return guess.empty() ? "" : "; did you mean " + std::string(guess) + "?";
}

}  // namespace

Result<Rules> Rules::Make(std::span<const std::string_view> shipped,
                          std::optional<std::string_view> overrides, std::string_view file_name) {
  Rules rules;
  VN_RETURN_IF_ERROR(rules.Merge(kVerdictRules, "shipped rules", true));
  for (const std::string_view table : shipped) VN_RETURN_IF_ERROR(rules.Merge(table, "shipped rules", true));
  if (overrides) VN_RETURN_IF_ERROR(rules.Merge(*overrides, file_name, false));
  return rules;
}

Result<Rules> Rules::VerdictWith(const std::string& path) {
  if (path.empty()) return Verdict();
  VN_ASSIGN_OR_RETURN(const FileRef file, MappedFile::Open(path));
  return Make({}, TextOf(file), path);
}

const Rules& Rules::Verdict() {
  static const Rules rules = Make({}).value();
  return rules;
}

Result<Done> Rules::Merge(std::string_view json, std::string_view where, bool may_add) {
  JsonCursor cursor(json);
  std::optional<Error> mistake;  // the first
  const auto complain = [&](std::string about, std::string what) {
    if (!mistake)
      mistake = Error{ErrorCode::kBadArgument, std::string(where), std::move(about) + std::move(what)};
  };
  const auto put = [&](auto& table, std::string_view section, std::string_view key, auto value) {
    const auto found = table.find(key);
    if (found != table.end()) {
      found->second = std::move(value);
    } else if (may_add) {
      table.emplace(std::string(key), std::move(value));
    } else {
      complain("unknown rule " + std::string(section) + '.' + std::string(key), Guess(key, KeysOf(table)));
    }
  };
  cursor.ForEachMember([&](std::string_view section, bool) {
    std::string buffer;
    if (std::find(std::begin(kSections), std::end(kSections), section) == std::end(kSections)) {
      complain("unknown section " + std::string(section), Guess(section, kSections));
      return cursor.Skip();
    }
    cursor.ForEachMember([&](std::string_view key, bool) {
      if (section == kSections[0]) {
        const double threshold = cursor.TakeNumber();
        if (!std::isfinite(threshold))
          complain("thresholds." + std::string(key), ": expected a finite number");
        put(thresholds_, section, key, threshold);
      } else if (section == kSections[1]) {
        put(messages_, section, key, std::string(cursor.TakeString(buffer)));
      } else {
        put(lists_, section, key, TakeTexts(cursor));
      }
    });
  });
  if (cursor.ok() && !cursor.AtEnd()) cursor.Fail(JsonError::kMoreAfterEnd);
  if (!cursor.ok()) return Error{ErrorCode::kBadHeader, std::string(where), cursor.problem()};
  if (mistake) return *mistake;
  return Done{};
}

double Rules::Threshold(std::string_view key) const {
  const auto found = thresholds_.find(key);
  assert(found != thresholds_.end());
  return found == thresholds_.end() ? 0 : found->second;
}

std::string_view Rules::Message(std::string_view key) const {
  const auto found = messages_.find(key);
  assert(found != messages_.end());
  return found == messages_.end() ? std::string_view() : std::string_view(found->second);
}

bool Rules::Lists(std::string_view list, std::string_view word) const {
  const auto found = lists_.find(list);
  return found != lists_.end() &&
         std::find(found->second.begin(), found->second.end(), word) != found->second.end();
}

std::string_view Rules::ParameterOf(std::string_view function, std::size_t place) const {
  const auto found = lists_.find("signatures");
  if (found == lists_.end() || function.empty()) return {};
  for (const std::string_view signature : found->second) {
    if (!signature.starts_with(function) || !signature.ends_with(')')) continue;
    std::string_view names = signature.substr(function.size());
    if (!names.starts_with('(')) continue;
    const std::vector<std::string_view> parameters = Split(names.substr(1, names.size() - 2), ',');
    if (place >= parameters.size()) return {};
    const std::size_t start = parameters[place].find_first_not_of(' ');
    return start == std::string_view::npos ? std::string_view() : parameters[place].substr(start);
  }
  return {};
}

bool Rules::ListsPartOf(std::string_view list, std::string_view text) const {
  const auto found = lists_.find(list);
  return found != lists_.end() &&
         std::any_of(found->second.begin(), found->second.end(),
                     [&](const std::string& word) { return text.find(word) != std::string_view::npos; });
}

}  // namespace vernier

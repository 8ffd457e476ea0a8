#include "profiles/msprobe/rules.h"

#include <algorithm>
#include <cassert>

#include "core/json_cursor.h"
#include "profiles/msprobe/rules_shipped.h"

namespace vernier::msprobe {
namespace {

std::vector<std::string> TakeTexts(JsonCursor& cursor) {
  std::vector<std::string> texts;
  std::string buffer;
  cursor.ForEachElement([&] { texts.emplace_back(cursor.TakeString(buffer)); });
  return texts;
}

}  // namespace

Result<Rules> Rules::Make(Generation generation, std::string_view overrides, std::string_view file_name) {
  Rules rules;
  const std::string_view shipped = generation == Generation::kClassic ? kClassicRules : kCurrentRules;
  VN_RETURN_IF_ERROR(rules.Merge(shipped, "shipped rules", true));
  if (!overrides.empty()) VN_RETURN_IF_ERROR(rules.Merge(overrides, file_name, false));
  return rules;
}

Result<Done> Rules::Merge(std::string_view json, std::string_view where, bool may_add) {
  JsonCursor cursor(json);
  std::string unknown;
  const auto put = [&](auto& table, std::string_view section, std::string_view key, auto value) {
    const auto found = table.find(key);
    if (found != table.end()) {
      found->second = std::move(value);
    } else if (may_add) {
      table.emplace(std::string(key), std::move(value));
    } else if (unknown.empty()) {
      unknown = std::string(section) + '.' + std::string(key);
    }
  };
  cursor.ForEachMember([&](std::string_view section, bool) {
    std::string buffer;
    cursor.ForEachMember([&](std::string_view key, bool) {
      if (section == "thresholds") {
        put(thresholds_, section, key, cursor.TakeNumber());
      } else if (section == "messages") {
        put(messages_, section, key, std::string(cursor.TakeString(buffer)));
      } else if (section == "lists") {
        put(lists_, section, key, TakeTexts(cursor));
      } else {
        unknown = std::string(section);
        cursor.Skip();
      }
    });
  });
  if (cursor.ok() && !cursor.AtEnd()) cursor.Fail(JsonError::kMoreAfterEnd);
  if (!cursor.ok()) return Error{ErrorCode::kBadHeader, std::string(where), cursor.problem()};
  if (!unknown.empty())
    return Error{ErrorCode::kBadArgument, std::string(where), "there is no rule '" + unknown + "'"};
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

bool Rules::ListsPartOf(std::string_view list, std::string_view text) const {
  const auto found = lists_.find(list);
  return found != lists_.end() &&
         std::any_of(found->second.begin(), found->second.end(),
                     [&](const std::string& word) { return text.find(word) != std::string_view::npos; });
}

}  // namespace vernier::msprobe

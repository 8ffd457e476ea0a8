#include "precheck/rules.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>

#include "core/json_cursor.h"
#include "core/text.h"
#include "precheck/rules_shipped.h"

namespace vernier::precheck {
namespace {

constexpr int kDeepest = 8;  // our own tables have three levels

template <class Table>
auto ValueAt(const Table& table, std::string_view path) -> decltype(&table.begin()->second) {
  const auto found = table.find(path);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace

// Puts every leaf of a document under its path.
class RuleReader {
 public:
  RuleReader(Rules& rules, std::string_view json, std::string_view where, bool may_add)
      : rules_(rules), cursor_(json), where_(where), may_add_(may_add) {}

  Result<Done> Read() {
    TakeObject("", 0);
    if (cursor_.ok() && !cursor_.AtEnd()) cursor_.Fail(JsonError::kMoreAfterEnd);
    if (mistake_) return *mistake_;
    if (!cursor_.ok()) return Error{ErrorCode::kBadHeader, std::string(where_), cursor_.problem()};
    return Done{};
  }

 private:
  void TakeObject(const std::string& path, int depth) {
    if (depth > kDeepest) return cursor_.Fail(JsonError::kTooDeep);
    cursor_.ForEachMember([&](std::string_view key, bool) {
      Take(path.empty() ? std::string(key) : path + '.' + std::string(key), depth);
    });
  }

  void Take(const std::string& path, int depth) {
    std::string buffer;
    switch (cursor_.Peek()) {
      case JsonKind::kObject:
        return TakeObject(path, depth + 1);
      case JsonKind::kInt:
      case JsonKind::kFloat: {
        const double number = cursor_.TakeNumber();
        if (!std::isfinite(number)) return Complain(path + ": expected a finite number");
        return Put(rules_.numbers_, path, number);
      }
      case JsonKind::kString:
        return Put(rules_.texts_, path, std::string(cursor_.TakeString(buffer)));
      case JsonKind::kArray: {
        std::vector<std::string> words;
        cursor_.ForEachElement([&] { words.emplace_back(cursor_.TakeString(buffer)); });
        return Put(rules_.lists_, path, std::move(words));
      }
      default:
        Complain(path + ": expected a number, a text or a list of texts");
        return cursor_.Skip();
    }
  }

  template <class Table, class Value>
  void Put(Table& table, const std::string& path, Value value) {
    if (!may_add_ && table.find(path) == table.end()) return Complain("unknown rule " + path);
    table[path] = std::move(value);
  }

  void Complain(std::string what) {
    if (!mistake_) mistake_ = Error{ErrorCode::kBadArgument, std::string(where_), std::move(what)};
  }

  Rules& rules_;
  JsonCursor cursor_;
  std::string_view where_;
  bool may_add_;
  std::optional<Error> mistake_;
};

Result<Done> Rules::Merge(std::string_view json, std::string_view where, bool may_add) {
  return RuleReader(*this, json, where, may_add).Read();
}

const Rules& Rules::Shipped() {
  static const Rules rules = [] {
    Rules shipped;
    for (const std::string_view json : kShippedRules) {
      [[maybe_unused]] const Result<Done> merged = shipped.Merge(json, "shipped rules", true);
      assert(merged.has_value());
    }
    return shipped;
  }();
  return rules;
}

Result<Rules> Rules::With(std::string_view json, std::string_view where) {
  Rules rules = Shipped();
  VN_RETURN_IF_ERROR(rules.Merge(json, where, false));
  return rules;
}

std::string_view ShippedCallRules() { return kShippedRules[2]; }

double Rules::Number(std::string_view path) const {
  const double* number = ValueAt(numbers_, path);
  assert(number != nullptr);
  return number != nullptr ? *number : 0;
}

double Rules::NumberFor(std::string_view path, Dtype dtype) const {
  const std::string own = std::string(path) + '.' + std::string(Name(dtype));
  if (const double* number = ValueAt(numbers_, own)) return *number;
  return Number(std::string(path) + ".other");
}

const std::vector<std::string>& Rules::List(std::string_view path) const {
  static const std::vector<std::string> none;
  const std::vector<std::string>* list = ValueAt(lists_, path);
  return list != nullptr ? *list : none;
}

bool Rules::Lists(std::string_view path, std::string_view word) const {
  const std::vector<std::string>& list = List(path);
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::string_view Rules::Text(std::string_view path) const {
  const std::string* text = ValueAt(texts_, path);
  return text != nullptr ? std::string_view(*text) : std::string_view();
}

}  // namespace vernier::precheck

// The tables of rules/precheck_*.json: which API is judged by which standard, the numbers of the standards,
// and which APIs are called in a way of their own. Looked up by path: "manual.small_value.float16".
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "vernier/dtype.h"
#include "vernier/result.h"

namespace vernier::precheck {

// Read-only once made. Thread-compatible.
class Rules {
 public:
  static const Rules& Shipped();
  // The shipped ones with what `json` says differently; `where` names it in errors. Fails for a path that is
  // not there, or has a value of another kind.
  static Result<Rules> With(std::string_view json, std::string_view where);

  // REQUIRES: the path is one of a number
  double Number(std::string_view path) const;
  // path.float16, or path.other where that is not there.
  double NumberFor(std::string_view path, Dtype dtype) const;
  // Nothing listed where the path is not there.
  const std::vector<std::string>& List(std::string_view path) const;
  bool Lists(std::string_view path, std::string_view word) const;
  // Empty where the path is not there.
  std::string_view Text(std::string_view path) const;

 private:
  Result<Done> Merge(std::string_view json, std::string_view where, bool may_add);

  std::map<std::string, double, std::less<>> numbers_;
  std::map<std::string, std::string, std::less<>> texts_;
  std::map<std::string, std::vector<std::string>, std::less<>> lists_;
  friend class RuleReader;
};

// rules/precheck_calls.json as it is written, for the side that makes the calls; ends with a zero byte.
std::string_view ShippedCallRules();

}  // namespace vernier::precheck

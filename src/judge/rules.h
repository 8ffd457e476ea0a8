// Thresholds, messages and lists, read from the files under rules/.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vernier/result.h"

namespace vernier {

// Immutable once made. Asking for a key that the shipped file does not have is a bug, not an input error.
class Rules {
 public:
  // The shipped tables together; `overrides` is the text of a user's file, whose members replace the shipped
  // ones. Fails when it is no JSON, or names a key that does not exist.
  static Result<Rules> Make(std::span<const std::string_view> shipped,
                            std::optional<std::string_view> overrides = {}, std::string_view file_name = {});
  // Of rules/verdict.json alone.
  static const Rules& Verdict();
  // The same with a user's file; an empty path: none.
  static Result<Rules> VerdictWith(const std::string& path);

  double Threshold(std::string_view key) const;
  std::string_view Message(std::string_view key) const;
  bool Lists(std::string_view list, std::string_view word) const;  // word is one of the list
  bool ListsPartOf(std::string_view list,
                   std::string_view text) const;  // some word of the list occurs in text
  // What a function calls its argument number `place`, by the list "signatures"; empty: not known.
  std::string_view ParameterOf(std::string_view function, std::size_t place) const;

 private:
  Result<Done> Merge(std::string_view json, std::string_view where, bool may_add);

  std::map<std::string, double, std::less<>> thresholds_;
  std::map<std::string, std::string, std::less<>> messages_;
  std::map<std::string, std::vector<std::string>, std::less<>> lists_;
};

}  // namespace vernier

#include "format/module_key.h"

#include <algorithm>
#include <iterator>

namespace vernier {
namespace {

constexpr std::string_view kCategories[] = {"forward_params", "forward_input",   "forward_output",
                                            "backward_input", "backward_output", "params_grad"};

// Cuts off the last part of a dotted text.
std::string_view TakeLast(std::string_view& text) {
  const std::size_t dot = text.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? text : text.substr(dot + 1);
  text = dot == std::string_view::npos ? std::string_view() : text.substr(0, dot);
  return last;
}

}  // namespace

bool IsDecimal(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

ModuleKey SplitModuleKey(std::string_view key) {
  ModuleKey parts;
  std::string_view before = key;
  while (!before.empty() && parts.category.empty()) {
    const std::string_view part = TakeLast(before);
    if (std::find(std::begin(kCategories), std::end(kCategories), part) != std::end(kCategories))
      parts.category = part;
  }
  if (parts.category.empty()) {
    parts.path = key;
    return parts;
  }
  const auto end = static_cast<std::size_t>(parts.category.data() - key.data()) + parts.category.size();
  parts.index = end < key.size() ? key.substr(end + 1) : std::string_view();
  std::string_view last = TakeLast(before);
  if (IsDecimal(last)) {
    parts.call = last;
    last = TakeLast(before);
  }
  parts.class_name = last;
  parts.path = before;
  return parts;
}

}  // namespace vernier

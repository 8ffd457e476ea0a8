// What of a name counts when names are matched loosely: one function per step, strictest first.
#pragma once

#include <string>
#include <string_view>

namespace vernier {

using FuzzyKey = std::string (*)(std::string_view name);

std::string WithoutWrappers(std::string_view name);      // "module.layer.1.w" -> "layer.1.w"
std::string WithPlainSeparators(std::string_view name);  // the same, "Layer/1/W" -> "layer.1.w"
std::string WithoutCallCounter(
    std::string_view name);  // the same, "conv.3.forward.input.0" -> "conv.forward.input.0"

inline constexpr FuzzyKey kFuzzyKeys[] = {WithoutWrappers, WithPlainSeparators, WithoutCallCounter};

}  // namespace vernier

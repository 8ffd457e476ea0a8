// The words of a pre-check's verdicts, and how those of several rows become one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace vernier::precheck {

// kNone: the direction has no rows.
enum class Verdict : std::uint8_t { kNone, kPass, kWarning, kError, kSkip };

std::string_view Name(Verdict verdict);  // " ", "pass", "warning", "error", "SKIP"
std::optional<Verdict> ParseVerdict(std::string_view word);

// An error beats a warning beats a pass; nothing but SKIP is SKIP.
Verdict RollUp(std::span<const Verdict> verdicts);

}  // namespace vernier::precheck

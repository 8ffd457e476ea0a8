#include "precheck/verdict.h"

#include <algorithm>
#include <iterator>

namespace vernier::precheck {
namespace {

constexpr std::string_view kNames[] = {" ", "pass", "warning", "error", "SKIP"};

}  // namespace

std::string_view Name(Verdict verdict) { return kNames[static_cast<std::size_t>(verdict)]; }

std::optional<Verdict> ParseVerdict(std::string_view word) {
  if (word.find_first_not_of(' ') == std::string_view::npos) return Verdict::kNone;
  const auto* found = std::find(std::begin(kNames), std::end(kNames), word);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<Verdict>(found - kNames);
}

Verdict RollUp(std::span<const Verdict> verdicts) {
  constexpr Verdict kWorstFirst[] = {Verdict::kError, Verdict::kWarning, Verdict::kPass, Verdict::kSkip};
  for (const Verdict verdict : kWorstFirst) {
    if (std::find(verdicts.begin(), verdicts.end(), verdict) != verdicts.end()) return verdict;
  }
  return Verdict::kNone;
}

}  // namespace vernier::precheck

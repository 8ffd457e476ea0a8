#include "profiles/msprobe/advisor.h"

#include <fmt/format.h>

namespace vernier::msprobe {

void Advisor::See(const ResultRow& row) {
  const std::size_t line = num_rows_++;
  if (found() || row.judged != Judged::kFail) return;
  name_ = row.npu_name;
  line_ = line;
}

std::string_view Advisor::Advice() const {
  const auto has = [&](std::string_view part) { return name_.find(part) != std::string::npos; };
  if (has("Functional_batch_norm") && has("forward_input.1")) return rules_.Message("advice_batch_norm");
  if (has("input")) return rules_.Message(has("forward") ? "advice_forward_input" : "advice_backward_input");
  if (rules_.ListsPartOf("needs_determinism", name_)) return rules_.Message("advice_deterministic");
  return rules_.Message(has("forward") ? "advice_forward_output" : "advice_backward_output");
}

std::vector<std::string> Advisor::Lines() const {
  return {"Line: " + (found() ? std::to_string(line_) : "NA"), "Suspect Nodes: " + (found() ? name_ : "NA"),
          fmt::format("Expert Advice: {}", found() ? Advice() : rules_.Message("advice_none"))};
}

}  // namespace vernier::msprobe

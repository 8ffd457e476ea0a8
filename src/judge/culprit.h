// The call that went wrong first: whose result is further off than what it was given, and than what calls of
// its class show in the same two recordings.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "judge/align.h"
#include "judge/call.h"
#include "judge/facts.h"
#include "judge/rules.h"

namespace vernier {

// Thresholds of rules/verdict.json, which says what each is for.
struct CulpritRules {
  explicit CulpritRules(const Rules& rules);

  double growth, growth_statistics, factor, prior_product, prior_plain, prior_half, prior_eighth,
      prior_unseen, rounding, rounding_half, cancel, sums, coarsest, shows, alarm, alarm_half, gradient_floor,
      gradient_floor_half, odd_types, odd_calls, fades, drift;
  double orphan_reach, flips, few_values, backward_cancel;
  std::size_t least_seen;
};

// Two recordings, aligned and measured.
struct Recordings {
  const Calls& target;
  const Calls& golden;
  const Alignment& alignment;
  std::span<const Facts> facts;        // of the target's values, call by call
  std::span<const std::size_t> first;  // first[i] … first[i + 1]: those of call i
  struct Result {
    float norm = 0, num_elements = 0;
  };
  // What a call of the golden gives, asked of calls that it makes alone; empty: not known.
  std::function<std::vector<Result>(std::uint32_t golden_call)> golden_results{};
  bool follows_noise = false;  // weights may have drifted apart in steps before
};

enum class Reason : std::uint8_t {
  kOutput,      // same inputs, or nearly, and a different output
  kArgument,    // an argument that is no tensor differs
  kInput,       // something it was given is wrong, and nothing before made it
  kAdditional,  // only the target makes this call
  kMissing,     // only the golden makes this call
  kGradient,    // a parameter's gradient is wrong, and nothing before made it
};
std::string_view Name(Reason reason);  // "output", …

struct Blame {
  std::uint32_t call = 0;               // of the target; kMissing: the one before which it is missing
  std::uint32_t golden_call = kNoCall;  // the partner; kMissing: the call itself
  Reason reason = Reason::kOutput;
  std::uint32_t shown = kNoCall;  // kMissing, kAdditional: the call whose input shows it
  double given = 0, result = 0;   // error of what went in and of what came out
  double usual = 0;               // what its class has shown before, or may
};

// Something that came in and differs, and of which nothing is left a few calls later.
struct Forgotten {
  std::uint32_t call, end;  // where it came in, and the first call that shows nothing of it
  double given;             // its error
};

struct Findings {
  std::optional<Blame> culprit;
  double worst = 0;  // the largest error of an output or a gradient
  std::uint32_t worst_call = kNoCall;
  bool any_difference = false;  // in any value that was compared
  bool beyond_noise = false;    // somewhere more than rounding explains
  std::vector<Forgotten> forgotten;
  // The last call of a program without a backward pass, where only one side makes it and it changes what the
  // other side ends with.
  struct End {
    bool in_target;
    std::uint32_t call;
  };
  std::optional<End> lone_end;
};

Findings FindCulprit(const Recordings& recordings, const CulpritRules& rules);

}  // namespace vernier

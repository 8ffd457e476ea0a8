// judge: measures of a pair -> a Verdict: a status, the rule that gave it and a sentence with its numbers.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "vernier/measure.h"
#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

enum class Status {
  kPass,
  kFail,
  kError,      // could not be judged
  kUnmatched,  // no tensor to compare it with
};
inline constexpr std::size_t kNumStatuses = 4;
std::string_view Name(Status status);  // "pass", …

// What two recordings, or two ranks of them, turn out to be.
enum class RunVerdict {
  kIdentical,  // nothing that was compared differs
  kNoise,      // what differs is explained by rounding
  kDiverged,
  kUnknown,  // too little could be compared to tell
};
std::span<const std::string_view> RunVerdictNames();  // "identical", "noise", "diverged", "unknown"
std::string_view Name(RunVerdict verdict);

struct Verdict {
  Status status = Status::kError;
  std::string_view rule;  // key of the row of the table that decided
  std::string why;        // one sentence; may be empty when it passed
};

struct JudgeOptions {
  bool check_dtype = false;  // different dtypes fail
};

// What is known of a pair. Exactly one of `measures` and `error` is set, except that shapes of different
// sizes need neither.
struct JudgedPair {
  const TensorInfo* target = nullptr;
  const TensorInfo* golden = nullptr;
  const PairMeasures* measures = nullptr;  // with Group::kDiff and Group::kClose
  const Error* error = nullptr;
};

// The first rule of the table that applies decides.
Verdict Judge(const JudgedPair& pair, const JudgeOptions& options);

// For help texts and documents: the table, in order.
struct JudgeRule {
  std::string_view key;
  Status status;
  std::string_view when;
};
std::span<const JudgeRule> JudgeRules();

// The element a person should look at first: a NaN or infinity that only one side has, else the largest
// difference. None when all elements are equal.
struct WorstElement {
  std::uint64_t index = 0;  // in C order
  double got = 0, want = 0;
};
std::optional<WorstElement> WorstOf(const PairMeasures& measures);
// "[1, 5]" for an element of a tensor of that shape.
std::string IndexText(std::uint64_t index, const Shape& shape);

}  // namespace vernier

// What checking one API call gives: its rows, the verdict of each direction, and what a summary says of it.
// Made in the process that executes the call, sent to the one that writes the files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "precheck/judge.h"
#include "precheck/verdict.h"
#include "vernier/result.h"

namespace vernier::precheck {

enum class Direction : std::uint8_t { kForward, kBackward };
inline constexpr std::string_view kDirectionNames[] = {"forward", "backward"};

struct CallAnswer {
  Verdict forward = Verdict::kNone, backward = Verdict::kNone;
  std::string message;                         // of the result file
  std::vector<std::vector<std::string>> rows;  // of the details file, cell by cell
  std::string failed_by;                       // the metric of the worst row, with its value
  double severity = 0;                         // of the same
  std::string shown;                           // what a person asked to see of inputs and outputs

  // Of both directions.
  Verdict verdict() const;
};
std::string ToJson(const CallAnswer& answer);
// What ToJson wrote; or {"skipped": reason} or {"failed": reason} about the call of that name.
Result<CallAnswer> AnswerFromJson(std::string_view json, std::string_view name);

// A call that was not checked: the same reason in every place.
CallAnswer UncheckedCall(std::string_view name, Verdict verdict, std::string_view reason);

// Collects the rows of one call.
class CheckedCall {
 public:
  CheckedCall(JudgeSettings settings, int precision, bool explains)
      : settings_(std::move(settings)), precision_(precision), explains_(explains) {}

  // `api` is the bare name.
  void Begin(std::string_view full_name, std::string_view api);

  Result<Done> Tensors(Direction direction, const PairOfTensors& pair);
  void Row(Direction direction, DetailsRow row);
  // Only the verdict of a direction, without rows.
  Result<Done> Dropout(Direction direction, const PairOfTensors& pair);
  // What goes in is told to a person who asked for it.
  Result<Done> Input(std::string_view name, const TensorView& input);
  bool explains() const { return explains_; }
  const JudgeSettings& settings() const { return settings_; }
  const std::optional<DetailsRow>& last_row() const { return last_row_; }

  // The verdicts so far, for whoever saves what failed.
  Verdict verdict(Direction direction) const {
    return RollUp(statuses_[static_cast<std::size_t>(direction)]);
  }
  CallAnswer Finish();

 private:
  Result<Done> Explain(std::string_view row_name, const PairOfTensors& pair);

  JudgeSettings settings_;
  int precision_;
  bool explains_;
  std::string full_name_, api_;
  std::size_t num_rows_[2] = {};
  std::vector<Verdict> statuses_[2];
  std::string skip_message_[2];
  std::optional<DetailsRow> last_row_;
  CallAnswer answer_;
};

}  // namespace vernier::precheck

// The calls of a running program against an earlier recording with checksums, one by one as they are made:
// where does a difference begin?
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "vernier/record.h"
#include "vernier/tensor.h"

namespace vernier {

// Used by one thread at a time.
class LiveComparison {
 public:
  explicit LiveComparison(std::int64_t diff_nums) : diff_nums_(diff_nums) {}

  // A step begins, whose reference is in `folder`, which is named like that of the recording. One of a
  // process without a rank (proc4711) has another number in each run: then it is the only one beside it.
  Result<Done> BeginStep(std::filesystem::path folder);

  // c_api.h says what `parts` is. `found_before`: num_found() when the call began.
  // `folder`: where the recording goes.
  Result<LiveVerdict> Compare(std::string_view name, std::string_view parts, std::uint64_t found_before,
                              const std::filesystem::path& folder);
  LiveSummary Summary() const;  // of the step so far

 private:
  enum class Kind { kSame, kInherited, kAround, kSameInputs, kOtherRank, kFromOutside, kUnknownInputs };
  struct Port {
    std::string name;
    bool is_tensor = false;
    std::string value;  // what must be the same: of a tensor its dtype, shape and checksum
    std::string file;   // where a tensor is stored
    std::string
        range;  // of a tensor its dtype, Max and Min, which its views have too; empty: they tell nothing
  };
  struct Call {
    std::vector<Port> inputs, outputs;
    std::vector<std::string> input_fields;  // that were recorded: "input", "kwargs", …
  };
  struct Differences {
    std::vector<std::string> inputs;     // names of tensors
    std::string types;                   // of the first of them, where they differ
    std::vector<std::string> arguments;  // "input.4: 0.1, reference 1e-05"
    std::string made_by;  // a call that the reference does not have, and that gave one of `inputs`
    bool has_inputs = false, output = false;
    std::string target_file, golden_file;  // of the first different output, where the reference has stored it
  };
  friend class CallReader;

  static Result<Call> Read(std::string_view record);
  static std::string_view TypeOf(const Port& port);
  // `is` or `was` is null where only the other side has it.
  static void AddDifferentInput(const Port* is, const Port* was, Differences& found);
  static void CompareInputs(const Call& now, const Call& then, Differences& found);
  static void CompareOutputs(std::string_view name, const Call& now, const Call& then, Differences& found);
  std::string MakerOf(const Call& now, const Differences& found) const;
  Kind Judge(std::string_view name, const Differences& differences, std::uint64_t found_before);
  std::string Words(Kind kind, std::string_view name, const Differences& differences) const;
  std::string Next(Kind kind, std::string_view name, const Differences& differences,
                   const std::filesystem::path& folder) const;

  const std::int64_t diff_nums_;
  std::uint64_t num_found_ = 0;  // of all steps
  // The present step.
  std::filesystem::path path_;
  FileRef file_;
  std::unordered_map<std::string, std::string_view> records_;  // views of the file
  std::unordered_set<std::string> different_;                  // calls whose outputs are
  std::unordered_map<std::string, std::string> makers_;  // range -> the call without a record that gave it
  std::uint64_t num_compared_ = 0, num_unknown_ = 0, num_found_here_ = 0;
  std::string first_found_;
};

}  // namespace vernier

// dump.json -> the API calls in it, each as the text of its records: executing them is somebody else's work.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "precheck/config.h"
#include "vernier/cell.h"
#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier::precheck {

struct RecordedCall {
  std::string_view name;                     // "Functional.softmax.3"
  std::string_view prefix, api;              // "Functional", "softmax"; empty where the name has another form
  std::string_view forward;                  // the JSON of its record
  std::optional<std::string_view> backward;  // the same, where there is one
};

// Read-only once opened. What it gives are views of the file, which it keeps.
class CallList {
 public:
  // Fails for a file that holds no API calls, saying why: another framework, level L0, L2 or debug, a record
  // whose name ends in neither forward nor backward.
  static Result<CallList> Open(const std::filesystem::path& path);
  static Result<CallList> FromFile(FileRef file);

  const std::vector<RecordedCall>& calls() const { return calls_; }
  // Whether tensors are stored: then they are in this folder.
  const std::optional<std::filesystem::path>& data_folder() const { return data_folder_; }
  // The file ends inside a record, as one does whose writer was killed; the whole records are here.
  bool torn() const { return torn_; }

  // Drops calls of an API that differ from an earlier one in nothing but values.
  void DropRepeated();

 private:
  friend class CallReader;
  CallList() = default;

  FileRef file_;
  TextArena names_;
  std::vector<RecordedCall> calls_;
  std::optional<std::filesystem::path> data_folder_;
  bool torn_ = false;
};

// Why a call is not even tried; nothing: it is.
std::optional<std::string> ReasonToSkip(const RecordedCall& call, const Rules& rules, const Config& config);

}  // namespace vernier::precheck

// stack.json: the call stack of each record.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "profiles/msprobe/dump.h"
#include "vernier/result.h"

namespace vernier::msprobe {

// Read-only once opened; const methods may run concurrently.
class StackFile {
 public:
  // kBadHeader: the file is no JSON; kBadShape: it is, and no object.
  static Result<StackFile> Open(const std::filesystem::path& path);
  // The file ends in the middle, as one may whose writer was killed: what stands whole before that is here.
  bool torn() const { return torn_; }

  // The lines as a Python list text, or nothing when the record has no stack.
  std::string ListText(std::string_view api) const;
  // What is wrong with the stack of a record: no list, or a dangerous line. Empty: nothing.
  std::string Problem(std::string_view api) const;
  std::vector<std::string> Lines(std::string_view api) const;

 private:
  FileRef file_;
  std::string_view text_;
  std::unordered_map<std::string, std::size_t> stack_at_;
  bool torn_ = false;
};

}  // namespace vernier::msprobe

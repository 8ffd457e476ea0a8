// dump.json or debug.json while it is being written: records are appended, and the file is a whole document
// at every moment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "record/entry.h"
#include "record/growing_file.h"
#include "vernier/result.h"

namespace vernier {

// Used by one thread at a time.
class Document {
 public:
  // Before anything else. `header`: compact JSON, the members that open the document. Creates the file,
  // without records.
  Result<Done> Create(const std::filesystem::path& path, std::string_view header,
                      const std::optional<std::string>& dump_data_dir);

  // Adds `"name": value`. When that fails the file stays as it was.
  Result<RecordRange> Append(std::string_view name, std::string_view value);
  // The value of a record, as it was given to Append.
  Result<std::string> Read(const RecordRange& range) const;
  // Replaces the file by one with these records in this order, and only them; gives them their new ranges.
  // Whoever reads meanwhile sees the old file or the new one.
  Result<Done> Rewrite(std::span<RecordRange* const> records);
  // See GrowingFile.
  void Rest() { file_.Rest(); }

 private:
  static constexpr std::string_view kEmptyTail = "}\n}", kTail = "\n }\n}";

  Result<Done> WriteHead(std::string_view header, const std::optional<std::string>& dump_data_dir);

  std::filesystem::path path_;
  std::string head_;
  bool empty_ = true;
  std::string buffer_;  // what is appended
  GrowingFile file_;
};

}  // namespace vernier

// dump.json or debug.json while it is being written: records are appended, and the file is a whole document
// at every moment, even if the process is killed inside a write.
//
// A record goes over the closing brackets, with new ones behind it, in one write. The kernel copies that page
// by page and stops between two pages when the process is killed. A record that ends in another page than it
// starts is therefore written to a second, hidden file that is otherwise equal, and then the two change
// names, which nothing can tear. File systems that cannot do that get the plain write, and
// profiles/msprobe/dump.h accepts what it may leave.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "record/entry.h"
#include "vernier/result.h"

namespace vernier {

// Used by one thread at a time. The file is locked (flock) from the first append to Rest().
class Document {
 public:
  Document() = default;
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;
  ~Document();

  // Before anything else. `header`: compact JSON, the members that open the document. Creates the file,
  // without records.
  Result<Done> Create(const std::filesystem::path& path, std::string_view header,
                      const std::optional<std::string>& dump_data_dir);

  // Adds `"name": value` with one write over the closing brackets. When that fails the file stays as it was.
  Result<RecordRange> Append(std::string_view name, std::string_view value);
  // The value of a record, as it was given to Append.
  Result<std::string> Read(const RecordRange& range) const;
  // Replaces the file by one with these records in this order, and only them; gives them their new ranges.
  // Whoever reads meanwhile sees the old file or the new one.
  Result<Done> Rewrite(std::span<RecordRange* const> records);
  // Removes the hidden file and the lock, until the next append.
  void Rest();

 private:
  static constexpr std::string_view kEmptyTail = "}\n}", kTail = "\n }\n}";

  Result<Done> WriteHead(std::string_view header, const std::optional<std::string>& dump_data_dir);
  Result<Done> OpenFile();
  void Lock();
  Error Failed(int error_number) const;
  int WriteInPlace();
  int WriteBeside(std::size_t num_new_bytes);
  bool HasSpare();
  void DropSpare();

  std::filesystem::path path_;
  std::string head_;
  std::uint64_t end_ = 0;  // where the closing brackets start
  bool empty_ = true, locked_ = false;
  int fd_ = -1;
  std::string buffer_;  // what is appended, closing brackets included

  // The hidden file: the document as it was when `behind_` was still to come.
  std::string name_, spare_name_;
  int folder_fd_ = -1, spare_fd_ = -1;
  bool spare_works_ = true;
  std::uint64_t spare_end_ = 0;
  std::string behind_;
};

}  // namespace vernier

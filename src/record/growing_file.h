// A text file that ends in closing brackets and grows in front of them. It is a whole document at every
// moment, even if the process is killed inside a write.
//
// What is added goes over the closing brackets, with new ones behind it, in one write. The kernel copies that
// page by page and stops between two pages when the process is killed. What ends in another page than it
// starts is therefore written to a second, hidden file that is otherwise equal, and then the two change
// names, which nothing can tear. File systems that cannot do that get the plain write, and the readers of
// profiles/msprobe accept what it may leave.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "vernier/result.h"

namespace vernier {

// Used by one thread at a time. The file is locked (flock) from the first Append() to Rest().
class GrowingFile {
 public:
  GrowingFile() = default;
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;
  ~GrowingFile();

  // The file that is there now, whose closing brackets `tail` start at `end`. A file that was open before is
  // let go of.
  Result<Done> Open(const std::filesystem::path& path, std::uint64_t end, std::string_view tail);
  // Puts `text` in front of the closing brackets, which are `tail` from now on; both tails are of static
  // lifetime. When that fails the file stays as it was.
  Result<Done> Append(std::string_view text, std::string_view tail);
  // Where the closing brackets start.
  std::uint64_t end() const { return end_; }
  Result<Done> Read(std::uint64_t offset, std::size_t size, std::string& text) const;
  // Removes the hidden file and the lock, until the next Append().
  void Rest();

 private:
  Error Failed(int error_number) const;
  void Lock();
  int WriteInPlace();
  int WriteBeside(std::size_t num_new_bytes);
  bool HasSpare();
  void DropSpare();

  std::filesystem::path path_;
  std::uint64_t end_ = 0;
  std::string_view tail_;
  bool locked_ = false;
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

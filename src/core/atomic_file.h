// A file that is either there whole or not at all.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "vernier/result.h"

namespace vernier {

// Writes under a temporary name in the same folder; Commit() flushes it to disk and renames it. Destroyed before
// that, it removes the temporary file. So does RemoveUnfinishedFiles(), which a signal handler may call.
class AtomicFile {
 public:
  // Creates missing parent folders. A target that is not a regular file (/dev/stdout, /dev/full) is written directly.
  static Result<AtomicFile> Create(const std::filesystem::path& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  // Buffered. The first failure is kept and given by every later call.
  Result<Done> Write(std::string_view text);
  Result<Done> Write(std::span<const std::byte> bytes);
  Result<Done> Commit();

  // For libraries that insist on opening the file themselves: they write to this path, then Commit() renames it.
  const std::filesystem::path& temporary_path() const { return temporary_; }

 private:
  AtomicFile() = default;
  Result<Done> Flush();
  Result<Done> Fail(std::string_view what);

  std::filesystem::path path_, temporary_;
  int fd_ = -1;
  int cleanup_slot_ = -1;
  std::string buffer_;
  std::optional<Error> failure_;
};

// Removes the temporary files of every AtomicFile alive. Async-signal-safe.
void RemoveUnfinishedFiles();

}  // namespace vernier

// A file that is either there whole or not at all.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "vernier/result.h"

namespace vernier {

// Writes under a temporary name in the same folder; Commit() flushes it to disk and renames it. Destroyed
// before that, it removes the temporary file. So does RemoveUnfinishedFiles(), which a signal handler may
// call. A file that is replaced keeps its mode; a symbolic link stays one and its file is replaced. Used by
// one thread at a time.
class AtomicFile {
 public:
  // Creates missing parent folders. A target that is not a regular file (/dev/stdout, /dev/full) is written
  // directly.
  static Result<AtomicFile> Create(const std::filesystem::path& path);
  // For files that take long to write: RemoveLeftovers() knows that it is in use. Also does that for the
  // folder it goes to.
  static Result<AtomicFile> CreateReport(const std::filesystem::path& path);
  // Only one process at a time gets the claim to a name; none: another one has it. The folder must exist.
  static Result<std::optional<AtomicFile>> Claim(const std::filesystem::path& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  // Buffered. The first failure is kept and given by every later call.
  Result<Done> Write(std::string_view text);
  Result<Done> Write(std::span<const std::byte> bytes);
  Result<Done> Commit(bool wait_for_disk = true);
  // The same without waiting for the disk: still whole or not at all for readers, but a power failure may
  // take it back. For files by the hundred thousand.
  Result<Done> CommitUnsynced() { return Commit(/*wait_for_disk=*/false); }

  // For libraries that insist on opening the file themselves: they write to this path, then Commit() renames
  // it.
  const std::filesystem::path& temporary_path() const { return temporary_; }
  const std::filesystem::path& path() const { return path_; }
  bool written_directly() const { return temporary_ == path_; }

 private:
  AtomicFile() = default;
  bool OpenTemporary();
  Result<Done> Flush();
  Result<Done> WriteOut(std::string_view text);
  Result<Done> Fail(int error_number);

  std::filesystem::path path_, temporary_;  // equal when written directly
  int fd_ = -1;
  int cleanup_slot_ = -1;
  std::string buffer_;
  std::optional<Error> failure_;
};

// Removes the temporary files of every AtomicFile alive. Async-signal-safe.
void RemoveUnfinishedFiles();
// Removes temporary files in a folder whose process died. Those of the last minute stay.
void RemoveLeftovers(const std::filesystem::path& folder);

// Takes away the rights that are not in `mode`, and gives none: what the umask forbids stays forbidden.
void RestrictMode(const std::filesystem::path& path, mode_t mode);

// The code for an errno: kNotFound, kNoPermission, kClosedPipe or kIo.
ErrorCode CodeOfErrno(int error_number);
// With the system's own words.
Error ErrnoError(std::string path, int error_number);

}  // namespace vernier

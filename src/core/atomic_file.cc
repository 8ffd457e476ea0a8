#include "core/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <system_error>
#include <utility>

namespace vernier {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

// The names that a signal handler has to remove. Plain memory behind an atomic state, because a handler may
// neither allocate nor lock.
struct CleanupSlot {
  enum State : int { kFree, kClaimed, kArmed };
  std::atomic<int> state{kFree};
  char path[PATH_MAX] = {};
};
constexpr int kNumSlots = 256;
constinit CleanupSlot cleanup_slots[kNumSlots];

// -1 when the table is full or the name too long: then only the destructor removes the file.
int ArmCleanup(const std::string& path) {
  if (path.size() >= PATH_MAX) return -1;
  for (int i = 0; i < kNumSlots; ++i) {
    int expected = CleanupSlot::kFree;
    if (!cleanup_slots[i].state.compare_exchange_strong(expected, CleanupSlot::kClaimed)) continue;
    std::memcpy(cleanup_slots[i].path, path.c_str(), path.size() + 1);
    cleanup_slots[i].state.store(CleanupSlot::kArmed, std::memory_order_release);
    return i;
  }
  return -1;
}

void DisarmCleanup(int slot) {
  if (slot >= 0) cleanup_slots[slot].state.store(CleanupSlot::kFree, std::memory_order_release);
}

// Under the names of the standard streams an open() would start a second, unrelated position in the same
// file.
int OpenSpecial(const fs::path& path) {
  if (path == "/dev/stdout") return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  if (path == "/dev/stderr") return fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
  return open(path.c_str(), O_WRONLY | O_CLOEXEC);
}

bool IsSpecial(const fs::path& path, const struct stat* found) {
  const bool is_stream = path == "/dev/stdout" || path == "/dev/stderr" || path.parent_path() == "/dev/fd";
  return is_stream || (found && !S_ISREG(found->st_mode));
}

fs::path TemporaryName(const fs::path& path) {
  static std::atomic<unsigned> counter{0};
  constexpr std::size_t kLongestStem = 200;  // a file name may have 255 bytes
  return path.parent_path() / ("." + path.filename().native().substr(0, kLongestStem) + ".tmp-" +
                               std::to_string(getpid()) + "-" + std::to_string(counter++));
}

}  // namespace

ErrorCode CodeOfErrno(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kNoPermission;
    case EPIPE:
      return ErrorCode::kClosedPipe;
    default:
      return ErrorCode::kIo;
  }
}

Error ErrnoError(std::string path, int error_number) {
  return Error{CodeOfErrno(error_number), std::move(path), std::generic_category().message(error_number)};
}

void RemoveUnfinishedFiles() {
  for (CleanupSlot& slot : cleanup_slots) {
    if (slot.state.load(std::memory_order_acquire) == CleanupSlot::kArmed) unlink(slot.path);
  }
}

Result<AtomicFile> AtomicFile::Create(const fs::path& path) {
  struct stat found = {};
  const bool exists = stat(path.c_str(), &found) == 0;
  if (exists && S_ISDIR(found.st_mode)) return ErrnoError(path, EISDIR);
  AtomicFile file;
  if (IsSpecial(path, exists ? &found : nullptr)) {
    file.path_ = file.temporary_ = path;
    file.fd_ = OpenSpecial(path);
  } else {
    if (exists && access(path.c_str(), W_OK) != 0) return ErrnoError(path, errno);
    std::error_code problem;
    file.path_ = exists ? fs::canonical(path, problem) : path;
    if (!problem && !exists && path.has_parent_path()) fs::create_directories(path.parent_path(), problem);
    if (problem) return ErrnoError(path, problem.value());
    file.temporary_ = TemporaryName(file.path_);
    file.fd_ = open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file.fd_ >= 0) file.cleanup_slot_ = ArmCleanup(file.temporary_.native());
    if (file.fd_ >= 0 && exists) (void)!fchmod(file.fd_, found.st_mode & 07777);
  }
  if (file.fd_ < 0) return ErrnoError(path, errno);
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)),
      cleanup_slot_(std::exchange(other.cleanup_slot_, -1)),
      buffer_(std::move(other.buffer_)),
      failure_(std::move(other.failure_)) {}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  close(fd_);
  if (!written_directly()) unlink(temporary_.c_str());
  DisarmCleanup(cleanup_slot_);
}

Result<Done> AtomicFile::Fail(int error_number) {
  failure_ = ErrnoError(path_, error_number);
  return *failure_;
}

Result<Done> AtomicFile::WriteOut(std::string_view text) {
  while (!text.empty()) {
    const ssize_t num_written = write(fd_, text.data(), text.size());
    if (num_written < 0 && errno == EINTR) continue;
    if (num_written < 0) return Fail(errno);
    text.remove_prefix(static_cast<std::size_t>(num_written));
  }
  return Done{};
}

Result<Done> AtomicFile::Flush() {
  Result<Done> written = WriteOut(buffer_);
  buffer_.clear();
  return written;
}

Result<Done> AtomicFile::Write(std::string_view text) {
  if (failure_) return *failure_;
  if (buffer_.size() + text.size() > kBufferBytes) VN_RETURN_IF_ERROR(Flush());
  if (text.size() >= kBufferBytes) return WriteOut(text);
  if (buffer_.capacity() == 0) buffer_.reserve(kBufferBytes);
  buffer_ += text;
  return Done{};
}

Result<Done> AtomicFile::Write(std::span<const std::byte> bytes) {
  return Write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

Result<Done> AtomicFile::Commit(bool wait_for_disk) {
  if (failure_) return *failure_;
  VN_RETURN_IF_ERROR(Flush());
  if (wait_for_disk && !written_directly() && fsync(fd_) != 0) return Fail(errno);
  if (!written_directly() && rename(temporary_.c_str(), path_.c_str()) != 0) return Fail(errno);
  DisarmCleanup(std::exchange(cleanup_slot_, -1));
  // Network file systems may report a full disk only now.
  if (close(std::exchange(fd_, -1)) != 0) return Fail(errno);
  return Done{};
}

}  // namespace vernier

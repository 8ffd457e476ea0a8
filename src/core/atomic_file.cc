#include "core/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <random>
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

constexpr std::string_view kTemporaryEnding = ".vernier-tmp";

fs::path TemporaryName(const fs::path& path, std::string_view distinction) {
  constexpr std::size_t kLongestStem = 200;  // a file name may have 255 bytes
  std::string name = "." + path.filename().native().substr(0, kLongestStem);
  return path.parent_path() / name.append(distinction).append(kTemporaryEnding);
}

// Not the number of the process: in every container the first one is 1.
std::string RandomDistinction() {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) number = std::random_device()();
  char digits[20];
  std::snprintf(digits, sizeof digits, ".%016llx", static_cast<unsigned long long>(number));
  return digits;
}

// Whoever holds the lock writes to the file; the system takes it from a process that dies.
bool Lock(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0; }

void RemoveIfAbandoned(const fs::path& path) {
  constexpr std::time_t kYoungSeconds = 60;  // its writer may not have come to lock it, or never does
  struct stat found = {};
  if (lstat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return;
  if (std::time(nullptr) - found.st_mtime < kYoungSeconds) return;
  const int fd = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  if (Lock(fd)) unlink(path.c_str());
  close(fd);
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

void RestrictMode(const fs::path& path, mode_t mode) {
  struct stat found = {};
  if (stat(path.c_str(), &found) == 0) (void)!chmod(path.c_str(), found.st_mode & mode);
}

void RemoveUnfinishedFiles() {
  for (CleanupSlot& slot : cleanup_slots) {
    if (slot.state.load(std::memory_order_acquire) == CleanupSlot::kArmed) unlink(slot.path);
  }
}

void RemoveLeftovers(const fs::path& folder) {
  std::error_code problem;
  fs::directory_iterator entry(folder.empty() ? "." : folder, problem);
  for (; !problem && entry != fs::directory_iterator(); entry.increment(problem)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.') && name.ends_with(kTemporaryEnding)) RemoveIfAbandoned(entry->path());
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
    if (file.fd_ < 0) return ErrnoError(path, errno);
    return file;
  }
  if (exists && faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) return ErrnoError(path, errno);
  std::error_code problem;
  file.path_ = exists ? fs::canonical(path, problem) : path;
  if (!problem && !exists && path.has_parent_path()) fs::create_directories(path.parent_path(), problem);
  if (problem) return ErrnoError(path, problem.value());
  file.temporary_ = TemporaryName(file.path_, RandomDistinction());
  if (!file.OpenTemporary()) return ErrnoError(path, errno);
  if (exists) (void)!fchmod(file.fd_, found.st_mode & 07777);
  return file;
}

bool AtomicFile::OpenTemporary() {
  fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ >= 0) cleanup_slot_ = ArmCleanup(temporary_.native());
  return fd_ >= 0;
}

Result<AtomicFile> AtomicFile::CreateReport(const fs::path& path) {
  VN_ASSIGN_OR_RETURN(AtomicFile file, Create(path));
  if (!file.written_directly()) {
    Lock(file.fd_);
    RemoveLeftovers(file.path_.parent_path());
  }
  return file;
}

Result<std::optional<AtomicFile>> AtomicFile::Claim(const fs::path& path) {
  std::optional<AtomicFile> file = AtomicFile();
  file->path_ = path;
  file->temporary_ = TemporaryName(path, "");
  if (!file->OpenTemporary()) {
    if (errno != EEXIST) return ErrnoError(path, errno);
    return std::optional<AtomicFile>();
  }
  Lock(file->fd_);
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

#include "record/growing_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/atomic_file.h"

namespace vernier {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kMaxCopiedBytes = std::uint64_t{64} << 20;

// Gives the bytes written: fewer than asked for when errno says why.
std::size_t WriteAt(int fd, std::string_view text, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written =
        pwrite(fd, text.data() + done, text.size() - done, static_cast<off_t>(offset + done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  return done;
}

// false: an error, or the file is shorter than that.
bool ReadAt(int fd, char* to, std::size_t size, std::uint64_t offset) {
  while (size > 0) {
    const ssize_t got = pread(fd, to, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = EIO;
    if (got <= 0) return false;
    to += got;
    size -= static_cast<std::size_t>(got);
    offset += static_cast<std::uint64_t>(got);
  }
  return true;
}

// A file of ours and of nobody else: not one that lies there already, and not where a link leads to.
int CreateHidden(int folder_fd, const char* name) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const int fd = openat(folder_fd, name, kFlags, 0666);
  if (fd >= 0 || errno != EEXIST) return fd;
  // A recording that was killed has left it, or somebody has put it there: it is the name that goes.
  unlinkat(folder_fd, name, 0);
  return openat(folder_fd, name, kFlags, 0666);
}

}  // namespace

GrowingFile::~GrowingFile() {
  DropSpare();
  if (folder_fd_ >= 0) close(folder_fd_);
  if (fd_ >= 0) close(fd_);
}

Error GrowingFile::Failed(int error_number) const { return ErrnoError(path_.string(), error_number); }

Result<Done> GrowingFile::Open(const std::filesystem::path& path, std::uint64_t end, std::string_view tail) {
  DropSpare();
  if (fd_ >= 0) close(fd_);
  if (folder_fd_ >= 0) close(folder_fd_);
  locked_ = false;
  path_ = path;
  end_ = end;
  tail_ = tail;
  name_ = path.filename().string();
  spare_name_ = "." + name_ + ".spare";
  const std::filesystem::path folder = path.parent_path();
  folder_fd_ = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  fd_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd_ < 0) return Failed(errno);
  return Done{};
}

// Best effort: a reader that holds the lock must not stop the program that is recorded.
void GrowingFile::Lock() {
  if (!locked_) locked_ = flock(fd_, LOCK_EX | LOCK_NB) == 0;
}

void GrowingFile::Rest() {
  DropSpare();
  if (locked_) flock(fd_, LOCK_UN);
  locked_ = false;
}

void GrowingFile::DropSpare() {
  behind_.clear();
  if (spare_fd_ < 0) return;
  close(std::exchange(spare_fd_, -1));
  unlinkat(folder_fd_, spare_name_.c_str(), 0);
}

// Makes the hidden file when there is none. Not of a large document: that would take longer than it is worth.
bool GrowingFile::HasSpare() {
  if (spare_fd_ >= 0) return true;
  if (!spare_works_ || end_ > kMaxCopiedBytes) return false;
  spare_fd_ = CreateHidden(folder_fd_, spare_name_.c_str());
  if (spare_fd_ < 0) return spare_works_ = false;
  std::string copy(end_, '\0');
  if (!ReadAt(fd_, copy.data(), copy.size(), 0) || WriteAt(spare_fd_, copy, 0) < copy.size()) {
    DropSpare();
    return spare_works_ = false;
  }
  flock(spare_fd_, LOCK_EX | LOCK_NB);
  spare_end_ = end_;
  behind_.clear();
  return true;
}

// Gives 0 or an errno, like the next one.
int GrowingFile::WriteInPlace() {
  if (WriteAt(fd_, buffer_, end_) == buffer_.size()) return 0;
  const int error_number = errno;
  // The old closing brackets need no room that was not there before.
  WriteAt(fd_, tail_, end_);
  (void)!ftruncate(fd_, static_cast<off_t>(end_ + tail_.size()));
  return error_number;
}

int GrowingFile::WriteBeside(std::size_t num_new_bytes) {
  behind_ += buffer_;
  if (WriteAt(spare_fd_, behind_, spare_end_) < behind_.size()) {
    const int error_number = errno;
    DropSpare();
    return error_number;
  }
  if (renameat2(folder_fd_, spare_name_.c_str(), folder_fd_, name_.c_str(), RENAME_EXCHANGE) != 0) {
    DropSpare();
    spare_works_ = false;
    return WriteInPlace();
  }
  std::swap(fd_, spare_fd_);
  spare_end_ = end_;
  behind_.assign(buffer_, 0, num_new_bytes);
  return 0;
}

Result<Done> GrowingFile::Append(std::string_view text, std::string_view tail) {
  Lock();
  buffer_.assign(text).append(tail);
  const bool in_one_page = end_ / kPageBytes == (end_ + buffer_.size() - 1) / kPageBytes;
  int error_number = 0;
  if (!in_one_page && HasSpare()) {
    error_number = WriteBeside(text.size());
  } else {
    error_number = WriteInPlace();
    if (error_number == 0 && spare_fd_ >= 0) behind_.append(text);
  }
  if (error_number != 0) return Failed(error_number);
  end_ += text.size();
  tail_ = tail;
  return Done{};
}

Result<Done> GrowingFile::Read(std::uint64_t offset, std::size_t size, std::string& text) const {
  text.resize(size);
  if (!ReadAt(fd_, text.data(), size, offset)) return Failed(errno);
  return Done{};
}

}  // namespace vernier

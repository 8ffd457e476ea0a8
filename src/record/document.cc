#include "record/document.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "core/json_writer.h"
#include "record/json_indenter.h"

namespace vernier {
namespace {

constexpr std::size_t kCopyBytes = std::size_t{1} << 20;
constexpr int kRecordDepth = 2;
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

}  // namespace

Document::~Document() {
  DropSpare();
  if (folder_fd_ >= 0) close(folder_fd_);
  if (fd_ >= 0) close(fd_);
}

Error Document::Failed(int error_number) const {
  return Error{CodeOfErrno(error_number), path_.string(), std::generic_category().message(error_number)};
}

Result<Done> Document::Create(const std::filesystem::path& path, std::string_view header,
                              const std::optional<std::string>& dump_data_dir) {
  path_ = path;
  VN_RETURN_IF_ERROR(WriteHead(header, dump_data_dir));
  VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  VN_RETURN_IF_ERROR(file.Write(head_));
  VN_RETURN_IF_ERROR(file.Write(kEmptyTail));
  VN_RETURN_IF_ERROR(file.CommitUnsynced());
  end_ = head_.size();
  return OpenFile();
}

Result<Done> Document::WriteHead(std::string_view header, const std::optional<std::string>& dump_data_dir) {
  head_ = "{";
  JsonIndenter members(header, nullptr);
  VN_RETURN_IF_ERROR(members.Members([&](std::string_view key) {
    AppendLine(1, head_);
    head_.append("\"").append(key).append("\": ");
    Result<Done> value = members.Value(1, head_);
    head_ += ',';
    return value;
  }));
  AppendLine(1, head_);
  head_ += "\"dump_data_dir\": ";
  if (dump_data_dir) {
    AppendJsonString(*dump_data_dir, head_);
  } else {
    head_ += "null";
  }
  head_ += ",\n \"data\": {";
  return Done{};
}

Result<Done> Document::OpenFile() {
  if (fd_ >= 0) close(fd_);
  locked_ = false;
  fd_ = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  if (fd_ < 0) return Failed(errno);
  if (folder_fd_ >= 0) close(folder_fd_);
  const std::filesystem::path folder = path_.parent_path();
  folder_fd_ = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  name_ = path_.filename().string();
  spare_name_ = "." + name_ + ".spare";
  return Done{};
}

// Best effort: a reader that holds the lock must not stop the program that is recorded.
void Document::Lock() {
  if (!locked_) locked_ = flock(fd_, LOCK_EX | LOCK_NB) == 0;
}

void Document::Rest() {
  DropSpare();
  if (locked_) flock(fd_, LOCK_UN);
  locked_ = false;
}

void Document::DropSpare() {
  behind_.clear();
  if (spare_fd_ < 0) return;
  close(std::exchange(spare_fd_, -1));
  unlinkat(folder_fd_, spare_name_.c_str(), 0);
}

// Makes the hidden file when there is none. Not of a large document: that would take longer than it is worth.
bool Document::HasSpare() {
  if (spare_fd_ >= 0) return true;
  if (!spare_works_ || end_ > kMaxCopiedBytes) return false;
  spare_fd_ = openat(folder_fd_, spare_name_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
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
int Document::WriteInPlace() {
  if (WriteAt(fd_, buffer_, end_) == buffer_.size()) return 0;
  const int error_number = errno;
  // The old closing brackets need no room that was not there before.
  const std::string_view tail = empty_ ? kEmptyTail : kTail;
  WriteAt(fd_, tail, end_);
  (void)!ftruncate(fd_, static_cast<off_t>(end_ + tail.size()));
  return error_number;
}

int Document::WriteBeside(std::size_t num_new_bytes) {
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

Result<RecordRange> Document::Append(std::string_view name, std::string_view value) {
  Lock();
  buffer_.clear();
  if (!empty_) buffer_ += ',';
  const std::uint64_t offset = end_ + buffer_.size();
  AppendLine(kRecordDepth, buffer_);
  AppendJsonString(name, buffer_);
  buffer_ += ": ";
  buffer_ += value;
  const std::size_t num_new_bytes = buffer_.size();
  const std::uint64_t new_end = end_ + num_new_bytes;
  buffer_ += kTail;
  const bool in_one_page = end_ / kPageBytes == (end_ + buffer_.size() - 1) / kPageBytes;
  int error_number = 0;
  if (!in_one_page && HasSpare()) {
    error_number = WriteBeside(num_new_bytes);
  } else {
    error_number = WriteInPlace();
    if (spare_fd_ >= 0) behind_.append(buffer_, 0, num_new_bytes);
  }
  if (error_number != 0) return Failed(error_number);
  end_ = new_end;
  empty_ = false;
  return RecordRange{offset, new_end - offset};
}

Result<std::string> Document::Read(const RecordRange& range) const {
  std::string text(range.size, '\0');
  if (!ReadAt(fd_, text.data(), text.size(), range.offset)) return Failed(errno);
  // Line break, blanks and name stand before the value; the name is ours and ends at an unescaped quote.
  std::size_t at = kRecordDepth + 2;
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  const std::size_t value = at + 3;
  if (value > text.size()) return Failed(EIO);
  return text.substr(value);
}

Result<Done> Document::Rewrite(std::span<RecordRange* const> records) {
  VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path_));
  VN_RETURN_IF_ERROR(file.Write(head_));
  std::vector<std::uint64_t> new_offsets(records.size());
  std::uint64_t position = head_.size();
  std::string copy;
  // Records that follow each other already, with the comma between them, are copied together.
  for (std::size_t first = 0; first < records.size();) {
    if (first > 0) {
      VN_RETURN_IF_ERROR(file.Write(","));
      ++position;
    }
    const std::uint64_t from = records[first]->offset;
    std::uint64_t to = from;
    std::size_t next = first;
    do {
      new_offsets[next] = position + (records[next]->offset - from);
      to = records[next]->offset + records[next]->size;
    } while (++next < records.size() && records[next]->offset == to + 1);
    for (std::uint64_t at = from; at < to; at += copy.size()) {
      copy.resize(std::min<std::uint64_t>(kCopyBytes, to - at));
      if (!ReadAt(fd_, copy.data(), copy.size(), at)) return Failed(errno);
      VN_RETURN_IF_ERROR(file.Write(copy));
    }
    position += to - from;
    first = next;
  }
  VN_RETURN_IF_ERROR(file.Write(records.empty() ? kEmptyTail : kTail));
  DropSpare();
  VN_RETURN_IF_ERROR(file.CommitUnsynced());
  VN_RETURN_IF_ERROR(OpenFile());
  for (std::size_t i = 0; i < records.size(); ++i) records[i]->offset = new_offsets[i];
  end_ = position;
  empty_ = records.empty();
  return Done{};
}

}  // namespace vernier

#include "record/tensor_files.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <fmt/format.h>

#include "core/atomic_file.h"
#include "core/mapped_file.h"
#include "format/pt_write.h"

namespace vernier {
namespace {

constexpr std::uint64_t kAskEveryBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kDefaultFloorBytes = std::uint64_t{5} << 30;
constexpr std::uint64_t kDefaultFloorPart = 20;  // of the disk: 5 %
constexpr std::size_t kLongestName = 255;
constexpr std::string_view kSuffix = ".pt";

std::uint64_t Hash(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::uint64_t ContentKey(const FileContents& file) {
  std::uint64_t key =
      Hash({reinterpret_cast<const char*>(file.shape.data()), file.shape.size() * sizeof file.shape[0]});
  key = key * 31 + file.crc32;
  return key * 31 + static_cast<std::uint64_t>(file.dtype);
}

// `suffix` in front of ".pt".
std::string FileName(std::string_view stem, std::string_view suffix) {
  std::string name;
  for (const char c : stem) name += c == '/' || static_cast<unsigned char>(c) < 0x20 ? '_' : c;
  const std::size_t room = kLongestName - kSuffix.size() - suffix.size();
  if (name.size() > room) {
    const std::string mark = fmt::format("~{:016x}", Hash(stem));
    std::size_t keep = room - mark.size();
    // Not inside a character of several bytes.
    while (keep > 0 && (static_cast<unsigned char>(name[keep]) & 0xC0) == 0x80) --keep;
    name = name.substr(0, keep) + mark;
  }
  return name.append(suffix).append(kSuffix);
}

Error ErrnoError(const std::filesystem::path& path, int error_number) {
  return Error{CodeOfErrno(error_number), path.string(), std::generic_category().message(error_number)};
}

TensorView ViewOf(const FileContents& file, const std::byte* data) {
  return BorrowTensor(file.dtype, file.shape, data);
}

FileContents ContentsOf(Elements elements) {
  FileContents contents;
  contents.dtype = elements.dtype;
  contents.shape.assign(elements.shape.begin(), elements.shape.end());
  contents.num_bytes = *NumElements(contents.shape, contents.dtype) * ItemBytes(contents.dtype);
  contents.crc32 = elements.crc32;
  contents.xor64 = elements.xor64;
  contents.staged = std::move(elements.bytes);
  return contents;
}

// A new file, straight under its name: nothing names it before it is complete. What an earlier recording left
// there is not written to: it may have other names.
Result<Done> WriteNew(const std::filesystem::path& path, const TensorView& tensor, std::uint32_t crc32) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  int fd = open(path.c_str(), kFlags, 0666);
  if (fd < 0 && errno == EEXIST && unlink(path.c_str()) == 0) fd = open(path.c_str(), kFlags, 0666);
  if (fd < 0) return ErrnoError(path, errno);
  Result<Done> result = WritePt(fd, path, tensor, {.wait_for_disk = false, .crc32 = crc32});
  if (close(fd) != 0 && result) result = ErrnoError(path, errno);
  if (!result) unlink(path.c_str());
  return result;
}

}  // namespace

std::string TensorFileName(std::string_view stem) { return FileName(stem, ""); }

Result<DiskSpace> DiskSpaceAt(const std::filesystem::path& folder) {
  struct statvfs found = {};
  if (statvfs(folder.c_str(), &found) != 0) return ErrnoError(folder, errno);
  const std::uint64_t block_bytes = found.f_frsize;
  return DiskSpace{found.f_bavail * block_bytes, found.f_blocks * block_bytes};
}

Result<Done> DiskFloor::Check(const std::filesystem::path& folder, std::uint64_t num_bytes) {
  const std::scoped_lock lock(mutex_);
  if (bytes_until_asked_ > num_bytes) {
    bytes_until_asked_ -= num_bytes;
    return Done{};
  }
  return Ask(folder, num_bytes);
}

Result<Done> DiskFloor::CheckNow(const std::filesystem::path& folder) {
  const std::scoped_lock lock(mutex_);
  return Ask(folder, 0);
}

Result<Done> DiskFloor::Ask(const std::filesystem::path& folder, std::uint64_t num_bytes) {
  VN_ASSIGN_OR_RETURN(const DiskSpace space, disk_space_(folder));
  const std::uint64_t floor = min_free_bytes_ >= 0
                                  ? static_cast<std::uint64_t>(min_free_bytes_)
                                  : std::min(kDefaultFloorBytes, space.total_bytes / kDefaultFloorPart);
  if (space.free_bytes < floor || space.free_bytes - floor < num_bytes) {
    return Error{ErrorCode::kIo, folder.string(),
                 fmt::format("recording stopped: {} MiB are free on the disk, the limit is {} MiB "
                             "(min_free_space); what was written until now is complete",
                             space.free_bytes >> 20, floor >> 20)};
  }
  bytes_until_asked_ = std::min(kAskEveryBytes, space.free_bytes - floor - num_bytes);
  return Done{};
}

// The file lets go of its staging memory when the job is done, or given up.
Writer::Job TensorFiles::WriteJob(StoredFile& file) {
  const std::shared_ptr<void> at_end(nullptr, [this, &file](void*) {
    const std::scoped_lock lock(staged_mutex_);
    file.staged.reset();
    file.settled = true;
  });
  return [this, &file, at_end, elements = file.staged]() -> Result<Done> {
    if (file.is_late && LinkEarlier(file)) return Settle(file);
    VN_RETURN_IF_ERROR(floor_.Check(folder_, file.num_bytes));
    const std::filesystem::path path = folder_ / file.name;
    const TensorView tensor = ViewOf(file, elements.get());
    // A record on disk may name the file that is replaced, and must find either of the two whole.
    VN_RETURN_IF_ERROR(file.replaces ? WritePt(path, tensor, {.wait_for_disk = false, .crc32 = file.crc32})
                                     : WriteNew(path, tensor, file.crc32));
    return Settle(file);
  };
}

// Whether the folder before this one has such a file, which then gets a name in this one as well: both stay
// whole folders, whichever is removed.
bool TensorFiles::LinkEarlier(StoredFile& file) {
  if (!dedup_ || !file.xor64 || file.replaces) return false;
  const auto earlier = earlier_.Find({file.dtype, file.shape, file.crc32, *file.xor64});
  if (!earlier || !FileHolds(*earlier, file)) return false;
  const std::filesystem::path path = folder_ / file.name;
  unlink(path.c_str());
  if (link(earlier->c_str(), path.c_str()) != 0) return false;  // another disk, or one without links
  CountStored(file, false);
  return true;
}

// The decision counted it as the other one.
void TensorFiles::CountStored(const FileContents& contents, bool is_stored) {
  auto& more = is_stored ? late_totals_.bytes_stored : late_totals_.bytes_saved;
  auto& less = is_stored ? late_totals_.bytes_saved : late_totals_.bytes_stored;
  more += contents.num_bytes;
  less -= contents.num_bytes;
  late_totals_.num_files += is_stored ? 1 : -1;
}

Result<Done> TensorFiles::Settle(StoredFile& file) {
  if (dedup_ && file.xor64) {
    earlier_.Add({file.dtype, file.shape, file.crc32, *file.xor64}, folder_ / file.name);
  }
  std::vector<StoredFile*> links;
  {
    const std::scoped_lock lock(staged_mutex_);
    file.settled = true;
    links.swap(file.links);
  }
  for (StoredFile* const linked : links) VN_RETURN_IF_ERROR(Link(file, *linked));
  return Done{};
}

// The same file under another name; where the disk cannot do that, a copy. REQUIRES: `file` is settled
Result<Done> TensorFiles::Link(const StoredFile& file, StoredFile& linked) {
  const std::filesystem::path from = folder_ / file.name, to = folder_ / linked.name;
  unlink(to.c_str());
  std::error_code problem;
  if (link(from.c_str(), to.c_str()) != 0) std::filesystem::copy_file(from, to, problem);
  if (problem) return ErrnoError(to, problem.value());
  const std::scoped_lock lock(staged_mutex_);
  linked.settled = true;
  return Done{};
}

// Jobs do not wait for each other: a name for a file that is still to be written is left to its writer. Both
// are done before a record that was pushed behind this job.
Result<Done> TensorFiles::LinkWhenWritten(StoredFile& file, StoredFile& linked) {
  {
    const std::scoped_lock lock(staged_mutex_);
    if (!file.settled) {
      file.links.push_back(&linked);
      return Done{};
    }
  }
  return Link(file, linked);
}

// The file with one user more, under the name of its own that it needs within an entry. `is_new`: which is
// still to be made.
StoredFile& TensorFiles::SecondName(std::string_view entry, StoredFile& file, const std::string& stem,
                                    bool& is_new) {
  is_new = false;
  const std::string_view name = file.name;
  if (entry.empty() || !name.starts_with(entry) || name.size() <= entry.size() || name[entry.size()] != '.') {
    return file;
  }
  std::string own = FileName(stem, "");
  if (own == name) return file;
  if (StoredFile* const known = FindName(own)) {
    if (known->crc32 != file.crc32 || known->shape != file.shape || known->dtype != file.dtype) return file;
    ++known->num_users;
    --file.num_users;
    return *known;
  }
  is_new = true;
  StoredFile& linked = files_.emplace_back();
  linked.name = std::move(own);
  linked.dtype = file.dtype;
  linked.shape = file.shape;
  linked.num_bytes = file.num_bytes;
  linked.crc32 = file.crc32;
  linked.num_users = 1;
  by_name_.emplace(linked.name, &linked);
  --file.num_users;
  return linked;
}

StoredFile& TensorFiles::NameWithin(std::string_view entry, StoredFile& file, const std::string& stem) {
  const std::scoped_lock lock(mutex_);
  bool is_new = false;
  StoredFile& named = SecondName(entry, file, stem, is_new);
  if (is_new) named.number = writer_.Push([this, &file, &named] { return Link(file, named); });
  return named;
}

void TensorFiles::AddUser(StoredFile& file) {
  const std::scoped_lock lock(mutex_);
  ++file.num_users;
}

void TensorFiles::DropUser(StoredFile& file) {
  const std::scoped_lock lock(mutex_);
  --file.num_users;
}

StoredFile* TensorFiles::Find(std::string_view name) {
  const std::scoped_lock lock(mutex_);
  return FindName(name);
}

StoredFile* TensorFiles::FindName(std::string_view name) {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

// Equal when the file has the very bytes that would be written.
bool TensorFiles::HoldsSame(StoredFile& file, const FileContents& wanted) {
  StagingPool::Buffer staged;
  {
    const std::scoped_lock lock(staged_mutex_);
    staged = file.staged;
  }
  if (staged != nullptr) return std::memcmp(staged.get(), wanted.staged.get(), wanted.num_bytes) == 0;
  return FileHolds(folder_ / file.name, wanted);
}

// REQUIRES: wanted.staged
bool TensorFiles::FileHolds(const std::filesystem::path& path, const FileContents& wanted) {
  const Result<FileRef> found = MappedFile::Open(path);
  if (!found) return false;
  const PtFile would_be(ViewOf(wanted, wanted.staged.get()), {.crc32 = wanted.crc32});
  std::span<const std::byte> bytes = (*found)->bytes();
  if (bytes.size() != would_be.size_bytes()) return false;
  for (const std::span<const std::byte> piece : would_be.pieces()) {
    if (std::memcmp(bytes.data(), piece.data(), piece.size()) != 0) return false;
    bytes = bytes.subspan(piece.size());
  }
  return !(*found)->changed();
}

// By the bytes, or else by both checksums.
StoredFile* TensorFiles::FindEqual(const FileContents& wanted, bool by_bytes) {
  const auto [first, last] = by_content_.equal_range(ContentKey(wanted));
  for (auto candidate = first; candidate != last; ++candidate) {
    StoredFile& file = *candidate->second;
    if (!file.gone && file.crc32 == wanted.crc32 && file.dtype == wanted.dtype &&
        file.shape == wanted.shape &&
        (by_bytes ? HoldsSame(file, wanted) : wanted.xor64 && file.xor64 == wanted.xor64)) {
      return &file;
    }
  }
  return nullptr;
}

std::string TensorFiles::UnusedName(std::string_view stem, bool& replaces) {
  for (std::uint64_t number = 1;; ++number) {
    std::string name = FileName(stem, number == 1 ? "" : fmt::format("~{}", number));
    StoredFile* const holder = FindName(name);
    if (holder == nullptr) return name;
    if (holder->num_users > 0) continue;
    {
      const std::scoped_lock lock(staged_mutex_);
      if (!holder->settled) continue;  // it would be written over this one
    }
    holder->gone = true;
    by_name_.erase(name);
    replaces = true;
    return name;
  }
}

// With one user, and nobody to write it yet.
StoredFile& TensorFiles::AddFile(std::string_view stem, FileContents contents) {
  bool replaces = false;
  std::string name = UnusedName(stem, replaces);
  StoredFile& file = files_.emplace_back();
  static_cast<FileContents&>(file) = std::move(contents);
  file.name = std::move(name);
  file.replaces = replaces;
  file.num_users = 1;
  by_name_.emplace(file.name, &file);
  if (dedup_) by_content_.emplace(ContentKey(file), &file);
  return file;
}

StoredFile& TensorFiles::Store(std::string_view stem, Elements elements, RecordTotals& totals) {
  FileContents wanted = ContentsOf(std::move(elements));
  const std::scoped_lock lock(mutex_);
  if (StoredFile* const equal = dedup_ ? FindEqual(wanted, /*by_bytes=*/true) : nullptr) {
    ++equal->num_users;
    totals.bytes_saved += wanted.num_bytes;
    return *equal;
  }
  StoredFile& file = AddFile(stem, std::move(wanted));
  totals.bytes_stored += file.num_bytes;
  ++totals.num_files;
  file.number = writer_.PushElements(WriteJob(file), file.num_bytes);
  return file;
}

// Which file it is follows from the checksums, so that decisions, which come one at a time, are short; that
// the bytes are the same is looked at by the job.
Kept TensorFiles::Keep(std::string_view entry, const std::string& stem, Elements elements,
                       std::uint64_t number) {
  FileContents wanted = ContentsOf(std::move(elements));
  const std::scoped_lock lock(mutex_);
  StoredFile* const equal = dedup_ ? FindEqual(wanted, /*by_bytes=*/false) : nullptr;
  if (equal == nullptr) {
    StoredFile& file = AddFile(stem, std::move(wanted));
    file.number = number;
    file.is_late = true;
    late_totals_.bytes_stored += file.num_bytes;
    ++late_totals_.num_files;
    return {&file, [&file, write = WriteJob(file)]() -> Result<Stored*> {
              VN_RETURN_IF_ERROR(write());
              return &file;
            }};
  }
  ++equal->num_users;
  late_totals_.bytes_saved += wanted.num_bytes;
  bool is_new = false;
  StoredFile& named = SecondName(entry, *equal, stem, is_new);
  if (is_new) named.number = number;
  return {&named, [=, this, &named]() -> Result<Stored*> {
            if (!HoldsSame(*equal, wanted)) return WriteApart(named, is_new, stem, wanted, number);
            if (is_new) VN_RETURN_IF_ERROR(LinkWhenWritten(*equal, named));
            return &named;
          }};
}

// Elements whose checksums are those of another file that holds something else, or whose file is gone. They
// have a name already when `named` is new.
Result<Stored*> TensorFiles::WriteApart(StoredFile& named, bool is_new, const std::string& stem,
                                        const FileContents& wanted, std::uint64_t number) {
  CountStored(wanted, true);
  StoredFile* file = &named;
  {
    const std::scoped_lock lock(mutex_);
    if (is_new) {
      const std::scoped_lock staged_lock(staged_mutex_);
      named.staged = wanted.staged;
    } else {
      --named.num_users;
      file = &AddFile(stem, wanted);
      file->number = number;
    }
  }
  VN_RETURN_IF_ERROR(WriteJob(*file)());
  return file;
}

Kept TensorFiles::KeepAgain(std::string_view entry, const std::string& stem, StoredFile& file,
                            std::uint64_t number) {
  const std::scoped_lock lock(mutex_);
  ++file.num_users;
  bool is_new = false;
  StoredFile& named = SecondName(entry, file, stem, is_new);
  if (is_new) named.number = number;
  return {&named, [this, is_new, &file, &named]() -> Result<Stored*> {
            if (is_new) VN_RETURN_IF_ERROR(LinkWhenWritten(file, named));
            return &named;
          }};
}

void TensorFiles::RemoveUnused() {
  for (StoredFile& file : files_) {
    if (file.gone || file.num_users > 0) continue;
    file.gone = true;
    by_name_.erase(file.name);
    unlink((folder_ / file.name).c_str());
  }
}

void TensorFiles::RemoveAfter(std::uint64_t number) {
  for (const StoredFile& file : files_) {
    if (!file.gone && !file.replaces && file.number > number) unlink((folder_ / file.name).c_str());
  }
}

}  // namespace vernier

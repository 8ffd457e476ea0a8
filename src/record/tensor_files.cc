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

std::uint64_t ContentKey(const StoredFile& file) {
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

TensorView ViewOf(const StoredFile& file, const std::byte* data) {
  return BorrowTensor(file.dtype, file.shape, data);
}

// A new file, straight under its name: nothing names it before it is complete.
Result<Done> WriteNew(const std::filesystem::path& path, const TensorView& tensor, std::uint32_t crc32) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
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
Writer::Job TensorFiles::WriteJob(StoredFile& file, bool replaces) {
  const std::shared_ptr<void> at_end(nullptr, [this, &file](void*) {
    const std::scoped_lock lock(mutex_);
    file.staged.reset();
  });
  return [this, &file, replaces, at_end, elements = file.staged]() -> Result<Done> {
    VN_RETURN_IF_ERROR(floor_.Check(folder_, file.num_bytes));
    const std::filesystem::path path = folder_ / file.name;
    const TensorView tensor = ViewOf(file, elements.get());
    // A record on disk may name the file that is replaced, and must find either of the two whole.
    if (replaces) return WritePt(path, tensor, {.wait_for_disk = false, .crc32 = file.crc32});
    return WriteNew(path, tensor, file.crc32);
  };
}

// The same file under another name; where the disk cannot do that, a copy.
Result<Done> TensorFiles::Link(const StoredFile& file, const StoredFile& linked) const {
  const std::filesystem::path from = folder_ / file.name, to = folder_ / linked.name;
  unlink(to.c_str());
  if (link(from.c_str(), to.c_str()) == 0) return Done{};
  std::error_code problem;
  std::filesystem::copy_file(from, to, problem);
  return problem ? Result<Done>(ErrnoError(to, problem.value())) : Done{};
}

StoredFile& TensorFiles::NameWithin(std::string_view entry, StoredFile& file,
                                    const std::function<std::string()>& stem) {
  const std::string_view name = file.name;
  if (!name.starts_with(entry) || name.size() <= entry.size() || name[entry.size()] != '.') return file;
  std::string own = FileName(stem(), "");
  if (own == name) return file;
  if (StoredFile* const known = Find(own)) {
    if (known->crc32 != file.crc32 || known->shape != file.shape || known->dtype != file.dtype) return file;
    AddUser(*known);
    DropUser(file);
    return *known;
  }
  StoredFile& linked = files_.emplace_back();
  linked.name = std::move(own);
  linked.dtype = file.dtype;
  linked.shape = file.shape;
  linked.num_bytes = file.num_bytes;
  linked.crc32 = file.crc32;
  linked.num_users = 1;
  by_name_.emplace(linked.name, &linked);
  writer_.Push([this, &file, &linked] { return Link(file, linked); });
  DropUser(file);
  return linked;
}

StoredFile* TensorFiles::Find(std::string_view name) {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

// Equal when the file has the very bytes that would be written.
bool TensorFiles::HoldsSame(StoredFile& file, const StoredFile& wanted) {
  StagingPool::Buffer staged;
  {
    const std::scoped_lock lock(mutex_);
    staged = file.staged;
  }
  if (staged != nullptr) return std::memcmp(staged.get(), wanted.staged.get(), wanted.num_bytes) == 0;
  const Result<FileRef> found = MappedFile::Open(folder_ / file.name);
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

StoredFile* TensorFiles::FindEqual(const StoredFile& wanted, std::uint64_t content_key) {
  const auto [first, last] = by_content_.equal_range(content_key);
  for (auto candidate = first; candidate != last; ++candidate) {
    StoredFile& file = *candidate->second;
    if (!file.gone && file.crc32 == wanted.crc32 && file.dtype == wanted.dtype &&
        file.shape == wanted.shape && HoldsSame(file, wanted)) {
      return &file;
    }
  }
  return nullptr;
}

std::string TensorFiles::UnusedName(std::string_view stem, bool& replaces) {
  for (std::uint64_t number = 1;; ++number) {
    std::string name = FileName(stem, number == 1 ? "" : fmt::format("~{}", number));
    StoredFile* const holder = Find(name);
    if (holder == nullptr) return name;
    if (holder->num_users > 0) continue;
    holder->gone = true;
    by_name_.erase(name);
    replaces = true;
    return name;
  }
}

StoredFile& TensorFiles::Store(std::string_view stem, Elements elements, RecordTotals& totals) {
  StoredFile wanted;
  wanted.dtype = elements.dtype;
  wanted.shape.assign(elements.shape.begin(), elements.shape.end());
  wanted.crc32 = elements.crc32;
  wanted.staged = std::move(elements.bytes);
  wanted.num_bytes = *NumElements(wanted.shape, wanted.dtype) * ItemBytes(wanted.dtype);
  const std::uint64_t content_key = dedup_ ? ContentKey(wanted) : 0;
  if (dedup_) {
    if (StoredFile* const equal = FindEqual(wanted, content_key)) {
      AddUser(*equal);
      totals.bytes_saved += wanted.num_bytes;
      return *equal;
    }
  }
  bool replaces = false;
  wanted.name = UnusedName(stem, replaces);
  wanted.num_users = 1;
  StoredFile& file = files_.emplace_back(std::move(wanted));
  by_name_.emplace(file.name, &file);
  if (dedup_) by_content_.emplace(content_key, &file);
  totals.bytes_stored += file.num_bytes;
  ++totals.num_files;
  writer_.Push(WriteJob(file, replaces));
  return file;
}

void TensorFiles::RemoveUnused() {
  for (StoredFile& file : files_) {
    if (file.gone || file.num_users > 0) continue;
    file.gone = true;
    by_name_.erase(file.name);
    unlink((folder_ / file.name).c_str());
  }
}

}  // namespace vernier

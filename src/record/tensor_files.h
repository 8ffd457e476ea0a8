// The tensor files of one folder: what they are called, which tensors share one, and their writing.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "record/earlier_files.h"
#include "record/sink.h"
#include "record/writer.h"
#include "vernier/record.h"
#include "vernier/tensor.h"

namespace vernier {

// What a file holds.
struct FileContents {
  Dtype dtype = Dtype::kF32;
  Shape shape;
  std::uint64_t num_bytes = 0;
  std::uint32_t crc32 = 0;
  std::optional<std::uint64_t> xor64;
  StagingPool::Buffer staged;  // the elements, until they are written; guarded by TensorFiles::staged_mutex_
};

// One file, written or waiting for it. Only TensorFiles changes it.
struct StoredFile : Stored, FileContents {
  std::string name;                // in the folder
  std::uint32_t num_users = 0;     // descriptors that name it
  std::uint64_t number = 0;        // of the writer's job
  bool replaces = false;           // another of the same name
  bool is_late = false;            // from Keep(): counted in LateTotals
  bool settled = false;            // written, or given up; guarded by staged_mutex_, like the next one
  std::vector<StoredFile*> links;  // names it is to have as well once it is written
};

// A name that is a file of the folder and nothing else: no separators, 255 bytes at most, ".pt" behind it.
std::string TensorFileName(std::string_view stem);

// How much room the disk must keep, watched while files are written. Thread-safe.
class DiskFloor {
 public:
  explicit DiskFloor(const RecorderOptions& options)
      : min_free_bytes_(options.min_free_bytes), disk_space_(options.disk_space) {}
  // Fails when the disk is below the floor, or would be with `num_bytes` more. Asks the system rarely.
  Result<Done> Check(const std::filesystem::path& folder, std::uint64_t num_bytes);
  // The same, asked for certain.
  Result<Done> CheckNow(const std::filesystem::path& folder);

 private:
  // REQUIRES: mutex_ is held
  Result<Done> Ask(const std::filesystem::path& folder, std::uint64_t num_bytes);

  std::mutex mutex_;
  std::int64_t min_free_bytes_;
  std::function<Result<DiskSpace>(const std::filesystem::path&)> disk_space_;
  std::uint64_t bytes_until_asked_ = 0;
};

// Thread-safe, but for RemoveUnused() and RemoveAfter().
class TensorFiles {
 public:
  TensorFiles(std::filesystem::path folder, bool dedup, const SinkContext& context)
      : folder_(std::move(folder)),
        dedup_(dedup),
        writer_(context.writer),
        floor_(context.floor),
        late_totals_(context.late_totals),
        earlier_(context.earlier) {}
  TensorFiles(const TensorFiles&) = delete;
  TensorFiles& operator=(const TensorFiles&) = delete;

  // The file that holds these elements, with one user more: a new one, queued for writing, or an equal one.
  StoredFile& Store(std::string_view stem, Elements elements, RecordTotals& totals);
  // The same as a part of the writer's job `number`, for a value of `entry` or, when that is empty, on its
  // own: see NameWithin().
  Kept Keep(std::string_view entry, const std::string& stem, Elements elements, std::uint64_t number);
  // That file with one user more, as a part of such a job.
  Kept KeepAgain(std::string_view entry, const std::string& stem, StoredFile& file, std::uint64_t number);
  // A name that begins with `entry`'s stands for one value of it: when `file` is that of another value of the
  // same entry, gives it a second name. Values of other entries may share it.
  StoredFile& NameWithin(std::string_view entry, StoredFile& file, const std::string& stem);
  void AddUser(StoredFile& file);
  void DropUser(StoredFile& file);
  StoredFile* Find(std::string_view name);
  // Removes the files that nobody names any more. REQUIRES: the writer is idle, as for the next one
  void RemoveUnused();
  // Removes what was written ahead of a job that failed: no record names it.
  void RemoveAfter(std::uint64_t number);

 private:
  Writer::Job WriteJob(StoredFile& file);
  Result<Done> Settle(StoredFile& file);
  Result<Done> Link(const StoredFile& file, StoredFile& linked);
  Result<Done> LinkWhenWritten(StoredFile& file, StoredFile& linked);
  bool HoldsSame(StoredFile& file, const FileContents& wanted);
  static bool FileHolds(const std::filesystem::path& path, const FileContents& wanted);
  Result<Stored*> WriteApart(StoredFile& named, bool is_new, const std::string& stem,
                             const FileContents& wanted, std::uint64_t number);
  bool LinkEarlier(StoredFile& file);
  void CountStored(const FileContents& contents, bool is_stored);
  // REQUIRES: mutex_ is held, for these
  StoredFile* FindName(std::string_view name);
  StoredFile* FindEqual(const FileContents& wanted, bool by_bytes);
  StoredFile& AddFile(std::string_view stem, FileContents contents);
  StoredFile& SecondName(std::string_view entry, StoredFile& file, const std::string& stem, bool& is_new);
  std::string UnusedName(std::string_view stem, bool& replaces);

  const std::filesystem::path folder_;
  const bool dedup_;
  Writer& writer_;
  DiskFloor& floor_;
  LateTotals& late_totals_;
  EarlierFiles& earlier_;
  std::mutex mutex_;         // of what files there are, and who uses them
  std::mutex staged_mutex_;  // of what is known to be written; taken after mutex_
  std::deque<StoredFile> files_;
  std::unordered_map<std::string_view, StoredFile*> by_name_;
  std::unordered_multimap<std::uint64_t, StoredFile*> by_content_;
};

}  // namespace vernier

// The tensor files of one folder: what they are called, which tensors share one, and their writing.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "record/sink.h"
#include "record/writer.h"
#include "vernier/record.h"
#include "vernier/tensor.h"

namespace vernier {

// One file, written or waiting for it. Only TensorFiles changes it.
struct StoredFile : Stored {
  std::string name;  // in the folder
  Dtype dtype = Dtype::kF32;
  Shape shape;
  std::uint64_t num_bytes = 0;
  std::uint32_t crc32 = 0;
  std::uint32_t num_users = 0;  // descriptors that name it
  StagingPool::Buffer staged;   // its elements, until it is written; guarded by TensorFiles::mutex_
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

// Used by one thread at a time; the writer works beside it.
class TensorFiles {
 public:
  TensorFiles(std::filesystem::path folder, bool dedup, Writer& writer, DiskFloor& floor)
      : folder_(std::move(folder)), dedup_(dedup), writer_(writer), floor_(floor) {}
  TensorFiles(const TensorFiles&) = delete;
  TensorFiles& operator=(const TensorFiles&) = delete;

  // The file that holds these elements, with one user more: a new one, queued for writing, or an equal one.
  StoredFile& Store(std::string_view stem, Elements elements, RecordTotals& totals);
  // A name that begins with `entry`'s stands for one value of it: when `file` is that of another value of the
  // same entry, gives it a second name. Values of other entries may share it.
  StoredFile& NameWithin(std::string_view entry, StoredFile& file, const std::function<std::string()>& stem);
  void AddUser(StoredFile& file) { ++file.num_users; }
  void DropUser(StoredFile& file) { --file.num_users; }
  StoredFile* Find(std::string_view name);
  // Removes the files that nobody names any more. REQUIRES: the writer is idle
  void RemoveUnused();

 private:
  Writer::Job WriteJob(StoredFile& file, bool replaces);
  Result<Done> Link(const StoredFile& file, const StoredFile& linked) const;
  StoredFile* FindEqual(const StoredFile& wanted, std::uint64_t content_key);
  bool HoldsSame(StoredFile& file, const StoredFile& wanted);
  std::string UnusedName(std::string_view stem, bool& replaces);

  const std::filesystem::path folder_;
  const bool dedup_;
  Writer& writer_;
  DiskFloor& floor_;
  std::mutex mutex_;
  std::deque<StoredFile> files_;
  std::unordered_map<std::string_view, StoredFile*> by_name_;
  std::unordered_multimap<std::uint64_t, StoredFile*> by_content_;
};

}  // namespace vernier

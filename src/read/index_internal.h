// What a Dump knows about its files and tensors.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/mapped_file.h"
#include "format/entry.h"
#include "read/tensor_file_internal.h"
#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

// A file as it was when its header was read.
struct IndexedFile {
  std::filesystem::path path;
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;
  FileRef held;                                  // in dumps of few files
  mutable std::weak_ptr<const MappedFile> open;  // in others: the last one opened, while somebody uses it
};

// What opening one file gave.
struct OpenedFile {
  IndexedFile file;
  TensorFile tensors;
  std::optional<Error> failure;
  bool is_ours = false;  // true: its content is of a format we read, damaged or not
};

OpenedFile OpenTensorFile(const std::filesystem::path& path, bool hold);
OpenedFile ListOpenFile(const FileRef& file, bool hold);

// Built by one thread, then read by many.
struct DumpIndex {
  std::filesystem::path path;
  std::vector<TensorInfo> infos;
  std::vector<TensorSource> sources;    // of the same tensors
  std::vector<std::uint32_t> file_ids;  // of the same tensors
  std::vector<IndexedFile> files;
  mutable std::array<std::mutex, 64> file_locks;  // file i has the lock i % 64

  std::uint32_t AddFile(IndexedFile file);
  void AddTensor(std::string name, TensorEntry entry, std::uint32_t file_id);
  void AddDamaged(std::string name, Error damage, std::uint32_t file_id);
  // `stem` names a bare tensor, and the file when it is damaged as a whole; `prefix` comes before names
  // inside.
  void AddTensors(OpenedFile opened, const std::string& stem, const std::string& prefix);

  // The file as it was listed, or kFileChanged.
  Result<FileRef> OpenAgain(std::uint32_t file_id) const;
};

// Fills `index` from what is at index.path.
Result<Done> BuildIndex(int num_threads, DumpIndex& index);

}  // namespace vernier

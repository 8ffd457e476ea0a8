// A path -> its tensors: listing them, and loading one.
#include <utility>

#include "read/index_internal.h"
#include "vernier/read.h"

namespace vernier {

struct Dump::Index : DumpIndex {};

Result<Dump> Dump::Open(const std::filesystem::path& path, const ReadOptions& options) {
  auto index = std::make_shared<Index>();
  index->path = path;
  VN_RETURN_IF_ERROR(BuildIndex(options.num_threads, *index));
  return Dump(std::move(index));
}

const std::filesystem::path& Dump::path() const { return index_->path; }

std::span<const TensorInfo> Dump::tensors() const { return index_->infos; }

const std::filesystem::path& Dump::FileOf(std::size_t index) const {
  return index_->files[index_->file_ids[index]].path;
}

Result<TensorView> Dump::Load(std::size_t index) const {
  const TensorInfo& info = index_->infos[index];
  if (info.damage) return *info.damage;
  VN_ASSIGN_OR_RETURN(const FileRef file, index_->OpenAgain(index_->file_ids[index]));
  return LoadEntry(info, index_->sources[index], file);
}

Result<TensorView> LoadTensorFile(std::string path) {
  VN_ASSIGN_OR_RETURN(const FileRef file, MappedFile::Open(std::move(path)));
  VN_ASSIGN_OR_RETURN(const TensorFile tensors, ListTensorFile(file));
  if (tensors.entries.size() != 1) {
    return Error{ErrorCode::kUnsupported, file->path(),
                 std::to_string(tensors.entries.size()) + " tensors, expected one"};
  }
  if (!tensors.entries.front().info.name.empty()) {
    return Error{ErrorCode::kUnsupported, file->path(), "a tensor inside another object, not a tensor alone"};
  }
  return LoadEntry(tensors.entries.front(), file);
}

}  // namespace vernier

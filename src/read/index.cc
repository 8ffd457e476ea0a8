#include <utility>

#include "read/index_internal.h"

namespace vernier {

OpenedFile OpenTensorFile(const std::filesystem::path& path, bool hold) {
  Result<FileRef> file = MappedFile::Open(path);
  if (file) return ListOpenFile(*file, hold);
  OpenedFile opened;
  opened.file.path = path;
  opened.failure = std::move(file).error();
  return opened;
}

OpenedFile ListOpenFile(const FileRef& file, bool hold) {
  OpenedFile opened;
  opened.file.path = file->path();
  opened.file.size_bytes = file->bytes().size();
  opened.file.modified_ns = file->modified_ns();
  if (hold) opened.file.held = file;
  Result<TensorFile> tensors = ListTensorFile(file);
  if (tensors) {
    opened.is_ours = true;
    opened.tensors = *std::move(tensors);
    return opened;
  }
  const ErrorCode code = tensors.error().code;
  opened.is_ours = code != ErrorCode::kNotADump && code != ErrorCode::kBadMagic;
  opened.failure = std::move(tensors).error();
  return opened;
}

std::uint32_t DumpIndex::AddFile(IndexedFile file) {
  files.push_back(std::move(file));
  return static_cast<std::uint32_t>(files.size() - 1);
}

void DumpIndex::AddTensor(std::string name, TensorEntry entry, std::uint32_t file_id) {
  entry.info.name = std::move(name);
  infos.push_back(std::move(entry.info));
  sources.push_back(std::move(entry.source));
  file_ids.push_back(file_id);
}

void DumpIndex::AddDamaged(std::string name, Error damage, std::uint32_t file_id) {
  TensorEntry entry;
  entry.info.damage = std::move(damage);
  AddTensor(std::move(name), std::move(entry), file_id);
}

void DumpIndex::AddTensors(OpenedFile opened, const std::string& stem, const std::string& prefix) {
  const std::uint32_t file_id = AddFile(std::move(opened.file));
  if (opened.failure) return AddDamaged(stem, *std::move(opened.failure), file_id);
  for (TensorEntry& entry : opened.tensors.entries) {
    std::string name = entry.info.name.empty() ? stem : prefix + entry.info.name;
    AddTensor(std::move(name), std::move(entry), file_id);
  }
}

Result<FileRef> DumpIndex::OpenAgain(std::uint32_t file_id) const {
  const IndexedFile& file = files[file_id];
  if (file.held) return file.held;
  const std::lock_guard lock(file_locks[file_id % file_locks.size()]);
  if (FileRef open = file.open.lock()) return open;
  VN_ASSIGN_OR_RETURN(FileRef open, MappedFile::Open(file.path));
  if (open->bytes().size() != file.size_bytes || open->modified_ns() != file.modified_ns) {
    return Error{ErrorCode::kFileChanged, file.path.string(), "it was written to after it was listed"};
  }
  file.open = open;
  return open;
}

}  // namespace vernier

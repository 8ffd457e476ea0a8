// read: a path -> a Dump, the index of the tensors under it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

struct ReadOptions {
  int num_threads = 0;  // for opening the files of a folder; 0: one per core
};

// A read-only index of the named tensors under one path: a tensor file (.npy, .npz, .pt, .pth, .safetensors,
// .h5, …), a sharded checkpoint (model.safetensors.index.json or a folder of them), or a folder of any of
// these, searched recursively in sorted order. Formats are told by content, not by name. Opening reads
// headers only. Cheap to copy. Thread-compatible: const methods may run concurrently.
//
// Names: in a single file the name inside the file (a bare tensor has the file's stem); in a folder the
// relative path without its extension (kept where two files differ only in it), then, for files whose tensors
// have names, ':' and the name inside. A folder whose only tensor file is a safetensors checkpoint, sharded
// or not, is that checkpoint and has its names.
class Dump {
 public:
  // Fails only when nothing at `path` is a dump. A damaged file or tensor stays in the index and gives its
  // error from Load(), so one bad file costs one row.
  static Result<Dump> Open(const std::filesystem::path& path, const ReadOptions& options = {});

  const std::filesystem::path& path() const;
  std::span<const TensorInfo> tensors() const;  // in file order
  // The file a tensor lies in. REQUIRES: index < tensors().size()
  const std::filesystem::path& FileOf(std::size_t index) const;
  // REQUIRES: index < tensors().size()
  Result<TensorView> Load(std::size_t index) const;

 private:
  struct Index;
  explicit Dump(std::shared_ptr<const Index> index) : index_(std::move(index)) {}
  std::shared_ptr<const Index> index_;
};

// The single tensor that a file holds, without an index: what a data_name of a recorded dump refers to.
// Fails when the file holds none or several, or one with a name.
Result<TensorView> LoadTensorFile(std::string path);

}  // namespace vernier

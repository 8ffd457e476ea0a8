// A read-only file whose bytes can be looked at in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

// Small files are read into memory, larger ones are mapped. Thread-safe after opening.
//
// A mapped file may shrink under us. Touching the lost pages would kill the process with SIGBUS; a handler
// installed with the first mapping puts zero pages there instead and marks the file, so whoever read it must
// ask changed() before trusting what was read. Faults outside our mappings go to the handler that was there
// before.
class MappedFile {
 public:
  static Result<FileRef> Open(std::string path);
  // A file that exists only in memory: tests, fuzzers, entries unpacked from an archive.
  static FileRef FromBytes(std::vector<std::byte> bytes, std::string name, std::int64_t modified_ns = 0);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // When the file was last written, as seen at opening; 0 for one that exists only in memory.
  std::int64_t modified_ns() const { return modified_ns_; }
  // True once bytes that were there at opening could not be read any more.
  bool changed() const;

  // Hints, never needed for correctness. `data` lies in bytes(); both ignore memory-resident files. Fetch
  // maps the pages of a window in one go instead of one fault each; Release lets go of them so that resident
  // memory stays bounded by the windows in flight.
  void Fetch(std::span<const std::byte> window) const;
  void Release(std::span<const std::byte> window) const;

 private:
  MappedFile() = default;

  std::string path_;  // text: taking a path apart costs more than opening a small file
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::vector<std::byte> owned_;
  int fault_slot_ = -1;  // our row in the handler's table; -1 when not mapped
  std::uint64_t inode_ = 0;
  std::int64_t modified_ns_ = 0;
};

}  // namespace vernier

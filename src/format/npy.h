// NumPy's .npy files: one array with a header that is a Python dict literal. See docs/formats/npy.md for the
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "format/entry.h"
#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

struct NpyHeader {
  Dtype dtype = Dtype::kF32;
  Shape shape;
  std::uint64_t num_elements = 0;
  bool fortran_order = false;
  bool big_endian = false;
  std::uint64_t data_offset_bytes = 0;  // from the magic
};

bool LooksLikeNpy(std::span<const std::byte> bytes);

// `bytes` begin with the magic; they may end anywhere after the header. kTruncated: they end inside it.
Result<NpyHeader> ParseNpyHeader(std::span<const std::byte> bytes);

// The array that `header` describes when its magic lies at `offset_bytes` of something `end_bytes` long.
Result<TensorEntry> NpyEntry(const NpyHeader& header, std::uint64_t offset_bytes, std::uint64_t end_bytes);

// One entry without a name. What follows the array in the file is not looked at.
Result<Entries> ListNpy(const FileRef& file);

// Version 1, C order, little endian. Fails with kUnsupported for dtypes that NumPy has no name for.
Result<Done> WriteNpy(const std::filesystem::path& path, const TensorView& tensor);
// The same without waiting for the disk, for files by the thousand.
Result<Done> WriteNpyUnsynced(const std::filesystem::path& path, const TensorView& tensor);
// What stands in front of the elements in such a file; `where` is for messages.
Result<std::string> NpyStart(const TensorView& tensor, const std::string& where);

}  // namespace vernier

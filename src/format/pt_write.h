// One tensor as a file that torch.load(path, weights_only=True) reads. See docs/formats/pt.md for the bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/zip.h"
#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

struct PtWriteOptions {
  bool wait_for_disk = true;  // false: whole or not at all, but a power failure may take it back
  std::optional<std::uint32_t> crc32 = std::nullopt;  // of the elements, when the caller has it already
};

// The file in pieces, without a copy of the elements: the tensor must outlive it. dtypes as old as torch 1.13
// are written so that it can read them, newer ones as torch 2 does. The same tensor always gives the same
// bytes.
class PtFile {
 public:
  explicit PtFile(const TensorView& tensor, const PtWriteOptions& options = {});
  PtFile(const PtFile&) = delete;
  PtFile& operator=(const PtFile&) = delete;

  std::span<const std::span<const std::byte>> pieces() const { return pieces_; }
  std::uint64_t size_bytes() const { return zip_.size_bytes(); }

 private:
  std::string pickle_;
  ZipLayout zip_;
  std::vector<std::span<const std::byte>> pieces_;
};

// Creates missing folders. The file is there whole or not at all.
Result<Done> WritePt(const std::filesystem::path& path, const TensorView& tensor,
                     const PtWriteOptions& options = {});
// At the descriptor's position, with one system call where the kernel allows it. `name` is for messages.
Result<Done> WritePt(int descriptor, const std::filesystem::path& name, const TensorView& tensor,
                     const PtWriteOptions& options = {});

}  // namespace vernier

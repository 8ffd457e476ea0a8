// Hugging Face's .safetensors files: a JSON header, then the bytes. See docs/formats/safetensors.md.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "format/entry.h"
#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

bool LooksLikeSafetensors(std::span<const std::byte> bytes);

// In the order of the header. A header that cannot be read fails as a whole; a tensor whose dtype, shape or
// offsets are wrong, or that lies past the end, is damaged alone.
Result<Entries> ListSafetensors(const FileRef& file);

// The header has the tensors in the order given; the data has those with the largest items first, so that
// every element lies at a multiple of its size. Names must be UTF-8 and differ. Fails with kUnsupported for
// dtypes that the format has no name for.
Result<Done> WriteSafetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors);

}  // namespace vernier

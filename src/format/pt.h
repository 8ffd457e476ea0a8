// Files of torch.save: zip archives, and the format from before torch 1.6. See docs/formats/pt.md for the
// bytes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "format/entry.h"
#include "format/zip.h"
#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

bool LooksLikePtZip(const std::vector<ZipMember>& members);
bool LooksLikePtLegacy(std::span<const std::byte> bytes);

// The tensors of a file of either kind, in the order of its pickle. Names are the paths through dicts, lists
// and tuples, joined with '.'; a bare tensor has an empty one. Numbers, texts and NumPy arrays are no tensors
// and are left out. A tensor that cannot be read (sparse, quantized, beyond its storage, …) is a damaged
// entry. The pickle is read as data: what it asks to be executed makes the whole file an error that names it.
Result<Entries> ListPt(const FileRef& file);
// For a caller who has listed the archive already.
Result<Entries> ListPtZip(const FileRef& file, const std::vector<ZipMember>& members);

}  // namespace vernier

// NumPy's .npz files: zip archives of .npy members. See docs/formats/npz.md.
#pragma once

#include <filesystem>
#include <span>

#include "format/entry.h"
#include "format/zip.h"
#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

// True when a member's name ends in .npy.
bool HoldsNpy(std::span<const ZipMember> members);

// The .npy members, named without that ending; other members are left out. A stored member is used in place
// and its checksum is not verified; a deflated one is unpacked and verified when it is loaded. A member that
// cannot be read is damaged alone. REQUIRES: `members` come from ListZip(file)
Entries ListNpz(const FileRef& file, std::span<const ZipMember> members);

// A file of stored members, as numpy.savez writes it.
Result<Done> WriteNpz(const std::filesystem::path& path, std::span<const NamedTensor> tensors);

}  // namespace vernier

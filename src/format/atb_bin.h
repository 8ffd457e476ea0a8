// Tensor files of the ATB inference stack: lines of key=value, then the bytes. See docs/formats/ge_dump.md.
#pragma once

#include <span>

#include "format/entry.h"
#include "vernier/result.h"

namespace vernier {

bool LooksLikeAtbBin(std::span<const std::byte> bytes);

// One entry without a name.
Result<Entries> ListAtbBin(const FileRef& file);

}  // namespace vernier

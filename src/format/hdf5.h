// HDF5 files, as h5py and the HDF5 library write them. See docs/formats/hdf5.md for what is read.
#pragma once

#include <cstddef>
#include <span>

#include "format/entry.h"
#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

bool LooksLikeHdf5(std::span<const std::byte> bytes);

// Every dataset under the root group, named "group/sub/name": within a group in creation order where the file
// tracks it, else in the order of the names. Only hard links are followed; a group that is linked twice is
// listed once. Contiguous datasets are used in place, chunked and compressed ones are unpacked when loaded.
// Datasets of text are no tensors and are left out; those of a type, layout or filter that we do not read are
// damaged entries that say which. A file whose structures are broken is an error when its root group is,
// otherwise damaged entries.
Result<Entries> ListHdf5(const FileRef& file);

}  // namespace vernier

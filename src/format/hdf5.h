// HDF5 files, as h5py and the HDF5 library write them. See docs/formats/hdf5.md for what is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

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
// An attribute `dtype` ("torch.bfloat16") decides what unsigned integers of that size are the bits of.
Result<Entries> ListHdf5(const FileRef& file);

// Attributes that are one text or one number; bool is a number.
using Hdf5Value = std::variant<std::int64_t, double, std::string>;
using Hdf5Attributes = std::vector<std::pair<std::string, Hdf5Value>>;
struct Hdf5Object {
  std::string name;  // "" for the root group
  Hdf5Attributes attributes;

  const Hdf5Value* Find(std::string_view attribute) const;
  std::optional<double> Number(std::string_view attribute) const;
};
// Of the root group, every group and every dataset, in the order of ListHdf5.
Result<std::vector<Hdf5Object>> ListHdf5Attributes(const FileRef& file);

}  // namespace vernier

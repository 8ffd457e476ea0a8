// The tensors that a pickle of torch.save describes: shared by the zip and the legacy container.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "format/entry.h"
#include "format/pickle.h"
#include "format/zip.h"

namespace vernier {

struct PtStorageView {
  std::uint64_t offset_elements = 0, num_elements = 0;
};

// What a persistent id says about a storage. All of it is claimed, none of it checked.
struct PtStorageId {
  const PickleGlobal* storage_class = nullptr;  // its role is kStorageClass
  std::string key;
  std::string_view location;  // "cpu", "cuda:0", "npu:3", "meta"
  std::uint64_t num_elements = 0;
  std::optional<PtStorageView> view;  // of the storage that `key` names; only in old legacy files
};

Result<PtStorageId> ParsePtStorageId(const PickleTree& tree, const PickleValue& value);

// Where a storage lies. Checked: all of it is in the file, or in the member once that is unpacked.
struct PtStorage {
  std::uint64_t offset_bytes = 0, num_bytes = 0;
  std::optional<ZipMember> packed;  // set: the offset is into the unpacked member
  bool big_endian = false;
};

using FindPtStorage = std::function<Result<PtStorage>(const PtStorageId& id)>;

// Every tensor in the tree in the order of the pickle; its name is the path to it, joined with '.'. One that
// cannot be read becomes a damaged entry. Fails only when the tree has more of them, or deeper ones, than any
// checkpoint has.
Result<Entries> ListPickledTensors(const PickleTree& tree, const FileRef& file,
                                   const FindPtStorage& find_storage);

}  // namespace vernier

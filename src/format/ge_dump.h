// Binary dump files of graph mode (GE): a protobuf header, then the bytes of one operator's inputs and
// outputs. See docs/formats/ge_dump.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/entry.h"
#include "format/ge_layout.h"
#include "format/ge_types.h"
#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

struct GeTensor {
  std::uint64_t type = 0;  // the number of the element type, see ge_types.h
  GeOrder order;
  std::uint64_t offset_bytes = 0, size_bytes = 0;  // in the file
  std::optional<Error> damage;                     // set: the rest may be unknown
};

// Raw bytes that belong to no tensor.
struct GeBlob {
  std::uint64_t offset_bytes = 0, size_bytes = 0;
};

struct GeDump {
  std::vector<GeTensor> inputs, outputs;
  std::vector<GeBlob> buffers, spaces;
};

bool LooksLikeGeDump(std::span<const std::byte> bytes);

// Fails when the header cannot be read; what is wrong with one tensor stays with it. `bytes` is the whole
// file.
Result<GeDump> ParseGeDump(std::span<const std::byte> bytes);

// What a tensor is after loading. kPlainOrder: the storage layout is undone, see PlainOrder. kStored: as it
// lies in the file.
enum class GeForm { kPlainOrder, kStored };
struct GeTensorView {
  TensorView view;
  const GeType* type = nullptr;
  std::string note;  // why the layout was left as it is; mostly empty
};
// Nothing is copied: a layout that has to be undone, and a packed type, are read through view.source.
Result<GeTensorView> LoadGeTensor(const FileRef& file, const GeTensor& tensor, GeForm form);

// input.0, input.1, … output.0, …, in plain order.
Result<Entries> ListGeDump(const FileRef& file);

}  // namespace vernier

#include "format/entry.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/mapped_file.h"

namespace vernier {
namespace {

bool IsContiguous(const Shape& shape, const std::vector<std::int64_t>& strides) {
  std::int64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

// Copies runs of the innermost dimension; `item_bytes` is one of 1, 2, 4, 8, 16.
void GatherStrided(const std::byte* origin, const Shape& shape, const std::vector<std::int64_t>& strides,
                   std::size_t item_bytes, std::byte* out) {
  const std::size_t rank = shape.size();
  const std::int64_t inner = shape[rank - 1];
  const std::int64_t inner_step_bytes = strides[rank - 1] * static_cast<std::int64_t>(item_bytes);
  std::vector<std::int64_t> index(rank, 0);
  for (;;) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i + 1 < rank; ++i) offset += index[i] * strides[i];
    const std::byte* from = origin + offset * static_cast<std::int64_t>(item_bytes);
    for (std::int64_t i = 0; i < inner; ++i, from += inner_step_bytes, out += item_bytes) {
      std::memcpy(out, from, item_bytes);
    }
    std::size_t i = rank - 1;
    while (i-- > 0 && ++index[i] == shape[i]) index[i] = 0;
    if (i == static_cast<std::size_t>(-1)) return;
  }
}

void SwapEachItem(Bytes& bytes, std::size_t item_bytes) {
  for (std::size_t i = 0; i + item_bytes <= bytes.size(); i += item_bytes) {
    std::reverse(bytes.data() + i, bytes.data() + i + item_bytes);
  }
}

TensorView OwnedView(const TensorInfo& info, Bytes bytes) {
  auto owner = std::make_shared<const Bytes>(std::move(bytes));
  TensorView view{info.dtype, info.shape, info.num_elements, owner->data(), owner, nullptr};
  return view;
}

}  // namespace

Result<TensorView> LoadEntry(const TensorEntry& entry, const FileRef& file) {
  const TensorInfo& info = entry.info;
  const TensorSource& source = entry.source;
  if (info.damage) return *info.damage;
  if (source.unpack) {
    VN_ASSIGN_OR_RETURN(Bytes bytes, source.unpack(file));
    if (bytes.size() != info.num_bytes()) {
      return Error{ErrorCode::kBadShape, file->path().string() + ": " + info.name,
                   std::to_string(bytes.size()) + " bytes unpacked, " + std::to_string(info.num_bytes()) + " expected"};
    }
    return OwnedView(info, std::move(bytes));
  }
  const std::size_t item_bytes = ItemBytes(info.dtype);
  const std::byte* origin = file->bytes().data() + source.offset_bytes;
  const bool contiguous = source.strides.empty() || info.num_elements <= 1 || IsContiguous(info.shape, source.strides);
  // A complex number is two numbers to swap.
  const std::size_t swap_bytes = Class(info.dtype) == DtypeClass::kComplex ? item_bytes / 2 : item_bytes;
  const bool swap = source.big_endian && swap_bytes > 1;
  // A file that changed since its header was read may have become too short for what the header promised.
  if (contiguous && (source.offset_bytes > file->bytes().size() ||
                     info.num_bytes() > file->bytes().size() - source.offset_bytes)) {
    return Error{ErrorCode::kTruncated, file->path().string() + ": " + info.name, "its data lies past the end"};
  }
  if (contiguous && !swap) {
    TensorView view{info.dtype, info.shape, info.num_elements, origin, file, file};
    return view;
  }
  if (!contiguous) {
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < info.shape.size(); ++i) {
      last += static_cast<std::uint64_t>(info.shape[i] - 1) * static_cast<std::uint64_t>(source.strides[i]);
    }
    if (source.offset_bytes + (last + 1) * item_bytes > file->bytes().size()) {
      return Error{ErrorCode::kTruncated, file->path().string() + ": " + info.name, "its data lies past the end"};
    }
  }
  Bytes bytes(info.num_bytes());
  if (contiguous) {
    std::memcpy(bytes.data(), origin, bytes.size());
  } else {
    GatherStrided(origin, info.shape, source.strides, item_bytes, bytes.data());
  }
  if (swap) SwapEachItem(bytes, swap_bytes);
  if (file->changed()) return Error{ErrorCode::kFileChanged, file->path().string(), ""};
  return OwnedView(info, std::move(bytes));
}

}  // namespace vernier

// Data layouts, fill values.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "core/mapped_file.h"
#include "format/hdf5_chunks_internal.h"
#include "format/hdf5_internal.h"
#include "format/little_endian.h"

namespace vernier {
namespace {

using Unpack = std::function<Result<Bytes>(const FileRef&)>;

enum LayoutClass : unsigned { kCompact = 0, kContiguous = 1, kChunked = 2, kVirtual = 3 };

// Bytes of one element that was never written; empty: zeros.
Result<Bytes> FillValue(const Hdf5File& file, const Hdf5Messages& messages, std::uint32_t item_bytes) {
  const Hdf5Message* message = Find(messages, hdf5_message::kFillValue);
  const Hdf5Message* old = Find(messages, hdf5_message::kOldFillValue);
  if (!message && !old) return Bytes();
  Hdf5Cursor cursor = file.In(message ? message->data : old->data);
  bool defined = true;
  if (message) {
    const std::uint64_t version = cursor.Number(1);
    const std::uint64_t flags = cursor.Number(1);
    if (version < 3) cursor.Skip(1);
    defined = version >= 3 ? (flags & 0x20) != 0 : cursor.Number(1) != 0 || version == 1;
  }
  if (!defined) return Bytes();
  const std::uint64_t num_bytes = cursor.Number(4);
  const ByteSpan value = cursor.Take(num_bytes);
  if (!cursor.ok() || (num_bytes != 0 && num_bytes != item_bytes)) {
    return Error{ErrorCode::kBadHeader, "hdf5 fill value", "damaged"};
  }
  return Bytes(value.begin(), value.end());
}

Result<Bytes> InLittleEndian(const TensorInfo& info, bool big_endian, Bytes bytes) {
  if (!big_endian) return bytes;
  TensorSource source;
  source.big_endian = true;
  return CopyElements(info, source, bytes);
}

Result<Hdf5Chunks> ParseChunks(Hdf5Cursor& cursor, std::uint64_t version, const Shape& shape,
                               std::uint32_t item_bytes) {
  Hdf5Chunks chunks;
  std::uint64_t flags = 0;
  if (version >= 4) flags = cursor.Number(1);
  const std::uint64_t num_dims = cursor.Number(1);  // one more than the dataset has: the bytes of an element
  unsigned dim_bytes = 4;
  if (version == 3) chunks.index_address = cursor.Address();
  if (version >= 4) dim_bytes = static_cast<unsigned>(cursor.Number(1));
  if (!cursor.ok() || num_dims != shape.size() + 1 || dim_bytes == 0 || dim_bytes > 8) {
    return Error{ErrorCode::kBadHeader, "hdf5 chunk layout", "its dimensions are not those of the dataset"};
  }
  std::uint64_t num_bytes = item_bytes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    chunks.chunk_shape.push_back(cursor.Number(dim_bytes));
    if (chunks.chunk_shape.back() == 0 ||
        __builtin_mul_overflow(num_bytes, chunks.chunk_shape.back(), &num_bytes)) {
      return Error{ErrorCode::kBadHeader, "hdf5 chunk layout", "impossible chunk size"};
    }
  }
  constexpr std::uint64_t kMaxChunkBytes = std::uint64_t{1} << 40;
  if (cursor.Number(dim_bytes) != item_bytes || num_bytes > kMaxChunkBytes) {
    return Error{ErrorCode::kBadHeader, "hdf5 chunk layout", "impossible chunk size"};
  }
  chunks.chunk_bytes = num_bytes;
  chunks.edges_unfiltered = (flags & 1) != 0;
  if (version >= 4) VN_RETURN_IF_ERROR(ParseChunkIndex(cursor, flags, chunks));
  if (!cursor.ok()) return Error{ErrorCode::kBadHeader, "hdf5 chunk layout", "damaged"};
  return chunks;
}

struct Layout {
  unsigned layout_class = 0;
  std::uint64_t address = kHdf5Undefined, num_bytes = 0;
  ByteSpan compact;
  Hdf5Chunks chunks;
};

// Versions 1 and 2, from before HDF5 1.6.3, know everything by its dimensions.
Result<Layout> ParseOldLayout(const Hdf5File& file, Hdf5Cursor& cursor, const Shape& shape,
                              std::uint32_t item_bytes) {
  Layout layout;
  const std::uint64_t num_dims = cursor.Number(1);
  layout.layout_class = static_cast<unsigned>(cursor.Number(1));
  cursor.Skip(5);
  if (layout.layout_class != kCompact) layout.address = cursor.Address();
  std::vector<std::uint64_t> dims;
  for (std::uint64_t i = 0; i < num_dims; ++i) dims.push_back(cursor.Number(4));
  if (layout.layout_class == kCompact) layout.compact = cursor.Take(cursor.Number(4));
  layout.num_bytes = kHdf5Undefined;  // whatever the shape says
  if (layout.layout_class == kChunked) {
    // The same numbers in the order of version 3.
    std::string text(1, static_cast<char>(num_dims));
    text.append(file.offset_bytes(), '\0');
    for (const std::uint64_t dim : dims) AppendLittle(text, static_cast<std::uint32_t>(dim));
    Hdf5Cursor again = file.In(AsBytes(text));
    VN_ASSIGN_OR_RETURN(layout.chunks, ParseChunks(again, 3, shape, item_bytes));
    layout.chunks.index_address = layout.address;
  }
  return layout;
}

Result<Layout> ParseLayout(const Hdf5File& file, ByteSpan message, const Shape& shape,
                           std::uint32_t item_bytes) {
  Hdf5Cursor cursor = file.In(message);
  const std::uint64_t version = cursor.Number(1);
  Layout layout;
  if (version == 1 || version == 2) {
    VN_ASSIGN_OR_RETURN(layout, ParseOldLayout(file, cursor, shape, item_bytes));
  } else if (version >= 3 && version <= 5) {  // 5 only allows larger chunks than 4
    layout.layout_class = static_cast<unsigned>(cursor.Number(1));
    if (layout.layout_class == kCompact) {
      layout.compact = cursor.Take(cursor.Number(2));
    } else if (layout.layout_class == kContiguous) {
      layout.address = cursor.Address();
      layout.num_bytes = cursor.Length();
    } else if (layout.layout_class == kChunked) {
      VN_ASSIGN_OR_RETURN(layout.chunks, ParseChunks(cursor, version, shape, item_bytes));
    }
  } else {
    return Error{ErrorCode::kUnsupported, "hdf5 data layout", "version " + std::to_string(version)};
  }
  if (!cursor.ok()) return Error{ErrorCode::kBadHeader, "hdf5 data layout", "damaged"};
  return layout;
}

// What a file of this size can hold, compressed as well as deflate can, or a gigabyte that was never written.
Result<Done> CheckClaim(const Hdf5File& file, const TensorInfo& info) {
  constexpr std::uint64_t kMaxDeflateRatio = 1032, kAlwaysAllowedBytes = std::uint64_t{1} << 30;
  if (info.num_bytes() <= kAlwaysAllowedBytes || info.num_bytes() / kMaxDeflateRatio <= file.num_bytes())
    return Done{};
  return Error{ErrorCode::kTooLarge, "",
               "shape " + ShapeText(info.shape) + " is far more than the file can hold"};
}

Result<Done> PlaceContiguous(const Hdf5File& file, const Layout& layout, const Bytes& fill,
                             TensorEntry& entry) {
  const TensorInfo& info = entry.info;
  if (layout.address == kHdf5Undefined) {
    entry.source.unpack = [info, fill,
                           big_endian = entry.source.big_endian](const FileRef&) -> Result<Bytes> {
      VN_ASSIGN_OR_RETURN(Bytes bytes, FilledBytes(info.num_bytes(), fill));
      return InLittleEndian(info, big_endian, std::move(bytes));
    };
    return CheckClaim(file, info);
  }
  if (info.num_bytes() > layout.num_bytes || !file.Bytes(layout.address, info.num_bytes())) {
    return Error{ErrorCode::kTruncated, "",
                 "its data reaches past the end of the file or of what was allocated"};
  }
  entry.source.offset_bytes = file.base_bytes() + layout.address;
  return Done{};
}

// Everything that the message points to is looked up again when the dataset is loaded: a file has thousands
// of them.
Unpack ChunkUnpacker(const TensorInfo& info, Hdf5Chunks chunks, bool big_endian) {
  return [info, chunks = std::move(chunks), big_endian](const FileRef& file) -> Result<Bytes> {
    auto bytes = [&]() -> Result<Bytes> {
      VN_ASSIGN_OR_RETURN(const Hdf5File opened, Hdf5File::Open(file->bytes()));
      VN_ASSIGN_OR_RETURN(Bytes raw, ReadHdf5Chunks(opened, chunks, info));
      if (file->changed()) return Error{ErrorCode::kFileChanged, "", ""};
      return InLittleEndian(info, big_endian, std::move(raw));
    }();
    if (!bytes) return In(file->path() + ": " + info.name, std::move(bytes).error());
    return bytes;
  };
}

}  // namespace

Result<Bytes> FilledBytes(std::uint64_t num_bytes, const Bytes& fill) {
  VN_ASSIGN_OR_RETURN(Bytes bytes, Allocate(num_bytes));
  const bool zeros = std::all_of(fill.begin(), fill.end(), [](std::byte b) { return b == std::byte{0}; });
  for (std::size_t i = 0; !zeros && i + fill.size() <= bytes.size(); i += fill.size()) {
    std::memcpy(bytes.data() + i, fill.data(), fill.size());
  }
  return bytes;
}

Result<Done> PlaceHdf5Data(const Hdf5File& file, const Hdf5Messages& messages, const Hdf5Type& type,
                           const Hdf5Space& space, TensorEntry& entry) {
  entry.source.big_endian = type.big_endian;
  if (entry.info.num_elements == 0) return Done{};
  if (Find(messages, hdf5_message::kExternalFiles)) {
    return Error{ErrorCode::kUnsupported, "", "its data lies in another file"};
  }
  const Hdf5Message* message = Find(messages, hdf5_message::kLayout);
  if (!message) return Error{ErrorCode::kBadHeader, "", "a dataset without data layout"};
  VN_ASSIGN_OR_RETURN(Layout layout, ParseLayout(file, message->data, entry.info.shape, type.item_bytes));
  VN_ASSIGN_OR_RETURN(Bytes fill, FillValue(file, messages, type.item_bytes));
  switch (layout.layout_class) {
    case kCompact: {
      if (layout.compact.size() < entry.info.num_bytes()) {
        return Error{ErrorCode::kTruncated, "", "its header holds less than its shape says"};
      }
      const ByteSpan all = *file.Bytes(0, file.num_bytes());
      entry.source.offset_bytes =
          file.base_bytes() + static_cast<std::uint64_t>(layout.compact.data() - all.data());
      return Done{};
    }
    case kContiguous:
      return PlaceContiguous(file, layout, fill, entry);
    case kChunked: {
      VN_RETURN_IF_ERROR(CheckClaim(file, entry.info));
      if (const Hdf5Message* filters = Find(messages, hdf5_message::kFilters)) {
        VN_ASSIGN_OR_RETURN(layout.chunks.filters, ParseHdf5Filters(file, filters->data));
      }
      layout.chunks.fill = std::move(fill);
      layout.chunks.max_shape = space.max_shape;
      entry.source.unpack = ChunkUnpacker(entry.info, std::move(layout.chunks), type.big_endian);
      return Done{};
    }
    default:
      return Error{ErrorCode::kUnsupported, "",
                   layout.layout_class == kVirtual ? "a virtual dataset" : "its data layout"};
  }
}

}  // namespace vernier

#include "format/entry.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "core/mapped_file.h"

namespace vernier {
namespace {

// Strides of 0 let a file of a few bytes stand for a tensor of any size. Beyond this, and beyond the size of
// its file, a tensor is refused rather than written out.
constexpr std::uint64_t kMaxExpandedBytes = std::uint64_t{4} << 30;

// Two cache lines: what a tile reads and writes in one piece.
constexpr std::int64_t kTileBytes = 128;

struct Dimension {
  std::int64_t size;
  std::int64_t from_step_bytes, out_step_bytes;
};

// The dimensions that matter, outermost first; the steps in `out` are those of C order.
std::vector<Dimension> Dimensions(const TensorInfo& info, const TensorSource& source) {
  const auto item_bytes = static_cast<std::int64_t>(ItemBytes(info.dtype));
  std::vector<Dimension> dimensions;
  std::int64_t c_order_step = item_bytes;
  for (std::size_t i = info.shape.size(); i-- > 0;) {
    // The stride of a dimension of one is never taken and may be anything.
    if (info.shape[i] == 1) continue;
    const std::int64_t from_step = source.strides.empty() ? c_order_step : source.strides[i] * item_bytes;
    dimensions.push_back({info.shape[i], from_step, c_order_step});
    c_order_step *= info.shape[i];
  }
  std::reverse(dimensions.begin(), dimensions.end());
  return dimensions;
}

bool IsContiguous(const std::vector<Dimension>& dimensions) {
  return std::all_of(dimensions.begin(), dimensions.end(),
                     [](const Dimension& d) { return d.from_step_bytes == d.out_step_bytes; });
}

// Through a small buffer: it is filled in the order of the source and emptied in the order of `out`, so
// neither side meets the same cache line twice, not even when rows lie a power of two apart.
template <class Item>
void CopyTile(const std::byte* from, std::byte* out, const Dimension& rows, const Dimension& columns) {
  constexpr std::int64_t kTile = kTileBytes / sizeof(Item);
  Item tile[kTile][kTile];
  for (std::int64_t column = 0; column < columns.size; ++column) {
    for (std::int64_t row = 0; row < rows.size; ++row) {
      std::memcpy(&tile[row][column], from + row * rows.from_step_bytes + column * columns.from_step_bytes,
                  sizeof(Item));
    }
  }
  for (std::int64_t row = 0; row < rows.size; ++row) {
    std::memcpy(out + row * rows.out_step_bytes, tile[row],
                static_cast<std::size_t>(columns.size) * sizeof(Item));
  }
}

// `columns` is the innermost dimension of `out`.
template <class Item>
void CopyTiles(const std::byte* from, std::byte* out, Dimension rows, Dimension columns) {
  if (columns.from_step_bytes == sizeof(Item)) {
    for (std::int64_t row = 0; row < rows.size; ++row) {
      std::memcpy(out + row * rows.out_step_bytes, from + row * rows.from_step_bytes,
                  static_cast<std::size_t>(columns.size) * sizeof(Item));
    }
    return;
  }
  constexpr std::int64_t kTile = kTileBytes / sizeof(Item);
  const std::int64_t num_rows = rows.size, num_columns = columns.size;
  for (std::int64_t row = 0; row < num_rows; row += kTile) {
    rows.size = std::min(kTile, num_rows - row);
    for (std::int64_t column = 0; column < num_columns; column += kTile) {
      columns.size = std::min(kTile, num_columns - column);
      CopyTile<Item>(from + row * rows.from_step_bytes + column * columns.from_step_bytes,
                     out + row * rows.out_step_bytes + column * columns.out_step_bytes, rows, columns);
    }
  }
}

// Two dimensions are copied in tiles: the innermost one, and of the others the one whose elements lie closest
// together. `outer` walks the rest.
template <class Item>
void Gather(const std::byte* from, std::byte* out, std::vector<Dimension> outer) {
  const Dimension single{1, 0, 0};
  const Dimension columns = outer.empty() ? single : outer.back();
  if (!outer.empty()) outer.pop_back();
  Dimension rows = single;
  const auto closest = std::min_element(outer.begin(), outer.end(), [](const auto& a, const auto& b) {
    return a.from_step_bytes < b.from_step_bytes;
  });
  if (closest != outer.end()) {
    rows = *closest;
    outer.erase(closest);
  }
  std::vector<std::int64_t> index(outer.size(), 0);
  for (;;) {
    CopyTiles<Item>(from, out, rows, columns);
    std::size_t i = outer.size();
    for (; i > 0; --i) {
      const Dimension& dimension = outer[i - 1];
      from += dimension.from_step_bytes;
      out += dimension.out_step_bytes;
      if (++index[i - 1] < dimension.size) break;
      from -= dimension.size * dimension.from_step_bytes;
      out -= dimension.size * dimension.out_step_bytes;
      index[i - 1] = 0;
    }
    if (i == 0) return;
  }
}

std::uint16_t Swapped(std::uint16_t item) { return __builtin_bswap16(item); }
std::uint32_t Swapped(std::uint32_t item) { return __builtin_bswap32(item); }
std::uint64_t Swapped(std::uint64_t item) { return __builtin_bswap64(item); }

template <class Item>
void SwapEach(Bytes& bytes) {
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(Item)) {
    Item item;
    std::memcpy(&item, bytes.data() + i, sizeof(Item));
    item = Swapped(item);
    std::memcpy(bytes.data() + i, &item, sizeof(Item));
  }
}

// Calls fn with an item of `item_bytes` bytes, so that copying one is a single instruction.
template <class Fn>
void VisitItem(std::size_t item_bytes, Fn&& fn) {
  switch (item_bytes) {
    case 1:
      return fn(std::type_identity<std::uint8_t>{});
    case 2:
      return fn(std::type_identity<std::uint16_t>{});
    case 4:
      return fn(std::type_identity<std::uint32_t>{});
    case 8:
      return fn(std::type_identity<std::uint64_t>{});
    default:
      return fn(std::type_identity<std::array<std::uint64_t, 2>>{});
  }
}

// A complex number is two numbers to swap.
std::size_t SwapBytes(Dtype dtype) {
  return Class(dtype) == DtypeClass::kComplex ? ItemBytes(dtype) / 2 : ItemBytes(dtype);
}

bool NeedsSwap(const TensorInfo& info, const TensorSource& source) {
  return source.big_endian && SwapBytes(info.dtype) > 1;
}

TensorView OwnedView(const TensorInfo& info, Bytes bytes) {
  auto owner = std::make_shared<const Bytes>(std::move(bytes));
  return TensorView{info.dtype, info.shape, info.num_elements, owner->data(), owner, nullptr};
}

std::string Where(const FileRef& file, const TensorInfo& info) {
  return info.name.empty() ? file->path() : file->path() + ": " + info.name;
}

Result<TensorView> Unpack(const TensorInfo& info, const TensorSource& source, const FileRef& file) {
  VN_ASSIGN_OR_RETURN(Bytes bytes, source.unpack(file));
  if (bytes.size() == info.num_bytes()) return OwnedView(info, std::move(bytes));
  return Error{
      ErrorCode::kBadShape, Where(file, info),
      std::to_string(bytes.size()) + " bytes unpacked, " + std::to_string(info.num_bytes()) + " expected"};
}

}  // namespace

Result<Bytes> Allocate(std::uint64_t num_bytes, std::string_view before, std::string_view after) {
  try {
    return Bytes(num_bytes);
  } catch (const std::exception&) {  // bad_alloc, length_error
    return Error{ErrorCode::kTooLarge, "",
                 std::string(before) + std::to_string(num_bytes) + " bytes" + std::string(after)};
  }
}

Result<Done> CheckExtent(const TensorInfo& info, const TensorSource& source, std::uint64_t size_bytes) {
  if (info.num_elements == 0) return Done{};
  const std::size_t item_bytes = ItemBytes(info.dtype);
  std::uint64_t last = info.num_elements - 1;  // the element furthest from the first
  bool overflow = false;
  if (!source.strides.empty()) {
    if (source.strides.size() != info.shape.size()) {
      return Error{ErrorCode::kBadShape, "", "strides and shape differ in length"};
    }
    last = 0;
    for (std::size_t i = 0; i < info.shape.size(); ++i) {
      if (info.shape[i] == 1) continue;
      if (source.strides[i] < 0) return Error{ErrorCode::kBadShape, "", "negative stride"};
      std::uint64_t reach = 0;
      overflow |= __builtin_mul_overflow(static_cast<std::uint64_t>(info.shape[i] - 1),
                                         static_cast<std::uint64_t>(source.strides[i]), &reach);
      overflow |= __builtin_add_overflow(last, reach, &last);
    }
  }
  std::uint64_t end_bytes = 0;
  overflow |= __builtin_add_overflow(last, std::uint64_t{1}, &end_bytes);
  overflow |= __builtin_mul_overflow(end_bytes, item_bytes, &end_bytes);
  overflow |= __builtin_add_overflow(end_bytes, source.offset_bytes, &end_bytes);
  if (!overflow && end_bytes <= size_bytes) return Done{};
  return Error{ErrorCode::kTruncated, "",
               "its data ends at byte " + (overflow ? "2^64 or beyond" : std::to_string(end_bytes)) +
                   ", only " + std::to_string(size_bytes) + " are there"};
}

Result<Bytes> CopyElements(const TensorInfo& info, const TensorSource& source,
                           std::span<const std::byte> bytes) {
  VN_RETURN_IF_ERROR(CheckExtent(info, source, bytes.size()));
  if (info.num_elements == 0) return Bytes{};
  if (info.num_bytes() > std::max<std::uint64_t>(bytes.size(), kMaxExpandedBytes)) {
    return Error{ErrorCode::kTooLarge, "",
                 "shape " + ShapeText(info.shape) + " repeats its elements to " +
                     std::to_string(info.num_bytes()) + " bytes"};
  }
  VN_ASSIGN_OR_RETURN(Bytes out, Allocate(info.num_bytes(), "no memory for "));
  const std::byte* from = bytes.data() + source.offset_bytes;
  std::vector<Dimension> dimensions = Dimensions(info, source);
  if (IsContiguous(dimensions)) {
    std::memcpy(out.data(), from, out.size());
  } else {
    VisitItem(ItemBytes(info.dtype), [&](auto item) {
      Gather<typename decltype(item)::type>(from, out.data(), std::move(dimensions));
    });
  }
  if (NeedsSwap(info, source)) {
    VisitItem(SwapBytes(info.dtype), [&](auto item) {
      using Item = typename decltype(item)::type;
      if constexpr (requires { Swapped(Item{}); } && sizeof(Item) > 1) SwapEach<Item>(out);
    });
  }
  return out;
}

Result<TensorView> LoadEntry(const TensorInfo& info, const TensorSource& source, const FileRef& file) {
  if (info.damage) return *info.damage;
  if (source.unpack) return Unpack(info, source, file);
  // A file that changed since its header was read may have become too short for what the header promised.
  if (auto inside = CheckExtent(info, source, file->bytes().size()); !inside) {
    return In(Where(file, info), std::move(inside).error());
  }
  if (info.num_elements == 0) return TensorView{info.dtype, info.shape, 0, file->bytes().data(), file, file};
  const bool contiguous = source.strides.empty() || IsContiguous(Dimensions(info, source));
  if (contiguous && !NeedsSwap(info, source)) {
    return TensorView{info.dtype, info.shape, info.num_elements, file->bytes().data() + source.offset_bytes,
                      file,       file};
  }
  Result<Bytes> bytes = CopyElements(info, source, file->bytes());
  if (!bytes) return In(Where(file, info), std::move(bytes).error());
  if (file->changed()) return Error{ErrorCode::kFileChanged, file->path(), ""};
  return OwnedView(info, *std::move(bytes));
}

Result<TensorView> InMemory(TensorView view) {
  if (view.source == nullptr) return view;
  VN_ASSIGN_OR_RETURN(Bytes bytes, Allocate(view.num_bytes(), "no memory for "));
  const auto owner = std::make_shared<const Bytes>([&] {
    view.source->Read(0, static_cast<std::size_t>(view.num_elements), bytes.data());
    return std::move(bytes);
  }());
  view.data = owner->data();
  view.owner = owner;
  view.source = nullptr;
  return view;
}

}  // namespace vernier

// Filters, and putting chunks where they belong.
#include <algorithm>
#include <cstring>
#include <utility>

#include "format/hdf5_chunks_internal.h"
#include "format/zip.h"

namespace vernier {
namespace {

enum FilterId : std::uint16_t { kDeflate = 1, kShuffle = 2, kFletcher32 = 3, kLzf = 32000 };
constexpr std::uint64_t kChecksumBytes = 4;

struct FilterName {
  std::uint16_t id;
  std::string_view name;
};
constexpr FilterName kFilterNames[] = {{4, "szip"},      {5, "nbit"},     {6, "scaleoffset"},
                                       {32001, "blosc"}, {32004, "lz4"},  {32008, "bitshuffle"},
                                       {32013, "zfp"},   {32015, "zstd"}, {32026, "blosc2"}};

bool IsKnown(std::uint16_t id) { return id == kDeflate || id == kShuffle || id == kFletcher32 || id == kLzf; }
bool Compresses(std::uint16_t id) { return id == kDeflate || id == kLzf; }

Error Damaged(std::string detail) { return Error{ErrorCode::kBadHeader, "hdf5 chunk", std::move(detail)}; }

// Runs of plain bytes, and copies of what came up to 8 KiB before.
Result<Done> LzfInto(ByteSpan packed, Bytes& out) {
  std::size_t from = 0, to = 0;
  const auto next = [&] { return std::to_integer<std::size_t>(packed[from++]); };
  while (from < packed.size()) {
    const std::size_t control = next();
    if (control < 32) {
      const std::size_t count = control + 1;
      if (count > packed.size() - from || count > out.size() - to) return Damaged("its lzf data is damaged");
      std::memcpy(out.data() + to, packed.data() + from, count);
      from += count;
      to += count;
      continue;
    }
    std::size_t count = control >> 5;
    if (count == 7) {
      if (from == packed.size()) return Damaged("its lzf data is damaged");
      count += next();
    }
    count += 2;
    if (from == packed.size()) return Damaged("its lzf data is damaged");
    const std::size_t distance = ((control & 31) << 8 | next()) + 1;
    if (distance > to || count > out.size() - to) return Damaged("its lzf data is damaged");
    // Byte by byte: a copy may run into what it writes.
    for (std::size_t i = 0; i < count; ++i, ++to) out[to] = out[to - distance];
  }
  return to == out.size() ? Result<Done>(Done{}) : Damaged("its lzf data is too short");
}

Result<Done> Decompress(std::uint16_t id, Bytes& bytes, std::uint64_t unpacked_bytes) {
  constexpr std::uint64_t kMaxRatio = 1032;
  if (unpacked_bytes / kMaxRatio > bytes.size()) return Damaged("cannot unpack to as much as its shape says");
  VN_ASSIGN_OR_RETURN(Bytes out, Inside("hdf5 chunk", Allocate(unpacked_bytes)));
  VN_RETURN_IF_ERROR(id == kDeflate ? Inside("hdf5 chunk", InflateInto(bytes, /*has_zlib_header=*/true, out))
                                    : LzfInto(bytes, out));
  bytes = std::move(out);
  return Done{};
}

// All first bytes of the elements, then all second ones, …; what is left over stays at the end.
void Unshuffle(std::size_t item_bytes, Bytes& bytes) {
  if (item_bytes <= 1 || bytes.size() < item_bytes) return;
  const std::size_t num_items = bytes.size() / item_bytes;
  Bytes out(bytes);
  for (std::size_t byte = 0; byte < item_bytes; ++byte) {
    const std::byte* from = bytes.data() + byte * num_items;
    for (std::size_t i = 0; i < num_items; ++i) out[i * item_bytes + byte] = from[i];
  }
  bytes = std::move(out);
}

// Sums of 16-bit words, high byte first, and of these sums, both modulo 2^16 - 1.
std::uint32_t Fletcher32(ByteSpan bytes) {
  constexpr std::uint32_t kModulus = 0xffff;
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint32_t>(bytes[i]); };
  std::uint64_t sum = 0, sum_of_sums = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    sum += byte(i) << 8 | (i + 1 < bytes.size() ? byte(i + 1) : 0);
    sum_of_sums += sum;
    if (i % 4096 == 0) sum %= kModulus, sum_of_sums %= kModulus;
  }
  // The library folds the carry in, which gives 2^16 - 1 where the remainder is 0 and the sum is not.
  const auto folded = [](std::uint64_t value, bool is_zero) {
    const auto rest = static_cast<std::uint32_t>(value % kModulus);
    return rest == 0 && !is_zero ? kModulus : rest;
  };
  const bool all_zero = std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{}; });
  return folded(sum_of_sums, all_zero) << 16 | folded(sum, all_zero);
}

// Old versions of the library exchanged the two bytes of each half; both are in use.
bool IsFletcher32(std::uint32_t stored, ByteSpan bytes) {
  const std::uint32_t sum = Fletcher32(bytes);
  return stored == sum || stored == ((sum & 0x00ff00ff) << 8 | (sum >> 8 & 0x00ff00ff));
}

// The bytes of a chunk with its filters undone, last one first.
Result<Bytes> Decode(const Hdf5Chunks& chunks, const Hdf5Chunk& chunk, ByteSpan stored) {
  Bytes bytes(stored.begin(), stored.end());
  std::uint64_t checksum_bytes = 0;  // added before the filter that is undone next
  const auto applied = [&](std::size_t i) { return i >= 32 || (chunk.filter_mask >> i & 1) == 0; };
  for (std::size_t i = 0; i < chunks.filters.size(); ++i) {
    if (applied(i) && chunks.filters[i].id == kFletcher32) checksum_bytes += kChecksumBytes;
  }
  for (std::size_t i = chunks.filters.size(); i-- > 0;) {
    const Hdf5Filter& filter = chunks.filters[i];
    if (!applied(i)) continue;
    if (filter.id == kFletcher32) {
      if (bytes.size() < kChecksumBytes) return Damaged("its checksum is missing");
      std::uint32_t stored_sum = 0;
      std::memcpy(&stored_sum, bytes.data() + bytes.size() - kChecksumBytes, kChecksumBytes);
      bytes.resize(bytes.size() - kChecksumBytes);
      if (!kFuzzing && !IsFletcher32(stored_sum, bytes)) return Damaged(kHdf5WrongChecksum);
      checksum_bytes -= kChecksumBytes;
    } else if (filter.id == kShuffle) {
      Unshuffle(filter.parameters.empty() ? 1 : filter.parameters[0], bytes);
    } else {
      VN_RETURN_IF_ERROR(Decompress(filter.id, bytes, chunks.chunk_bytes + checksum_bytes));
    }
  }
  if (bytes.size() < chunks.chunk_bytes) return Damaged("shorter than its shape says");
  return bytes;
}

bool ReachesPast(const Hdf5Chunks& chunks, const Hdf5Chunk& chunk, const Shape& shape) {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (chunks.chunk_shape[i] > static_cast<std::uint64_t>(shape[i]) - chunk.origin[i]) return true;
  }
  return false;
}

// Copies the part of a chunk that lies inside of the dataset, row by row.
void CopyChunk(const Hdf5Chunks& chunks, const Hdf5Chunk& chunk, const std::byte* from,
               const TensorInfo& info, Bytes& out) {
  const std::size_t rank = info.shape.size(), item_bytes = ItemBytes(info.dtype);
  std::vector<std::uint64_t> count(rank), index(rank, 0);
  for (std::size_t i = 0; i < rank; ++i) {
    count[i] = std::min(chunks.chunk_shape[i], static_cast<std::uint64_t>(info.shape[i]) - chunk.origin[i]);
  }
  if (rank == 0) {
    std::memcpy(out.data(), from, item_bytes);
    return;
  }
  for (;;) {
    std::uint64_t from_item = 0, to_item = 0;
    for (std::size_t i = 0; i < rank; ++i) {
      from_item = from_item * chunks.chunk_shape[i] + index[i];
      to_item = to_item * static_cast<std::uint64_t>(info.shape[i]) + chunk.origin[i] + index[i];
    }
    std::memcpy(out.data() + to_item * item_bytes, from + from_item * item_bytes,
                count[rank - 1] * item_bytes);
    std::size_t i = rank - 1;
    while (i > 0 && ++index[i - 1] == count[i - 1]) index[--i] = 0;
    if (i == 0) return;
  }
}

}  // namespace

Result<std::vector<Hdf5Filter>> ParseHdf5Filters(const Hdf5File& file, ByteSpan message) {
  Hdf5Cursor cursor = file.In(message);
  const std::uint64_t version = cursor.Number(1), num_filters = cursor.Number(1);
  if (version == 1) cursor.Skip(6);
  std::vector<Hdf5Filter> filters;
  int num_compressors = 0;
  for (std::uint64_t i = 0; i < num_filters && cursor.ok(); ++i) {
    Hdf5Filter filter;
    filter.id = static_cast<std::uint16_t>(cursor.Number(2));
    const std::uint64_t name_bytes = version == 1 || filter.id >= 256 ? cursor.Number(2) : 0;
    cursor.Skip(2);
    const std::uint64_t num_parameters = cursor.Number(2);
    cursor.Skip(version == 1 ? (name_bytes + 7) / 8 * 8 : name_bytes);
    for (std::uint64_t j = 0; j < num_parameters && cursor.ok(); ++j) {
      filter.parameters.push_back(static_cast<std::uint32_t>(cursor.Number(4)));
    }
    if (version == 1 && num_parameters % 2 != 0) cursor.Skip(4);
    if (cursor.ok() && !IsKnown(filter.id)) {
      const auto name = std::find_if(std::begin(kFilterNames), std::end(kFilterNames),
                                     [&](const FilterName& row) { return row.id == filter.id; });
      return Error{ErrorCode::kUnsupported, "",
                   "HDF5 filter " + std::to_string(filter.id) +
                       (name == std::end(kFilterNames) ? "" : " (" + std::string(name->name) + ")")};
    }
    num_compressors += Compresses(filter.id);
    filters.push_back(std::move(filter));
  }
  if (!cursor.ok() || (version != 1 && version != 2))
    return Error{ErrorCode::kBadHeader, "hdf5 filters", "damaged"};
  if (num_compressors > 1) return Error{ErrorCode::kUnsupported, "", "data compressed twice"};
  return filters;
}

Result<Bytes> ReadHdf5Chunks(const Hdf5File& file, const Hdf5Chunks& chunks, const TensorInfo& info) {
  VN_ASSIGN_OR_RETURN(const std::vector<Hdf5Chunk> found, ListHdf5Chunks(file, chunks, info.shape));
  VN_ASSIGN_OR_RETURN(Bytes out, FilledBytes(info.num_bytes(), chunks.fill));
  std::uint64_t copied_bytes = 0;
  for (const Hdf5Chunk& chunk : found) {
    const ByteSpan stored = *file.Bytes(chunk.address, chunk.stored_bytes);
    // Chunks that share their bytes could make work without end out of a small file.
    copied_bytes += chunk.stored_bytes;
    if (copied_bytes > 2 * file.num_bytes()) return Damaged("more data in chunks than the file has");
    if (chunks.filters.empty() || (chunks.edges_unfiltered && ReachesPast(chunks, chunk, info.shape))) {
      if (stored.size() < chunks.chunk_bytes) return Damaged("shorter than its shape says");
      CopyChunk(chunks, chunk, stored.data(), info, out);
      continue;
    }
    VN_ASSIGN_OR_RETURN(const Bytes bytes, Decode(chunks, chunk, stored));
    CopyChunk(chunks, chunk, bytes.data(), info, out);
  }
  return out;
}

}  // namespace vernier

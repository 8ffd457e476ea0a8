// The six ways to find a chunk.
#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "format/hdf5_chunks_internal.h"

namespace vernier {
namespace {

class IndexReader {
 public:
  IndexReader(const Hdf5File& file, const Hdf5Chunks& chunks, const Shape& shape)
      : file_(file), chunks_(chunks), shape_(shape), filtered_(!chunks.filters.empty()) {}

  Result<std::vector<Hdf5Chunk>> Read() {
    if (chunks_.index_address == kHdf5Undefined) return std::move(found_);
    VN_RETURN_IF_ERROR(ReadIndex());
    return std::move(found_);
  }

 private:
  Result<Done> ReadIndex() {
    switch (chunks_.index) {
      case Hdf5ChunkIndex::kOldTree:
        return ReadOldTree(chunks_.index_address, kAnyLevel);
      case Hdf5ChunkIndex::kSingle:
        return Add({chunks_.index_address, filtered_ ? chunks_.single_bytes : chunks_.chunk_bytes,
                    chunks_.single_mask, std::vector<std::uint64_t>(shape_.size(), 0)});
      case Hdf5ChunkIndex::kImplicit:
        return ReadImplicit();
      case Hdf5ChunkIndex::kFixedArray:
        return ReadFixedArray();
      case Hdf5ChunkIndex::kExtensibleArray:
        return ReadExtensibleArray();
      case Hdf5ChunkIndex::kTree:
        return ReadTree();
    }
    return Bad("of unknown kind");
  }

  Error Bad(std::string detail) const {
    return Hdf5Error("chunk index", chunks_.index_address, std::move(detail));
  }

  // Chunks beyond the dataset are left over from when it was larger.
  Result<Done> Add(Hdf5Chunk chunk) {
    for (std::size_t i = 0; i < shape_.size(); ++i) {
      if (chunk.origin[i] % chunks_.chunk_shape[i] != 0)
        return Bad("the position of a chunk is not a multiple of the chunk size");
      if (chunk.origin[i] >= static_cast<std::uint64_t>(shape_[i])) return Done{};
    }
    if (chunk.address == kHdf5Undefined) return Done{};
    if (!file_.Bytes(chunk.address, chunk.stored_bytes)) {
      return Error{ErrorCode::kTruncated, "hdf5 chunk at address " + std::to_string(chunk.address),
                   "reaches past the end of the file"};
    }
    found_.push_back(std::move(chunk));
    return Done{};
  }

  // ---- version 1 B-tree

  static constexpr int kAnyLevel = -1;

  Result<Done> ReadOldTree(std::uint64_t address, int expected_level) {
    Hdf5Cursor cursor = file_.From(address);
    cursor.Signature("TREE");
    const std::uint64_t type = cursor.Number(1);
    const auto level = static_cast<int>(cursor.Number(1));
    const std::uint64_t num_children = cursor.Number(2);
    cursor.Skip(2 * file_.offset_bytes());  // siblings
    if (!cursor.ok() || type != 1 || (expected_level != kAnyLevel && level != expected_level)) {
      return Hdf5Error("chunk B-tree", address, "damaged");
    }
    VN_RETURN_IF_ERROR(file_.Spend(num_children * (16 + 8 * shape_.size() + file_.offset_bytes())));
    for (std::uint64_t i = 0; i < num_children; ++i) {
      Hdf5Chunk chunk;
      chunk.stored_bytes = cursor.Number(4);
      chunk.filter_mask = static_cast<std::uint32_t>(cursor.Number(4));
      for (std::size_t dim = 0; dim < shape_.size(); ++dim) chunk.origin.push_back(cursor.Number(8));
      cursor.Skip(8);  // the offset inside of an element
      chunk.address = cursor.Address();
      if (!cursor.ok()) return Hdf5Error("chunk B-tree", address, "runs past the end of the file");
      VN_RETURN_IF_ERROR(level > 0 ? ReadOldTree(chunk.address, level - 1) : Add(std::move(chunk)));
    }
    return Done{};
  }

  // ---- version 2 B-tree: address, (bytes, mask,) and the position in chunks

  Result<Done> ReadTree() {
    VN_ASSIGN_OR_RETURN(const std::vector<ByteSpan> records, Hdf5TreeRecords(file_, chunks_.index_address));
    for (const ByteSpan record : records) {
      const std::size_t position_bytes = 8 * shape_.size(),
                        fixed_bytes = file_.offset_bytes() + (filtered_ ? 4 : 0);
      if (record.size() < position_bytes + fixed_bytes) return Bad("records too short");
      Hdf5Chunk chunk = ReadElement(record.first(record.size() - position_bytes));
      Hdf5Cursor cursor = file_.In(record.last(position_bytes));
      for (std::size_t dim = 0; dim < shape_.size(); ++dim) {
        std::uint64_t origin = 0;
        if (__builtin_mul_overflow(cursor.Number(8), chunks_.chunk_shape[dim], &origin))
          return Bad("a position too large");
        chunk.origin.push_back(origin);
      }
      VN_RETURN_IF_ERROR(Add(std::move(chunk)));
    }
    return Done{};
  }

  // An element of the arrays: an address, and with filters the size in as many bytes as are left, and the
  // mask.
  Hdf5Chunk ReadElement(ByteSpan element) const {
    Hdf5Cursor cursor = file_.In(element);
    Hdf5Chunk chunk;
    chunk.address = cursor.Address();
    chunk.stored_bytes = chunks_.chunk_bytes;
    if (filtered_) {
      chunk.stored_bytes = cursor.Number(static_cast<unsigned>(std::min<std::size_t>(cursor.left() - 4, 8)));
      chunk.filter_mask = static_cast<std::uint32_t>(cursor.Number(4));
    }
    if (!cursor.ok()) chunk.address = kHdf5Undefined;
    return chunk;
  }

  bool IsElementSize(std::uint64_t num_bytes) const {
    const std::uint64_t fixed_bytes = file_.offset_bytes() + (filtered_ ? 4 : 0);
    return num_bytes >= fixed_bytes + (filtered_ ? 1 : 0) && num_bytes <= fixed_bytes + (filtered_ ? 8 : 0);
  }

  // ---- arrays: the chunks are numbered in C order of the largest shape the dataset may have

  // Whole chunks along each dimension. The one that may grow without end comes first in an extensible array.
  Result<Done> NumberChunks(bool growing_first) {
    order_.resize(shape_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = i;
    if (growing_first) {
      const auto growing = std::find_if(order_.begin(), order_.end(), [&](std::size_t i) {
        return chunks_.max_shape[i] == kHdf5Undefined;
      });
      if (growing == order_.end()) return Bad("an extensible array for a dataset that cannot grow");
      std::rotate(order_.begin(), growing, growing + 1);
    }
    num_chunks_.clear();
    for (const std::size_t dim : order_) {
      const std::uint64_t size = chunks_.max_shape[dim], chunk = chunks_.chunk_shape[dim];
      num_chunks_.push_back(size == kHdf5Undefined ? kHdf5Undefined : size / chunk + (size % chunk != 0));
      if (num_chunks_.back() == 0) return Bad("a dataset without chunks");
    }
    return Done{};
  }

  Result<Done> AddNumbered(std::uint64_t number, Hdf5Chunk chunk) {
    chunk.origin.assign(shape_.size(), 0);
    for (std::size_t i = order_.size(); i-- > 0;) {
      const std::uint64_t position = number % num_chunks_[i];
      number /= num_chunks_[i];
      if (__builtin_mul_overflow(position, chunks_.chunk_shape[order_[i]], &chunk.origin[order_[i]])) {
        return Bad("a position too large");
      }
    }
    return number == 0 ? Add(std::move(chunk)) : Result<Done>(Done{});
  }

  Result<Done> AddElements(Hdf5Cursor& cursor, std::uint64_t first_number, std::uint64_t num_elements,
                           std::uint64_t element_bytes) {
    VN_RETURN_IF_ERROR(file_.Spend(0));
    for (std::uint64_t i = 0; i < num_elements; ++i) {
      const ByteSpan element = cursor.Take(element_bytes);
      if (!cursor.ok()) return Bad("an array runs past the end of the file");
      VN_RETURN_IF_ERROR(file_.Spend(element_bytes));
      VN_RETURN_IF_ERROR(AddNumbered(first_number + i, ReadElement(element)));
    }
    return Done{};
  }

  Result<Done> ReadImplicit() {
    VN_RETURN_IF_ERROR(NumberChunks(/*growing_first=*/false));
    if (filtered_) return Bad("without sizes, for filtered chunks");
    std::uint64_t total = 1;
    for (const std::uint64_t num : num_chunks_) {
      if (__builtin_mul_overflow(total, num, &total)) return Bad("too many chunks");
    }
    if (total > file_.num_bytes() / chunks_.chunk_bytes) return Bad("more chunks than the file has room for");
    for (std::uint64_t i = 0; i < total; ++i) {
      VN_RETURN_IF_ERROR(
          AddNumbered(i, {chunks_.index_address + i * chunks_.chunk_bytes, chunks_.chunk_bytes, 0, {}}));
    }
    return Done{};
  }

  Result<Done> ReadFixedArray() {
    VN_RETURN_IF_ERROR(NumberChunks(/*growing_first=*/false));
    Hdf5Cursor header = file_.From(chunks_.index_address);
    header.Signature("FAHD");
    header.Skip(2);
    const std::uint64_t element_bytes = header.Number(1), page_bits = header.Number(1),
                        num_elements = header.Length();
    const std::uint64_t block_address = header.Address();
    if (!header.ok() || !IsElementSize(element_bytes) || page_bits > 32) return Bad("a damaged fixed array");
    if (!header.Checksum()) return Bad(kHdf5WrongChecksum);
    if (block_address == kHdf5Undefined) return Done{};
    Hdf5Cursor block = file_.From(block_address);
    block.Signature("FADB");
    block.Skip(2 + file_.offset_bytes());
    if (!block.ok() || num_elements > block.left() / element_bytes) return Bad("a damaged fixed array");
    const std::uint64_t page_elements = std::uint64_t{1} << page_bits;
    if (num_elements <= page_elements) {
      VN_RETURN_IF_ERROR(CheckUpTo(block, num_elements * element_bytes));
      return AddElements(block, 0, num_elements, element_bytes);
    }
    const std::uint64_t num_pages = (num_elements + page_elements - 1) / page_elements;
    const ByteSpan initialized = block.Take((num_pages + 7) / 8);
    if (!block.Checksum()) return Bad(kHdf5WrongChecksum);
    return AddPages(block, 0, num_elements, page_elements, element_bytes, initialized, 0);
  }

  static constexpr std::uint64_t kChecksumBytes = 4;

  // A block whose checksum follows `num_bytes` behind where its reader is.
  Result<Done> CheckUpTo(Hdf5Cursor block, std::uint64_t num_bytes, std::size_t from = 0) const {
    block.Skip(num_bytes);
    if (!block.Checksum(from)) return Bad(kHdf5WrongChecksum);
    return Done{};
  }

  // Pages that no chunk was ever put into are there, but hold nothing. Their bits are counted from the
  // highest.
  Result<Done> AddPages(Hdf5Cursor& cursor, std::uint64_t first_number, std::uint64_t num_elements,
                        std::uint64_t page_elements, std::uint64_t element_bytes, ByteSpan initialized,
                        std::uint64_t first_bit) {
    for (std::uint64_t begin = 0, page = 0; begin < num_elements; begin += page_elements, ++page) {
      const std::uint64_t count = std::min(page_elements, num_elements - begin), bit = first_bit + page;
      if (bit / 8 >= initialized.size()) return Bad("a damaged array of pages");
      if (std::to_integer<unsigned>(initialized[bit / 8]) >> (7 - bit % 8) & 1) {
        VN_RETURN_IF_ERROR(CheckUpTo(cursor, count * element_bytes, cursor.at()));
        VN_RETURN_IF_ERROR(AddElements(cursor, first_number + begin, count, element_bytes));
      } else {
        cursor.Skip(count * element_bytes);
      }
      cursor.Skip(kChecksumBytes);
      if (!cursor.ok()) return Bad("a page runs past the end of the file");
    }
    return Done{};
  }

  // ---- extensible array: an index block, data blocks that grow, super blocks of those that grow faster

  struct ExtensibleArray {
    std::uint64_t element_bytes, max_bits, num_index_elements, min_block_elements, min_pointers, page_bits;
    std::uint64_t num_used = 0;
    unsigned offset_bytes = 0;
    std::uint64_t BlocksIn(std::uint64_t super) const { return std::uint64_t{1} << super / 2; }
    std::uint64_t ElementsIn(std::uint64_t super) const { return min_block_elements << (super + 1) / 2; }
    std::uint64_t PageElements() const { return std::uint64_t{1} << page_bits; }
    std::uint64_t LogMinElements() const {
      return static_cast<std::uint64_t>(std::countr_zero(min_block_elements));
    }
    std::uint64_t NumSuper() const { return 1 + max_bits - LogMinElements(); }
    // Super blocks whose data blocks are listed in the index block itself.
    std::uint64_t NumDirect() const { return 2 * static_cast<std::uint64_t>(std::countr_zero(min_pointers)); }
    std::uint64_t NumIndexAddresses() const {
      return 2 * (min_pointers - 1) + (NumSuper() > NumDirect() ? NumSuper() - NumDirect() : 0);
    }
  };

  Result<Done> ReadExtensibleArray() {
    VN_RETURN_IF_ERROR(NumberChunks(/*growing_first=*/true));
    Hdf5Cursor header = file_.From(chunks_.index_address);
    header.Signature("EAHD");
    header.Skip(2);
    ExtensibleArray array{header.Number(1), header.Number(1), header.Number(1),
                          header.Number(1), header.Number(1), header.Number(1)};
    header.Skip(4 * file_.length_bytes());  // counts and sizes of blocks
    array.num_used = header.Length();
    header.Length();
    const std::uint64_t index_address = header.Address();
    if (!header.ok() || !IsElementSize(array.element_bytes) || array.max_bits > 63 || array.max_bits == 0 ||
        !std::has_single_bit(array.min_block_elements) || !std::has_single_bit(array.min_pointers) ||
        array.page_bits > 32 || array.num_used > file_.num_bytes()) {
      return Bad("a damaged extensible array");
    }
    if (!header.Checksum()) return Bad(kHdf5WrongChecksum);
    if (index_address == kHdf5Undefined) return Done{};
    array.offset_bytes = static_cast<unsigned>((array.max_bits + 7) / 8);

    Hdf5Cursor index = file_.From(index_address);
    index.Signature("EAIB");
    index.Skip(2 + file_.offset_bytes());
    if (!index.ok() || array.max_bits < array.LogMinElements()) return Bad("a damaged extensible array");
    VN_RETURN_IF_ERROR(CheckUpTo(index, array.num_index_elements * array.element_bytes +
                                            array.NumIndexAddresses() * file_.offset_bytes()));
    VN_RETURN_IF_ERROR(
        AddElements(index, 0, std::min(array.num_used, array.num_index_elements), array.element_bytes));
    if (array.num_used <= array.num_index_elements) return Done{};
    return ReadSuperBlocks(array, index);
  }

  // The data blocks of the first super blocks are listed in the index block itself; from some size on, it
  // lists super blocks instead.
  Result<Done> ReadSuperBlocks(const ExtensibleArray& array, Hdf5Cursor& index) {
    std::uint64_t number = array.num_index_elements;
    for (std::uint64_t super = 0; super < array.NumSuper() && number < array.num_used; ++super) {
      if (super < array.NumDirect()) {
        VN_RETURN_IF_ERROR(ReadDataBlocks(array, super, index, {}, number));
        continue;
      }
      const std::uint64_t address = index.Address();
      if (!index.ok()) return Bad("a damaged extensible array");
      const std::uint64_t num_elements = array.BlocksIn(super) * array.ElementsIn(super);
      if (address == kHdf5Undefined) {
        number += num_elements;
        continue;
      }
      Hdf5Cursor block = file_.From(address);
      block.Signature("EASB");
      block.Skip(2 + file_.offset_bytes() + array.offset_bytes);
      ByteSpan initialized;
      if (array.ElementsIn(super) > array.PageElements()) {
        const std::uint64_t num_pages = array.ElementsIn(super) / array.PageElements();
        initialized = block.Take(array.BlocksIn(super) * ((num_pages + 7) / 8));
      }
      if (!block.ok()) return Bad("a damaged super block");
      VN_RETURN_IF_ERROR(CheckUpTo(block, array.BlocksIn(super) * file_.offset_bytes()));
      VN_RETURN_IF_ERROR(ReadDataBlocks(array, super, block, initialized, number));
    }
    return Done{};
  }

  // Reads the addresses of one super block's data blocks from `addresses`, and moves `number` past their
  // elements.
  Result<Done> ReadDataBlocks(const ExtensibleArray& array, std::uint64_t super, Hdf5Cursor& addresses,
                              ByteSpan initialized, std::uint64_t& number) {
    const std::uint64_t num_elements = array.ElementsIn(super), num_blocks = array.BlocksIn(super);
    for (std::uint64_t i = 0; i < num_blocks && number < array.num_used; ++i, number += num_elements) {
      const std::uint64_t address = addresses.Address();
      if (!addresses.ok()) return Bad("a damaged extensible array");
      if (address == kHdf5Undefined) continue;
      Hdf5Cursor block = file_.From(address);
      block.Signature("EADB");
      block.Skip(2 + file_.offset_bytes() + array.offset_bytes);
      if (!block.ok()) return Bad("a damaged data block");
      if (num_elements <= array.PageElements()) {
        VN_RETURN_IF_ERROR(CheckUpTo(block, num_elements * array.element_bytes));
        VN_RETURN_IF_ERROR(
            AddElements(block, number, std::min(num_elements, array.num_used - number), array.element_bytes));
        continue;
      }
      if (!block.Checksum()) return Bad(kHdf5WrongChecksum);
      const std::uint64_t bits_per_block = (num_elements / array.PageElements() + 7) / 8 * 8;
      VN_RETURN_IF_ERROR(AddPages(block, number, num_elements, array.PageElements(), array.element_bytes,
                                  initialized, i * bits_per_block));
    }
    return Done{};
  }

  const Hdf5File& file_;
  const Hdf5Chunks& chunks_;
  const Shape& shape_;
  const bool filtered_;
  std::vector<std::uint64_t> num_chunks_;
  std::vector<std::size_t> order_;
  std::vector<Hdf5Chunk> found_;
};

}  // namespace

Result<Done> ParseChunkIndex(Hdf5Cursor& cursor, std::uint64_t flags, Hdf5Chunks& chunks) {
  constexpr std::uint64_t kSingleIsFiltered = 2;
  const std::uint64_t kind = cursor.Number(1);
  chunks.index = static_cast<Hdf5ChunkIndex>(kind);
  constexpr std::uint64_t kParameterBytes[] = {0, 0, 0,
                                               1, 5, 6};  // by kind; the first is no kind of this message
  if (kind == 0 || kind >= std::size(kParameterBytes)) {
    return Error{ErrorCode::kUnsupported, "hdf5 chunk layout", "chunk index of kind " + std::to_string(kind)};
  }
  cursor.Skip(kParameterBytes[kind]);
  if (chunks.index == Hdf5ChunkIndex::kSingle && (flags & kSingleIsFiltered) != 0) {
    chunks.single_bytes = cursor.Length();
    chunks.single_mask = static_cast<std::uint32_t>(cursor.Number(4));
  }
  chunks.index_address = cursor.Address();
  return Done{};
}

Result<std::vector<Hdf5Chunk>> ListHdf5Chunks(const Hdf5File& file, const Hdf5Chunks& chunks,
                                              const Shape& shape) {
  return IndexReader(file, chunks, shape).Read();
}

}  // namespace vernier

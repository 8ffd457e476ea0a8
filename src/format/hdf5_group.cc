// Groups: old ones (B-tree of symbol table nodes), new ones (link messages, or links in a fractal heap).
#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "format/hdf5_internal.h"
#include "format/little_endian.h"

namespace vernier {
namespace {

// ---- old groups

class OldGroup {
 public:
  explicit OldGroup(const Hdf5File& file) : file_(file) {}

  Result<std::vector<Hdf5Link>> Read(const Hdf5Message& symbol_table) {
    Hdf5Cursor cursor = file_.In(symbol_table.data);
    const std::uint64_t tree_address = cursor.Address(), heap_address = cursor.Address();
    Hdf5Cursor heap = file_.From(heap_address);
    heap.Signature("HEAP");
    heap.Skip(4);
    const std::uint64_t heap_bytes = heap.Length();
    heap.Length();  // free list
    const auto names = file_.Bytes(heap.Address(), heap_bytes);
    if (!cursor.ok() || !heap.ok() || !names) return Hdf5Error("local heap", heap_address, "damaged");
    names_ = *names;
    VN_RETURN_IF_ERROR(ReadTree(tree_address, kAnyLevel));
    return std::move(links_);
  }

 private:
  static constexpr int kAnyLevel = -1;

  Result<Done> ReadTree(std::uint64_t address, int expected_level) {
    Hdf5Cursor cursor = file_.From(address);
    cursor.Signature("TREE");
    const std::uint64_t type = cursor.Number(1);
    const auto level = static_cast<int>(cursor.Number(1));
    const std::uint64_t num_children = cursor.Number(2);
    cursor.Skip(2 * file_.offset_bytes());  // siblings
    // A level that always falls bounds the depth.
    if (!cursor.ok() || type != 0 || (expected_level != kAnyLevel && level != expected_level)) {
      return Hdf5Error("group B-tree", address, "damaged");
    }
    VN_RETURN_IF_ERROR(file_.Spend(num_children * (file_.length_bytes() + file_.offset_bytes())));
    for (std::uint64_t i = 0; i < num_children; ++i) {
      cursor.Length();  // key
      const std::uint64_t child = cursor.Address();
      if (!cursor.ok()) return Hdf5Error("group B-tree", address, "runs past the end of the file");
      VN_RETURN_IF_ERROR(level > 0 ? ReadTree(child, level - 1) : ReadSymbols(child));
    }
    return Done{};
  }

  Result<Done> ReadSymbols(std::uint64_t address) {
    constexpr std::uint64_t kSoftLink = 2;
    Hdf5Cursor cursor = file_.From(address);
    cursor.Signature("SNOD");
    cursor.Skip(2);
    const std::uint64_t num_symbols = cursor.Number(2);
    for (std::uint64_t i = 0; i < num_symbols && cursor.ok(); ++i) {
      const std::uint64_t name_offset = cursor.Number(file_.offset_bytes());
      Hdf5Link link;
      link.address = cursor.Address();
      const std::uint64_t cache_type = cursor.Number(4);
      cursor.Skip(4 + 16);
      Hdf5Cursor name = file_.In(name_offset < names_.size() ? names_.subspan(name_offset) : ByteSpan());
      link.name = name.TextUntilNul();
      VN_RETURN_IF_ERROR(file_.Spend(link.name.size() + 40));
      if (!name.ok()) return Hdf5Error("symbol table node", address, "a name lies outside of the heap");
      if (cache_type != kSoftLink) links_.push_back(std::move(link));
    }
    if (!cursor.ok()) return Hdf5Error("symbol table node", address, "damaged");
    return Done{};
  }

  const Hdf5File& file_;
  ByteSpan names_;
  std::vector<Hdf5Link> links_;
};

// ---- new groups

// Gives nothing for soft and external links.
Result<std::optional<Hdf5Link>> ParseLink(const Hdf5File& file, ByteSpan message) {
  Hdf5Cursor cursor = file.In(message);
  const std::uint64_t version = cursor.Number(1), flags = cursor.Number(1);
  const std::uint64_t type = flags & 0x08 ? cursor.Number(1) : 0;
  Hdf5Link link;
  if (flags & 0x04) link.creation_order = cursor.Number(8);
  if (flags & 0x10) cursor.Skip(1);  // character set
  link.name = AsText(cursor.Take(cursor.Number(1u << (flags & 3))));
  if (type == 0) link.address = cursor.Address();
  VN_RETURN_IF_ERROR(file.Spend(message.size()));
  if (!cursor.ok() || version != 1) return Error{ErrorCode::kBadHeader, "hdf5 link", "damaged"};
  if (type != 0) return std::optional<Hdf5Link>();
  return std::optional<Hdf5Link>(std::move(link));
}

unsigned BytesFor(std::uint64_t largest) {
  return static_cast<unsigned>((std::bit_width(largest | 1) - 1) / 8 + 1);
}

// Where a group keeps the links that do not fit into its header: objects in blocks whose sizes double row by
// row.
class FractalHeap {
 public:
  static Result<FractalHeap> Open(const Hdf5File& file, std::uint64_t address) {
    FractalHeap heap(file);
    Hdf5Cursor cursor = file.From(address);
    cursor.Signature("FRHP");
    cursor.Skip(1);
    heap.id_bytes_ = cursor.Number(2);
    const std::uint64_t filter_bytes = cursor.Number(2);
    heap.has_checksums_ = (cursor.Number(1) & 0x02) != 0;
    const std::uint64_t max_object_bytes = cursor.Number(4);
    cursor.Skip(file.length_bytes() + file.offset_bytes());  // huge objects
    cursor.Skip(file.length_bytes() + file.offset_bytes());  // free space
    cursor.Skip(file.length_bytes() * 8);                    // sizes and counts
    heap.width_ = cursor.Number(2);
    heap.first_block_bytes_ = cursor.Length();
    heap.max_direct_bytes_ = cursor.Length();
    const std::uint64_t heap_bits = cursor.Number(2);
    cursor.Skip(2);
    heap.root_address_ = cursor.Address();
    heap.num_root_rows_ = cursor.Number(2);
    if (!cursor.ok() || heap.width_ == 0 || !std::has_single_bit(heap.first_block_bytes_) ||
        !std::has_single_bit(heap.max_direct_bytes_) || heap.first_block_bytes_ > heap.max_direct_bytes_ ||
        heap.max_direct_bytes_ > std::uint64_t{1} << 32 || heap_bits > 64 || heap_bits == 0 ||
        heap.num_root_rows_ > kMaxRows) {
      return Hdf5Error("fractal heap", address, "damaged");
    }
    if (filter_bytes != 0) return Error{ErrorCode::kUnsupported, "hdf5 fractal heap", "filtered"};
    if (!cursor.Checksum()) return Hdf5Error("fractal heap", address, kHdf5WrongChecksum);
    heap.heap_offset_bytes_ = static_cast<unsigned>((heap_bits + 7) / 8);
    const auto block_offset_bytes = static_cast<unsigned>((std::countr_zero(heap.max_direct_bytes_) + 7) / 8);
    heap.object_length_bytes_ = std::min(block_offset_bytes, BytesFor(max_object_bytes));
    heap.num_direct_rows_ = static_cast<std::uint64_t>(std::countr_zero(heap.max_direct_bytes_) -
                                                       std::countr_zero(heap.first_block_bytes_)) +
                            2;
    return heap;
  }

  std::uint64_t id_bytes() const { return id_bytes_; }

  Result<ByteSpan> Object(ByteSpan id) {
    Hdf5Cursor cursor = file_->In(id);
    const std::uint64_t kind = cursor.Number(1) >> 4 & 3;
    if (kind != 0)
      return Error{ErrorCode::kUnsupported, "hdf5 fractal heap", "an object outside of its blocks"};
    const std::uint64_t offset = cursor.Number(heap_offset_bytes_),
                        num_bytes = cursor.Number(object_length_bytes_);
    if (!cursor.ok()) return Hdf5Error("fractal heap", root_address_, "an object id is too short");
    const Place place = Locate(offset);
    const auto block = place.block_address == kHdf5Undefined
                           ? std::nullopt
                           : file_->Bytes(place.block_address, place.block_bytes);
    if (!block || !file_->In(*block).Signature("FHDB") || place.offset_in_block > block->size() ||
        num_bytes > block->size() - place.offset_in_block) {
      return Hdf5Error("fractal heap", root_address_, "an object lies outside of its blocks");
    }
    if (!IsIntact(place.block_address, *block))
      return Hdf5Error("fractal heap block", place.block_address, kHdf5WrongChecksum);
    return block->subspan(place.offset_in_block, num_bytes);
  }

 private:
  static constexpr std::uint64_t kMaxRows = 64;

  explicit FractalHeap(const Hdf5File& file) : file_(&file) {}

  struct Place {
    std::uint64_t block_address = kHdf5Undefined, block_bytes = 0, offset_in_block = 0;
  };

  // A direct block's checksum lies in its prefix, and counts as zero in itself.
  bool IsIntact(std::uint64_t address, ByteSpan block) {
    if (!has_checksums_ || intact_.contains(address)) return true;
    const std::size_t checksum_at = 4 + 1 + file_->offset_bytes() + heap_offset_bytes_;
    Hdf5Cursor cursor = file_->In(block);
    cursor.Skip(checksum_at);
    const std::uint64_t stored = cursor.Number(4);
    Bytes copy(block.begin(), block.end());
    if (!cursor.ok()) return false;
    std::fill_n(copy.begin() + static_cast<std::ptrdiff_t>(checksum_at), 4, std::byte{});
    if (!kFuzzing && Hdf5Checksum(copy) != stored) return false;
    intact_.insert(address);
    return true;
  }

  std::uint64_t RowBlockBytes(std::uint64_t row) const {
    return row < 2 ? first_block_bytes_ : first_block_bytes_ << std::min<std::uint64_t>(row - 1, 62);
  }

  // Walks from the root down; each step goes to a block that holds a smaller part of the heap.
  Place Locate(std::uint64_t offset) {
    if (num_root_rows_ == 0) {
      return offset < first_block_bytes_ ? Place{root_address_, first_block_bytes_, offset} : Place{};
    }
    std::uint64_t block = root_address_, num_rows = num_root_rows_;
    for (int depth = 0; depth < 64; ++depth) {
      std::uint64_t row = 0, row_begin = 0, row_bytes = 0;
      for (; row < num_rows; ++row, row_begin += row_bytes) {
        if (__builtin_mul_overflow(width_, RowBlockBytes(row), &row_bytes)) return {};
        if (offset - row_begin < row_bytes) break;
      }
      if (row == num_rows) return {};
      const std::uint64_t block_bytes = RowBlockBytes(row), column = (offset - row_begin) / block_bytes;
      const std::uint64_t child = ChildAddress(block, row * width_ + column, num_rows * width_);
      const std::uint64_t inside = offset - row_begin - column * block_bytes;
      if (child == kHdf5Undefined) return {};
      if (row < num_direct_rows_) return {child, block_bytes, inside};
      block = child;
      offset = inside;
      // An indirect block covers as many rows as make up its size.
      num_rows = static_cast<std::uint64_t>(std::bit_width(block_bytes) -
                                            std::bit_width(first_block_bytes_ * width_)) +
                 1;
      if (num_rows > kMaxRows) return {};
    }
    return {};
  }

  std::uint64_t ChildAddress(std::uint64_t block, std::uint64_t index, std::uint64_t num_children) {
    Hdf5Cursor cursor = file_->From(block);
    cursor.Signature("FHIB");
    cursor.Skip(1 + file_->offset_bytes() + heap_offset_bytes_);
    Hdf5Cursor whole = cursor;
    whole.Skip(num_children * file_->offset_bytes());
    if (!intact_.contains(block) && !whole.Checksum()) return kHdf5Undefined;
    intact_.insert(block);
    cursor.Skip(index * file_->offset_bytes());
    const std::uint64_t child = cursor.Address();
    return cursor.ok() ? child : kHdf5Undefined;
  }

  const Hdf5File* file_;
  std::uint64_t id_bytes_ = 0, width_ = 0, first_block_bytes_ = 0, max_direct_bytes_ = 0, root_address_ = 0;
  std::uint64_t num_root_rows_ = 0, num_direct_rows_ = 0;
  unsigned heap_offset_bytes_ = 0, object_length_bytes_ = 0;
  bool has_checksums_ = false;
  std::set<std::uint64_t> intact_;  // addresses of blocks whose checksums were found right
};

// ---- version 2 B-trees

class TreeReader {
 public:
  explicit TreeReader(const Hdf5File& file) : file_(file) {}

  Result<std::vector<ByteSpan>> Read(std::uint64_t address) {
    Hdf5Cursor cursor = file_.From(address);
    cursor.Signature("BTHD");
    cursor.Skip(2);
    node_bytes_ = cursor.Number(4);
    record_bytes_ = cursor.Number(2);
    const std::uint64_t depth = cursor.Number(2);
    cursor.Skip(2);
    const std::uint64_t root = cursor.Address();
    const std::uint64_t num_records = cursor.Number(2);
    cursor.Length();  // records in the whole tree
    if (cursor.ok() && !cursor.Checksum()) return Hdf5Error("B-tree", address, kHdf5WrongChecksum);
    if (!cursor.ok() || record_bytes_ == 0 || node_bytes_ < kNodeOverheadBytes + record_bytes_ ||
        depth > kMaxDepth) {
      return Hdf5Error("B-tree", address, "damaged");
    }
    VN_RETURN_IF_ERROR(SizePointers(address, depth));
    if (root != kHdf5Undefined) VN_RETURN_IF_ERROR(ReadNode(root, num_records, depth));
    return std::move(records_);
  }

 private:
  static constexpr std::uint64_t kNodeOverheadBytes = 10;  // signature, version, type, checksum
  static constexpr std::uint64_t kMaxDepth = 32;

  // How many bytes the counts in a pointer to a child take follows from how many records could be below it.
  Result<Done> SizePointers(std::uint64_t address, std::uint64_t depth) {
    std::uint64_t below = (node_bytes_ - kNodeOverheadBytes) / record_bytes_;
    count_bytes_ = BytesFor(below);
    total_bytes_ = {0};
    for (std::uint64_t level = 1; level <= depth; ++level) {
      const std::uint64_t pointer_bytes = file_.offset_bytes() + count_bytes_ + total_bytes_[level - 1];
      if (node_bytes_ < kNodeOverheadBytes + pointer_bytes)
        return Hdf5Error("B-tree", address, "nodes too small");
      const std::uint64_t in_node =
          (node_bytes_ - kNodeOverheadBytes - pointer_bytes) / (record_bytes_ + pointer_bytes);
      if (__builtin_mul_overflow(in_node + 1, below, &below) ||
          __builtin_add_overflow(below, in_node, &below)) {
        below = ~std::uint64_t{0};
      }
      total_bytes_.push_back(BytesFor(below));
    }
    return Done{};
  }

  Result<Done> ReadNode(std::uint64_t address, std::uint64_t num_records, std::uint64_t level) {
    Hdf5Cursor cursor = file_.From(address);
    cursor.Signature(level == 0 ? "BTLF" : "BTIN");
    cursor.Skip(2);
    VN_RETURN_IF_ERROR(file_.Spend(num_records * record_bytes_));
    std::vector<ByteSpan> own;
    for (std::uint64_t i = 0; i < num_records && cursor.ok(); ++i) own.push_back(cursor.Take(record_bytes_));
    if (!cursor.ok()) return Hdf5Error("B-tree node", address, "damaged");
    Hdf5Cursor whole = cursor;
    if (level > 0)
      whole.Skip((num_records + 1) * (file_.offset_bytes() + count_bytes_ + total_bytes_[level - 1]));
    if (!whole.Checksum()) return Hdf5Error("B-tree node", address, kHdf5WrongChecksum);
    for (std::uint64_t i = 0; i <= num_records; ++i) {
      if (level > 0) {
        const std::uint64_t child = cursor.Address(), num_child_records = cursor.Number(count_bytes_);
        cursor.Skip(total_bytes_[level - 1]);
        if (!cursor.ok()) return Hdf5Error("B-tree node", address, "runs past the end of the file");
        VN_RETURN_IF_ERROR(ReadNode(child, num_child_records, level - 1));
      }
      if (i < num_records) records_.push_back(own[i]);
    }
    return Done{};
  }

  const Hdf5File& file_;
  std::uint64_t node_bytes_ = 0, record_bytes_ = 0;
  unsigned count_bytes_ = 0;
  std::vector<unsigned> total_bytes_;  // by level
  std::vector<ByteSpan> records_;
};

// ---- both kinds of new groups

Result<Done> AddLinksInHeap(const Hdf5File& file, std::uint64_t heap_address, std::uint64_t tree_address,
                            std::vector<Hdf5Link>& links) {
  constexpr std::size_t kHashBytes = 4;  // a record of the index by name: hash, heap id
  VN_ASSIGN_OR_RETURN(const std::vector<ByteSpan> objects,
                      Hdf5HeapObjects(file, heap_address, tree_address, kHashBytes));
  for (const ByteSpan object : objects) {
    VN_ASSIGN_OR_RETURN(std::optional<Hdf5Link> link, ParseLink(file, object));
    if (link) links.push_back(std::move(*link));
  }
  return Done{};
}

Result<std::vector<Hdf5Link>> NewGroupLinks(const Hdf5File& file, const Hdf5Messages& messages) {
  std::vector<Hdf5Link> links;
  for (const Hdf5Message& message : messages) {
    if (message.type != hdf5_message::kLink) continue;
    VN_ASSIGN_OR_RETURN(std::optional<Hdf5Link> link, ParseLink(file, message.data));
    if (link) links.push_back(std::move(*link));
  }
  bool by_creation = false;
  if (const Hdf5Message* info = Find(messages, hdf5_message::kLinkInfo)) {
    Hdf5Cursor cursor = file.In(info->data);
    cursor.Skip(1);
    by_creation = (cursor.Number(1) & 1) != 0;
    if (by_creation) cursor.Skip(8);
    const std::uint64_t heap = cursor.Address(), tree = cursor.Address();
    if (!cursor.ok()) return Error{ErrorCode::kBadHeader, "hdf5 link info", "damaged"};
    if (heap != kHdf5Undefined) VN_RETURN_IF_ERROR(AddLinksInHeap(file, heap, tree, links));
  }
  std::sort(links.begin(), links.end(), [&](const Hdf5Link& a, const Hdf5Link& b) {
    return by_creation && a.creation_order != b.creation_order ? a.creation_order < b.creation_order
                                                               : a.name < b.name;
  });
  return links;
}

}  // namespace

Result<std::vector<ByteSpan>> Hdf5HeapObjects(const Hdf5File& file, std::uint64_t heap_address,
                                              std::uint64_t tree_address, std::size_t id_at) {
  VN_ASSIGN_OR_RETURN(FractalHeap heap, FractalHeap::Open(file, heap_address));
  VN_ASSIGN_OR_RETURN(const std::vector<ByteSpan> records, Hdf5TreeRecords(file, tree_address));
  std::vector<ByteSpan> objects;
  for (const ByteSpan record : records) {
    if (record.size() < id_at + heap.id_bytes())
      return Hdf5Error("B-tree", tree_address, "records too short");
    VN_ASSIGN_OR_RETURN(const ByteSpan object, heap.Object(record.subspan(id_at)));
    objects.push_back(object);
  }
  return objects;
}

Result<std::vector<ByteSpan>> Hdf5TreeRecords(const Hdf5File& file, std::uint64_t address) {
  return TreeReader(file).Read(address);
}

bool IsHdf5Group(const Hdf5Messages& messages) {
  return Find(messages, hdf5_message::kSymbolTable) || Find(messages, hdf5_message::kLinkInfo);
}

Result<std::vector<Hdf5Link>> Hdf5Links(const Hdf5File& file, const Hdf5Messages& messages) {
  const Hdf5Message* symbol_table = Find(messages, hdf5_message::kSymbolTable);
  return symbol_table ? OldGroup(file).Read(*symbol_table) : NewGroupLinks(file, messages);
}

}  // namespace vernier

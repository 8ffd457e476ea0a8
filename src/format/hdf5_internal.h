// The structures of an HDF5 file, read in place. The names are those of the HDF5 File Format
// Specification 3.0; docs/formats/hdf5.md draws the ones we use.
//
// We read the file ourselves instead of handing it to the HDF5 library: the library was not written for files
// from strangers (its decoder of metadata has a long list of known overflows), is not thread-safe and would
// copy every element once. Everything here is checked against the file before it is used, and a budget that
// no honest file exceeds ends walks through structures that refer to themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/entry.h"
#include "format/hdf5.h"
#include "vernier/result.h"

namespace vernier {

constexpr std::uint64_t kHdf5Undefined = ~std::uint64_t{0};

// Reads numbers one after the other. Past the end they are 0, and ok() is false from then on.
class Hdf5Cursor {
 public:
  Hdf5Cursor(std::span<const std::byte> bytes, unsigned offset_bytes, unsigned length_bytes)
      : bytes_(bytes), offset_bytes_(offset_bytes), length_bytes_(length_bytes) {}

  bool ok() const { return ok_; }
  std::size_t left() const { return bytes_.size() - at_; }
  std::size_t at() const { return at_; }

  std::span<const std::byte> Take(std::uint64_t num_bytes);
  void Skip(std::uint64_t num_bytes) { Take(num_bytes); }
  std::uint64_t Number(unsigned num_bytes);  // little endian, up to 8 bytes
  std::uint64_t Address();                   // kHdf5Undefined when it is
  std::uint64_t Length() { return Number(length_bytes_); }
  std::string_view TextUntilNul();
  // False, and ok() too, when the next four bytes are others.
  bool Signature(std::string_view signature);
  // The same when the next four bytes are not the checksum of those from `from` up to here.
  bool Checksum(std::size_t from = 0);
  void Fail() { ok_ = false; }

 private:
  std::span<const std::byte> bytes_;
  unsigned offset_bytes_, length_bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

struct Hdf5Message {
  std::uint16_t type = 0;
  std::span<const std::byte> data;
};
// The message types that we look at.
namespace hdf5_message {
constexpr std::uint16_t kDataspace = 0x01, kLinkInfo = 0x02, kDatatype = 0x03, kOldFillValue = 0x04,
                        kFillValue = 0x05, kLink = 0x06, kExternalFiles = 0x07, kLayout = 0x08,
                        kFilters = 0x0b, kAttribute = 0x0c, kContinuation = 0x10, kSymbolTable = 0x11,
                        kAttributeInfo = 0x15;
}
using Hdf5Messages = std::vector<Hdf5Message>;
const Hdf5Message* Find(const Hdf5Messages& messages, std::uint16_t type);

// Thread-compatible, except that the budget is shared by everything done with one object.
class Hdf5File {
 public:
  static Result<Hdf5File> Open(std::span<const std::byte> file);

  std::uint64_t base_bytes() const { return base_bytes_; }  // of address 0 in the file
  std::uint64_t root_address() const { return root_address_; }
  unsigned offset_bytes() const { return offset_bytes_; }
  unsigned length_bytes() const { return length_bytes_; }
  std::uint64_t num_bytes() const { return bytes_.size(); }

  // From an address to the end of the file; not ok() when it lies outside.
  Hdf5Cursor From(std::uint64_t address) const;
  Hdf5Cursor In(std::span<const std::byte> bytes) const { return {bytes, offset_bytes_, length_bytes_}; }
  // Exactly these bytes, or nothing.
  std::optional<std::span<const std::byte>> Bytes(std::uint64_t address, std::uint64_t num_bytes) const;

  // Of the object header at an address, continuation blocks included. A committed datatype is followed.
  Result<Hdf5Messages> Messages(std::uint64_t address) const;

  // To be called for each block that is visited. An honest file needs each of them about once.
  Result<Done> Spend(std::uint64_t num_bytes) const;

 private:
  std::span<const std::byte> bytes_;  // from the base address on
  std::uint64_t base_bytes_ = 0, root_address_ = 0;
  unsigned offset_bytes_ = 8, length_bytes_ = 8;
  mutable std::uint64_t budget_ = 0;
};

Error Hdf5Error(std::string_view structure, std::uint64_t address, std::string detail);
constexpr const char* kHdf5WrongChecksum = "its checksum is wrong";
// Of metadata: Jenkins' lookup3.
std::uint32_t Hdf5Checksum(std::span<const std::byte> bytes);

// ---- groups (hdf5_group.cc)

struct Hdf5Link {
  std::string name;
  std::uint64_t address = 0;  // of the object header
  std::uint64_t creation_order = 0;
};
bool IsHdf5Group(const Hdf5Messages& messages);
// The hard links of a group, in creation order where that is tracked, else in the order of their names.
Result<std::vector<Hdf5Link>> Hdf5Links(const Hdf5File& file, const Hdf5Messages& messages);

// What the records of a version 2 B-tree refer to in a fractal heap; each has the object's id at `id_at`.
Result<std::vector<std::span<const std::byte>>> Hdf5HeapObjects(const Hdf5File& file,
                                                                std::uint64_t heap_address,
                                                                std::uint64_t tree_address,
                                                                std::size_t id_at);
// The records of a version 2 B-tree, in order.
Result<std::vector<std::span<const std::byte>>> Hdf5TreeRecords(const Hdf5File& file, std::uint64_t address);

// ---- elements (hdf5_type.cc)

struct Hdf5Type {
  std::optional<Dtype> dtype;
  bool big_endian = false;
  bool is_text = false;      // no tensor, and nothing to report
  bool is_variable = false;  // its elements lie in a global heap
  std::string description;   // when it is no dtype of ours
  std::uint32_t item_bytes = 0;
};
struct Hdf5Space {
  Shape shape;
  std::vector<std::uint64_t> max_shape;  // kHdf5Undefined where it may grow
};
Result<Hdf5Space> ParseHdf5Space(const Hdf5File& file, std::span<const std::byte> message);
Result<Hdf5Type> ParseHdf5Type(const Hdf5File& file, std::span<const std::byte> message);

// ---- attributes (hdf5_attribute.cc)

// One for a file: it remembers the heaps that texts lie in.
class Hdf5AttributeReader {
 public:
  explicit Hdf5AttributeReader(const Hdf5File& file) : file_(file) {}
  // Those that are one text or number; what is damaged is left out. `only`: of this name.
  Hdf5Attributes Read(const Hdf5Messages& messages, std::string_view only = {});

 private:
  std::optional<Hdf5Value> Value(ByteSpan type_message, ByteSpan space_message, ByteSpan data);
  Result<ByteSpan> HeapObject(std::uint64_t address, std::uint64_t number);

  const Hdf5File& file_;
  std::map<std::uint64_t, std::map<std::uint64_t, ByteSpan>> heaps_;  // by address, by number
};

// ---- data (hdf5_data.cc)

// Sets the source of an entry whose info is complete.
Result<Done> PlaceHdf5Data(const Hdf5File& file, const Hdf5Messages& messages, const Hdf5Type& type,
                           const Hdf5Space& space, TensorEntry& entry);

}  // namespace vernier

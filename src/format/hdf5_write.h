// Writes an HDF5 file that is whole at every moment: whatever becomes of the process, a reader finds
// everything that was committed. docs/formats/hdf5.md says in which order and why that suffices.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "format/entry.h"
#include "vernier/result.h"

namespace vernier {

// An attribute; lists are of one dimension.
using Hdf5WriteValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;
using Hdf5WriteAttributes = std::vector<std::pair<std::string, Hdf5WriteValue>>;

// The elements of a dataset in the file, in C order.
struct Hdf5Data {
  std::uint64_t address = 0;       // meaningless when num_bytes is 0
  std::uint64_t num_bytes = 0;     // of the elements
  std::uint64_t packed_bytes = 0;  // of the deflated elements; 0: they are not
};

// Groups below the root, one open at a time, and datasets in it, all in order of creation. Used by one thread
// at a time.
class Hdf5Writer {
 public:
  // A file that is there is replaced at once, by one with these attributes and nothing else.
  static Result<std::unique_ptr<Hdf5Writer>> Create(const std::filesystem::path& path,
                                                    const Hdf5WriteAttributes& attributes);
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;
  ~Hdf5Writer();

  // A new group; the one before gets no more datasets.
  Result<Done> BeginGroup(const std::string& name, const Hdf5WriteAttributes& attributes);
  // Writes the attributes of the open group again. REQUIRES: those of BeginGroup(), with other numbers
  Result<Done> SetGroupAttributes(const Hdf5WriteAttributes& attributes);

  // Elements for any number of datasets. `pack`: deflate them where that can be.
  Result<Hdf5Data> WriteData(ByteSpan elements, bool pack);
  // A dataset of the open group; one of that name is replaced. It is there after Commit(). bfloat16 and 8-bit
  // floats are stored as unsigned integers, which an attribute must tell.
  Result<Done> AddDataset(const std::string& name, Dtype dtype, std::span<const std::int64_t> shape,
                          const Hdf5Data& data, const Hdf5WriteAttributes& attributes);
  Result<Done> Commit();
  // The open group's datasets come in this order from now on; `number` is the attribute that says a dataset's
  // place, and must be an integer. Names that are no dataset are passed over.
  Result<Done> Arrange(std::span<const std::string> names, std::string_view number);

 private:
  // A part of a group's object header that is written in one piece.
  struct Block {
    std::uint64_t address = 0;
    std::string bytes;     // all of it, the checksum included
    std::size_t used = 0;  // by messages
    bool dirty = true;
  };
  struct Link {
    std::size_t block = 0, message = 0;  // where its message lies
    std::uint64_t header_address = 0;    // of the dataset
    std::size_t header_bytes = 0;
  };
  struct Group {
    std::vector<Block> blocks;
    std::size_t attributes_at = 0;  // in the first block
    std::uint64_t next_order = 0;
    std::unordered_map<std::string, Link> links;
  };

  Hdf5Writer(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}
  Result<Done> Write(std::uint64_t at, std::string_view bytes);
  std::uint64_t Take(std::uint64_t num_bytes, std::uint64_t alignment);
  std::uint64_t TakeWithinPage(std::uint64_t num_bytes);
  Result<Done> WriteSuperblock();
  Result<Done> BeginGroupAt(Group& group, std::uint64_t address, std::size_t num_bytes,
                            const Hdf5WriteAttributes& attributes);
  Result<Done> AddLink(Group& group, const std::string& name, std::uint64_t address);
  Result<Done> WriteBlocks(Group& group);
  Result<std::string> AttributeMessages(const Hdf5WriteAttributes& attributes);
  Result<std::string> TextReference(const std::string& text);

  const std::filesystem::path path_;
  const int fd_;
  std::uint64_t end_ = 0;  // of what is taken
  Group root_, group_;
  // Texts of attributes: where each is, and the collection that still has room.
  struct TextPlace {
    std::uint64_t address = 0;
    std::uint32_t number = 0;
  };
  std::unordered_map<std::string, TextPlace> texts_;
  std::uint64_t heap_address_ = 0;
  std::string heap_;  // its bytes so far, without what is free
  std::size_t heap_bytes_ = 0;
  std::uint32_t num_in_heap_ = 0;
};

}  // namespace vernier

// Chunked datasets: where the chunks are (hdf5_chunk_index.cc) and what was done to their bytes
// (hdf5_chunks.cc).
#pragma once

#include <cstdint>
#include <vector>

#include "format/hdf5_internal.h"

namespace vernier {

enum class Hdf5ChunkIndex : std::uint8_t {
  kOldTree = 0,  // version 1 B-tree; the others are numbered as in the file
  kSingle = 1,
  kImplicit = 2,
  kFixedArray = 3,
  kExtensibleArray = 4,
  kTree = 5,  // version 2 B-tree
};

struct Hdf5Filter {
  std::uint16_t id = 0;
  std::vector<std::uint32_t> parameters;
};

// All that loading needs besides the file. Sizes of chunks fit 32 bits.
struct Hdf5Chunks {
  Hdf5ChunkIndex index = Hdf5ChunkIndex::kOldTree;
  std::uint64_t index_address = kHdf5Undefined;
  std::vector<std::uint64_t> chunk_shape;
  std::vector<std::uint64_t> max_shape;  // of the dataset; kHdf5Undefined where it may grow
  std::uint64_t chunk_bytes = 0;
  std::vector<Hdf5Filter> filters;
  bool edges_unfiltered = false;   // chunks that reach past the dataset are stored as they are
  std::uint64_t single_bytes = 0;  // kSingle and filtered
  std::uint32_t single_mask = 0;
  Bytes fill;
};

struct Hdf5Chunk {
  std::uint64_t address = kHdf5Undefined, stored_bytes = 0;
  std::uint32_t filter_mask = 0;      // bit i: filter i was not applied
  std::vector<std::uint64_t> origin;  // the index of its first element
};

// The end of a version 4 layout message.
Result<Done> ParseChunkIndex(Hdf5Cursor& cursor, std::uint64_t flags, Hdf5Chunks& chunks);
// The chunks that were ever written. None lies outside of the dataset.
Result<std::vector<Hdf5Chunk>> ListHdf5Chunks(const Hdf5File& file, const Hdf5Chunks& chunks,
                                              const Shape& shape);

// Fails for filters that we do not have.
Result<std::vector<Hdf5Filter>> ParseHdf5Filters(const Hdf5File& file, std::span<const std::byte> message);
// All elements of a dataset in C order, in the file's byte order.
Result<Bytes> ReadHdf5Chunks(const Hdf5File& file, const Hdf5Chunks& chunks, const TensorInfo& info);

Result<Bytes> FilledBytes(std::uint64_t num_bytes, const Bytes& fill);

}  // namespace vernier

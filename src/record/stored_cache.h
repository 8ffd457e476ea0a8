// Which tensors were stored, of those that may come again: the output of one call is the input of the next.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "record/measured.h"
#include "record/tensor_words.h"

namespace vernier {

struct Stored;

// A table of fixed size in which a newer tensor takes the place of an older one: storages that come up again
// do so soon, or else are stored again. Not thread-safe.
class StoredCache {
 public:
  struct Known {
    Measured measured;
    Stored* stored = nullptr;       // null: no elements are kept
    std::uint64_t fingerprint = 0;  // of every byte, as it was then: versions do not tell every change
  };
  // Which elements of which memory at which version. Two numbers of 64 bits instead of shape and strides.
  struct Key {
    std::uint64_t first = 0, second = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };

  StoredCache();
  static Key KeyOf(const TensorWords& tensor);

  // Null when unknown. `num_bytes` is the size of the tensor.
  const Known* Find(const Key& key, std::uint64_t num_bytes) const;
  void Insert(const Key& key, std::uint64_t num_bytes, const Known& known);
  void Clear() { ++generation_; }

 private:
  // Small tensors are many and cheap to store again: their table stays in the processor's cache, and they
  // do not push out the large ones.
  static constexpr std::size_t kNumSmallRows = std::size_t{1} << 12, kNumLargeRows = std::size_t{1} << 14;
  static constexpr std::uint64_t kLargeBytes = std::uint64_t{1} << 14;
  struct Row {
    Key key;
    std::uint64_t generation = 0;
    Known known;
  };
  // Null when the machine had no memory for the tables: then nothing is remembered.
  Row* RowOf(const Key& key, std::uint64_t num_bytes) const {
    const bool is_large = num_bytes >= kLargeBytes;
    Row* const rows = is_large ? large_.get() : small_.get();
    return rows == nullptr ? nullptr : rows + key.first % (is_large ? kNumLargeRows : kNumSmallRows);
  }

  std::uint64_t generation_ = 1;
  // From calloc: a page that no tensor needed is never touched.
  struct Free {
    void operator()(Row* rows) const { std::free(rows); }
  };
  using Rows = std::unique_ptr<Row[], Free>;
  static Rows MakeRows(std::size_t count);
  Rows small_, large_;
};

}  // namespace vernier

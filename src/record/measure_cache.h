// What was measured of tensors that may come again: the output of one call is the input of the next.
#pragma once

#include <cstdint>
#include <memory>

#include "record/measured.h"
#include "record/tensor_words.h"

namespace vernier {

struct StoredFile;

// A table of fixed size in which a newer tensor takes the place of an older one: storages that come up again
// do so soon, or else are measured again. Not thread-safe.
class MeasureCache {
 public:
  struct Known {
    Measured measured;
    StoredFile* file = nullptr;  // null: not stored
  };
  // Which elements of which memory at which version. Two numbers of 64 bits instead of shape and strides.
  struct Key {
    std::uint64_t first = 0, second = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };

  MeasureCache();
  static Key KeyOf(const TensorWords& tensor);
  // Of some of the tensor's bytes, spread over it: a write that moves no version (through .data) shows here.
  // REQUIRES: tensor.readable()
  static std::uint64_t FingerprintOf(const TensorWords& tensor);

  // Null when unknown, or changed since.
  const Known* Find(const Key& key, std::uint64_t fingerprint) const;
  void Insert(const Key& key, std::uint64_t fingerprint, const Known& known);
  void Clear() { ++generation_; }

 private:
  static constexpr std::size_t kNumRows = std::size_t{1} << 15;
  struct Row {
    Key key;
    std::uint64_t fingerprint = 0, generation = 0;
    Known known;
  };
  std::uint64_t generation_ = 1;
  std::unique_ptr<Row[]> rows_;
};

}  // namespace vernier

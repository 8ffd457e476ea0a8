#include "record/measure_cache.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace vernier {
namespace {

constexpr std::uint64_t kNumSamples = 32;
constexpr std::uint64_t kOddA = 0x9e3779b97f4a7c15u, kOddB = 0xd1b54a32d192ed03u;

// The high and the low half of the product, so that every bit of both factors counts.
std::uint64_t Mix(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t LoadWord(const std::byte* from, std::uint64_t num_bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, std::min<std::uint64_t>(num_bytes, sizeof word));
  return word;
}

// Begins with what every key holds: where the memory is, its version and how it is read.
class KeyBuilder {
 public:
  explicit KeyBuilder(const TensorWords& tensor) {
    Add(static_cast<std::uint64_t>(tensor.address));
    Add(tensor.storage);
    Add(static_cast<std::uint64_t>(tensor.version));
    Add(static_cast<std::uint64_t>(*tensor.dtype));
    Add(static_cast<std::uint64_t>(tensor.device));
  }
  void Add(std::uint64_t word) {
    key_.first = Mix(key_.first ^ word, kOddA);
    key_.second = Mix(key_.second + word, kOddB);
  }
  const MeasureCache::Key& key() const { return key_; }

 private:
  MeasureCache::Key key_{kOddA, kOddB};
};

}  // namespace

MeasureCache::Rows MeasureCache::MakeRows(std::size_t count) {
  static_assert(std::is_trivially_copyable_v<Row> && std::is_trivially_destructible_v<Row>);
  return Rows(static_cast<Row*>(std::calloc(count, sizeof(Row))));
}

MeasureCache::MeasureCache() : small_(MakeRows(kNumSmallRows)), large_(MakeRows(kNumLargeRows)) {}

MeasureCache::Key MeasureCache::KeyOf(const TensorWords& tensor) {
  KeyBuilder key(tensor);
  key.Add(tensor.shape.size());
  for (const std::int64_t size : tensor.shape) key.Add(static_cast<std::uint64_t>(size));
  for (const std::int64_t stride : tensor.strides) key.Add(static_cast<std::uint64_t>(stride));
  return key.key();
}

MeasureCache::Key MeasureCache::KeyOf(const TensorWords& tensor, const Walk& walk) {
  KeyBuilder key(tensor);
  key.Add(tensor.shape.empty() ? 1 : 0);
  key.Add(walk.num_elements());
  key.Add(walk.repeat());
  for (const Walk::Axis& axis : walk.axes()) {
    key.Add(static_cast<std::uint64_t>(axis.size));
    key.Add(static_cast<std::uint64_t>(axis.stride));
  }
  return key.key();
}

std::uint64_t MeasureCache::FingerprintOf(const TensorWords& tensor) {
  const StridedTensor strided = tensor.strided();
  std::uint64_t last = 0;  // element
  for (std::size_t i = 0; i < strided.shape.size(); ++i) {
    last += static_cast<std::uint64_t>(strided.shape[i] - 1) * static_cast<std::uint64_t>(strided.strides[i]);
  }
  const std::uint64_t num_bytes = (last + 1) * ItemBytes(strided.dtype);
  std::uint64_t print = kOddB ^ num_bytes;
  if (num_bytes <= kNumSamples * sizeof print) {
    for (std::uint64_t at = 0; at < num_bytes; at += sizeof print) {
      print = Mix(print ^ LoadWord(strided.data + at, num_bytes - at), kOddA);
    }
    return print;
  }
  for (std::uint64_t i = 0; i < kNumSamples; ++i) {
    const std::uint64_t at = (num_bytes - sizeof print) / (kNumSamples - 1) * i;
    print = Mix(print ^ LoadWord(strided.data + at, sizeof print), kOddA);
  }
  return print;
}

const MeasureCache::Known* MeasureCache::Find(const Key& key, std::uint64_t fingerprint,
                                              std::uint64_t num_bytes) const {
  const Row* const row = RowOf(key, num_bytes);
  const bool is_it =
      row != nullptr && row->generation == generation_ && row->key == key && row->fingerprint == fingerprint;
  return is_it ? &row->known : nullptr;
}

void MeasureCache::Insert(const Key& key, std::uint64_t fingerprint, std::uint64_t num_bytes,
                          const Known& known) {
  Row* const row = RowOf(key, num_bytes);
  if (row != nullptr) *row = {key, fingerprint, generation_, known};
}

}  // namespace vernier

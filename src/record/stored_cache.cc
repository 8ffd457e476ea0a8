#include "record/stored_cache.h"

#include <type_traits>

namespace vernier {
namespace {

constexpr std::uint64_t kOddA = 0x9e3779b97f4a7c15u, kOddB = 0xd1b54a32d192ed03u;

// The high and the low half of the product, so that every bit of both factors counts.
std::uint64_t Mix(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

}  // namespace

StoredCache::Rows StoredCache::MakeRows(std::size_t count) {
  static_assert(std::is_trivially_copyable_v<Row> && std::is_trivially_destructible_v<Row>);
  return Rows(static_cast<Row*>(std::calloc(count, sizeof(Row))));
}

StoredCache::StoredCache() : small_(MakeRows(kNumSmallRows)), large_(MakeRows(kNumLargeRows)) {}

StoredCache::Key StoredCache::KeyOf(const TensorWords& tensor) {
  Key key{kOddA, kOddB};
  const auto add = [&](std::uint64_t word) {
    key.first = Mix(key.first ^ word, kOddA);
    key.second = Mix(key.second + word, kOddB);
  };
  add(static_cast<std::uint64_t>(tensor.address));
  add(tensor.storage);
  add(static_cast<std::uint64_t>(tensor.version));
  add(static_cast<std::uint64_t>(*tensor.dtype));
  add(tensor.shape.size());
  for (const std::int64_t size : tensor.shape) add(static_cast<std::uint64_t>(size));
  for (const std::int64_t stride : tensor.strides) add(static_cast<std::uint64_t>(stride));
  return key;
}

const StoredCache::Known* StoredCache::Find(const Key& key, std::uint64_t num_bytes) const {
  const Row* const row = RowOf(key, num_bytes);
  const bool is_it = row != nullptr && row->generation == generation_ && row->key == key;
  return is_it ? &row->known : nullptr;
}

void StoredCache::Insert(const Key& key, std::uint64_t num_bytes, const Known& known) {
  Row* const row = RowOf(key, num_bytes);
  if (row != nullptr) *row = {key, generation_, known};
}

}  // namespace vernier

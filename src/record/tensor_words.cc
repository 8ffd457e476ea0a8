#include "record/tensor_words.h"

#include <algorithm>
#include <string>

namespace vernier {
namespace {

constexpr std::size_t kFixedWords = 6;
#define VN_COUNT(id, type, name, kind) +1
constexpr std::int64_t kNumDtypes = 0 VN_FOR_EACH_DTYPE(VN_COUNT);
#undef VN_COUNT
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 62;

Error BadWords(std::string detail) { return Error{ErrorCode::kBadArgument, "words", std::move(detail)}; }

// Number of elements, or nothing when no memory could hold them. A zero counts before an overflow does.
std::optional<std::uint64_t> CountElements(std::span<const std::int64_t> shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::uint64_t count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(count, static_cast<std::uint64_t>(size), &count)) return {};
  }
  // 16 bytes is the largest element.
  return count <= kMaxBytes / 16 ? std::optional(count) : std::nullopt;
}

}  // namespace

Result<TensorWords> TakeTensor(std::span<const std::int64_t>& words) {
  if (words.size() < kFixedWords) return BadWords("fewer tensors than the text refers to");
  TensorWords tensor;
  tensor.address = words[0];
  tensor.storage = static_cast<std::uint64_t>(words[1]);
  tensor.version = words[2];
  if (words[3] >= 0 && words[3] < kNumDtypes) tensor.dtype = static_cast<Dtype>(words[3]);
  tensor.flags = static_cast<std::uint32_t>(words[4]);
  const std::int64_t num_axes = words[5];
  if (num_axes < 0 || num_axes > static_cast<std::int64_t>(Walk::kMaxAxes) ||
      words.size() - kFixedWords < static_cast<std::size_t>(2 * num_axes)) {
    return BadWords(std::to_string(num_axes) + " dimensions");
  }
  const auto axes = static_cast<std::size_t>(num_axes);
  const std::size_t more_words = (tensor.Has(kPlaced) ? 1 : 0) + (tensor.Has(kOnDevice) ? 2 : 0);
  if (words.size() - kFixedWords < 2 * axes + more_words)
    return BadWords("no offset or device behind the strides");
  tensor.shape = words.subspan(kFixedWords, axes);
  tensor.strides = words.subspan(kFixedWords + axes, axes);
  const std::optional<std::uint64_t> count = CountElements(tensor.shape);
  if (!count) return BadWords("a shape too large for memory");
  tensor.num_elements = *count;
  if (tensor.readable() && std::any_of(tensor.strides.begin(), tensor.strides.end(),
                                       [](std::int64_t stride) { return stride < 0; })) {
    return BadWords("a negative stride");
  }
  words = words.subspan(kFixedWords + 2 * axes);
  if (tensor.Has(kPlaced)) tensor.offset = words[0];
  if (tensor.Has(kOnDevice)) {
    tensor.device = words[more_words - 2];
    tensor.stream = words[more_words - 1];
  }
  words = words.subspan(more_words);
  return tensor;
}

}  // namespace vernier

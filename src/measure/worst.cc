// The elements of a pair that differ most, and where the error lies: a pass of its own, for a person who
// looks at one pair.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/mapped_file.h"
#include "core/threads.h"
#include "measure/accumulate_internal.h"
#include "measure/concentration.h"

namespace vernier {
namespace {

using internal::AxisSums;
using internal::kBlockElements;
using internal::PairPlan;
using internal::Reader;

// Chunks are merged one by one, and sums depend on where they are cut: a fixed size, large enough that the
// sums of the axes cost little beside it.
constexpr std::uint64_t kChunkNumbers = std::uint64_t{1} << 22;
// Squares of larger differences would overflow when they are added up.
constexpr double kLargestSquared = 0x1p480;
constexpr double kOneElementShare = 0.9;

// ---- units in the last place

struct FloatLayout {
  int mantissa_bits = 0, min_exponent = 0;
};

std::optional<FloatLayout> LayoutOf(Dtype number) {
  if (Class(number) != DtypeClass::kFloat) return std::nullopt;
  const auto bits = [number] {
    switch (number) {
      case Dtype::kF64:
        return 52;
      case Dtype::kF32:
        return 23;
      case Dtype::kF16:
        return 10;
      case Dtype::kBF16:
        return 7;
      case Dtype::kF8E4M3FN:
      case Dtype::kF8E4M3FNUZ:
        return 3;
      default:
        return 2;
    }
  };
  return FloatLayout{bits(), std::ilogb(internal::MinNormal(number))};
}

// The type in which the distance is counted: the coarser one, since the other side was rounded to it or
// should have been.
std::optional<FloatLayout> CommonLayout(Dtype target, Dtype golden) {
  const auto t = LayoutOf(target), g = LayoutOf(golden);
  if (!t || !g) return std::nullopt;
  return g->mantissa_bits < t->mantissa_bits ? g : t;
}

// Which of the type's numbers this is, counted from zero; neighbours differ by one.
std::int64_t OnNumberLine(double value, const FloatLayout& layout) {
  const double magnitude = std::abs(value);
  if (magnitude == 0) return 0;
  const int exponent = std::max(std::ilogb(magnitude), layout.min_exponent);
  const auto steps =
      static_cast<std::int64_t>(std::nearbyint(std::ldexp(magnitude, layout.mantissa_bits - exponent)));
  const std::int64_t place = (std::int64_t{exponent - layout.min_exponent} << layout.mantissa_bits) + steps;
  return value < 0 ? -place : place;
}

std::uint64_t UlpDistance(double a, double b, const FloatLayout& layout) {
  const std::int64_t x = OnNumberLine(a, layout), y = OnNumberLine(b, layout);
  return x > y ? static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y)
               : static_cast<std::uint64_t>(y) - static_cast<std::uint64_t>(x);
}

// ---- 64-bit integers, which double may not tell apart

__int128 WideAt(const Reader& reader, std::uint64_t index) {
  std::uint64_t bits = 0;
  if (reader.source != nullptr) {
    reader.source->Read(index, 1, reinterpret_cast<std::byte*>(&bits));
  } else {
    std::memcpy(&bits, reader.data + reader.OffsetBytes(index), sizeof bits);
  }
  return reader.number == Dtype::kU64 ? static_cast<__int128>(bits)
                                      : static_cast<__int128>(static_cast<std::int64_t>(bits));
}

double WideDifference(const PairPlan& plan, std::uint64_t index) {
  const __int128 t = WideAt(plan.target, index), g = WideAt(plan.golden, index);
  return static_cast<double>(t > g ? t - g : g - t);
}

std::string WideText(__int128 value) {
  return value < 0 ? std::to_string(static_cast<std::int64_t>(value))
                   : std::to_string(static_cast<std::uint64_t>(value));
}

// ---- one chunk

struct Number {
  std::uint64_t index = 0;
  double target = 0, golden = 0;
  double rank = 0;  // larger is worse
};

bool IsWorse(const Number& a, const Number& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.index < b.index;
}

// The worst so far: a heap with the least bad one on top.
class WorstNumbers {
 public:
  explicit WorstNumbers(std::size_t count) : count_(count) {}

  void Add(const Number& number) {
    if (count_ == 0) return;
    if (heap_.size() == count_) {
      if (!IsWorse(number, heap_.front())) return;
      std::pop_heap(heap_.begin(), heap_.end(), IsWorse);
      heap_.pop_back();
    }
    heap_.push_back(number);
    std::push_heap(heap_.begin(), heap_.end(), IsWorse);
  }
  void Merge(const WorstNumbers& next) {
    for (const Number& number : next.heap_) Add(number);
  }
  std::vector<Number> Sorted() && {
    std::sort(heap_.begin(), heap_.end(), IsWorse);
    return std::move(heap_);
  }

 private:
  std::size_t count_;
  std::vector<Number> heap_;
};

struct Chunk {
  Chunk(std::uint64_t first_number, std::uint64_t count, const Shape& shape, std::size_t num_worst)
      : first(first_number), num_numbers(count), squares(shape), specials(shape), worst(num_worst) {}

  void Merge(const Chunk& next) {
    num_different += next.num_different;
    num_specials += next.num_specials;
    sum_squares += next.sum_squares;
    squares.Merge(next.squares);
    specials.Merge(next.specials);
    worst.Merge(next.worst);
  }

  std::uint64_t first, num_numbers;
  std::uint64_t num_different = 0, num_specials = 0;
  double sum_squares = 0;
  AxisSums squares, specials;
  WorstNumbers worst;
};

double Squared(double difference) {
  const double kept = std::min(difference, kLargestSquared);
  return kept * kept;
}

class ChunkComparer {
 public:
  explicit ChunkComparer(const PairPlan& plan) : plan_(plan), buffers_(2 * kBlockElements) {}

  void Run(Chunk& chunk) {
    for (std::uint64_t done = 0; done < chunk.num_numbers; done += kBlockElements) {
      AddBlock(chunk.first + done,
               static_cast<std::size_t>(std::min<std::uint64_t>(kBlockElements, chunk.num_numbers - done)),
               chunk);
    }
  }

 private:
  void AddBlock(std::uint64_t first, std::size_t n, Chunk& chunk) {
    const internal::Kernels& kernels = internal::ActiveKernels();
    const double* t = internal::ReadBlock(plan_.target, first, n, kernels, buffers_.data());
    const double* g = internal::ReadBlock(plan_.golden, first, n, kernels, buffers_.data() + kBlockElements);
    const std::uint64_t specials_before = chunk.num_specials, different_before = chunk.num_different;
    for (std::size_t i = 0; i < n; ++i) AddNumber(first, i, t, g, chunk);
    if (chunk.num_different == different_before) return;
    const bool has_specials = chunk.num_specials > specials_before;
    std::uint64_t first_element = first;
    if (plan_.is_complex) {
      first_element /= 2;
      n = InTwos(squares_, n);
      if (has_specials) InTwos(specials_, n * 2);
    }
    chunk.squares.Add(first_element, squares_, n);
    if (has_specials) chunk.specials.Add(first_element, specials_, n);
  }

  void AddNumber(std::uint64_t first, std::size_t i, const double* t, const double* g, Chunk& chunk) {
    Number number{first + i};
    std::memcpy(&number.target, t + i, sizeof(double));  // the file's own bytes need not be aligned
    std::memcpy(&number.golden, g + i, sizeof(double));
    squares_[i] = specials_[i] = 0;
    if (plan_.exact_integers) {
      number.rank = WideDifference(plan_, number.index);
    } else if (number.target != number.golden) {
      number.rank = std::abs(number.target - number.golden);
    }
    if (number.rank == 0 || (std::isnan(number.target) && std::isnan(number.golden))) return;
    ++chunk.num_different;
    if (std::isfinite(number.target) && std::isfinite(number.golden)) {
      number.rank = std::min(number.rank, std::numeric_limits<double>::max());
      squares_[i] = Squared(number.rank);
      chunk.sum_squares += squares_[i];
    } else {
      number.rank = std::numeric_limits<double>::infinity();
      specials_[i] = 1;
      ++chunk.num_specials;
    }
    chunk.worst.Add(number);
  }

  // Chunks and blocks begin at even numbers: a complex number is never cut.
  static std::size_t InTwos(double* amounts, std::size_t n) {
    for (std::size_t i = 0; i < n / 2; ++i) amounts[i] = amounts[2 * i] + amounts[2 * i + 1];
    return n / 2;
  }

  const PairPlan& plan_;
  std::vector<double> buffers_;
  double squares_[kBlockElements], specials_[kBlockElements];
};

// ---- the whole pair

// The bytes of a chunk of one side: brought in at once, and let go of afterwards.
class ChunkBytes {
 public:
  ChunkBytes(const TensorView& view, const Reader& reader, const Chunk& chunk) {
    if (view.source != nullptr || view.file == nullptr) return;
    const std::size_t begin = reader.OffsetBytes(chunk.first);
    file_ = view.file.get();
    window_ = {view.data + begin, reader.OffsetBytes(chunk.first + chunk.num_numbers) - begin};
    file_->Fetch(window_);
  }
  ChunkBytes(const ChunkBytes&) = delete;
  ChunkBytes& operator=(const ChunkBytes&) = delete;
  ~ChunkBytes() {
    if (file_ != nullptr && file_->bytes().size() > kReleaseFilesAboveBytes) file_->Release(window_);
  }

 private:
  // Smaller mappings go away with their tensor.
  static constexpr std::size_t kReleaseFilesAboveBytes = std::size_t{32} << 20;
  const MappedFile* file_ = nullptr;
  std::span<const std::byte> window_;
};

Concentration ConcentrationOf(const Chunk& total, const std::vector<Number>& worst) {
  const bool of_specials = total.num_specials > 0;
  Concentration found;
  const double share_of_worst = worst.empty() ? 0
                                : of_specials ? 1 / static_cast<double>(total.num_specials)
                                              : Squared(worst.front().rank) / total.sum_squares;
  if (share_of_worst >= kOneElementShare) {
    found.kind = Concentration::Kind::kOneElement;
    found.share = std::min(share_of_worst, 1.0);
  } else {
    found = (of_specials ? total.specials : total.squares).Find();
  }
  found.of_specials = of_specials;
  return found;
}

RankedElement ElementOf(const Number& number, const PairPlan& plan,
                        const std::optional<FloatLayout>& layout) {
  RankedElement element;
  element.index = plan.is_complex ? number.index / 2 : number.index;
  element.is_imaginary = plan.is_complex && number.index % 2 == 1;
  element.target = number.target;
  element.golden = number.golden;
  const bool is_finite = std::isfinite(number.target) && std::isfinite(number.golden);
  element.abs_diff = is_finite ? number.rank : std::abs(number.target - number.golden);
  if (layout && is_finite) element.ulp = UlpDistance(number.target, number.golden, *layout);
  if (plan.exact_integers) {
    element.target_text = WideText(WideAt(plan.target, number.index));
    element.golden_text = WideText(WideAt(plan.golden, number.index));
  }
  return element;
}

}  // namespace

Result<ElementDifferences> CompareElements(const TensorView& target, const TensorView& golden,
                                           const ElementOptions& options) {
  VN_ASSIGN_OR_RETURN(const PairPlan plan, internal::PlanPair(target, golden, {}));
  const std::uint64_t num_numbers = plan.target.num_numbers;
  const std::size_t num_kept = std::max<std::size_t>(options.num_worst, 1);  // the worst tells of one element
  Chunk total(0, num_numbers, target.shape, num_kept);
  std::uint64_t bytes_done = 0;
  const auto work = [&](Chunk& chunk) {
    const ChunkBytes of_target(target, plan.target, chunk), of_golden(golden, plan.golden, chunk);
    ChunkComparer(plan).Run(chunk);
  };
  const auto take = [&](Chunk&& chunk) {
    total.Merge(chunk);
    bytes_done += plan.target.OffsetBytes(chunk.num_numbers) + plan.golden.OffsetBytes(chunk.num_numbers);
    if (options.on_progress) options.on_progress(bytes_done);
    return !options.stop.stop_requested();
  };
  const std::uint64_t num_chunks = (num_numbers + kChunkNumbers - 1) / kChunkNumbers;
  const int num_threads = static_cast<int>(std::min<std::uint64_t>(
      static_cast<std::uint64_t>(NumThreads(options.num_threads)), std::max<std::uint64_t>(num_chunks, 1)));
  OrderedQueue<Chunk> queue(num_threads, work, take);
  for (std::uint64_t first = 0; first < num_numbers; first += kChunkNumbers) {
    if (!queue.Push(Chunk(first, std::min(kChunkNumbers, num_numbers - first), target.shape, num_kept)))
      break;
  }
  queue.Finish();
  if (options.stop.stop_requested()) return Error{ErrorCode::kCancelled, "", ""};
  for (const TensorView* view : {&target, &golden}) {
    if (view->file != nullptr && view->file->changed())
      return Error{ErrorCode::kFileChanged, view->file->path(), ""};
  }
  ElementDifferences found;
  found.num_numbers = num_numbers;
  found.num_different = total.num_different;
  const std::vector<Number> worst = std::move(total.worst).Sorted();
  if (total.num_different > 0) found.concentration = ConcentrationOf(total, worst);
  const auto layout = CommonLayout(plan.target.number, plan.golden.number);
  for (const Number& number : worst) {
    if (found.worst.size() == options.num_worst) break;
    found.worst.push_back(ElementOf(number, plan, layout));
  }
  return found;
}

}  // namespace vernier

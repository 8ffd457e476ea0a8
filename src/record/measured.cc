#include "record/measured.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "core/json_writer.h"
#include "measure/plain_kernels_internal.h"

namespace vernier {
namespace {

static_assert(VN_SKETCH_WORDS == kSketchSums + 2);

constexpr double kLargestHalf = 65504;
constexpr double kSmallSquares = 0x1p-60;  // whose squares are near the end of float's range

float RoundToBFloat16(float value) {
  if (std::isnan(value)) return value;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7FFFu + (bits >> 16 & 1u)) & 0xFFFF0000u);
}

// To the tensor's own type, by way of float as torch does.
double RoundTo(Dtype dtype, double value) {
  const auto rounded = static_cast<float>(value);
  if (dtype == Dtype::kF16) return internal::plain::RoundToHalf(rounded);
  if (dtype == Dtype::kBF16) return RoundToBFloat16(rounded);
  return rounded;
}

struct Numbers {
  double mean, norm;
};

// torch sums in float, stores the sum in the tensor's type and divides there: that is where eight times 60000
// becomes infinite in float16. Squares are summed in float, and may overflow or vanish in it.
Numbers InOwnType(const Summary& summary, Dtype dtype) {
  const double sum = RoundTo(dtype, summary.sum);
  const auto count = static_cast<float>(summary.num_elements);
  double squares = summary.sum_sq;
  if (squares > std::numeric_limits<float>::max() || squares < std::numeric_limits<float>::min()) {
    squares = static_cast<float>(squares);
  }
  double norm = std::sqrt(squares);
  // Beyond the largest number of the type is infinite, even where rounding would lead back to that number.
  if (dtype == Dtype::kF16 && norm > kLargestHalf) norm = std::numeric_limits<double>::infinity();
  return {RoundTo(dtype, static_cast<float>(sum) / count), RoundTo(dtype, norm)};
}

Numbers InDouble(const Summary& summary) {
  return {summary.sum / static_cast<double>(summary.num_elements), std::sqrt(summary.sum_sq)};
}

void SetAll(Measured& measured, StatisticText text) { measured.statistics.fill(text); }

void SetFloats(const Summary& summary, Dtype dtype, bool is_scalar, bool high_precision, Measured& measured) {
  measured.not_finite = summary.has_nan() || std::isinf(summary.min) || std::isinf(summary.max);
  const auto text = [&](double value) {
    return StatisticText::OfDouble(summary.has_nan() ? std::numeric_limits<double>::quiet_NaN() : value);
  };
  if (is_scalar) return SetAll(measured, text(summary.min));
  measured.statistics[0] = text(summary.max);
  measured.statistics[1] = text(summary.min);
  if (dtype == Dtype::kF64 && !high_precision) return;
  const Numbers numbers = high_precision ? InDouble(summary) : InOwnType(summary, dtype);
  measured.statistics[2] = text(numbers.mean);
  measured.statistics[3] = text(numbers.norm);
}

void SetComplex(const Summary& summary, Dtype dtype, Measured& measured) {
  measured.not_finite = summary.has_nan() || std::isinf(summary.max);
  const double mean = summary.sum / static_cast<double>(summary.num_elements);
  const double numbers[] = {summary.max, summary.min,
                            dtype == Dtype::kC64 ? static_cast<double>(static_cast<float>(mean)) : mean};
  for (std::size_t i = 0; i < std::size(numbers); ++i) {
    measured.statistics[i] =
        StatisticText::OfDouble(summary.has_nan() ? std::numeric_limits<double>::quiet_NaN() : numbers[i]);
  }
}

void SetIntegers(const Summary& summary, Dtype dtype, bool is_scalar, bool high_precision,
                 Measured& measured) {
  const auto text = [&](std::int64_t value) {
    return dtype == Dtype::kU64 ? StatisticText::OfInteger(static_cast<std::uint64_t>(value))
                                : StatisticText::OfInteger(value);
  };
  if (is_scalar) return SetAll(measured, text(summary.integer_min));
  measured.statistics[0] = text(summary.integer_max);
  measured.statistics[1] = text(summary.integer_min);
  if (!high_precision) return;
  const Numbers numbers = InDouble(summary);
  measured.statistics[2] = StatisticText::OfDouble(numbers.mean);
  measured.statistics[3] = StatisticText::OfDouble(numbers.norm);
}

}  // namespace

StatisticText StatisticText::Copy(std::string_view text) {
  StatisticText copy;
  copy.size_ = static_cast<std::uint8_t>(std::min(text.size(), sizeof copy.text_));
  std::memcpy(copy.text_, text.data(), copy.size_);
  return copy;
}

StatisticText StatisticText::Null() { return Copy("null"); }
StatisticText StatisticText::OfBool(bool value) { return Copy(value ? "true" : "false"); }

template <class T>
StatisticText StatisticText::OfInteger(T value) {
  StatisticText text;
  text.size_ =
      static_cast<std::uint8_t>(std::to_chars(text.text_, std::end(text.text_), value).ptr - text.text_);
  return text;
}
template StatisticText StatisticText::OfInteger(std::int64_t value);
template StatisticText StatisticText::OfInteger(std::uint64_t value);

StatisticText StatisticText::OfDouble(double value) {
  thread_local std::string buffer;
  buffer.clear();
  AppendJsonFloat(value, buffer);
  return Copy(buffer);
}

Measured NothingMeasured() {
  Measured measured;
  SetAll(measured, StatisticText::Null());
  return measured;
}

void RoundSmallSquares(const StridedTensor& tensor, Summary& summary) {
  const bool is_bfloat = tensor.dtype == Dtype::kBF16;
  if ((tensor.dtype != Dtype::kF32 && !is_bfloat) || summary.has_nan() || summary.sum_sq == 0 ||
      std::max(-summary.min, summary.max) >= kSmallSquares) {
    return;
  }
  constexpr std::uint64_t kBlock = 1024;
  std::uint32_t bits[kBlock];
  std::uint16_t halves[kBlock];
  const Walk walk = Walk::ByMemory(tensor);
  double sum = 0;
  for (std::uint64_t first = 0; first < walk.num_elements(); first += kBlock) {
    const std::uint64_t count = std::min(kBlock, walk.num_elements() - first);
    if (is_bfloat) {
      walk.Gather(tensor.data, sizeof halves[0], first, count, reinterpret_cast<std::byte*>(halves));
      for (std::uint64_t i = 0; i < count; ++i) bits[i] = std::uint32_t{halves[i]} << 16;
    } else {
      walk.Gather(tensor.data, sizeof bits[0], first, count, reinterpret_cast<std::byte*>(bits));
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto value = std::bit_cast<float>(bits[i]);
      sum += value * value;
    }
  }
  summary.sum_sq = sum * static_cast<double>(walk.repeat());
}

SummaryRequest RequestFor(Dtype dtype, SummaryMode mode, bool high_precision, std::size_t sketch_sums) {
  SummaryRequest request;
  request.statistics = mode != SummaryMode::kXor && HasSummary(dtype);
  request.sums_of_integers = high_precision && Class(dtype) != DtypeClass::kBool;
  request.crc32 = mode == SummaryMode::kMd5;
  request.xor64 = mode == SummaryMode::kXor;
  request.sketch_sums = request.statistics ? sketch_sums : 0;
  return request;
}

std::shared_ptr<const Sketch> SketchFrom(std::span<const std::uint64_t, VN_SKETCH_WORDS> words,
                                         std::uint64_t num_elements, std::size_t sketch_sums) {
  Sketch sketch;
  sketch.whole = num_elements < kSketchSums;
  const std::size_t size = sketch.whole ? static_cast<std::size_t>(num_elements) : kSketchSums;
  for (const std::uint64_t word : words.first(size)) sketch.numbers.push_back(std::bit_cast<double>(word));
  sketch.num_bad = sketch.whole ? 0 : words[kSketchSums];
  const bool folds = !sketch.whole && sketch_sums < kSketchSums;
  return std::make_shared<const Sketch>(folds ? Folded(sketch, sketch_sums) : std::move(sketch));
}

Measured ApplyRules(const Summary& summary, Dtype dtype, bool is_scalar, SummaryMode mode,
                    bool high_precision) {
  Measured measured = NothingMeasured();
  measured.has_digest = mode != SummaryMode::kStatistics;
  measured.digest = mode == SummaryMode::kXor ? summary.xor64 : summary.crc32;
  if (mode == SummaryMode::kXor || !HasSummary(dtype)) return measured;
  switch (Class(dtype)) {
    case DtypeClass::kFloat:
      SetFloats(summary, dtype, is_scalar, high_precision, measured);
      break;
    case DtypeClass::kComplex:
      SetComplex(summary, dtype, measured);
      break;
    case DtypeClass::kBool:
      measured.statistics[0] = StatisticText::OfBool(summary.integer_max != 0);
      measured.statistics[1] = StatisticText::OfBool(summary.integer_min != 0);
      break;
    case DtypeClass::kSigned:
    case DtypeClass::kUnsigned:
      SetIntegers(summary, dtype, is_scalar, high_precision, measured);
      break;
  }
  return measured;
}

}  // namespace vernier

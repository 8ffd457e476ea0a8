#include "xray_ops/error_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "measure/summary.h"
#include "vernier/judge.h"

namespace vernier::xray_ops {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr std::size_t kOrdersOfAPass = std::tuple_size_v<decltype(MeasureOptions::thresholds)>;

// 10^-k as it is read from text: pow() may be off by a unit.
double Limit(std::size_t k) { return std::strtod(fmt::format("1e-{}", k).c_str(), nullptr); }

bool IsInteger(Dtype dtype) {
  return Class(dtype) != DtypeClass::kFloat && Class(dtype) != DtypeClass::kComplex;
}
bool IsEightBitFloat(Dtype dtype) { return Class(dtype) == DtypeClass::kFloat && ItemBytes(dtype) == 1; }

// Counts of a pair of real tensors, six orders for each reading of the memory.
Result<PairMeasures> MeasureOrders(const TensorView& cpu, const TensorView& device, int num_threads,
                                   std::vector<std::uint64_t>& above) {
  MeasureOptions options;
  options.groups =
      Group::kDiff | Group::kStats | Group::kClose | Group::kUlp | Group::kThresholds | Group::kDetails;
  options.num_threads = num_threads;
  std::optional<PairMeasures> first;
  for (std::size_t done = 0; done < above.size(); done += kOrdersOfAPass) {
    const std::size_t count = std::min(kOrdersOfAPass, above.size() - done);
    for (std::size_t k = 0; k < kOrdersOfAPass; ++k) options.thresholds[k] = Limit(done + k + 1);
    VN_ASSIGN_OR_RETURN(const PairMeasures measures, MeasurePair(device, cpu, options));
    for (std::size_t k = 0; k < count; ++k)
      above[done + k] = measures.num_abs_above[k] + measures.num_special_mismatches();
    if (!first) first = measures;
    options.groups = Group::kDiff | Group::kThresholds;
    // Integers differ by 1 at least, so that every order counts the same.
    if (IsInteger(cpu.dtype)) break;
  }
  if (IsInteger(cpu.dtype)) std::fill(above.begin(), above.end(), first->num_unequal());
  return *first;
}

void SetIntegerRange(const TensorView& cpu, ErrorCounts& counts) {
  Shape strides(cpu.shape.size());
  std::int64_t stride = 1;
  for (std::size_t axis = strides.size(); axis-- > 0; stride *= cpu.shape[axis]) strides[axis] = stride;
  SummaryRequest request;
  const Summary summary = Summarize({cpu.dtype, cpu.data, cpu.shape, strides}, request);
  const auto cell = [&](std::int64_t value) {
    return cpu.dtype == Dtype::kU64 ? Cell(static_cast<std::uint64_t>(value)) : Cell(value);
  };
  counts.min_value = cell(summary.integer_min);
  counts.max_value = cell(summary.integer_max);
}

Result<Done> CountReal(const TensorView& cpu, const TensorView& device, int num_threads,
                       ErrorCounts& counts) {
  VN_ASSIGN_OR_RETURN(const PairMeasures measures, MeasureOrders(cpu, device, num_threads, counts.above));
  counts.max = measures.num_special_mismatches() > 0 ? kInf : measures.max_abs_diff;
  if (IsInteger(cpu.dtype) && cpu.num_elements > 0) {
    SetIntegerRange(cpu, counts);
  } else if (measures.golden.num_finite() > 0) {
    counts.min_value = measures.golden.finite_min;
    counts.max_value = measures.golden.finite_max;
  }
  const bool one_unit = IsEightBitFloat(cpu.dtype) && measures.num_ulp_above == 0;
  counts.passes =
      measures.num_special_mismatches() == 0 && (one_unit || measures.num_close == measures.num_elements);
  if (counts.passes) return Done{};
  TensorInfo info;
  info.dtype = cpu.dtype;
  info.shape = cpu.shape;
  info.num_elements = cpu.num_elements;
  counts.message = Judge({&info, &info, &measures, nullptr}, {}).why;
  return Done{};
}

// Zero where both are the same, infinite for another special value.
double ComplexError(std::complex<double> device, std::complex<double> cpu) {
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  if (same(device.real(), cpu.real()) && same(device.imag(), cpu.imag())) return 0;
  const double error = std::abs(device - cpu);
  return std::isfinite(error) ? error : kInf;
}

template <class T>
std::complex<double> ComplexAt(const std::byte* data, std::uint64_t i) {
  std::complex<T> value;
  std::memcpy(&value, data + i * sizeof value, sizeof value);
  return {static_cast<double>(value.real()), static_cast<double>(value.imag())};
}

// Element by element: complex numbers are rare, and the kernels know only their parts.
template <class T>
void CountComplex(const TensorView& cpu, const TensorView& device, ErrorCounts& counts) {
  std::vector<double> limits;
  for (std::size_t k = 1; k <= counts.above.size(); ++k) limits.push_back(Limit(k));
  const Tolerance tolerance = DefaultTolerance(cpu.dtype, device.dtype);
  double max = 0, low = kInf, high = -kInf;
  std::uint64_t num_far = 0;
  for (std::uint64_t i = 0; i < cpu.num_elements; ++i) {
    const std::complex<double> want = ComplexAt<T>(cpu.data, i), got = ComplexAt<T>(device.data, i);
    const double error = ComplexError(got, want);
    const double size = std::abs(want);
    max = std::max(max, error);
    for (std::size_t k = 0; k < limits.size(); ++k) counts.above[k] += error > limits[k];
    num_far += error > 0 && !(error <= tolerance.atol + tolerance.rtol * size && error < kInf);
    if (!std::isfinite(size)) continue;
    low = std::min(low, size);
    high = std::max(high, size);
  }
  counts.max = max;
  if (low <= high) {
    counts.min_value = low;
    counts.max_value = high;
  }
  counts.passes = num_far == 0;
  if (counts.passes) return;
  counts.message = fmt::format("{} of {} elements differ by more than rtol {}, atol {}; largest error {}",
                               num_far, cpu.num_elements, tolerance.rtol, tolerance.atol, max);
}

}  // namespace

Result<Done> CheckOrders(int num_orders) {
  if (num_orders >= 1 && num_orders <= kMaxOrders) return Done{};
  return Error{ErrorCode::kBadArgument, fmt::format("orders {}", num_orders),
               fmt::format("expected a number from 1 to {}", kMaxOrders)};
}

Result<ErrorCounts> CountErrors(const TensorView& cpu, const TensorView& device, int num_orders,
                                int num_threads) {
  VN_RETURN_IF_ERROR(CheckOrders(num_orders));
  ErrorCounts counts;
  counts.dtype = cpu.dtype;
  counts.shape = cpu.shape;
  if (cpu.dtype != device.dtype || cpu.shape != device.shape) {
    counts.message = cpu.dtype != device.dtype ? fmt::format("dtype {} on the device, {} on the CPU",
                                                             Name(device.dtype), Name(cpu.dtype))
                                               : fmt::format("shape {} on the device, {} on the CPU",
                                                             ShapeText(device.shape), ShapeText(cpu.shape));
    // The numbers of the CPU are known all the same.
    VN_ASSIGN_OR_RETURN(const ErrorCounts alone, CountErrors(cpu, cpu, 1, num_threads));
    counts.min_value = alone.min_value;
    counts.max_value = alone.max_value;
    return counts;
  }
  counts.above.resize(static_cast<std::size_t>(num_orders));
  if (cpu.dtype == Dtype::kC64) {
    CountComplex<float>(cpu, device, counts);
  } else if (cpu.dtype == Dtype::kC128) {
    CountComplex<double>(cpu, device, counts);
  } else {
    VN_RETURN_IF_ERROR(CountReal(cpu, device, num_threads, counts));
  }
  return counts;
}

}  // namespace vernier::xray_ops

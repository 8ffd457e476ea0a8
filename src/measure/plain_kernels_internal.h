// One element after the other, from `first` to `n`; element i goes to lane i % kNumLanes. The SIMD kernels
// call these for what is left after the last full vector, so their definitions cannot drift apart.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "measure/kernels_internal.h"
#include "measure/sketch.h"

namespace vernier::internal::plain {

template <class T>
T LoadAt(const void* data, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void KeepMin(std::type_identity_t<T> value, T& min) {
  min = value < min ? value : min;
}
template <class T>
void KeepMax(std::type_identity_t<T> value, T& max) {
  max = value > max ? value : max;
}

template <class T>
void Stats(const T* x, std::size_t first, std::size_t n, StatsLanes& out) {
  for (std::size_t i = first; i < n; ++i) {
    const double value = LoadAt<T>(x, i);
    out.sum.lane[i % kNumLanes] += value;
    out.sum_sq.lane[i % kNumLanes] += value * value;
    KeepMin(value, out.min);
    KeepMax(value, out.max);
  }
}

template <class T>
void Centered(const T* x, std::size_t first, std::size_t n, double mean, Lanes& sum_sq) {
  for (std::size_t i = first; i < n; ++i) {
    const double value = static_cast<double>(LoadAt<T>(x, i)) - mean;
    sum_sq.lane[i % kNumLanes] += value * value;
  }
}

template <class T>
void Zeros(const T* x, std::size_t first, std::size_t n, double min_normal, ZeroCounts& out) {
  for (std::size_t i = first; i < n; ++i) {
    const double magnitude = std::abs(static_cast<double>(LoadAt<T>(x, i)));
    out.zero += magnitude == 0;
    out.denormal += magnitude != 0 && magnitude < min_normal;
  }
}

inline void CountRelative(double relative, double threshold_1e3, double threshold_5e3, RelativeLanes& out) {
  out.has_nan |= std::isnan(relative);
  KeepMax(relative, out.max);
  out.num_below_1e3 += relative < threshold_1e3;
  out.num_below_5e3 += relative < threshold_5e3;
}

template <class W, class T>  // W: the type it is computed in
void RelativeIn(const T* t, const T* g, std::size_t first, std::size_t n, double epsilon,
                RelativeLanes& out) {
  const W eps = static_cast<W>(epsilon);
  for (std::size_t i = first; i < n; ++i) {
    W a = static_cast<W>(LoadAt<T>(t, i)), b = static_cast<W>(LoadAt<T>(g, i));
    if (b == 0) {
      a += eps;
      b += eps;
    }
    CountRelative(std::abs((a - b) / b), static_cast<W>(0.001), static_cast<W>(0.005), out);
  }
}

template <class T>
void RelativeOfGolden(const T* t, const T* g, std::size_t first, std::size_t n, RelativeLanes& out) {
  for (std::size_t i = first; i < n; ++i) {
    const double b = LoadAt<T>(g, i), magnitude = std::abs(static_cast<double>(LoadAt<T>(t, i)) - b);
    CountRelative(magnitude == 0 ? 0 : magnitude / std::abs(b), 0.001, 0.005, out);
  }
}

inline float HalfToFloat(std::uint16_t half) {
  const std::uint32_t magnitude = (half & 0x7fffu) << 13;
  // Scaling by 2^112 moves the exponent and makes subnormal halves normal floats; exponent 31 stays special.
  const std::uint32_t scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const std::uint32_t special = (half & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0;
  return std::bit_cast<float>(scaled | special | static_cast<std::uint32_t>(half & 0x8000u) << 16);
}

template <class T>
inline constexpr bool kIsFloat8 = std::is_same_v<T, Float8E4M3FN> || std::is_same_v<T, Float8E5M2> ||
                                  std::is_same_v<T, Float8E4M3FNUZ> || std::is_same_v<T, Float8E5M2FNUZ>;

// The value of a stored element: halves become floats, the others are their own value.
template <class T>
auto ValueOf(T stored) {
  if constexpr (std::is_same_v<T, Float16>) {
    return HalfToFloat(stored.bits);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(stored.bits) << 16);
  } else {
    return stored;
  }
}

// Nearest half-precision value, ties to even; as a float.
inline float RoundToHalf(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu, sign = bits & 0x80000000u;
  if (magnitude >= 0x7f800000u) return value;
  float rounded;
  if (magnitude < 0x38800000u) {  // below 2^-14 halves are multiples of 2^-24, and so are floats around 0.5
    rounded = (std::bit_cast<float>(magnitude) + 0.5f) - 0.5f;
  } else {
    rounded = std::bit_cast<float>((magnitude + 0xfffu + (magnitude >> 13 & 1u)) & ~0x1fffu);
    if (rounded > 65504.0f) rounded = HUGE_VALF;
  }
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(rounded) | sign);
}

// The smallest float that RoundToHalf makes `half` out of. REQUIRES: `half` is a normal, positive half.
inline float FirstRoundingTo(float half) {
  const std::uint32_t middle =
      std::bit_cast<std::uint32_t>(half) - 0x1000u;  // between it and the half before
  return std::bit_cast<float>(RoundToHalf(std::bit_cast<float>(middle)) == half ? middle : middle + 1);
}

inline void RelativeHalf(const float* t, const float* g, std::size_t first, std::size_t n,
                         RelativeLanes& out) {
  for (std::size_t i = first; i < n; ++i) {
    // 2^-52 is far below the smallest half, so adding it where g = 0 changes nothing: 0/0 is NaN, x/0
    // infinite.
    const float a = LoadAt<float>(t, i), b = LoadAt<float>(g, i);
    const float relative = std::abs(RoundToHalf(RoundToHalf(a - b) / b));
    CountRelative(relative, RoundToHalf(0.001f), RoundToHalf(0.005f), out);
  }
}

template <class T>
void Details(const T* t, const T* g, std::size_t first, std::size_t n, double floor, DetailLanes& out) {
  for (std::size_t i = first; i < n; ++i) {
    const double a = LoadAt<T>(t, i), b = LoadAt<T>(g, i), d = a - b, magnitude = std::abs(b);
    const double relative = std::abs(d) / (magnitude > floor ? magnitude : floor);
    out.abs_d.lane[i % kNumLanes] += std::abs(d);
    out.d.lane[i % kNumLanes] += d;
    out.greater += a > b;
    out.less += a < b;
    out.num_below_1e3 += relative < 0.001;
    out.num_below_5e3 += relative < 0.005;
  }
}

// REQUIRES: with kPartStats, the extremes hold those of the elements before `first`, or element 0 itself.
template <unsigned kParts, class T>
void Pair(const T* t, const T* g, std::size_t first, std::size_t n, const PairParameters& parameters,
          PairLanes& out) {
  for (std::size_t i = first; i < n; ++i) {
    const std::size_t lane = i % kNumLanes;
    const double a = LoadAt<T>(t, i), b = LoadAt<T>(g, i), d = a - b, magnitude = std::abs(b);
    out.dot.lane[lane] += a * b;
    out.sq_t.lane[lane] += a * a;
    out.sq_g.lane[lane] += b * b;
    out.sq_d.lane[lane] += d * d;
    KeepMax(std::abs(d), out.max_abs_d.lane[lane]);
    if constexpr ((kParts & kPartStats) != 0) {
      out.sum_t.lane[lane] += a;
      out.sum_g.lane[lane] += b;
      KeepMin(a, out.min_t);
      KeepMax(a, out.max_t);
      KeepMin(b, out.min_g);
      KeepMax(b, out.max_g);
    }
    if constexpr ((kParts & kPartRelative) != 0) {
      const double relative = std::abs(d) / (magnitude > parameters.floor ? magnitude : parameters.floor);
      out.relative.sum.lane[lane] += relative;
      KeepMax(relative, out.relative.max);
    }
    if constexpr ((kParts & kPartClose) != 0)
      out.num_close += std::abs(d) <= parameters.atol + parameters.rtol * magnitude;
    if constexpr ((kParts & kPartErrors) != 0) {
      KeepMin(std::abs(d), out.min_abs_d);
      out.num_above += std::abs(d) > parameters.above;
    }
  }
}

// exp(x) for x <= 0, within two units in the last place of float; 0 from e^-87 on, where floats end. Only
// additions and products, so that every instruction set gives the same bits.
struct ExpConstants {
  static constexpr float kLowest = -87.0f, kLog2E = 1.44269504088896341f;
  static constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves no room behind the point
  static constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  static constexpr float kPolynomial[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                          4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
};
inline float ExpOfNegative(float x) {
  using C = ExpConstants;
  if (!(x >= C::kLowest)) return 0;
  const float n = (x * C::kLog2E + C::kRound) - C::kRound;
  const float r = (x - n * C::kLn2High) - n * C::kLn2Low;
  float y = C::kPolynomial[0];
  for (std::size_t i = 1; i < 6; ++i) y = y * r + C::kPolynomial[i];
  y = (y * (r * r) + r) + 1.0f;
  const auto exponent = static_cast<std::uint32_t>(static_cast<std::int32_t>(n) + 127);
  return y * std::bit_cast<float>(exponent << 23);
}

// The same, where it only weighs elements: 2^y with y rounded to float, which costs a few units in the last
// place more.
struct WeightConstants {
  // 2^f for |f| <= 1/2, off by 2e-7 at most.
  static constexpr float kPolynomial[] = {1.32647273e-03f, 9.67151299e-03f, 5.55073358e-02f,
                                          2.40222424e-01f, 6.93147004e-01f, 1.0f};
};
inline float WeightOfNegative(float x) {
  using C = ExpConstants;
  if (!(x >= C::kLowest)) return 0;
  const float y = x * C::kLog2E, shifted = y + C::kRound, f = y - (shifted - C::kRound);
  float power = WeightConstants::kPolynomial[0];
  for (std::size_t i = 1; i < 6; ++i) power = power * f + WeightConstants::kPolynomial[i];
  // The low bits of `shifted` are the exponent.
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(power) +
                              (std::bit_cast<std::uint32_t>(shifted) << 23));
}

// exp(x) for |x| <= DivergenceParameters::kNearDistance, within a unit in the last place.
inline float ExpOfNearZero(float x) { return 1.0f + x * (1.0f + x * (0.5f + x * 0.16666667f)); }

// What one element adds to the sums of DivergenceLanes.
struct DivergenceTerms {
  float exp_t = 0, exp_g = 0, exp_diff = 0, abs = 0, relative = 0;

  friend DivergenceTerms operator+(const DivergenceTerms& x, const DivergenceTerms& y) {
    return {x.exp_t + y.exp_t, x.exp_g + y.exp_g, x.exp_diff + y.exp_diff, x.abs + y.abs,
            x.relative + y.relative};
  }
  void AddTo(std::size_t lane, DivergenceLanes& out) const {
    out.exp_t.lane[lane] += exp_t;
    out.exp_g.lane[lane] += exp_g;
    out.exp_diff.lane[lane] += exp_diff;
    out.abs.lane[lane] += abs;
    out.relative.lane[lane] += relative;
  }
};

inline DivergenceTerms DivergenceOf(float a, float b, const DivergenceParameters& parameters,
                                    DivergenceLanes& out) {
  const float d = a - b, magnitude = std::abs(d), size = std::abs(b);
  const float from_max_t = a - parameters.max_t, from_max_g = b - parameters.max_g;
  const float apart = parameters.near ? d - (parameters.max_t - parameters.max_g) : from_max_t - from_max_g;
  const float relative = magnitude == 0 ? 0 : magnitude / size;
  const bool counts = size > 0x1p-23f;
  DivergenceTerms terms;
  terms.exp_g = parameters.near ? WeightOfNegative(from_max_g) : ExpOfNegative(from_max_g);
  terms.exp_t = parameters.near ? terms.exp_g * ExpOfNearZero(apart) : ExpOfNegative(from_max_t);
  // Far below both maxima an infinite distance may meet a weight of nothing.
  terms.exp_diff = terms.exp_g == 0 ? 0 : terms.exp_g * apart;
  terms.abs = counts ? magnitude : 0.0f;
  terms.relative = counts ? relative : 0.0f;
  KeepMax(relative, out.max_any_relative);
  KeepMax(terms.abs, out.max_abs);
  KeepMax(terms.relative, out.max_relative);
  return terms;
}

// Elements that are added up four by four in float before they go to the lanes, which are double: conversions
// cost more than what they would save. What does not fill a unit goes to the lanes one by one.
struct DivergenceUnit {
  static constexpr std::size_t kWays = 4, kBetweenWays = 16, kElements = kWays * kBetweenWays;
};

// REQUIRES: `first` is a multiple of DivergenceUnit::kElements
inline void Divergence(const float* t, const float* g, std::size_t first, std::size_t n,
                       const DivergenceParameters& parameters, DivergenceLanes& out) {
  using U = DivergenceUnit;
  const auto terms_at = [&](std::size_t i) {
    return DivergenceOf(LoadAt<float>(t, i), LoadAt<float>(g, i), parameters, out);
  };
  std::size_t i = first;
  for (; i + U::kElements <= n; i += U::kElements) {
    for (std::size_t j = 0; j < U::kBetweenWays; ++j) {
      DivergenceTerms terms[U::kWays];
      for (std::size_t k = 0; k < U::kWays; ++k) terms[k] = terms_at(i + j + k * U::kBetweenWays);
      ((terms[0] + terms[1]) + (terms[2] + terms[3])).AddTo(j % kNumLanes, out);
    }
  }
  for (; i < n; ++i) terms_at(i).AddTo(i % kNumLanes, out);
}

template <class T>
void Thresholds(const T* t, const T* g, std::size_t first, std::size_t n, const double* limits,
                std::uint64_t* above) {
  for (std::size_t i = first; i < n; ++i) {
    const double d = std::abs(static_cast<double>(LoadAt<T>(t, i)) - static_cast<double>(LoadAt<T>(g, i)));
    for (std::size_t k = 0; k < kNumAbsThresholds; ++k) above[k] += d > limits[k];
  }
}

// Sign and magnitude become a number line on which neighbours differ by one; -0 and 0 are the same point.
template <class Bits>
std::int64_t OnNumberLine(Bits bits) {
  constexpr Bits kSign = Bits(1) << (8 * sizeof(Bits) - 1);
  const auto magnitude = static_cast<std::int64_t>(bits & static_cast<Bits>(kSign - 1));
  return bits & kSign ? -magnitude : magnitude;
}

template <class Bits>
std::uint64_t UlpDistance(Bits a, Bits b) {
  const std::int64_t x = OnNumberLine(a), y = OnNumberLine(b);
  return x > y ? static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y)
               : static_cast<std::uint64_t>(y) - static_cast<std::uint64_t>(x);
}

template <class Bits>
void Ulp(const void* t, const void* g, std::size_t first, std::size_t n, std::uint64_t threshold,
         UlpCounts& out) {
  for (std::size_t i = first; i < n; ++i) {
    const std::uint64_t distance = UlpDistance(LoadAt<Bits>(t, i), LoadAt<Bits>(g, i));
    KeepMax(distance, out.max);
    out.above += distance > threshold;
    out.sum += distance;
  }
}

template <class Bits>
std::uint64_t MaxUlp(const void* t, const void* g, std::size_t first, std::size_t n) {
  std::uint64_t max = 0;
  for (std::size_t i = first; i < n; ++i) KeepMax(UlpDistance(LoadAt<Bits>(t, i), LoadAt<Bits>(g, i)), max);
  return max;
}

template <class T, class W>
void Widen(const void* in, std::size_t first, std::size_t n, W* out) {
  for (std::size_t i = first; i < n; ++i) out[i] = ValueOf(LoadAt<T>(in, i));
}

template <class T>
void Sum(const T* x, std::size_t first, std::size_t n, SumLanes& lanes) {
  for (std::size_t i = first; i < n; ++i) {
    const auto value = static_cast<double>(ValueOf(LoadAt<T>(x, i)));
    lanes.sum[i % kNumSumLanes] += value;
    lanes.sum_sq[i % kNumSumLanes] += value * value;
  }
}

// A range to begin with.
template <class T>
Range<Work<T>> FirstRange(const T* x) {
  const Work<T> value = ValueOf(LoadAt<T>(x, 0));
  return {value, value};
}

template <class T>
void FindRange(const T* x, std::size_t first, std::size_t n, Range<Work<T>>& range) {
  for (std::size_t i = first; i < n; ++i) {
    const Work<T> value = ValueOf(LoadAt<T>(x, i));
    KeepMin(value, range.min);
    KeepMax(value, range.max);
  }
}

// `begin`: of what is left of the block. See SketchKernel.
template <bool kSomeMayNot, class T>
std::uint64_t AddToSketch(const T* x, std::size_t begin, std::size_t n, std::uint64_t first, double* sums) {
  std::uint64_t num_bad = 0, signs = 0;
  std::size_t turn = 0;
  for (std::size_t i = begin; i < n; ++i) {
    const std::size_t place = i % kSketchSums;
    if (place == 0 || i == begin) {
      signs = SketchSigns((first + i) / kSketchSums);
      turn = SketchTurn((first + i) / kSketchSums);
    }
    auto value = static_cast<double>(ValueOf(LoadAt<T>(x, i)));
    if (kSomeMayNot && !(std::abs(value) <= kSketchLargest)) {
      value = 0;
      ++num_bad;
    }
    sums[place ^ turn] += (signs >> place & 1) != 0 ? -value : value;
  }
  return num_bad;
}

// REQUIRES: first % 8 == 0
inline std::uint64_t Xor64(const std::byte* bytes, std::size_t first, std::size_t num_bytes) {
  std::uint64_t result = 0;
  for (std::size_t i = first; i < num_bytes; i += sizeof result) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i, num_bytes - i < sizeof word ? num_bytes - i : sizeof word);
    result ^= word;
  }
  return result;
}

}  // namespace vernier::internal::plain

// The plain loops: what the SIMD kernels must agree with to the last bit, and what finishes their last few
// elements.
#include "measure/plain_kernels_internal.h"
#include "measure/plain_precheck_internal.h"

namespace vernier::internal {
namespace {

template <unsigned kParts, class T>
void Pair(const T* t, const T* g, std::size_t n, const PairParameters& parameters, PairLanes& out) {
  out.min_t = out.max_t = plain::LoadAt<T>(t, 0);
  out.min_g = out.max_g = plain::LoadAt<T>(g, 0);
  plain::Pair<kParts>(t, g, 0, n, parameters, out);
}

template <class Bits>
void Ulp(const void* t, const void* g, std::size_t n, std::uint64_t threshold, UlpCounts& out) {
  plain::Ulp<Bits>(t, g, 0, n, threshold, out);
}
template <class Bits>
std::uint64_t MaxUlp(const void* t, const void* g, std::size_t n) {
  return plain::MaxUlp<Bits>(t, g, 0, n);
}

template <class T, class W>
void Widen(const void* in, std::size_t n, W* out) {
  plain::Widen<T>(in, 0, n, out);
}
template <class... T>
constexpr SumTable<T...> AllSums(Types<T...>) {
  return {[](const T* x, std::size_t n, SumLanes& lanes) { plain::Sum(x, 0, n, lanes); }...};
}
template <class... T>
constexpr RangeTable<T...> AllRanges(Types<T...>) {
  return {[](const T* x, std::size_t n, Range<Work<T>>& range) { plain::FindRange(x, 0, n, range); }...};
}

template <class... T>
constexpr SketchTable<T...> AllSketches(Types<T...>) {
  return {{[](const T* x, std::size_t n, std::uint64_t first, double* sums) {
            return plain::AddToSketch<false>(x, 0, n, first, sums);
          }...},
          {[](const T* x, std::size_t n, std::uint64_t first, double* sums) {
            return plain::AddToSketch<true>(x, 0, n, first, sums);
          }...}};
}

template <unsigned kParts, class T>
void Precheck(const T* t, const T* g, std::size_t n, const PrecheckParameters& parameters,
              PrecheckLanes& out) {
  plain::Precheck<kParts>(t, g, 0, n, parameters, out);
}

template <class T>
constexpr TypedKernels<T> kTyped = {
    {Pair<0, T>, Pair<1, T>, Pair<2, T>, Pair<3, T>, Pair<4, T>, Pair<5, T>, Pair<6, T>, Pair<7, T>,
     Pair<8, T>, Pair<9, T>, Pair<10, T>, Pair<11, T>, Pair<12, T>, Pair<13, T>, Pair<14, T>, Pair<15, T>},
    [](const T* t, const T* g, std::size_t n, double floor, DetailLanes& out) {
      plain::Details(t, g, 0, n, floor, out);
    },
    [](const T* x, std::size_t n, StatsLanes& out) {
      out.min = out.max = plain::LoadAt<T>(x, 0);
      plain::Stats(x, 0, n, out);
    },
    [](const T* x, std::size_t n, double mean, Lanes& sum_sq) { plain::Centered(x, 0, n, mean, sum_sq); },
    [](const T* x, std::size_t n, double min_normal, ZeroCounts& out) {
      plain::Zeros(x, 0, n, min_normal, out);
    },
    [](const T* t, const T* g, std::size_t n, double epsilon, RelativeLanes& out) {
      plain::RelativeIn<T>(t, g, 0, n, epsilon, out);
    },
    [](const T* t, const T* g, std::size_t n, RelativeLanes& out) {
      plain::RelativeOfGolden(t, g, 0, n, out);
    },
    [](const T* t, const T* g, std::size_t n, double epsilon, RelativeLanes& out) {
      plain::RelativeIn<double>(t, g, 0, n, epsilon, out);
    },
    [](const T* t, const T* g, std::size_t n, const double* limits, std::uint64_t* above) {
      plain::Thresholds(t, g, 0, n, limits, above);
    },
    {Precheck<0, T>, Precheck<1, T>, Precheck<2, T>, Precheck<3, T>, Precheck<4, T>, Precheck<5, T>,
     Precheck<6, T>, Precheck<7, T>},
};

constexpr Kernels kPlain = {
    "PLAIN",
    kTyped<float>,
    kTyped<double>,
    Widen<Float16>,
    Widen<BFloat16>,
    Widen<float>,
    [](const float* t, const float* g, std::size_t n, RelativeLanes& out) {
      plain::RelativeHalf(t, g, 0, n, out);
    },
    {Ulp<std::uint16_t>, MaxUlp<std::uint16_t>},
    {Ulp<std::uint32_t>, MaxUlp<std::uint32_t>},
    {AllSums(SummedTypes()), AllRanges(RangedTypes()), AllSketches(SummedTypes()),
     [](const std::byte* bytes, std::size_t num_bytes) { return plain::Xor64(bytes, 0, num_bytes); }},
    [](const float* t, const float* g, std::size_t n, const DivergenceParameters& parameters,
       DivergenceLanes& out) { plain::Divergence(t, g, 0, n, parameters, out); },
};

}  // namespace

const Kernels& PlainKernels() { return kPlain; }

}  // namespace vernier::internal

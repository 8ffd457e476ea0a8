// The SIMD loop of sketches, compiled once for each instruction set by kernels.cc, behind stored-inl.h.
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "measure/plain_kernels_internal.h"
#include "measure/sketch.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::internal {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The exclusive or of a lane's number and the turn: its high bits choose the register of sums, its low bits
// permute within it. All lane numbers of permutations lie one behind the other here.
struct SketchLanes {
  alignas(64) std::uint64_t to_top[kSketchSums];       // shifts the sign of each element of a block to the top
  alignas(64) std::int64_t turned[kNumLanes][kNumLanes];  // lane ^ turn
  SketchLanes() {
    for (std::size_t i = 0; i < kSketchSums; ++i) to_top[i] = kSketchSums - 1 - i;
    for (std::size_t turn = 0; turn < kNumLanes; ++turn) {
      for (std::size_t i = 0; i < kNumLanes; ++i)
        turned[turn][i] = static_cast<std::int64_t>((i ^ turn) % hn::Lanes(D64()));
    }
  }
};

template <bool kSomeMayNot, class T>
std::uint64_t AddToSketch(const T* x, std::size_t n, std::uint64_t first, double* sums) {
  static const SketchLanes lanes;
  const D64 d;
  const hn::RebindToUnsigned<D64> du;
  const std::size_t width = hn::Lanes(d), whole = n - n % kSketchSums;
  const auto top = hn::Set(du, std::uint64_t{1} << 63);
  const V64 largest = hn::Set(d, kSketchLargest);
  std::uint64_t num_counted = 0;
  for (std::size_t i = 0; i < whole; i += kSketchSums) {
    const std::uint64_t block = (first + i) / kSketchSums;
    const std::size_t turn = SketchTurn(block), turned = turn % width;
    const auto signs = hn::Set(du, SketchSigns(block));
    const auto order = hn::SetTableIndices(d, lanes.turned[turned]);
    double* const to = sums;
    for (std::size_t lane = 0; lane < kSketchSums; lane += width) {
      V64 value = LoadAs(d, x + i + lane);
      if constexpr (kSomeMayNot) {
        const auto counts = hn::Le(hn::Abs(value), largest);
        value = hn::IfThenElseZero(counts, value);
        num_counted += hn::CountTrue(d, counts);
      }
      const auto sign = hn::And(hn::Shl(signs, hn::Load(du, lanes.to_top + lane)), top);
      value = hn::BitCast(d, hn::Xor(hn::BitCast(du, value), sign));
      double* const place = to + (lane ^ (turn - turned));
      hn::StoreU(hn::Add(hn::LoadU(d, place), hn::TableLookupLanes(value, order)), d, place);
    }
  }
  const std::uint64_t num_bad = kSomeMayNot ? whole - num_counted : 0;
  return num_bad + plain::AddToSketch<kSomeMayNot>(x, whole, n, first, sums);
}

template <class... T>
constexpr SketchTable<T...> AllSketches(Types<T...>) {
  return {{AddToSketch<false, T>...}, {AddToSketch<true, T>...}};
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::internal
HWY_AFTER_NAMESPACE();

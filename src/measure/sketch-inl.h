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

// Constants, by the lanes of registers.
struct SketchLanes {
  alignas(64) std::uint64_t to_top[kSketchSums];  // shifts the sign of each element of a group to the top
  alignas(64) std::int64_t turned[kNumLanes][kNumLanes];  // lane ^ turn
  SketchLanes() {
    for (std::size_t i = 0; i < kSketchSums; ++i) to_top[i] = kSketchSums - 1 - i;
    for (std::size_t turn = 0; turn < kNumLanes; ++turn) {
      for (std::size_t i = 0; i < kNumLanes; ++i)
        turned[turn][i] = static_cast<std::int64_t>((i ^ turn) % hn::Lanes(D64()));
    }
  }
};

// Sums stay in registers while all groups of the block are gone through: for each register of sums the one of
// elements that goes there, which the high bits of the turn tell; the low bits permute within it.
template <bool kSomeMayNot, class T>
std::uint64_t AddToSketch(const T* x, std::size_t n, std::uint64_t first, double* sums) {
  static const SketchLanes lanes;
  const D64 d;
  const hn::RebindToUnsigned<D64> du;
  const std::size_t width = hn::Lanes(d), num_groups = n / kSketchSums;
  const auto top = hn::Set(du, std::uint64_t{1} << 63);
  const V64 largest = hn::Set(d, kSketchLargest);
  std::uint64_t signs_of[kBlockElements / kSketchSums];
  std::uint32_t turns[kBlockElements / kSketchSums];
  for (std::size_t i = 0; i < num_groups; ++i) {
    signs_of[i] = SketchSigns(first / kSketchSums + i);
    turns[i] = static_cast<std::uint32_t>(SketchTurn(first / kSketchSums + i));
  }
  std::uint64_t num_counted = 0;
  for (std::size_t lane = 0; lane < kSketchSums; lane += 4 * width) {
    double* const to = sums + lane;
    V64 s0 = hn::LoadU(d, to), s1 = hn::LoadU(d, to + width), s2 = hn::LoadU(d, to + 2 * width),
        s3 = hn::LoadU(d, to + 3 * width);
    for (std::size_t i = 0; i < num_groups; ++i) {
      const std::size_t turned = turns[i] % width, turn = turns[i] - turned;
      const auto signs = hn::Set(du, signs_of[i]);
      const auto order = hn::SetTableIndices(d, lanes.turned[turned]);
      const T* const group = x + i * kSketchSums;
      const auto signed_from = [&](std::size_t from) HWY_ATTR {
        V64 value = LoadAs(d, group + from);
        if constexpr (kSomeMayNot) {
          const auto counts = hn::Le(hn::Abs(value), largest);
          value = hn::IfThenElseZero(counts, value);
          num_counted += hn::CountTrue(d, counts);
        }
        const auto sign = hn::And(hn::Shl(signs, hn::Load(du, lanes.to_top + from)), top);
        return hn::TableLookupLanes(hn::BitCast(d, hn::Xor(hn::BitCast(du, value), sign)), order);
      };
      s0 = hn::Add(s0, signed_from(lane ^ turn));
      s1 = hn::Add(s1, signed_from((lane + width) ^ turn));
      s2 = hn::Add(s2, signed_from((lane + 2 * width) ^ turn));
      s3 = hn::Add(s3, signed_from((lane + 3 * width) ^ turn));
    }
    hn::StoreU(s0, d, to);
    hn::StoreU(s1, d, to + width);
    hn::StoreU(s2, d, to + 2 * width);
    hn::StoreU(s3, d, to + 3 * width);
  }
  const std::size_t whole = num_groups * kSketchSums;
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

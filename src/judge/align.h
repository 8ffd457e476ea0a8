// Which call of the golden recording a call of the target is to be held against: by what it is and where it
// stands, so that an additional call shifts nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "judge/call.h"

namespace vernier {

enum class PairedBy : std::uint8_t {
  kNothing,
  kName,   // the same name at the same place
  kPlace,  // the same kind of call at the same place of the model
  kOrder,  // the same kind of call at the same point of the program
  kFused,  // one call of one side does the work of several of the other
};
std::string_view Name(PairedBy how);  // "name", …

// Calls of which one side makes one and the other several, in their order; the last of both are paired.
struct FusedRun {
  std::vector<std::uint32_t> target, golden;
};

struct Alignment {
  std::vector<std::uint32_t> golden_of;  // for each target call; kNoCall
  std::vector<PairedBy> how;             // for each target call
  std::vector<std::uint32_t> target_of;  // for each golden call; kNoCall
  std::vector<FusedRun> fused;
  std::vector<bool> is_target_fused, is_golden_fused;  // in one of `fused`, or the backward of such
  std::vector<bool> is_replaced;                       // target calls that stand for one of another kind
  // What would have to be renamed for places to agree, between points: {".h.", ".blocks."}.
  std::vector<std::pair<std::string, std::string>> renames;

  // Neither paired nor a part of what one call of the other side does.
  bool IsTargetAlone(std::uint32_t call) const {
    return golden_of[call] == kNoCall && !is_target_fused[call];
  }
  bool IsGoldenAlone(std::uint32_t call) const {
    return target_of[call] == kNoCall && !is_golden_fused[call];
  }
};

struct AlignInputs {
  const Calls& target;
  const Calls& golden;
  // What two calls of one kind are told apart by: shapes, dtypes and what kinds of arguments there are. Asked
  // only where places do not settle it.
  std::function<std::uint64_t(std::uint32_t call)> target_signature, golden_signature;
  // Pairs that are settled already, by target call (kNoCall: not); empty: none.
  std::vector<std::uint32_t> given;
  // Whether a call may stand for one of another kind: torch.softmax for F.softmax. Not set: none may.
  std::function<bool(std::uint32_t target, std::uint32_t golden)> may_replace{};
};
Alignment AlignCalls(const AlignInputs& inputs);

}  // namespace vernier

// Which tensor of the target stands against which of the golden, for one token of one graph; and what stands
// alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/torchair/dumps.h"
#include "profiles/torchair/graph_text.h"
#include "profiles/torchair/tree.h"

namespace vernier::torchair {

// One tensor of either side.
struct TensorRef {
  const GeOp* op = nullptr;  // of a GE dump
  const std::string* fx_path =
      nullptr;  // of an FX dump; neither: an empty tensor that stands for a missing one
  bool output = false;
  std::optional<std::size_t> index;  // none: the file as a whole

  bool shrunk() const { return op != nullptr ? op->shrunk : fx_path != nullptr && IsShrunkFx(*fx_path); }
};

// The path of a tensor as reports show it.
std::string ShownPath(const TensorRef& ref);

struct TensorPair {
  std::uint64_t token = 0, number = 0;  // number: in the order of matching
  TensorRef target, golden;
  bool doubtful = false;  // the golden output is that of an earlier part: the last one was not dumped
};

enum class Reason : std::uint8_t {
  kNoPartner,
  kTokenMissing,
  kRankMissing,
  kNotInTheGraph,
  kSurplusTensor,
  kUnreadable
};
std::string_view Name(Reason reason);  // "no partner", …

struct Unmatched {
  bool in_target = true;
  std::optional<std::uint64_t> token;
  std::string name, path;
  Reason reason = Reason::kNoPartner;
};

// What matching gives; it refers to the tokens that it was made from.
struct Matching {
  std::vector<TensorPair> pairs;
  std::vector<Unmatched> unmatched;
};

// The parts of a fused operator's name: again and again the longest beginning that is an operator of the
// graph. Ends where there is none, or where a shorter beginning was dumped under that name without being one.
std::vector<std::string> CutFusedName(std::string_view name, const Graph& graph, const GeToken& target,
                                      const GeToken* golden);

// Both add to `matching`.
void MatchGeWithFx(std::uint64_t token, const Graph& graph, const GeToken& target, const FxToken& golden,
                   const Warn& warn, Matching& matching);
void MatchGeWithGe(std::uint64_t token, const Graph& graph, const GeToken& target, const GeToken& golden,
                   const Warn& warn, Matching& matching);

}  // namespace vernier::torchair

// Which rank went wrong first: collectives and messages carry an error from one rank to the others, and what
// follows from what is the only order that ranks share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vernier {

// A call in which ranks meet. Those of one key are the same meeting in the order of their calls: the first of
// each rank, the second of each, …
struct Meeting {
  std::uint32_t call = 0;
  std::string key;
  bool gives = true, takes = true;  // false: a receiver, a sender
};

struct RankTrace {
  std::vector<Meeting> meetings;              // in the order of the calls
  std::optional<std::uint32_t> culprit_call;  // none: nothing went wrong here
};

// For each rank, the rank whose culprit its own follows from; none: nobody's. Of ranks whose culprits follow
// from each other, as when all name one collective, the first is the cause.
std::vector<std::optional<std::size_t>> FindCauses(std::span<const RankTrace> ranks);

}  // namespace vernier

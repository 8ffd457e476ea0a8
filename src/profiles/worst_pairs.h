// Single elements of the pairs that are worst, for whoever asked with CompareRequest::worst.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "vernier/compare.h"

namespace vernier {

// Elements of so many pairs still fit a screen; of more than that only the worst pair is looked at.
inline constexpr std::size_t kMostPairsShown = 3;

// Which pairs to look at, from all that were measured: those that failed when they are few, else the worst of
// them; when none failed, the one that differs most. Ties go to the one that was added first.
class WorstPairPicker {
 public:
  void Add(std::size_t pair, bool failed, double severity);
  std::vector<std::size_t> Picked() const;  // worst first

 private:
  struct Candidate {
    std::size_t pair;
    bool failed;
    double severity;
  };
  std::vector<Candidate> worst_;  // worst first, few
  std::size_t num_failed_ = 0;
};

struct PairToLookAt {
  std::string title;  // on the screen
  std::string name, golden_name;
  std::function<Result<LoadedPair>()> load;
};
// Reads the elements of these pairs once more; what is found goes into `rank`, and in words behind `text`. A
// pair that cannot be read says so there. Fails only with kCancelled.
Result<Done> LookAtElements(std::span<const PairToLookAt> pairs, const CompareRequest& request,
                            const CompareHooks& hooks, RankOutcome& rank, std::string& text);

}  // namespace vernier

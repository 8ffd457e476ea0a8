// The worst output of the call that went wrong first, element by element.
#include <filesystem>

#include "profiles/msprobe/family.h"
#include "profiles/msprobe/row.h"
#include "profiles/worst_pairs.h"
#include "vernier/read.h"

namespace vernier::msprobe {
namespace {

PairToLookAt PairOf(const RankOutcome& rank, const Culprit& culprit) {
  const std::string label = rank.rank.empty() ? "" : rank.rank + " ";
  if (rank.mode != Name(Mode::kReal) || culprit.target_file.empty() || culprit.golden_file.empty()) {
    return {label + culprit.record, culprit.record, culprit.record, []() -> Result<LoadedPair> {
              return Error{ErrorCode::kNotADump, "", "record this call on both sides with task tensor"};
            }};
  }
  const std::string &target = culprit.target_file, &golden = culprit.golden_file;
  return {label + std::filesystem::path(target).filename().string(), target, golden,
          [target, golden]() -> Result<LoadedPair> {
            LoadedPair loaded;
            VN_ASSIGN_OR_RETURN(loaded.target, LoadTensorFile(target));
            VN_ASSIGN_OR_RETURN(loaded.golden, LoadTensorFile(golden));
            return loaded;
          }};
}

}  // namespace

Result<Done> LookCloser(const CompareRequest& request, const CompareHooks& hooks, CompareOutcome& outcome) {
  std::vector<RankOutcome*> ranks;
  for (RankOutcome& rank : outcome.ranks) {
    if (rank.culprit && rank.victim_of.empty()) ranks.push_back(&rank);
  }
  std::string text = ranks.empty() ? "worst elements: no call to look at\n" : "";
  if (ranks.size() > kMostPairsShown) ranks.erase(ranks.begin() + 1, ranks.end());
  for (RankOutcome* rank : ranks) {
    const PairToLookAt pair = PairOf(*rank, *rank->culprit);
    VN_RETURN_IF_ERROR(LookAtElements({&pair, 1}, request, hooks, *rank, text));
  }
  if (!hooks.screen.quiet) outcome.text += text;
  return Done{};
}

}  // namespace vernier::msprobe

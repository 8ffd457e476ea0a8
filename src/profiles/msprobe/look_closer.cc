// The worst output of the call that went wrong first, element by element.
#include <filesystem>

#include "profiles/msprobe/family.h"
#include "profiles/msprobe/row.h"
#include "profiles/worst_pairs.h"
#include "vernier/read.h"

namespace vernier::msprobe {
namespace {

// The one place here that knows where a verdict keeps it.
const Divergence* CulpritOf(const RankOutcome& rank) {
  return rank.first_divergence ? &*rank.first_divergence : nullptr;
}

std::string FileBeside(const std::string& dump_json, const std::string& data_name) {
  return (std::filesystem::path(dump_json).parent_path() / "dump_tensor_data" / data_name).string();
}

PairToLookAt PairOf(const RankOutcome& rank, const Divergence& culprit) {
  const std::string label = rank.rank.empty() ? "" : rank.rank + " ";
  if (rank.mode != Name(Mode::kReal) || culprit.target_file.empty() || culprit.golden_file.empty()) {
    return {label + culprit.record, culprit.record, culprit.record, []() -> Result<LoadedPair> {
              return Error{ErrorCode::kNotADump, "", "record this call on both sides with task tensor"};
            }};
  }
  const std::string target = FileBeside(rank.target, culprit.target_file);
  const std::string golden = FileBeside(rank.golden, culprit.golden_file);
  return {label + culprit.target_file, target, golden, [target, golden]() -> Result<LoadedPair> {
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
    if (CulpritOf(rank) != nullptr) ranks.push_back(&rank);
  }
  std::string text = ranks.empty() ? "worst elements: no call to look at\n" : "";
  if (ranks.size() > kMostPairsShown) ranks.erase(ranks.begin() + 1, ranks.end());
  for (RankOutcome* rank : ranks) {
    const PairToLookAt pair = PairOf(*rank, *CulpritOf(*rank));
    VN_RETURN_IF_ERROR(LookAtElements({&pair, 1}, request, hooks, *rank, text));
  }
  if (!hooks.screen.quiet) outcome.text += text;
  return Done{};
}

}  // namespace vernier::msprobe

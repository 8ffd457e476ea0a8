// The table of families, and the one call that compares whatever they hold.
#include "vernier/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "core/paths.h"
#include "core/text.h"
#include "profiles/msprobe/family.h"
#include "profiles/msprobe/nan_hunt.h"
#include "profiles/native/native.h"
#include "profiles/torchair/family.h"
#include "profiles/xray/family.h"

namespace vernier {
namespace {

std::vector<FamilyColumn> NativeColumns() {
  std::vector<FamilyColumn> columns;
  for (const native::Column& column : native::Columns())
    columns.push_back({std::string(column.key), std::string(column.help)});
  return columns;
}

Result<std::vector<CompareRequest>> Whole(const CompareRequest& request) { return std::vector{request}; }

struct FamilyRow {
  Family family;
  bool (*recognises)(const std::string& path);
  Result<CompareOutcome> (*compare)(const CompareRequest& request, const CompareHooks& hooks);
  Result<std::vector<CompareRequest>> (*split)(const CompareRequest& request);
  bool told_by_target = false;  // whatever the golden is, it is compared with
  // How it comes to single elements; null: it does not.
  Result<Done> (*look_closer)(const CompareRequest& request, const CompareHooks& hooks,
                              CompareOutcome& outcome) = nullptr;
};

Result<Done> LookedAlready(const CompareRequest&, const CompareHooks&, CompareOutcome&) { return Done{}; }

// The first that recognises a path has it; what can be opened as tensors at all comes last.
constexpr FamilyRow kFamilies[] = {
    {{"msprobe", "a recording (dump.json)", msprobe::ColumnsHelp, msprobe::Options, msprobe::List,
      msprobe::HuntNan},
     msprobe::Recognises,
     msprobe::Compare,
     msprobe::SplitByRank,
     /*told_by_target=*/false,
     msprobe::LookCloser},
    {{"xray", "an HDF5 recording of module calls", xray::ColumnsHelp, xray::Options, nullptr, nullptr},
     [](const std::string&) { return false; },  // two such files are tensors, unless the family is asked for
     xray::Compare,
     Whole},
    {{"torchair", "a graph-mode dump (GE)", torchair::ColumnsHelp, torchair::Options, nullptr, nullptr},
     torchair::Recognises,
     torchair::Compare,
     torchair::SplitByRank,
     /*told_by_target=*/true},
    {{"native", "tensors (files, checkpoints, folders of them)", NativeColumns,
      [] { return std::span<const FamilyOption>(); }, nullptr, nullptr},
     native::Recognises,
     native::Compare,
     Whole,
     /*told_by_target=*/false,
     LookedAlready},
};

const FamilyRow* Recognised(const std::string& path) {
  const auto* row = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                 [&](const FamilyRow& known) { return known.recognises(path); });
  return row == std::end(kFamilies) ? nullptr : row;
}

const FamilyRow& Native() { return *(std::end(kFamilies) - 1); }

Result<const FamilyRow*> RowFor(const CompareRequest& request) {
  if (!request.family.empty()) {
    std::vector<std::string_view> names;
    for (const FamilyRow& row : kFamilies) names.push_back(row.family.name);
    VN_ASSIGN_OR_RETURN(const std::size_t chosen, Choose("--family", request.family, names));
    return &kFamilies[chosen];
  }
  // Only families that can be told at a glance are asked; what is none of theirs is opened as tensors, once.
  const auto is_of = [](const FamilyRow& row, const std::string& path) {
    return &row != &Native() && row.recognises(path);
  };
  for (const FamilyRow& row : kFamilies) {
    const bool target = is_of(row, request.target), golden = is_of(row, request.golden);
    if (target && (golden || row.told_by_target)) return &row;
    if (!target && !golden) continue;
    for (const std::string& path : {request.target, request.golden}) {
      if (!Exists(path)) return MissingPath(path);
    }
    const FamilyRow* other = Recognised(target ? request.golden : request.target);
    if (other == &row) return &row;  // it could not be read a moment ago
    constexpr std::string_view kNothing =
        "nothing that can be read: not a recording, or an empty or damaged one";
    const std::string_view others = other ? other->family.says : kNothing;
    return Error{ErrorCode::kBadArgument, "",
                 fmt::format("{} is {}, but {} is {}", request.target, target ? row.family.says : others,
                             request.golden, golden ? row.family.says : others)};
  }
  return &Native();
}

constexpr auto kFamilyList = [] {
  std::array<Family, std::size(kFamilies)> families{};
  for (std::size_t i = 0; i < std::size(kFamilies); ++i) families[i] = kFamilies[i].family;
  return families;
}();

}  // namespace

std::span<const Family> Families() { return kFamilyList; }

const Family* FamilyOf(const std::string& path) {
  const FamilyRow* row = Recognised(path);
  return row ? &row->family : nullptr;
}

Result<CompareOutcome> CompareRecordings(const CompareRequest& request, const CompareHooks& hooks) {
  VN_ASSIGN_OR_RETURN(const FamilyRow* row, RowFor(request));
  if (request.worst > 0 && row->look_closer == nullptr) {
    return Error{ErrorCode::kBadArgument, "--worst",
                 fmt::format("not for {}; compare two of its tensors", row->family.says)};
  }
  VN_ASSIGN_OR_RETURN(CompareOutcome outcome, row->compare(request, hooks));
  if (request.worst > 0) VN_RETURN_IF_ERROR(row->look_closer(request, hooks, outcome));
  outcome.family = row->family.name;
  return outcome;
}

Result<std::vector<CompareRequest>> SplitByRank(const CompareRequest& request) {
  VN_ASSIGN_OR_RETURN(const FamilyRow* row, RowFor(request));
  VN_ASSIGN_OR_RETURN(std::vector<CompareRequest> requests, row->split(request));
  for (CompareRequest& one : requests) one.family = row->family.name;
  return requests;
}

}  // namespace vernier

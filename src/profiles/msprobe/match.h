// Which row of the bench dump stands against which row of the NPU dump, by the rules of the msprobe profile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "profiles/msprobe/dump.h"

namespace vernier::msprobe {

enum class PairRule : std::uint8_t { kExact, kFuzzy, kDataMapping, kCellMapping, kPosition };
std::string_view Name(PairRule rule);  // "exact name", …

using DataMapping = std::unordered_map<std::string, std::string>;  // NPU row name -> bench row name
using CellMapping =
    std::vector<std::pair<std::string, std::string>>;  // module path -> module path, in file order

struct RowMatchOptions {
  PairRule rule = PairRule::kExact;
  bool shape_is_part_of_the_key = true;
  bool renumber_backward = false;  // call numbers of backward records by order of appearance
  const DataMapping* data_mapping = nullptr;
  const CellMapping* cell_mapping = nullptr;
  const std::vector<std::pair<std::string, std::string>>* renames = nullptr;  // see vernier::MatchOptions
};

inline constexpr std::uint32_t kNoRow = ~std::uint32_t{0};

struct RowPair {
  std::uint32_t npu = 0, bench = kNoRow;
};

// One entry for each row of the result, in NPU order. A pair of a name that is unique on both sides has not
// been asked for its shapes yet: whoever reads the two rows next does that.
std::vector<RowPair> MatchRows(const Dump& npu, const Dump& bench, const RowMatchOptions& options);

// After pairing: whether two dtype texts may stand against each other.
bool DtypesAgree(std::string_view npu, std::string_view bench, bool across_frameworks);

// A name as fuzzy matching sees it: without its call number.
std::string FuzzyName(std::string_view name);
// A name as cell mapping turns it; empty when it has no direction.
std::string CellName(std::string_view name, const CellMapping& mapping);

}  // namespace vernier::msprobe

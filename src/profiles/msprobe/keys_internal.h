// The keys by which rows of two dumps are joined.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiles/msprobe/match.h"

namespace vernier::msprobe {

enum class Side { kNpu, kBench };

// Thread-compatible; refers to the dump and to the mappings in the options.
class RowKeys {
 public:
  RowKeys(const Dump& dump, const RowMatchOptions& options, Side side);
  const Dump& dump() const { return dump_; }
  // Empty: the row can match nothing.
  void KeyOf(std::uint32_t row, std::string& key) const;

 private:
  const Dump& dump_;
  const DataMapping* data_mapping_;
  const CellMapping* cell_mapping_;
  const std::vector<std::pair<std::string, std::string>>* renames_;
  std::vector<std::string>
      renamed_;  // by record; empty where the name stays, empty altogether when none changes
};

}  // namespace vernier::msprobe

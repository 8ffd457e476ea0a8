// A dump as the verdict sees it: its records as calls, its rows as values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "judge/call.h"
#include "judge/facts.h"
#include "judge/rules.h"
#include "profiles/msprobe/dump.h"
#include "profiles/msprobe/row.h"

namespace vernier::msprobe {

using Renames = std::vector<std::pair<std::string, std::string>>;

// Call i is record i. Read-only once made.
class Trace {
 public:
  // construct.json beside the dump tells which module a call belongs to; without it, or where it ends in the
  // middle, that is not known. `renames` as in RowMatchOptions.
  Trace(const Dump& dump, const Rules& rules, const Renames& renames = {});

  const Calls& calls() const { return calls_; }
  // Shapes, dtypes and kinds of arguments of a record, in one number.
  std::uint64_t SignatureOf(std::uint32_t call) const;
  // What follows the record's name in the names of its rows.
  std::string SuffixOf(std::size_t row) const;

 private:
  void ReadParents(const Renames& renames);
  void FindBackward();
  Call ParseCall(std::string_view name, const Renames& renames);
  std::string_view PlaceOf(std::string_view module_name);
  // What the rules say of calls of a kind; asked once for each.
  const Call& TraitsOf(std::string_view leaf);

  const Dump& dump_;
  const Rules& rules_;
  TextArena arena_;
  Calls calls_;
  std::unordered_map<std::string, Call> traits_;
};

Role RoleOf(PortState state);
Value ValueOf(const Leaf& leaf, TextArena& arena);
Facts FactsOf(Mode mode, const ResultRow& row, TextArena& arena);

}  // namespace vernier::msprobe

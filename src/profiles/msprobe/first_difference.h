// -da: the first operation, over all ranks, whose outputs differ. Collectives tie the ranks together: what
// differs before one of them on any rank came first on all.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/msprobe/row.h"

namespace vernier::msprobe {

enum class CommDirection { kNone, kSender, kReceiver };

// One record of one rank, reduced to what the search needs.
struct AnalyzedOp {
  std::string name;
  bool is_same = true;
  bool is_comm = false, is_ignored = false;
  CommDirection direction = CommDirection::kNone;
  std::vector<int> peers;  // ranks it names; empty: all of them
  std::string data_info;   // JSON, of operations that differ
  std::vector<std::string> stack;
};

struct AnalyzedRank {
  int rank = 0;
  std::vector<AnalyzedOp> ops;  // in table order
};

struct FirstDifference {
  int rank = 0;
  const AnalyzedOp* op = nullptr;
};

// Whether the outputs of a record are the same on both sides.
bool OutputsAreSame(Mode mode, std::span<const ResultRow> record);
// Fills everything of an op but its stack.
AnalyzedOp AnalyzeRecord(Mode mode, const Rules& rules, std::span<const ResultRow> record);

// Ranks in ascending order. Empty: nothing differs.
std::vector<FirstDifference> FindFirstDifference(std::span<const AnalyzedRank> ranks);
// The content of diff_analyze_*.json.
std::string DiffAnalyzeJson(std::span<const FirstDifference> found);

}  // namespace vernier::msprobe

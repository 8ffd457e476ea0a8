// Our own verdict on a comparison, whatever the generation: what was compared, where it goes wrong first,
// where error grows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "profiles/msprobe/row.h"
#include "vernier/compare.h"

namespace vernier::msprobe {

// How far apart the two sides of a row are, relative to the bench's size: 0 equal, 1 as large as the data,
// infinite when special values disagree. Nothing when there is nothing to compare. MD5: 0 or infinite.
std::optional<double> RowError(Mode mode, const ResultRow& row);

// Sees the rows of one table, record by record.
class SummaryBuilder {
 public:
  SummaryBuilder(Mode mode, const Rules& rules) : mode_(mode), rules_(rules) { summary_.mode = Name(mode); }
  void See(std::uint64_t first_row, std::span<const ResultRow> record);
  RankOutcome Take() { return std::move(summary_); }

 private:
  double Tolerance(const ResultRow& row) const;
  void Diverge(std::uint64_t first_row, std::span<const ResultRow> record);

  Mode mode_;
  const Rules& rules_;
  RankOutcome summary_;
};

}  // namespace vernier::msprobe

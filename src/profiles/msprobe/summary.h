// Our own verdict on a comparison, whatever the generation: what was compared, where it goes wrong first,
// where error grows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/msprobe/match.h"
#include "profiles/msprobe/row.h"

namespace vernier::msprobe {

// How far apart the two sides of a row are, relative to the bench's size: 0 equal, 1 as large as the data,
// infinite when special values disagree. Nothing when there is nothing to compare. MD5: 0 or infinite.
std::optional<double> RowError(Mode mode, const ResultRow& row);

struct Evidence {
  std::string name;
  double error = 0;
  std::string npu_max, bench_max;
  PortState state = PortState::kInput;
};

// An argument that is no tensor and not the same on both sides: often the cause itself.
struct DifferentArgument {
  std::string name, npu, bench;
};

struct Divergence {
  std::string api;
  std::uint64_t line = 0;  // of its first row in the table, from 0
  std::vector<Evidence> evidence;
  std::vector<DifferentArgument> arguments;
  std::string stack_line;            // empty: no stack was compared
  std::string user_line;             // of the user's program; empty: no stack was recorded
  std::string module;                // the module call it belongs to; empty: not known
  std::string npu_file, bench_file;  // of the worst output; empty: none
};

struct Growth {
  std::string api;
  double input_error = 0, output_error = 0;
};

struct RankSummary {
  std::string rank;
  Mode mode = Mode::kStatistics;
  PairRule rule = PairRule::kExact;
  std::uint64_t num_rows = 0, num_bench_rows = 0, num_matched = 0, num_failing = 0, num_bad_records = 0;
  std::uint64_t num_bench_unmatched = 0;  // bench rows that no NPU row stands against
  std::uint64_t num_not_measured = 0;     // real data: matched, named a file, and yet there are no numbers
  bool torn = false;                      // a dump ends in the middle: what follows is not known
  std::optional<Divergence> first_divergence;
  std::vector<Growth> growth;    // in execution order, the first of them
  std::uint64_t num_growth = 0;  // all of them

  double coverage() const {
    return num_rows == 0 ? 0 : static_cast<double>(num_matched) / static_cast<double>(num_rows);
  }
};

// Sees the rows of one table, record by record.
class SummaryBuilder {
 public:
  SummaryBuilder(Mode mode, const Rules& rules) : mode_(mode), rules_(rules) { summary_.mode = mode; }
  void See(std::uint64_t first_row, std::span<const ResultRow> record);
  RankSummary Take() { return std::move(summary_); }
  RankSummary& summary() { return summary_; }

 private:
  double Tolerance(const ResultRow& row) const;
  void Diverge(std::uint64_t first_row, std::span<const ResultRow> record);

  Mode mode_;
  const Rules& rules_;
  RankSummary summary_;
};

}  // namespace vernier::msprobe

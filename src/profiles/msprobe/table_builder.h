// Turns matched pairs into finished rows: values, metrics, verdicts, colours.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "judge/facts.h"
#include "profiles/msprobe/match.h"
#include "profiles/msprobe/rank.h"
#include "profiles/msprobe/real.h"

namespace vernier::msprobe {

// Rows of some whole records, with the memory that their texts live in, and what becomes of them.
struct Batch {
  explicit Batch(std::size_t num_columns) : results(num_columns) {}

  std::uint64_t first_row = 0;
  std::vector<ResultRow> rows;
  TextArena arena;
  std::vector<TextArena> row_arenas;  // of rows that were read one by one
  std::deque<PairMeasures> measures;
  std::vector<Facts> facts;  // of the rows
  ResultBatch results;
  std::vector<std::string> complaints;  // about texts that were written all the same
};

// A row on its own, between the thread that loads its files and the one that writes it.
struct ReadRow {
  TextArena arena{1024};
  ResultRow row;
};

// What was found out about one row and its files.
struct RealOutcome {
  RealState state = RealState::kUnmatched;
  Dtype npu = Dtype::kF32, bench = Dtype::kF32;
  std::unique_ptr<ReadRow> read;
};

// Immutable; used from many threads.
class TableBuilder {
 public:
  TableBuilder(const DumpPair& dumps, const RankJob& job, const Settings& settings,
               const RowMatchOptions& match, const Rules& rules, std::vector<RowPair> pairs);

  std::size_t num_rows() const { return pairs_.size(); }
  const std::vector<RowPair>& pairs() const { return pairs_; }
  const DumpPair& dumps() const { return dumps_; }
  const RankJob& job() const { return job_; }
  const Profile& profile() const { return profile_; }
  Mode mode() const { return mode_; }
  bool with_stack() const { return dumps_.stack.has_value(); }
  // Whether rows have what their sketches tell. msprobe's tables, and its analysis, know no such thing.
  bool with_estimates() const {
    return (dumps_.npu.has_sketches() || dumps_.bench.has_sketches()) && mode_ != Mode::kReal &&
           !settings_.as_msprobe && !settings_.diff_analyze;
  }
  // Row numbers at which batches of at least `num_rows` rows begin, and the end. Records are never cut.
  std::vector<std::size_t> Boundaries(std::size_t num_rows) const;

  // Lets go of the memory behind rows that will not be asked for again soon.
  void Release(std::size_t first, std::size_t last) const;
  // Values of one row, no metrics yet.
  ResultRow Read(std::size_t index, TextArena& arena) const;
  // Metrics from recorded values, then verdicts.
  void Build(std::size_t first, std::size_t last, Batch& batch) const;
  // Real data: the row with its metrics. The verdict needs the record's other rows, see Judge.
  void FillReal(const RealOutcome& outcome, const PairMeasures* measures, ResultRow& row) const;
  void Judge(std::span<ResultRow> rows) const;

 private:
  void ReadBench(std::uint32_t bench, ResultRow& row, TextArena& arena) const;

  const DumpPair& dumps_;
  const RankJob& job_;
  const Settings& settings_;
  const Profile& profile_;
  RowMatchOptions match_;
  const Rules& rules_;
  std::vector<RowPair> pairs_;
  Mode mode_;
};

// Finds and loads the files of rows of real data.
class RealLoader {
 public:
  explicit RealLoader(const TableBuilder& builder);
  // The outcome tells why when a row cannot be measured. Called concurrently.
  Result<LoadedPair> Load(std::size_t index, RealOutcome& outcome) const;
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  Result<TensorView> LoadSide(const std::string& folder, std::string_view name,
                              std::string_view suffix) const;
  void FindValidLengths();
  std::optional<std::uint64_t> ValidLength(const Record& record, std::string_view key);
  static void ClearBehind(std::uint64_t length, TensorView& tensor);

  const TableBuilder& builder_;
  std::string npu_folder_, bench_folder_;  // with a slash at the end
  std::string_view npu_suffix_, bench_suffix_;
  std::unordered_map<std::uint32_t, std::uint64_t>
      valid_length_;  // rows of the outputs that count, by NPU record
  std::vector<std::string> warnings_;
};

}  // namespace vernier::msprobe

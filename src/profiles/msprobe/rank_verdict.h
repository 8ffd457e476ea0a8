// The verdict on one rank: aligns the calls of the two dumps, gathers what is known of every value, and asks
// which call went wrong first.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "judge/align.h"
#include "judge/culprit.h"
#include "judge/ranks.h"
#include "profiles/msprobe/match.h"
#include "profiles/msprobe/table_builder.h"
#include "profiles/msprobe/trace.h"
#include "vernier/compare.h"

namespace vernier::msprobe {

class OutsideTally;

class RankVerdict {
 public:
  RankVerdict(const TableBuilder& builder, const Settings& settings, const RowMatchOptions& match,
              const Rules& rules);

  // A finished row of the table. REQUIRES: called in table order
  void See(std::size_t table_row, const ResultRow& row, const Facts& facts);
  // Pairs that the table does not have, since it matches by other rules. SeeRest takes what they turn out to
  // be, by their number.
  std::vector<RowPair> Rest();
  void SeeRest(const RowPair& pair, const Facts& facts) { facts_[pair.npu] = facts; }
  // What was counted and found; `outcome` says already what the two dumps are.
  void Conclude(RankOutcome& outcome, RankTrace& trace);

 private:
  void Align(const RowMatchOptions& match);
  void PairRows();
  // Calls of one kind in another order, where no place tells them apart: by what they were given.
  void ExchangeReordered();
  // How an input stands to the one that it is paired with; odd: nothing like it.
  enum class Input : std::uint8_t { kSame, kDiffers, kOdd };
  Input InputAt(std::size_t row) const;
  class Twins;
  struct ReorderedGroup {
    std::vector<std::uint32_t> calls;  // of the target, which have partners
    std::vector<std::uint32_t> spare;  // of the golden, which have none
    bool any_odd = false;
  };
  void ExchangeAmong(const ReorderedGroup& group, const Twins& target_twins, const Twins& golden_twins);
  bool MayExchange(std::uint32_t golden, std::uint32_t other, const Twins& twins) const;
  void PairAlike(const Twins& twins, std::vector<std::uint32_t>& left, const ReorderedGroup& group,
                 std::set<std::uint32_t>& taken,
                 std::vector<std::pair<std::uint32_t, std::uint32_t>>& pairs) const;
  static std::vector<Value> InputsOf(const Dump& dump, std::uint32_t call, TextArena& arena);
  static std::vector<std::string> InputTextsOf(const Dump& dump, std::uint32_t call);
  void Part(std::uint32_t call);  // from its partner
  void Repair(std::uint32_t call, std::uint32_t golden);
  void ForgetPartner(std::size_t row);
  static std::string TensorsOf(const Dump& dump, std::uint32_t call);
  bool IsReplaced(std::uint32_t call) const;  // its partner is of another kind
  void PairRowsOf(std::uint32_t call);
  void PairSameArguments(const Record& target,
                         std::vector<std::pair<std::string, std::uint32_t>>& golden_rows, TextArena& arena);
  // What goes into several calls from outside, with what goes into the one in their place. Told by their
  // statistics, whatever their layout: one side may have them transposed.
  void PairFusedInputs(const FusedRun& run);
  bool PairRowsInOrder(std::uint32_t call, std::uint32_t partner);
  void MarkOneSided();
  // Where the facts of a call begin.
  std::vector<Facts>::const_iterator FirstOf(std::uint32_t call) const {
    return facts_.begin() + static_cast<std::ptrdiff_t>(first_[call]);
  }
  Recordings All() const {
    return {target_.calls(),
            golden_.calls(),
            alignment_,
            facts_,
            first_,
            [this](std::uint32_t call) { return GoldenResults(call); },
            builder_.job().follows_noise};
  }
  std::optional<Blame> FirstSpecial() const;
  std::vector<Recordings::Result> GoldenResults(std::uint32_t call) const;
  static std::string Shortened(const Value& value);
  void Describe(const Findings& findings, RankOutcome& outcome) const;
  void DescribePairing(RankOutcome& outcome) const;
  void DescribeOutside(RankOutcome& outcome) const;
  void AddSettings(OutsideTally& tally) const;
  void AddLoneCalls(OutsideTally& tally) const;
  void AddReordered(OutsideTally& tally) const;
  void AddFused(OutsideTally& tally) const;
  void AddForm(std::uint32_t call, std::size_t row, OutsideTally& tally) const;
  void AddValues(OutsideTally& tally) const;
  std::pair<std::uint64_t, std::uint64_t> BehindBackward() const;
  Culprit CulpritOf(const Blame& blame) const;
  std::string WhyOf(const Blame& blame, const Culprit& culprit) const;
  // What was given to a call and is another one, in words.
  std::uint32_t WorstInput(std::uint32_t call) const;
  std::string PortOf(std::uint32_t row) const;
  std::string WhatEntered(std::uint32_t call) const;
  // The last call before that gives the tensor of this row; kNoCall: none that was recorded.
  std::uint32_t MakerOf(std::uint32_t call, std::uint32_t row) const;
  bool IsMadeInGolden(std::uint32_t call, std::uint32_t row, std::uint32_t but) const;
  std::vector<std::uint32_t> DifferentParameters() const;  // rows of the target's forward calls
  // The parameter whose values an input has, among those that differ; kNoRow: none.
  std::uint32_t ParameterOf(std::uint32_t row, const std::vector<std::uint32_t>& different) const;
  // What the function calls an argument, by what follows the call's name: ".input.4".
  std::string ParameterName(std::uint32_t call, std::string_view suffix) const;
  std::string GoldenArgumentName(std::uint32_t call, std::uint32_t golden_row) const;
  void AddRows(const Blame& blame, Culprit& culprit) const;
  // The files of the tensor of a call that differs most, of its inputs or of its results.
  void AddFiles(std::uint32_t call, bool of_inputs, Culprit& culprit) const;
  std::vector<std::uint32_t> TakersOf(std::uint32_t call) const;
  void AddAround(const Blame& blame, Culprit& culprit) const;
  struct Unread {
    std::uint64_t of_one_side = 0, of_both = 0, of_other_types = 0;
    std::uint64_t by_statistics = 0;  // in place of files that could not be read
    std::uint64_t outputs = 0;        // of all but the first
  };
  Unread NumUnread() const;
  std::uint64_t NumLoneTensors() const;
  bool AnyMeasured() const;

  const TableBuilder& builder_;
  const int rank_;  // its number; -1: none
  const Dump &npu_, &bench_;
  const Rules& rules_;
  struct Traces {
    Traces(const Dump& npu, const Dump& bench, const Settings& settings, const Rules& rules, int num_threads);
    std::unique_ptr<Trace> target, golden;
  } traces_;
  const Trace &target_, &golden_;
  Alignment alignment_;
  std::vector<std::uint32_t> wanted_;  // bench row for each NPU row; kNoRow
  std::vector<Facts> facts_;           // of each NPU row
  std::vector<std::size_t> first_;     // the first row of each record, and the end
  std::vector<bool> seen_;
  std::string target_name_, golden_name_;  // while rows are paired
  RankOutcome counts_;
  std::vector<RowPair> failed_;  // as the table pairs
  struct GoldenArgument {
    std::uint32_t call, row;  // the target's call, the golden's argument
  };
  std::vector<GoldenArgument> golden_arguments_;  // that only the golden gives
};

}  // namespace vernier::msprobe

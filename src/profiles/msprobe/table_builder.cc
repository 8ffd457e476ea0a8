#include "profiles/msprobe/table_builder.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/python_text.h"
#include "profiles/msprobe/estimates.h"
#include "profiles/msprobe/statistics.h"
#include "profiles/msprobe/verdict.h"

namespace vernier::msprobe {

TableBuilder::TableBuilder(const DumpPair& dumps, const RankJob& job, const Settings& settings,
                           const RowMatchOptions& match, const Rules& rules, std::vector<RowPair> pairs)
    : dumps_(dumps),
      job_(job),
      settings_(settings),
      profile_(ProfileOf(settings.generation)),
      match_(match),
      rules_(rules),
      pairs_(std::move(pairs)),
      // First-difference search uses what is recorded, also of real data.
      mode_(settings.diff_analyze && dumps.mode == Mode::kReal ? Mode::kStatistics : dumps.mode) {}

std::vector<std::size_t> TableBuilder::Boundaries(std::size_t num_rows) const {
  std::vector<std::size_t> boundaries{0};
  const auto record_of = [&](std::size_t i) { return dumps_.npu.rows()[pairs_[i].npu].record; };
  for (std::size_t i = 1; i < pairs_.size(); ++i) {
    if (i - boundaries.back() >= num_rows && record_of(i) != record_of(i - 1)) boundaries.push_back(i);
  }
  if (!pairs_.empty()) boundaries.push_back(pairs_.size());
  return boundaries;
}

void TableBuilder::Release(std::size_t first, std::size_t last) const {
  std::uint32_t bench_first = kNoRow, bench_last = 0;
  for (std::size_t i = first; i < last; ++i) {
    if (pairs_[i].bench == kNoRow) continue;
    bench_first = std::min(bench_first, pairs_[i].bench);
    bench_last = std::max(bench_last, pairs_[i].bench);
  }
  dumps_.npu.ReleasePages(pairs_[first].npu, pairs_[last - 1].npu);
  if (bench_first != kNoRow) dumps_.bench.ReleasePages(bench_first, bench_last);
}

ResultRow TableBuilder::Read(std::size_t index, TextArena& arena) const {
  const RowPair& pair = pairs_[index];
  const Row& npu = dumps_.npu.rows()[pair.npu];
  const Record& record = dumps_.npu.records()[npu.record];
  ResultRow row;
  std::string name;
  dumps_.npu.AppendName(npu, name);
  row.npu_name = arena.Keep(name);
  row.api = record.name;
  row.record = npu.record;
  row.npu = dumps_.npu.Read(npu, arena);
  row.bench = NoLeaf();
  row.state = static_cast<PortState>(npu.state);
  row.first_of_record = pair.npu == record.first_row;
  row.bad_record = npu.bad;
  if (pair.bench != kNoRow) ReadBench(pair.bench, row, arena);
  row.grad_consistent = row.npu.requires_grad == row.bench.requires_grad;
  if (dumps_.stack && row.first_of_record) {
    if (const std::string stack = dumps_.stack->ListText(row.api); !stack.empty())
      row.stack = arena.Keep(stack);
  }
  if (mode_ == Mode::kReal) {
    std::string files = "[";
    AppendPythonQuoted(row.npu.data_name, files);
    files += ", ";
    AppendPythonQuoted(row.bench.data_name, files);
    row.data_name = arena.Keep(files += ']');
  }
  return row;
}

// The rules that may still part a pair: they need what the rows say.
void TableBuilder::ReadBench(std::uint32_t bench, ResultRow& row, TextArena& arena) const {
  const Row& entry = dumps_.bench.rows()[bench];
  if (entry.bad || row.bad_record) return;
  const Leaf leaf = dumps_.bench.Read(entry, arena);
  if (match_.rule != PairRule::kDataMapping && match_.rule != PairRule::kPosition) {
    if (match_.shape_is_part_of_the_key && leaf.shape != row.npu.shape) return;
    if (!DtypesAgree(row.npu.dtype, leaf.dtype, dumps_.across_frameworks)) return;
  }
  std::string name;
  dumps_.bench.AppendName(entry, name);
  row.bench_name = arena.Keep(name);
  row.bench = leaf;
  row.matched = true;
}

void TableBuilder::Build(std::size_t first, std::size_t last, Batch& batch) const {
  batch.first_row = first;
  batch.rows.reserve(last - first);
  const bool with_estimates = this->with_estimates();
  for (std::size_t i = first; i < last; ++i) {
    ResultRow& row = batch.rows.emplace_back(Read(i, batch.arena));
    if (mode_ == Mode::kMd5) {
      CompareMd5(row);
    } else {
      CompareStatistics(profile_, rules_, row, batch.arena);
    }
    if (with_estimates && row.matched) {
      const Estimate estimate = EstimateFrom(row.npu, row.bench);
      row.estimate = estimate.difference;
      if (!estimate.problem.empty()) row.sketch_problem = batch.arena.Keep(estimate.problem);
    }
  }
  Judge(batch.rows);
}

void TableBuilder::FillReal(const RealOutcome& outcome, const PairMeasures* measures, ResultRow& row) const {
  std::string message;
  FillRealMetrics(outcome.state, measures, outcome.npu, outcome.bench, row, message);
  row.measures = measures;
  if (profile_.verdict_per_record) {
    row.message = std::move(message);
    return;
  }
  FillAccuracy(rules_, row);
  row.message = row.grad_consistent ? (row.matched ? "" : rules_.Message("no_bench"))
                                    : rules_.Message("grad_inconsistent");
  row.message += message;
  if (match_.rule == PairRule::kFuzzy && row.matched && row.npu_name != row.bench_name)
    row.message += rules_.Message("fuzzy");
}

void TableBuilder::Judge(std::span<ResultRow> rows) const {
  const bool marks = settings_.highlight && job_.kind == DumpKind::kDump;
  for (std::size_t first = 0; first < rows.size();) {
    std::size_t last = first + 1;
    while (last < rows.size() && rows[last].record == rows[first].record) ++last;
    const auto record = rows.subspan(first, last - first);
    if (profile_.verdict_per_record && !settings_.diff_analyze) JudgeRecord(mode_, rules_, record);
    if (!profile_.verdict_per_record && marks) MarkRecord(mode_, rules_, record);
    for (ResultRow& row : record) {
      if (!row.bad_record) continue;
      const std::string_view problem = dumps_.npu.ProblemOf(row.record);
      row.message = fmt::format("This record cannot be read: {}.", problem);
      if (profile_.verdict_per_record) {
        row.SetResult("error", Judged::kFail);
        row.message = fmt::format("[\"error: {}\"]", row.message);
      }
    }
    first = last;
  }
}

}  // namespace vernier::msprobe

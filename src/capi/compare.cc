// Two paths -> the rows and the summary of their comparison.
#include "vernier/compare.h"

#include <memory>

#include "capi/c_api_internal.h"

namespace vernier {
namespace {

struct SummaryColumn {
  const char* name;
  Cell (*value)(const CompareSummary& summary);
};

// clang-format off
constexpr SummaryColumn kSummaryColumns[] = {
    {"verdict",         [](const CompareSummary& s) { return Cell{std::string(Name(s.verdict()))}; }},
    {"text",            [](const CompareSummary& s) { return Cell{s.Text()}; }},
    {"num_target",      [](const CompareSummary& s) { return Cell{s.num_target}; }},
    {"num_golden",      [](const CompareSummary& s) { return Cell{s.num_golden}; }},
    {"num_compared",    [](const CompareSummary& s) { return Cell{s.num_compared}; }},
    {"num_only_target", [](const CompareSummary& s) { return Cell{s.num_only_target}; }},
    {"num_only_golden", [](const CompareSummary& s) { return Cell{s.num_only_golden}; }},
    {"num_passed",      [](const CompareSummary& s) { return Cell{s.num_passed}; }},
    {"num_failed",      [](const CompareSummary& s) { return Cell{s.num_failed}; }},
    {"num_errors",      [](const CompareSummary& s) { return Cell{s.num_errors}; }},
};
// clang-format on

std::unique_ptr<VnTable> TableOf(const CompareSummary& summary) {
  auto table = std::make_unique<VnTable>();
  std::vector<Cell>& row = table->rows.emplace_back();
  for (const SummaryColumn& column : kSummaryColumns) {
    table->columns.emplace_back(column.name);
    row.push_back(column.value(summary));
  }
  for (std::size_t rule = 0; rule < summary.num_matched.size(); ++rule) {
    table->columns.push_back("num_matched_" + std::string(Name(static_cast<MatchRule>(rule))));
    row.emplace_back(summary.num_matched[rule]);
  }
  return table;
}

}  // namespace
}  // namespace vernier

using namespace vernier;  // NOLINT: the functions below are C

VnStatus VnCompare(const char* target_path, const char* golden_path, const VnOptions* options, VnTable** rows,
                   VnTable** summary) {
  return Guarded([&]() -> Result<Done> {
    if (target_path == nullptr || golden_path == nullptr) return BadArgument("path", "is NULL");
    const VnOptions complete = Complete(options);
    VN_ASSIGN_OR_RETURN(const MatchOptions match, MatchOptionsOf(complete));
    CompareOptions compare;
    compare.rtol = complete.rtol;
    compare.atol = complete.atol;
    compare.num_threads = complete.num_threads;

    const ReadOptions read{complete.num_threads};
    VN_ASSIGN_OR_RETURN(const Dump target, Dump::Open(target_path, read));
    VN_ASSIGN_OR_RETURN(const Dump golden, Dump::Open(golden_path, read));
    VN_ASSIGN_OR_RETURN(const Pairing pairing, PairDumps(target, golden, match));
    auto table = std::make_unique<VnTable>();
    table->columns = CompareColumnKeys();
    VN_ASSIGN_OR_RETURN(const CompareSummary totals,
                        CompareDumps(
                            target, golden, pairing, compare,
                            [&](const CompareRow& row) { table->rows.push_back(CompareCells(row)); },
                            BatchHooks{StopTokenOf(complete), {}}));
    *summary = TableOf(totals).release();
    *rows = table.release();
    return Done{};
  });
}

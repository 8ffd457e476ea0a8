// One output on the device under test against the same on the reference device, each already judged against
// the bench -> a row of api_precision_compare_details_*.csv.
#pragma once

#include <string>
#include <vector>

#include "precheck/columns.h"
#include "precheck/details_table.h"
#include "precheck/standards.h"
#include "precheck/verdict.h"

namespace vernier::precheck {

struct ComparedRow {
  std::vector<std::string> cells = std::vector<std::string>(kNumCompared);  // empty: nothing
  Verdict verdict = Verdict::kSkip;
  std::string message;
  std::string failed_by;  // the metrics that gave an error
};

// A row that cannot be judged.
ComparedRow SkippedComparison(std::string_view name, std::string_view reason);

// `name` is that of both rows; `api` its bare API name.
ComparedRow CompareRow(const Rules& rules, Policy policy, Header header, std::string_view api,
                       const DetailCells& npu, const DetailCells& gpu);

}  // namespace vernier::precheck

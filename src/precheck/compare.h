// api_precision_compare: two files of details -> which APIs are worse on the device under test than on the
// reference device.
#pragma once

#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "precheck/columns.h"
#include "precheck/standards.h"
#include "precheck/verdict.h"
#include "vernier/result.h"

namespace vernier::precheck {

struct PrecisionRequest {
  std::filesystem::path npu, gpu, folder;
  Policy policy = Policy::kManual;
  Header header = Header::kEnglish;
  const Rules* rules = &Rules::Shipped();
};

struct PrecisionHooks {
  std::stop_token stop;
  std::function<void(std::string_view warning)> on_warning;
  std::function<void(std::uint64_t rows_done, std::uint64_t num_rows)> on_progress;
};

struct ApiVerdict {
  std::string name, message, failed_by;
  Verdict forward = Verdict::kNone, backward = Verdict::kNone;
};

struct PrecisionSummary {
  std::filesystem::path details, result;
  std::uint64_t num_rows = 0, num_without_partner = 0, num_duplicates = 0;
  std::uint64_t num_passed = 0, num_failed = 0, num_skipped = 0;  // APIs
  std::vector<ApiVerdict> failed;                                 // in order, the first few
};

// Writes both files or none.
Result<PrecisionSummary> ComparePrecision(const PrecisionRequest& request, const PrecisionHooks& hooks);

// The parts of P.api.count or P.group.api.count; nothing for another form.
struct ApiName {
  std::string_view prefix, api;
};
std::optional<ApiName> ParseApiName(std::string_view full_name);

}  // namespace vernier::precheck

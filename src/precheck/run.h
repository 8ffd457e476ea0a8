// acc_check and multi_acc_check: a dump's calls -> executed by worker processes, judged there, written here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "precheck/call.h"
#include "precheck/columns.h"
#include "precheck/standards.h"
#include "vernier/result.h"

namespace vernier::precheck {

struct RunRequest {
  std::filesystem::path api_info;
  std::optional<std::filesystem::path> folder;            // ./ unless `only` is given
  std::optional<std::filesystem::path> csv_path, config;  // to go on with; settings
  bool save_error_data = false, jit_compile = false, filter = false;
  std::vector<std::string> devices = {""};  // as torch names them, or numbers; "": the first there is
  std::size_t num_parts = 1;                // worker processes at most
  double timeout_s = 0;                     // of one call; 0: none
  std::string only;                         // names or patterns of calls to check and to explain
  Policy policy = Policy::kManual;
  Thresholds thresholds = Thresholds::kManual;
  Header header = Header::kEnglish;
  Rules rules = Rules::Shipped();
  std::string rules_json;           // what `rules` were changed by; empty: nothing
  std::vector<std::string> python;  // the command that starts a worker
};

struct RunHooks {
  std::stop_token stop;
  std::function<void(std::string_view line)> on_log;
  // The files of the run, as soon as they are known.
  std::function<void(const std::filesystem::path& result, const std::filesystem::path& details,
                     const std::filesystem::path& error_data)>
      on_start;
  std::function<void(std::uint64_t done, std::uint64_t all)> on_progress;
  std::function<void(std::string_view name, const CallAnswer& answer)> on_explained;
};

struct FailedCall {
  std::string name, failed_by, device;
  Verdict verdict = Verdict::kError;
  double severity = 0;
};

struct RunSummary {
  static constexpr std::size_t kNumVerdicts = 5;
  // By prefix: "Functional", …; counts in the order of Verdict.
  std::map<std::string, std::uint64_t[kNumVerdicts]> families;
  std::uint64_t totals[kNumVerdicts] = {};
  std::uint64_t num_calls = 0, num_resumed = 0;
  std::vector<FailedCall> worst;  // worst first, the first ten
  std::filesystem::path result, details, error_data;
  std::vector<std::filesystem::path> of_devices;  // results of each one, where there are several
  std::string device, torch;                      // what the first worker said
  bool interrupted = false, torn = false;

  void Count(std::string_view prefix, FailedCall call);
  std::uint64_t count(Verdict verdict) const { return totals[static_cast<std::size_t>(verdict)]; }
};

// Fails when nothing could be started; a call that fails is a row.
Result<RunSummary> CheckCalls(const RunRequest& request, const RunHooks& hooks);

// For a person: how many, by family, and the worst with the command that repeats each.
std::string SummaryText(const RunSummary& summary, const RunRequest& request);
// The same as a page.
std::string SummaryHtml(const RunSummary& summary, const RunRequest& request);

}  // namespace vernier::precheck

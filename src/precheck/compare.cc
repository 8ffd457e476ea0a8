#include "precheck/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "core/atomic_file.h"
#include "core/text.h"
#include "core/threads.h"
#include "precheck/compare_row.h"
#include "precheck/csv_rows.h"

namespace vernier::precheck {
namespace {

constexpr std::size_t kMaxListed = 10;
constexpr std::uint64_t kRowsBetweenCalls = 4096;

std::size_t NumParts(std::string_view name) {
  return static_cast<std::size_t>(std::count(name.begin(), name.end(), '.')) + 1;
}

// "P.a.0" and "forward" of "P.a.0.forward.output.1".
struct RowName {
  std::string_view full_name, direction;
};
RowName SplitRowName(std::string_view name) {
  for (int i = 0; i < 2; ++i) name = name.substr(0, name.rfind('.'));
  const std::size_t dot = name.rfind('.');
  return {name.substr(0, dot), name.substr(dot + 1)};
}

// The rows of one API.
struct Collected {
  std::string name;
  std::vector<Verdict> forward, backward;
  std::string forward_message, backward_message, failed_by;
  bool is_topk = false;
};

class PrecisionComparison {
 public:
  PrecisionComparison(const PrecisionRequest& request, const PrecisionHooks& hooks)
      : request_(request), hooks_(hooks) {}

  Result<PrecisionSummary> Run() {
    const std::filesystem::path* const paths[] = {&request_.npu, &request_.gpu};
    Result<DetailsTable> tables[] = {Error{}, Error{}};
    ThreadPool(2).ForEach(2, [&](std::size_t i) { tables[i] = DetailsTable::Read(*paths[i]); });
    VN_ASSIGN_OR_RETURN(npu_, std::move(tables[0]));
    VN_ASSIGN_OR_RETURN(gpu_, std::move(tables[1]));
    const std::string stamp = TimeStamp();
    summary_.details = request_.folder / ("api_precision_compare_details_" + stamp + ".csv");
    summary_.result = request_.folder / ("api_precision_compare_result_" + stamp + ".csv");
    VN_ASSIGN_OR_RETURN(AtomicFile details, AtomicFile::CreateReport(summary_.details));
    VN_RETURN_IF_ERROR(details.Write(CsvHeading(kComparedColumns, request_.header)));
    for (const DetailCells& npu : npu_->rows()) {
      const std::optional<ComparedRow> row = Compare(npu);
      if (row) {
        std::string line;
        AppendCsvRow(row->cells, line);
        VN_RETURN_IF_ERROR(details.Write(line));
        ++summary_.num_rows;
      }
      if (++done_ % kRowsBetweenCalls != 0) continue;
      if (hooks_.stop.stop_requested()) return Error{ErrorCode::kCancelled, "", ""};
      if (hooks_.on_progress) hooks_.on_progress(done_, npu_->rows().size());
    }
    VN_RETURN_IF_ERROR(WriteResult(details));
    return summary_;
  }

 private:
  void Warn(const std::string& warning) const {
    if (hooks_.on_warning) hooks_.on_warning(warning);
  }

  // Nothing: the row is left out.
  std::optional<ComparedRow> Compare(const DetailCells& npu) {
    const std::string_view name = npu[Detail::kName];
    if (const std::size_t parts = NumParts(name); parts != 6 && parts != 7) {
      ComparedRow row =
          SkippedComparison(name, fmt::format("{} is not a valid name of an output", Printable(name)));
      Collected& api = CollectedOf(name);
      api.forward = api.backward = {Verdict::kSkip};
      api.forward_message = row.message;
      return row;
    }
    const RowName parts = SplitRowName(name);
    const DetailsTable::Found found = gpu_->Find(name);
    if (found.first == nullptr) {
      ++summary_.num_without_partner;
      Warn(fmt::format("{} is not in {}: left out", Printable(name), request_.gpu.string()));
      return std::nullopt;
    }
    ComparedRow row = Judge(parts.full_name, npu, found);
    if (parts.direction != "forward" && parts.direction != "backward") {
      Warn(fmt::format("{}: neither forward nor backward", Printable(name)));
      return row;
    }
    const bool forward = parts.direction == "forward";
    Collected& api = CollectedOf(parts.full_name);
    (forward ? api.forward : api.backward).push_back(row.verdict);
    (forward ? api.forward_message : api.backward_message) = row.message;
    if (!row.failed_by.empty())
      api.failed_by +=
          fmt::format("{}{}: {}", api.failed_by.empty() ? "" : "; ", parts.direction, row.failed_by);
    return row;
  }

  ComparedRow Judge(std::string_view full_name, const DetailCells& npu, const DetailsTable::Found& found) {
    const std::string_view name = npu[Detail::kName];
    if (found.second != nullptr) {
      ++summary_.num_duplicates;
      return SkippedComparison(name, fmt::format("{} has several rows of this name", request_.gpu.string()));
    }
    const std::optional<ApiName> api = ParseApiName(full_name);
    ComparedRow row = CompareRow(*request_.rules, request_.policy, request_.header,
                                 api ? api->api : full_name, npu, *found.first);
    CollectedOf(full_name).is_topk = api && api->api == "topk";
    return row;
  }

  // In the order in which they are met first.
  Collected& CollectedOf(std::string_view full_name) {
    const auto [place, is_new] = by_name_.try_emplace(std::string(full_name), apis_.size());
    if (is_new) apis_.emplace_back().name = full_name;
    return apis_[place->second];
  }

  Result<Done> WriteResult(AtomicFile& details) {
    VN_ASSIGN_OR_RETURN(AtomicFile result, AtomicFile::CreateReport(summary_.result));
    VN_RETURN_IF_ERROR(result.Write(CsvHeading(kCompareResultColumns, request_.header)));
    for (Collected& api : apis_) {
      ApiVerdict verdict{api.name, "", api.failed_by, RollUp(api.forward), RollUp(api.backward)};
      if (verdict.forward == Verdict::kNone && verdict.backward == Verdict::kNone) continue;
      if (verdict.forward == Verdict::kSkip) {
        verdict.message = api.forward_message;
      } else if (verdict.forward == Verdict::kError && api.is_topk) {
        verdict.message = request_.rules->Text("messages.topk");
      } else if (verdict.backward == Verdict::kSkip) {
        verdict.message = api.backward_message;
      }
      const std::string cells[] = {verdict.name, std::string(Name(verdict.forward)),
                                   std::string(Name(verdict.backward)), verdict.message};
      std::string line;
      AppendCsvRow(cells, line);
      VN_RETURN_IF_ERROR(result.Write(line));
      Count(std::move(verdict));
    }
    VN_RETURN_IF_ERROR(details.Commit());
    return result.Commit();
  }

  void Count(ApiVerdict verdict) {
    const Verdict both[] = {verdict.forward, verdict.backward};
    const Verdict worst = RollUp(both);
    summary_.num_passed += worst == Verdict::kPass;
    summary_.num_skipped += worst == Verdict::kSkip;
    if (worst != Verdict::kError) return;
    ++summary_.num_failed;
    if (summary_.failed.size() < kMaxListed) summary_.failed.push_back(std::move(verdict));
  }

  const PrecisionRequest& request_;
  const PrecisionHooks& hooks_;
  std::optional<DetailsTable> npu_, gpu_;
  std::vector<Collected> apis_;
  std::unordered_map<std::string, std::size_t> by_name_;
  std::uint64_t done_ = 0;
  PrecisionSummary summary_;
};

}  // namespace

Result<PrecisionSummary> ComparePrecision(const PrecisionRequest& request, const PrecisionHooks& hooks) {
  return PrecisionComparison(request, hooks).Run();
}

std::optional<ApiName> ParseApiName(std::string_view full_name) {
  const std::size_t parts = NumParts(full_name);
  if (parts != 3 && parts != 4) return std::nullopt;
  const std::size_t first = full_name.find('.'), last = full_name.rfind('.');
  return ApiName{full_name.substr(0, first), full_name.substr(first + 1, last - first - 1)};
}

}  // namespace vernier::precheck

// Two paths -> what their comparison found, and its rows.
#include "vernier/compare.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "capi/c_api_internal.h"

struct VnOutcome {
  std::string json;
  VnTable rows;
};

namespace vernier {
namespace {

// Families differ in their columns, and so may the ranks of a recording: each row goes where its columns are.
class RowKeeper {
 public:
  explicit RowKeeper(VnTable& table) : table_(table) {}

  void Add(std::span<const std::string> columns, const RowBlock& rows, std::span<const Status> statuses) {
    std::vector<std::size_t> places;
    for (const std::string& column : columns) places.push_back(PlaceOf(column));
    const bool has_verdict = std::find(columns.begin(), columns.end(), kVerdict) != columns.end();
    if (!has_verdict) places.push_back(PlaceOf(kVerdict));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::vector<Cell> cells(table_.columns.size());
      for (std::size_t k = 0; k < columns.size(); ++k) cells[places[k]] = rows.row(i)[k];
      if (!has_verdict) cells[places.back()] = Name(statuses[i]);
      table_.rows.emplace_back(cells);
    }
  }

 private:
  static constexpr const char* kVerdict = "verdict";

  std::size_t PlaceOf(const std::string& column) {
    const auto found = std::find(table_.columns.begin(), table_.columns.end(), column);
    if (found != table_.columns.end()) return static_cast<std::size_t>(found - table_.columns.begin());
    table_.columns.push_back(column);
    return table_.columns.size() - 1;
  }

  VnTable& table_;
};

VnCompareHooks Complete(const VnCompareHooks* hooks) {
  VnCompareHooks complete{};
  if (hooks != nullptr) std::memcpy(&complete, hooks, std::min(hooks->struct_bytes, sizeof complete));
  return complete;
}

CompareHooks HooksOf(const VnCompareHooks& theirs, RowKeeper& keeper) {
  CompareHooks hooks;
  if (theirs.cancel != nullptr) hooks.stop = theirs.cancel->source.get_token();
  if (theirs.on_log != nullptr) {
    hooks.on_log = [theirs](LogLevel level, std::string_view line) {
      theirs.on_log(theirs.context, static_cast<int32_t>(level), std::string(line).c_str());
    };
  }
  if (theirs.on_progress != nullptr) {
    hooks.on_progress = [theirs](const CompareProgress& done) {
      theirs.on_progress(theirs.context, done.items_done, done.num_items, done.bytes_done, done.num_bytes);
    };
  }
  if (theirs.keep_rows != 0) {
    hooks.on_rows = [&keeper](const std::string&, std::span<const std::string> columns, const RowBlock& rows,
                              std::span<const Status> statuses) { keeper.Add(columns, rows, statuses); };
  }
  return hooks;
}

}  // namespace
}  // namespace vernier

using namespace vernier;  // NOLINT: the functions below are C

VnStatus VnCompareRecordings(const char* request_json, const VnCompareHooks* hooks, VnOutcome** outcome) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"request", request_json}, {"outcome", outcome}}));
    VN_ASSIGN_OR_RETURN(const CompareRequest request, CompareRequestFromJson(request_json));
    auto found = std::make_unique<VnOutcome>();
    RowKeeper keeper(found->rows);
    VN_ASSIGN_OR_RETURN(const CompareOutcome compared,
                        CompareRecordings(request, HooksOf(Complete(hooks), keeper)));
    found->json = ToJson(compared);
    *outcome = found.release();
    return Done{};
  });
}

const char* VnOutcomeJson(const VnOutcome* outcome) {
  return outcome != nullptr ? outcome->json.c_str() : "";
}
const VnTable* VnOutcomeRows(const VnOutcome* outcome) {
  return outcome != nullptr ? &outcome->rows : nullptr;
}
void VnCloseOutcome(VnOutcome* outcome) { delete outcome; }

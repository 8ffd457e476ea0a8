#include "profiles/xray/summary.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "core/python_text.h"
#include "measure/magnitudes.h"
#include "profiles/xray/recording.h"

namespace vernier::xray {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kNameWidth = 57;

void SetNumbers(const TensorStats& stats, SummaryRow& row) {
  row.has_numbers = stats.num_elements > 0;
  row.min = stats.Min();
  row.max = stats.Max();
  row.mean = stats.Mean();
  row.std = stats.num_elements == 1 && stats.num_finite() == 1 ? 0 : stats.Std();
  row.num_nan = stats.num_nan;
  row.num_inf = stats.num_pos_inf + stats.num_neg_inf;
}

// From what the recorder wrote; a file of another tool has none of it.
void SetNumbers(const Hdf5Object& object, std::uint64_t num_elements, SummaryRow& row) {
  if (num_elements == 0) return;
  const auto number = [&](std::string_view name) { return object.Number(name); };
  const auto min = number("min"), max = number("max"), mean = number("mean"), std = number("std");
  if (!min || !max || !mean || !std) {
    row.error = Error{ErrorCode::kUnsupported, row.key, "has no attributes min, max, mean and std"};
    return;
  }
  row.has_numbers = true;
  row.min = *min, row.max = *max, row.mean = *mean, row.std = *std;
  row.num_nan = static_cast<std::uint64_t>(std::max(0.0, number("nan_count").value_or(0)));
  row.num_inf = static_cast<std::uint64_t>(std::max(0.0, number("inf_count").value_or(0)));
}

// Seven decimals at most, then the shortest text.
std::string ShownNumber(double value) {
  return PythonFloat(std::strtod(fmt::format("{:.7f}", value).c_str(), nullptr));
}

struct ReportColumn {
  std::string_view key;
  Cell (*value)(const SummaryRow& row, TextArena& arena);
};
using R = const SummaryRow&;
using A = TextArena&;
Cell Numbers(R r, double value) { return r.has_numbers ? Cell(value) : Cell(); }
Cell Counts(R r, std::uint64_t value) { return r.error ? Cell() : Cell(value); }
// clang-format off
constexpr ReportColumn kReportColumns[] = {
    {"Index",    [](R r, A) { return Cell(r.index); }},
    {"Step",     [](R r, A) { return r.step ? Cell(*r.step) : Cell(); }},
    {"Rank",     [](R r, A) { return Cell(r.rank); }},
    {"Module",   [](R r, A) { return Cell(r.key); }},
    {"Min",      [](R r, A) { return Numbers(r, r.min); }},
    {"Max",      [](R r, A) { return Numbers(r, r.max); }},
    {"Mean",     [](R r, A) { return Numbers(r, r.mean); }},
    {"Std",      [](R r, A) { return Numbers(r, r.std); }},
    {"Dtype",    [](R r, A) { return Cell(r.dtype); }},
    {"Shape",    [](R r, A) { return Cell(r.shape); }},
    {"NanCount", [](R r, A) { return Counts(r, r.num_nan); }},
    {"InfCount", [](R r, A) { return Counts(r, r.num_inf); }},
    {"Error",    [](R r, A a) { return r.error ? Cell(a.Keep(r.error->Message())) : Cell(); }},
};
// clang-format on

}  // namespace

Result<std::vector<SummaryRow>> SummarizeRecording(const std::string& path, const SummaryOptions& options,
                                                   const SummaryHooks& hooks) {
  VN_ASSIGN_OR_RETURN(const Recording recording, Recording::Open(path, options.num_threads));
  if (recording.items.empty()) return Error{ErrorCode::kNotADump, path, ""};
  std::vector<SummaryRow> rows(recording.items.size());
  std::uint64_t num_bytes = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Item& item = recording.items[i];
    const TensorInfo& info = recording.info(item);
    SummaryRow& row = rows[i];
    row.index = i;
    row.step = item.step;
    row.rank = recording.rank;
    row.key = item.key;
    if (info.damage) {
      row.error = info.damage;
      continue;
    }
    row.dtype = "torch." + std::string(Name(info.dtype));
    row.shape = ShapeText(info.shape);
    num_bytes += info.num_bytes();
    if (options.trust_attributes) SetNumbers(recording.objects[i], info.num_elements, row);
  }
  if (options.trust_attributes) return rows;
  BatchHooks batch;
  batch.stop = hooks.stop;
  batch.on_progress = [&](const MeasureProgress& done) {
    if (hooks.on_progress) hooks.on_progress(done, rows.size(), num_bytes);
  };
  const auto load = [&](std::size_t i) -> Result<TensorView> {
    VN_ASSIGN_OR_RETURN(TensorView view, recording.dump.Load(recording.items[i].index));
    return MagnitudesOf(std::move(view));
  };
  StatsOptions measured;
  measured.num_threads = options.num_threads;
  measured.zeros = false;
  MeasureTensors(
      rows.size(), load, measured,
      [&](std::size_t i, const Result<TensorStats>& stats) {
        if (stats) {
          SetNumbers(*stats, rows[i]);
        } else {
          rows[i].error = stats.error();
        }
      },
      batch);
  if (hooks.stop.stop_requested()) return Error{ErrorCode::kCancelled, "", ""};
  return rows;
}

std::string SummaryTable(std::span<const SummaryRow> rows) {
  const FrameColumn columns[] = {
      {"Index", 5},
      {"Step", 4},
      {"Rank", 4},
      {"Module", kNameWidth, kNameWidth, false, false},
      {"Min", 11, 0, true, false},
      {"Max", 11, 0, true, false},
      {"Mean", 12},
      {"Std", 11, 0, true, false},
  };
  std::vector<std::vector<std::string>> lines;
  std::string below;
  for (const SummaryRow& row : rows) {
    const bool any_nan = row.num_nan > 0;
    const auto number = [&](double value) {
      return row.has_numbers ? ShownNumber(any_nan ? kNan : value) : "";
    };
    lines.push_back({std::to_string(row.index), row.step ? std::to_string(*row.step) : "",
                     std::to_string(row.rank), row.key, number(row.min), number(row.max), number(row.mean),
                     number(row.std)});
    if (row.error) below += fmt::format("{}: {}\n", row.index, row.error->Message());
  }
  return RenderFrame(columns, lines) + below;
}

Result<Done> WriteSummary(std::span<const SummaryRow> rows, const OutputFile& file) {
  ResultReports::Options options;
  options.files = {file};
  for (const ReportColumn& column : kReportColumns) options.columns.push_back({std::string(column.key)});
  VN_ASSIGN_OR_RETURN(ResultReports reports, ResultReports::Create(std::move(options)));
  ResultBatch batch(std::size(kReportColumns));
  for (const SummaryRow& row : rows) {
    for (const ReportColumn& column : kReportColumns)
      batch.rows.cells.push_back(column.value(row, batch.arena));
    batch.rows.colours.push_back(row.error ? RowColour::kRed : RowColour::kNone);
    batch.statuses.push_back(row.error ? Status::kError : Status::kPass);
    batch.severities.push_back(0);
  }
  VN_RETURN_IF_ERROR(reports.Render(batch));
  VN_RETURN_IF_ERROR(reports.Take(batch));
  const Result<std::vector<KeptRow>> finished = reports.Finish();
  if (!finished) return finished.error();
  return Done{};
}

}  // namespace vernier::xray

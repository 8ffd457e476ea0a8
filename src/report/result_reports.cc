#include "report/result_reports.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <tuple>

#include "core/text.h"
#include "core/threads.h"

namespace vernier {
namespace {

constexpr const char* kStdout = "/dev/stdout";
constexpr std::size_t kRowsOfABatch = 512;

// What --only keeps, in the order of Status.
constexpr std::string_view kOnly[kNumStatuses] = {"passed", "failed", "error", "unmatched"};

// Small comes first. What is missing comes last, what is no number before all numbers.
struct SortKey {
  bool missing = true;
  double number = 0;
  std::string_view text;
};

SortKey KeyOf(const Cell& cell, Good good) {
  if (cell.is_number() || cell.kind == Cell::Kind::kShown) {
    const double sign = good == Good::kLarge ? 1 : -1;
    return {
        false, std::isnan(cell.number) ? -std::numeric_limits<double>::infinity() : sign * cell.number, {}};
  }
  if (cell.kind == Cell::Kind::kText) return {cell.text.empty(), 0, cell.text};
  return {};
}

int StatusRank(Status status) {
  constexpr int kRanks[kNumStatuses] = {3, 0, 1, 2};  // pass, fail, error, unmatched
  return kRanks[static_cast<std::size_t>(status)];
}

}  // namespace

Result<OutputFile> OutputFileOf(const std::string& output, const std::string& format) {
  OutputFile file;
  file.path = output == "-" ? kStdout : output;
  if (format.empty() && file.path == kStdout) return file;
  VN_ASSIGN_OR_RETURN(file.format, format.empty() ? FormatOf(file.path) : ParseFormat(format));
  return file;
}

RowColour ColourOf(Status status) {
  constexpr RowColour kOfStatus[] = {RowColour::kGreen, RowColour::kRed, RowColour::kRed, RowColour::kYellow};
  return kOfStatus[static_cast<std::size_t>(status)];
}

bool IsWorse(const KeptRow& a, const KeptRow& b) {
  if (a.status != b.status) return StatusRank(a.status) < StatusRank(b.status);
  if (a.severity != b.severity) return a.severity > b.severity;
  return a.position < b.position;
}

Result<ResultReports> ResultReports::Create(Options options) {
  ResultReports reports;
  reports.num_shown_ = options.select.top;
  reports.num_threads_ = options.num_threads;
  std::vector<std::string> keys;
  for (const ResultColumn& column : options.columns) keys.push_back(column.key);
  if (!options.select.sort.empty()) {
    const std::vector<std::string_view> choices(keys.begin(), keys.end());
    VN_ASSIGN_OR_RETURN(reports.sort_column_, Choose("--sort", options.select.sort, choices));
  }
  for (const std::string& kind : options.select.only) {
    VN_ASSIGN_OR_RETURN(const std::size_t status, Choose("--only", kind, kOnly));
    reports.wanted_[status] = true;
  }
  reports.is_filtered_ = !options.select.only.empty();
  if (!reports.is_filtered_) reports.wanted_.fill(true);
  for (const OutputFile& file : options.files) {
    ReportOptions report = options.report;
    if (file.style) report.style = *file.style;
    VN_ASSIGN_OR_RETURN(auto writer, ReportWriter::Create(file.path, file.format, keys, report));
    reports.files_.push_back({std::move(writer), false});
  }
  reports.columns_ = std::move(options.columns);
  return reports;
}

void ResultReports::SetFrontPage(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  for (File& file : files_) file.writer->SetFrontPage(lines);
}

Result<Done> ResultReports::Render(ResultBatch& batch) const {
  return renders_early() ? RenderNow(batch) : Result<Done>(Done{});  // else row numbers are not known yet
}

Result<Done> ResultReports::RenderNow(ResultBatch& batch) const {
  for (const File& file : files_) {
    VN_ASSIGN_OR_RETURN(Rendered rendered, file.writer->Render(batch.first_row, batch.rows));
    batch.rendered.push_back(std::move(rendered));
  }
  return Done{};
}

Result<Done> ResultReports::Take(ResultBatch& batch) {
  if (renders_early()) {
    Keep(batch);
    num_rows_ += batch.rows.size();
    return Append(batch);
  }
  ResultBatch wanted(columns_.size());
  wanted.first_row = num_rows_;
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    if (!keeps(batch.statuses[i])) continue;
    const auto cells = batch.rows.row(i);
    wanted.rows.cells.insert(wanted.rows.cells.end(), cells.begin(), cells.end());
    wanted.rows.colours.push_back(batch.rows.colours[i]);
    wanted.statuses.push_back(batch.statuses[i]);
    wanted.severities.push_back(batch.severities[i]);
  }
  Keep(wanted);
  num_rows_ += wanted.rows.size();
  if (sort_column_) return Done{};
  VN_RETURN_IF_ERROR(RenderNow(wanted));
  return Append(wanted);
}

Result<Done> ResultReports::Append(ResultBatch& batch) {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (files_[i].closed) continue;
    VN_RETURN_IF_ERROR(Tolerate(i, files_[i].writer->Append(batch.rendered[i])));
  }
  return Done{};
}

Result<Done> ResultReports::Tolerate(std::size_t file, Result<Done> result) {
  if (result || result.error().code != ErrorCode::kClosedPipe) return result;
  files_[file].closed = true;
  return Done{};
}

void ResultReports::Keep(const ResultBatch& batch) {
  if (!sort_column_ && num_shown_ == 0) return;
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    kept_.push_back({batch.first_row + i, batch.statuses[i], batch.rows.colours[i], batch.severities[i],
                     KeptCells(batch.rows.row(i))});
  }
  // Now and then only the worst stay, so that memory does not grow with the rows.
  constexpr std::size_t kSlack = 1000;
  if (sort_column_ || kept_.size() < num_shown_ + kSlack) return;
  std::nth_element(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(num_shown_), kept_.end(),
                   IsWorse);
  kept_.resize(num_shown_);
}

Result<Done> ResultReports::WriteSorted() {
  const Good good = columns_[*sort_column_].good;
  std::stable_sort(kept_.begin(), kept_.end(), [&](const KeptRow& a, const KeptRow& b) {
    const SortKey x = KeyOf(a.kept.cells()[*sort_column_], good),
                  y = KeyOf(b.kept.cells()[*sort_column_], good);
    return std::tie(x.missing, x.number, x.text) < std::tie(y.missing, y.number, y.text);
  });
  struct Piece {
    ResultBatch batch;
    Result<Done> done{Done{}};
  };
  const auto render = [&](Piece& piece) {
    const std::size_t first = piece.batch.first_row, last = std::min(first + kRowsOfABatch, kept_.size());
    for (std::size_t i = first; i < last; ++i) {
      const auto cells = kept_[i].kept.cells();
      piece.batch.rows.cells.insert(piece.batch.rows.cells.end(), cells.begin(), cells.end());
      piece.batch.rows.colours.push_back(kept_[i].colour);
    }
    piece.done = RenderNow(piece.batch);
  };
  Result<Done> written = Done{};
  OrderedQueue<Piece> queue(num_threads_, render, [&](Piece&& piece) {
    written = piece.done ? Append(piece.batch) : piece.done;
    return written.has_value();
  });
  for (std::size_t first = 0; first < kept_.size(); first += kRowsOfABatch) {
    Piece piece{ResultBatch(columns_.size())};
    piece.batch.first_row = first;
    if (!queue.Push(std::move(piece))) break;
  }
  queue.Finish();
  return written;
}

Result<std::vector<KeptRow>> ResultReports::Finish() {
  if (sort_column_) {
    VN_RETURN_IF_ERROR(WriteSorted());
  } else {
    std::sort(kept_.begin(), kept_.end(), IsWorse);
  }
  kept_.resize(std::min(kept_.size(), num_shown_));
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (!files_[i].closed) VN_RETURN_IF_ERROR(Tolerate(i, files_[i].writer->Finish()));
  }
  return std::move(kept_);
}

std::vector<std::filesystem::path> ResultReports::paths() const {
  std::vector<std::filesystem::path> all;
  for (const File& file : files_) {
    const auto& paths = file.writer->paths();
    all.insert(all.end(), paths.begin(), paths.end());
  }
  return all;
}

}  // namespace vernier

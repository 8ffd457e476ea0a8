// The rows of a comparison on their way to files and screen, whatever family of dumps they are of: which are
// kept, in which order, where they are written, and which are the worst.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "vernier/judge.h"
#include "vernier/report.h"

namespace vernier {

enum class Good : std::uint8_t { kNeither, kSmall, kLarge };  // which end of a column's numbers

struct ResultColumn {
  std::string key;
  Good good = Good::kNeither;
};

struct OutputFile {
  std::filesystem::path path;
  ReportFormat format = ReportFormat::kCsv;
  std::optional<TableStyle> style = {};  // instead of the one for all
};

// Where a report goes: "-" is standard output, which is csv unless `format` says otherwise; a path's ending
// chooses its format when `format` is empty.
Result<OutputFile> OutputFileOf(const std::string& output, const std::string& format);

struct SelectOptions {
  std::vector<std::string> only;  // "failed", "error", "unmatched", "passed"; empty: all
  std::string sort;               // the key of a column, worst or alphabetically first; empty: as they come
  std::size_t top = 0;            // rows to keep for the screen, worst first
};

// Rows in the order of the report.
struct ResultBatch {
  explicit ResultBatch(std::size_t num_columns) : rows(num_columns) {}
  RowBlock rows;
  std::vector<Status> statuses;    // of the rows
  std::vector<double> severities;  // larger is worse; comparable within one status
  TextArena arena;                 // for texts of the cells
  std::uint64_t first_row = 0;     // its number, counted before anything is left out
  std::vector<Rendered> rendered;  // for each file, by Render()
};

RowColour ColourOf(Status status);

// A row that outlives what it was made from.
struct KeptRow {
  std::uint64_t position = 0;  // in report order
  Status status = Status::kPass;
  RowColour colour = RowColour::kNone;
  double severity = 0;
  KeptCells kept;
};
// Orders rows by status (fail, error, unmatched, pass), then by severity.
bool IsWorse(const KeptRow& a, const KeptRow& b);

class ResultReports {
 public:
  struct Options {
    std::vector<OutputFile> files;
    std::vector<ResultColumn> columns;
    SelectOptions select;
    ReportOptions report;
    int num_threads = 1;
  };
  // Creates the files under temporary names. Fails for a word of `select` that means nothing.
  static Result<ResultReports> Create(Options options);

  std::size_t num_columns() const { return columns_.size(); }
  bool keeps(Status status) const { return wanted_[static_cast<std::size_t>(status)]; }
  // Formats a batch, on any thread.
  Result<Done> Render(ResultBatch& batch) const;
  // Takes batches in order, one at a time. A reader of standard output that had enough is no failure.
  Result<Done> Take(ResultBatch& batch);
  void SetFrontPage(const std::string& text);  // see ReportWriter
  // Makes the files appear. What there is to show: the worst rows, or the first ones of a sorted report.
  Result<std::vector<KeptRow>> Finish();

  std::uint64_t num_rows() const { return num_rows_; }  // that were not left out
  std::vector<std::filesystem::path> paths() const;     // of the files, in order

 private:
  ResultReports() = default;
  bool renders_early() const { return !is_filtered_ && !sort_column_; }
  Result<Done> RenderNow(ResultBatch& batch) const;
  Result<Done> WriteSorted();
  Result<Done> Append(ResultBatch& batch);
  Result<Done> Tolerate(std::size_t file, Result<Done> result);
  void Keep(const ResultBatch& batch);

  struct File {
    std::unique_ptr<ReportWriter> writer;
    bool closed = false;  // standard output, and nobody reads it any more
  };
  std::vector<ResultColumn> columns_;
  std::vector<File> files_;
  std::array<bool, kNumStatuses> wanted_{};
  std::optional<std::size_t> sort_column_;
  bool is_filtered_ = false;
  std::size_t num_shown_ = 0;
  int num_threads_ = 1;
  std::uint64_t num_rows_ = 0;
  std::vector<KeptRow> kept_;
};

}  // namespace vernier

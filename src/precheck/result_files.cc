#include "precheck/result_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "core/json_cursor.h"
#include "core/mapped_file.h"
#include "core/paths.h"
#include "core/text.h"
#include "format/csv.h"
#include "precheck/csv_rows.h"
#include "vernier/report.h"

namespace vernier::precheck {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kResultStart = "accuracy_checking_result_", kEnding = ".csv";
constexpr std::size_t kStampDigits = 14;

// How a name stands in a file.
std::string WrittenName(std::string_view name) { return SpreadsheetSafe(ValidUtf8(name)); }

// The API of a row of details: "P.a.0" of "P.a.0.forward.output.1".
std::string_view ApiOf(std::string_view row_name) {
  for (int i = 0; i < 3; ++i) {
    const std::size_t dot = row_name.rfind('.');
    if (dot == std::string_view::npos) return {};
    row_name = row_name.substr(0, dot);
  }
  return row_name;
}

std::vector<std::string> CellsOf(std::string_view row) {
  std::vector<std::string> cells;
  ReadCsvTexts(row, [&](std::span<const std::string> found) {
    cells.assign(found.begin(), found.end());
    return false;
  });
  return cells;
}

bool IsHeader(const std::vector<std::string>& cells, std::span<const ColumnName> columns) {
  if (cells.size() != columns.size()) return false;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (cells[i] != columns[i].english && cells[i] != columns[i].chinese) return false;
  }
  return true;
}

// A file of an interrupted run: its whole rows, the header first.
class OldFile {
 public:
  static Result<OldFile> Open(const fs::path& path, std::span<const ColumnName> columns) {
    OldFile old;
    VN_ASSIGN_OR_RETURN(old.file_, MappedFile::Open(path.string()));
    old.text_ = TextOf(old.file_);
    old.ends_ = CsvRowEnds(old.text_);
    if (old.ends_.empty() || !IsHeader(CellsOf(old.row(0)), columns)) {
      return Error{ErrorCode::kBadHeader, path.string(),
                   fmt::format("expected the columns {}, ...", columns[1].english)};
    }
    if (access(path.c_str(), W_OK) != 0) return ErrnoError(path.string(), errno);
    return old;
  }

  std::size_t num_rows() const { return ends_.size(); }
  std::string_view row(std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return text_.substr(begin, ends_[i] - begin);
  }
  bool is_cut() const { return ends_.back() != text_.size(); }

 private:
  FileRef file_;
  std::string_view text_;
  std::vector<std::size_t> ends_;
};

// Keeps the header and the rows that `keep` wants; the file stays untouched where that is all of it.
template <class Keep>
Result<Done> Rewrite(const fs::path& path, const OldFile& old, const Keep& keep) {
  std::string kept(old.row(0));
  bool all = !old.is_cut();
  for (std::size_t i = 1; i < old.num_rows(); ++i) {
    const std::string_view row = old.row(i);
    if (keep(row)) {
      kept += row;
    } else {
      all = false;
    }
  }
  if (all) return Done{};
  VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  VN_RETURN_IF_ERROR(file.Write(kept));
  return file.Commit();
}

fs::path PathOf(const fs::path& folder, const char* part, const std::string& stamp,
                const std::string& suffix) {
  return folder / fmt::format("accuracy_checking_{}_{}{}.csv", part, stamp, suffix);
}

std::optional<std::string> StampOf(const std::string& name) {
  const std::size_t length = kResultStart.size() + kStampDigits + kEnding.size();
  if (name.size() != length || !name.starts_with(kResultStart) || !name.ends_with(kEnding))
    return std::nullopt;
  std::string stamp = name.substr(kResultStart.size(), kStampDigits);
  const bool all_digits =
      std::all_of(stamp.begin(), stamp.end(), [](char c) { return c >= '0' && c <= '9'; });
  return all_digits ? std::optional(std::move(stamp)) : std::nullopt;
}

}  // namespace

Result<AppendedFile> AppendedFile::Create(const fs::path& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return ErrnoError(path.string(), errno);
  return AppendedFile(path, fd);
}

Result<AppendedFile> AppendedFile::Open(const fs::path& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd < 0) return ErrnoError(path.string(), errno);
  return AppendedFile(path, fd);
}

AppendedFile::AppendedFile(AppendedFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

AppendedFile& AppendedFile::operator=(AppendedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

AppendedFile::~AppendedFile() {
  if (fd_ >= 0) close(fd_);
}

Result<Done> AppendedFile::Append(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t written = write(fd_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoError(path_.string(), errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return Done{};
}

Result<ResultFiles> ResultFiles::Create(const fs::path& folder, const std::string& stamp,
                                        const std::string& suffix, Header header) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) return ErrnoError(folder.string(), failure.value());
  const fs::path result_path = PathOf(folder, "result", stamp, suffix);
  const fs::path details_path = PathOf(folder, "details", stamp, suffix);
  VN_ASSIGN_OR_RETURN(AppendedFile details, AppendedFile::Create(details_path));
  VN_ASSIGN_OR_RETURN(AppendedFile result, AppendedFile::Create(result_path));
  VN_RETURN_IF_ERROR(details.Append(CsvHeading(kDetailColumns, header)));
  VN_RETURN_IF_ERROR(result.Append(CsvHeading(kResultColumns, header)));
  ResultFiles files(std::move(result), std::move(details));
  files.result_path_ = result_path;
  files.details_path_ = details_path;
  files.stamp_ = stamp;
  return files;
}

Result<ResultFiles> ResultFiles::Resume(const fs::path& result) {
  const std::string name = result.filename().string();
  const std::optional<std::string> stamp = StampOf(name);
  if (!stamp) {
    return Error{ErrorCode::kBadArgument, result.string(),
                 "expected accuracy_checking_result_<14 digits>.csv, as the interrupted run named it"};
  }
  return Continue(result, PathOf(result.parent_path(), "details", *stamp, ""), *stamp);
}

Result<ResultFiles> ResultFiles::CreateOrContinue(const fs::path& folder, const std::string& stamp,
                                                  const std::string& suffix, Header header) {
  const fs::path result = PathOf(folder, "result", stamp, suffix);
  if (!Exists(result)) return Create(folder, stamp, suffix, header);
  return Continue(result, PathOf(folder, "details", stamp, suffix), stamp);
}

Result<ResultFiles> ResultFiles::Continue(const fs::path& result, const fs::path& details,
                                          const std::string& stamp) {
  for (const fs::path& path : {result, details}) {
    if (!Exists(path)) return MissingPath(path);
  }
  VN_ASSIGN_OR_RETURN(const OldFile old_result, OldFile::Open(result, kResultColumns));
  VN_ASSIGN_OR_RETURN(const OldFile old_details, OldFile::Open(details, kDetailColumns));
  std::unordered_set<std::string> done;
  for (std::size_t i = 1; i < old_result.num_rows(); ++i) {
    const std::vector<std::string> cells = CellsOf(old_result.row(i));
    if (!cells.empty()) done.insert(cells[0]);
  }
  VN_RETURN_IF_ERROR(Rewrite(details, old_details, [&](std::string_view row) {
    const std::vector<std::string> cells = CellsOf(row);
    return !cells.empty() && done.count(std::string(ApiOf(cells[0]))) > 0;
  }));
  VN_RETURN_IF_ERROR(Rewrite(result, old_result, [](std::string_view) { return true; }));
  VN_ASSIGN_OR_RETURN(AppendedFile result_file, AppendedFile::Open(result));
  VN_ASSIGN_OR_RETURN(AppendedFile details_file, AppendedFile::Open(details));
  ResultFiles files(std::move(result_file), std::move(details_file));
  files.result_path_ = result;
  files.details_path_ = details;
  files.stamp_ = stamp;
  files.done_ = std::move(done);
  return files;
}

bool ResultFiles::IsDone(std::string_view name) const { return done_.count(WrittenName(name)) > 0; }

Result<Done> ResultFiles::Append(std::string_view name, const CallAnswer& answer) {
  std::string details, result;
  for (const std::vector<std::string>& row : answer.rows) AppendCsvRow(row, details);
  const std::string cells[] = {std::string(name), std::string(Name(answer.forward)),
                               std::string(Name(answer.backward)), answer.message};
  AppendCsvRow(cells, result);
  VN_RETURN_IF_ERROR(details_.Append(details));
  VN_RETURN_IF_ERROR(result_.Append(result));
  done_.insert(WrittenName(name));
  return Done{};
}

}  // namespace vernier::precheck

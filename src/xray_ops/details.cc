#include "xray_ops/details.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>

#include "core/atomic_file.h"
#include "core/descriptor.h"
#include "core/text.h"
#include "format/csv.h"
#include "vernier/report.h"

namespace vernier::xray_ops {
namespace {

std::string Header(int num_orders) {
  std::string line;
  const auto add = [&](std::string_view column) {
    if (!line.empty()) line += ',';
    line += column;
  };
  for (const std::string_view column : kFirstColumns) add(column);
  for (int order = 1; order <= num_orders; ++order) add(OrderColumn(order));
  for (const std::string_view column : kLastColumns) add(column);
  return line + '\n';
}

// As torch prints it: "torch.float" for float32, "torch.int64".
std::string PrintedDtype(Dtype dtype) {
  return dtype == Dtype::kF32 ? "torch.float" : "torch." + std::string(Name(dtype));
}

// Numbers with up to nine significant digits, in the shortest form: "0", "1.91e-06".
std::string FieldText(const Cell& cell) {
  if (cell.kind != Cell::Kind::kNumber || std::isnan(cell.number)) return CellText(cell);
  return cell.number == 0 ? "0" : fmt::format("{:.9g}", cell.number);
}

// Positions in CountCells().
enum Counted : std::size_t { kIsPass, kDtype, kShape, kMinValue, kMaxValue, kMax, kMessage, kFirstCount };

std::string LineOf(const DetailRow& row, int num_orders) {
  std::string line;
  const auto add = [&](std::string_view text) {
    AppendCsvText(SpreadsheetSafe(Printable(text)), line);
    line += ',';
  };
  const auto counted = [&](std::size_t i) { return i < row.counts.size() ? FieldText(row.counts[i]) : ""; };
  add(row.name);
  add(row.op_name);
  for (const Counted i : {kDtype, kShape, kMinValue, kMaxValue}) add(counted(i));
  add(row.is_pass.empty() ? counted(kIsPass) : std::string(row.is_pass));
  add(counted(kMax));
  for (std::size_t order = 0; order < static_cast<std::size_t>(num_orders); ++order)
    add(counted(kFirstCount + order));
  add(row.device);
  add(row.message.empty() ? counted(kMessage) : std::string(row.message));
  line.back() = '\n';
  return line;
}

bool WriteWhole(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

std::string OrderColumn(int order) { return fmt::format("1e-{}", order); }

std::vector<std::string> CountColumns(int num_orders) {
  std::vector<std::string> columns = {"is_pass", "dtype", "shape", "min-val", "max-val", "max", "message"};
  for (int order = 1; order <= num_orders; ++order) columns.push_back(OrderColumn(order));
  return columns;
}

KeptCells CountCells(const ErrorCounts& counts, int num_orders) {
  const std::string dtype = PrintedDtype(counts.dtype), shape = ShapeText(counts.shape);
  std::vector<Cell> cells = {
      counts.passes ? "pass" : "fail",         dtype,         shape, counts.min_value, counts.max_value,
      counts.max ? Cell(*counts.max) : Cell(), counts.message};
  for (std::size_t order = 0; order < static_cast<std::size_t>(num_orders); ++order)
    cells.push_back(order < counts.above.size() ? Cell(counts.above[order]) : Cell());
  return KeptCells(cells);
}

Result<Done> BeginDetails(const std::filesystem::path& path, int num_orders) {
  VN_RETURN_IF_ERROR(CheckOrders(num_orders));
  VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  VN_RETURN_IF_ERROR(file.Write(Header(num_orders)));
  return file.Commit();
}

Result<Done> AppendDetails(const std::filesystem::path& path, int num_orders, const DetailRow& row) {
  VN_RETURN_IF_ERROR(CheckOrders(num_orders));
  if (!row.counts.empty() && row.counts.size() != kFirstCount + static_cast<std::size_t>(num_orders))
    return Error{ErrorCode::kBadArgument, "counts", fmt::format("expected {} orders", num_orders)};
  const Descriptor file(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (file.get() < 0) return ErrnoError(path.string(), errno);
  // Where there are no locks (some network file systems) one write of a line is still whole for readers.
  while (flock(file.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return ErrnoError(path.string(), errno);
  const std::string header = S_ISREG(status.st_mode) && status.st_size == 0 ? Header(num_orders) : "";
  if (!WriteWhole(file.get(), header + LineOf(row, num_orders))) return ErrnoError(path.string(), errno);
  return Done{};
}

}  // namespace vernier::xray_ops

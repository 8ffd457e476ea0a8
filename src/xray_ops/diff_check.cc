#include "xray_ops/diff_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <map>
#include <optional>

#include "core/paths.h"
#include "core/python_text.h"
#include "core/text.h"
#include "format/table_file.h"
#include "report/result_reports.h"
#include "xray_ops/details.h"

namespace vernier::xray_ops {
namespace {

namespace fs = std::filesystem;

enum Described : std::size_t {
  kName,
  kOpName,
  kDtype,
  kShape,
  kMinValue,
  kMaxValue,
  kIsPass,
  kMax,
  kNumDescribed
};
static_assert(std::size(kFirstColumns) == kNumDescribed);

struct Detail {
  std::array<std::string, kNumDescribed> texts;  // by Described
  std::map<int, std::string> orders;             // 3 -> the count of 1e-3

  std::pair<std::string_view, std::string_view> key() const { return {texts[kName], texts[kOpName]}; }
};

struct Details {
  std::vector<int> orders;  // that the header has
  std::vector<Detail> rows;
};

std::optional<int> OrderOf(std::string_view column) {
  if (!column.starts_with("1e-")) return std::nullopt;
  int order = 0;
  const auto [end, problem] = std::from_chars(column.data() + 3, column.data() + column.size(), order);
  const bool good =
      problem == std::errc() && end == column.data() + column.size() && order >= 1 && order <= kMaxOrders;
  return good ? std::optional(order) : std::nullopt;
}

// Where the columns of a file stand.
struct Header {
  std::array<std::size_t, kNumDescribed> described{};
  std::map<int, std::size_t> orders;
  std::size_t num_needed = 0;  // cells of a row

  static Result<Header> Of(std::span<const TableCell> cells, const std::string& path) {
    Header header;
    const auto find = [&](std::string_view name) {
      return static_cast<std::size_t>(
          std::find_if(cells.begin(), cells.end(), [&](const TableCell& cell) { return cell.text == name; }) -
          cells.begin());
    };
    for (std::size_t i = 0; i < kNumDescribed; ++i) {
      header.described[i] = find(kFirstColumns[i]);
      if (header.described[i] == cells.size()) {
        return Error{
            ErrorCode::kBadArgument, path,
            fmt::format("it has no column {}; expected the file that pytest --detail_compare_path writes",
                        kFirstColumns[i])};
      }
    }
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (const auto order = OrderOf(cells[i].text)) header.orders.emplace(*order, i);
    }
    for (const std::size_t at : header.described) header.num_needed = std::max(header.num_needed, at + 1);
    for (const auto& order : header.orders) header.num_needed = std::max(header.num_needed, order.second + 1);
    return header;
  }
};

Result<Details> ReadDetails(const fs::path& path, std::vector<std::string>& problems) {
  if (!Exists(path)) return MissingPath(path);
  Details details;
  std::optional<Header> header;
  std::optional<Error> failure;
  std::size_t line = 0;
  const Result<Done> read = ReadTable(path, [&](std::span<const TableCell> cells) {
    ++line;
    if (!header) {
      Result<Header> found = Header::Of(cells, path.string());
      if (!found) {
        failure = std::move(found).error();
        return false;
      }
      header = *found;
      for (const auto& order : header->orders) details.orders.push_back(order.first);
      return true;
    }
    if (cells.size() < header->num_needed) {
      problems.push_back(fmt::format("{}: row {} has {} of {} cells; it is left out", path.string(), line,
                                     cells.size(), header->num_needed));
      return true;
    }
    Detail detail;
    for (std::size_t i = 0; i < kNumDescribed; ++i) detail.texts[i] = cells[header->described[i]].text;
    for (const auto& order : header->orders) detail.orders[order.first] = cells[order.second].text;
    details.rows.push_back(std::move(detail));
    return true;
  });
  VN_RETURN_IF_ERROR(read);
  if (failure) return *failure;
  if (!header) return Error{ErrorCode::kBadArgument, path.string(), "it is empty"};
  return details;
}

bool Says(const Detail& detail, std::string_view word) {
  return EqualsIgnoringCase(detail.texts[kIsPass], word);
}

DiffStatus OwnVerdict(const Detail& xpu) { return Says(xpu, "pass") ? DiffStatus::kPass : DiffStatus::kFail; }

// No error of the XPU may be larger than the GPU's, order by order.
bool IsNotWorse(const Detail& xpu, const Detail& gpu, const std::vector<int>& orders) {
  const auto at_most = [](const std::string& a, const std::string& b, double times) {
    const auto x = ParsePythonFloat(a), g = ParsePythonFloat(b);
    return x && g && *x <= times * *g;
  };
  const auto is_at_most = [&](int order) { return at_most(xpu.orders.at(order), gpu.orders.at(order), 1); };
  return at_most(xpu.texts[kMax], gpu.texts[kMax], 2) &&
         std::all_of(orders.begin(), orders.end(), is_at_most);
}

// A blank cell says nothing: a test that raised has neither dtype nor shape.
bool Disagree(const Detail& xpu, const Detail& gpu, Described column) {
  const std::string &a = xpu.texts[column], &b = gpu.texts[column];
  return !a.empty() && !b.empty() && a != b;
}

DiffStatus Verdict(const Detail& xpu, const Detail& gpu, const std::vector<int>& orders) {
  if (Disagree(xpu, gpu, kDtype) || Disagree(xpu, gpu, kShape)) return DiffStatus::kMismatch;
  if (Says(xpu, "skip")) return DiffStatus::kSkip;
  if (!Says(xpu, "pass") && !Says(xpu, "fail")) return DiffStatus::kError;
  if (Says(gpu, "error") || Says(gpu, "skip")) return OwnVerdict(xpu);
  return Says(xpu, "pass") || IsNotWorse(xpu, gpu, orders) ? DiffStatus::kPass : DiffStatus::kFail;
}

// The second file's rows by key, each to be taken once.
class Partners {
 public:
  explicit Partners(const Details& details) : taken_(details.rows.size()) {
    for (std::size_t i = 0; i < details.rows.size(); ++i) {
      by_key_[details.rows[i].key()].push_back(i);
    }
  }
  std::optional<std::size_t> Take(const Detail& detail) {
    const auto found = by_key_.find(detail.key());
    if (found == by_key_.end() || found->second.empty()) return std::nullopt;
    const std::size_t index = found->second.front();
    found->second.pop_front();
    taken_[index] = true;
    return index;
  }
  bool is_taken(std::size_t index) const { return taken_[index]; }

 private:
  std::map<std::pair<std::string_view, std::string_view>, std::deque<std::size_t>> by_key_;
  std::vector<bool> taken_;
};

DiffRow RowOf(const Detail* xpu, const Detail* gpu, DiffStatus status, const std::vector<int>& orders) {
  DiffRow row;
  row.status = status;
  const Detail& described = xpu != nullptr ? *xpu : *gpu;
  for (std::size_t i = 0; i < kIsPass; ++i) row.texts.push_back(described.texts[i]);
  row.texts.emplace_back(Name(status));
  const auto add = [&](const Detail* side, const auto& text) {
    row.texts.push_back(side != nullptr ? text(*side) : std::string());
  };
  for (const Detail* side : {xpu, gpu}) add(side, [](const Detail& detail) { return detail.texts[kMax]; });
  for (const int order : orders) {
    for (const Detail* side : {xpu, gpu})
      add(side, [&](const Detail& detail) { return detail.orders.at(order); });
  }
  return row;
}

std::vector<std::string> Columns(const std::vector<int>& orders) {
  std::vector<std::string> columns;
  for (std::size_t i = 0; i <= kIsPass; ++i) columns.emplace_back(kFirstColumns[i]);
  const auto add = [&](const std::string& name) {
    for (const char* side : {"xpu_", "gpu_"}) columns.push_back(side + name);
  };
  add(std::string(kFirstColumns[kMax]));
  for (const int order : orders) add(OrderColumn(order));
  return columns;
}

// A number keeps the digits it had in its file.
Cell FileCell(const std::string& text, bool is_number) {
  const auto number = is_number ? ParsePythonFloat(text) : std::nullopt;
  return number ? Cell::Shown(*number, text) : text.empty() ? Cell() : Cell(text);
}

std::string ScreenNumber(const std::string& text) {
  const auto number = ParsePythonFloat(text);
  return number ? fmt::format("{:.7G}", *number + 0.0) : text;
}

RowColour ColourOf(DiffStatus status) {
  constexpr RowColour kColours[kNumDiffStatuses] = {RowColour::kRed,    RowColour::kRed,
                                                    RowColour::kRed,    RowColour::kYellow,
                                                    RowColour::kYellow, RowColour::kGreen};
  return kColours[static_cast<std::size_t>(status)];
}

bool IsNumberColumn(std::size_t column) {
  return column == kMinValue || column == kMaxValue || column > kIsPass;
}

}  // namespace

std::string_view Name(DiffStatus status) {
  constexpr std::string_view kNames[kNumDiffStatuses] = {"fail",      "mismatch", "error",
                                                         "unmatched", "skip",     "pass"};
  return kNames[static_cast<std::size_t>(status)];
}

Result<DiffTable> DiffDetails(const fs::path& xpu_path, const fs::path& gpu_path) {
  DiffTable table;
  VN_ASSIGN_OR_RETURN(const Details xpu, ReadDetails(xpu_path, table.problems));
  VN_ASSIGN_OR_RETURN(const Details gpu, ReadDetails(gpu_path, table.problems));
  std::vector<int> orders;
  std::set_intersection(xpu.orders.begin(), xpu.orders.end(), gpu.orders.begin(), gpu.orders.end(),
                        std::back_inserter(orders));
  table.columns = Columns(orders);
  Partners partners(gpu);
  const auto add = [&](const Detail* x, const Detail* g, DiffStatus status) {
    table.rows.push_back(RowOf(x, g, status, orders));
    ++table.counts[static_cast<std::size_t>(status)];
  };
  for (const Detail& row : xpu.rows) {
    const std::optional<std::size_t> partner = partners.Take(row);
    const Detail* other = partner ? &gpu.rows[*partner] : nullptr;
    table.num_joined += partner.has_value();
    add(&row, other, other != nullptr ? Verdict(row, *other, orders) : DiffStatus::kUnmatched);
  }
  for (std::size_t i = 0; i < gpu.rows.size(); ++i) {
    if (!partners.is_taken(i)) add(nullptr, &gpu.rows[i], DiffStatus::kUnmatched);
  }
  if (table.num_joined > 0) return table;
  const auto first = [](const Details& details) {
    return details.rows.empty() ? std::string("none") : Printable(details.rows[0].texts[kName]);
  };
  return Error{
      ErrorCode::kBadArgument, fmt::format("{}, {}", xpu_path.string(), gpu_path.string()),
      fmt::format("no row has the name and op_name of a row of the other file; {} rows (first: {}) and {} "
                  "rows (first: {}); both must come from the same pytests folder",
                  xpu.rows.size(), first(xpu), gpu.rows.size(), first(gpu))};
}

Result<Done> WriteDiff(const DiffTable& table, const fs::path& path) {
  VN_ASSIGN_OR_RETURN(const OutputFile file, OutputFileOf(path.string(), ""));
  VN_ASSIGN_OR_RETURN(const std::unique_ptr<ReportWriter> writer,
                      ReportWriter::Create(file.path, file.format, table.columns));
  RowBlock block(table.columns.size());
  for (const DiffRow& row : table.rows) {
    for (std::size_t i = 0; i < row.texts.size(); ++i)
      block.cells.push_back(FileCell(row.texts[i], IsNumberColumn(i)));
    block.colours.push_back(ColourOf(row.status));
  }
  VN_ASSIGN_OR_RETURN(const Rendered rendered, writer->Render(0, block));
  VN_RETURN_IF_ERROR(writer->Append(rendered));
  return writer->Finish();
}

std::string DiffScreen(const DiffTable& table, std::size_t most_rows) {
  std::vector<const DiffRow*> rows;
  for (const DiffRow& row : table.rows) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const DiffRow* a, const DiffRow* b) { return a->status < b->status; });
  rows.resize(std::min(rows.size(), most_rows));
  std::vector<FrameColumn> columns;
  for (std::size_t i = 0; i < kNumShownColumns; ++i)
    columns.push_back({table.columns[i], 0, 0, IsNumberColumn(i), IsNumberColumn(i)});
  std::vector<std::vector<std::string>> lines;
  for (const DiffRow* row : rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (std::size_t i = 0; i < kNumShownColumns; ++i)
      line.push_back(IsNumberColumn(i) ? ScreenNumber(row->texts[i]) : row->texts[i]);
  }
  return RenderFrame(columns, lines);
}

}  // namespace vernier::xray_ops

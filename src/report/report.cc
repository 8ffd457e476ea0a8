#include "vernier/report.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "core/text.h"
#include "report/writers_internal.h"

namespace vernier {
namespace {

struct FormatRow {
  ReportFormat format;
  std::string_view name;  // also the extension
  Writer (*create)(const std::filesystem::path&, const Columns&, const ReportOptions&);
};
constexpr FormatRow kFormats[] = {
    {ReportFormat::kCsv, "csv", NewCsvWriter},
    {ReportFormat::kXlsx, "xlsx", NewXlsxWriter},
    {ReportFormat::kJson, "json", NewJsonWriter},
    {ReportFormat::kJsonl, "jsonl", NewJsonlWriter},
};

std::string FormatNames(std::string_view prefix) {
  std::string names;
  for (const FormatRow& row : kFormats)
    names += (names.empty() ? "" : ", ") + std::string(prefix) + std::string(row.name);
  return names;
}

bool IsNumber(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return end == text.data() + text.size() && error != std::errc::invalid_argument;
}

}  // namespace

Result<ReportFormat> FormatOf(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  for (const FormatRow& row : kFormats) {
    if (!extension.empty() && extension.substr(1) == row.name) return row.format;
  }
  return Error{ErrorCode::kBadArgument, path.string(),
               "the ending does not name a report format; expected " + FormatNames(".")};
}

Result<ReportFormat> ParseFormat(std::string_view name) {
  for (const FormatRow& row : kFormats) {
    if (name == row.name) return row.format;
  }
  return Error{ErrorCode::kBadArgument, std::string(name),
               "unknown report format; expected " + FormatNames("")};
}

std::string_view Name(ReportFormat format) { return kFormats[static_cast<std::size_t>(format)].name; }

Result<std::unique_ptr<ReportWriter>> ReportWriter::Create(const std::filesystem::path& path,
                                                           ReportFormat format,
                                                           const std::vector<std::string>& columns,
                                                           const ReportOptions& options) {
  return kFormats[static_cast<std::size_t>(format)].create(path, columns, options);
}

std::string SpreadsheetSafe(std::string_view text) {
  constexpr std::string_view kSigns[] = {"=", "+", "-", "@", "＝", "＋", "－", "＠"};
  const std::string_view shown = WithoutInvisibleStart(text);
  const bool is_formula = std::any_of(std::begin(kSigns), std::end(kSigns),
                                      [&](std::string_view sign) { return shown.starts_with(sign); });
  const bool cuts_cells = text.starts_with('\t') || text.starts_with('\r');
  const bool dangerous = (is_formula && !IsNumber(shown)) || cuts_cells;
  return (dangerous ? "'" : "") + std::string(text);
}

}  // namespace vernier

#include "profiles/output_files.h"

#include <ctime>
#include <system_error>

namespace vernier {
namespace fs = std::filesystem;
namespace {

std::string TimeNow(bool utc) {
  const std::time_t now = std::time(nullptr);
  std::tm fields{};
  utc ? gmtime_r(&now, &fields) : localtime_r(&now, &fields);
  char text[16];
  std::strftime(text, sizeof text, "%Y%m%d%H%M%S", &fields);
  return text;
}

// compare_result_rank0_STAMP.csv, …_STAMP_part_2.csv, …_STAMP_summary.json; not those of STAMP_1.
bool IsResultOf(const std::string& name, const std::string& stamp) {
  const std::size_t at = name.find("_" + stamp);
  if (at == std::string::npos) return false;
  const std::string_view behind = std::string_view(name).substr(at + 1 + stamp.size());
  return behind.starts_with('.') || (behind.starts_with('_') && behind.find_first_of("0123456789") != 1);
}

bool HasResultsOf(const fs::path& folder, const std::string& stamp) {
  std::error_code problem;
  fs::directory_iterator entry(folder, problem);
  for (; !problem && entry != fs::directory_iterator(); entry.increment(problem)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with('.') && IsResultOf(name, stamp)) return true;
  }
  return false;
}

}  // namespace

Result<ResultStamp> ResultStamp::Reserve(const fs::path& folder, bool utc) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem) return ErrnoError(folder.string(), problem.value());
  RemoveLeftovers(folder);
  const std::string now = TimeNow(utc);
  for (int count = 0;; ++count) {
    std::string stamp = count == 0 ? now : now + "_" + std::to_string(count);
    VN_ASSIGN_OR_RETURN(std::optional<AtomicFile> claim, AtomicFile::Claim(folder / ("result_" + stamp)));
    if (claim && !HasResultsOf(folder, stamp)) return ResultStamp(std::move(stamp), *std::move(claim));
  }
}

bool IsStandardOutput(const std::string& output) { return output == "-" || output == "/dev/stdout"; }

bool IsFolderName(const std::string& output, const std::string& format) {
  std::error_code ignored;
  if (IsStandardOutput(output)) return false;
  if (output.ends_with('/') || fs::is_directory(output, ignored)) return true;
  return format.empty() && fs::path(output).extension().empty();
}

Result<ReportPlaces> ReportPlacesOf(const CompareRequest& request) {
  ReportPlaces places;
  for (const std::string& output : request.outputs) {
    std::string path = output;
    if (IsFolderName(output, request.format)) {
      VN_ASSIGN_OR_RETURN(ResultStamp stamp, ResultStamp::Reserve(output));
      const std::string ending = request.format.empty() ? "csv" : request.format;
      path = fs::path(output) / ("compare_result_" + stamp.text() + "." + ending);
      places.folders.push_back({output, std::move(stamp)});
    }
    VN_ASSIGN_OR_RETURN(OutputFile file, OutputFileOf(path, request.format));
    places.files.push_back(std::move(file));
  }
  return places;
}

}  // namespace vernier

#include "profiles/msprobe/settings.h"

#include <algorithm>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/atomic_file.h"
#include "core/json_cursor.h"
#include "core/mapped_file.h"
#include "core/paths.h"
#include "read/name_mapping.h"

namespace vernier::msprobe {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kGib = std::uint64_t{1} << 30, kMib = std::uint64_t{1} << 20;

struct SizeLimit {
  std::string_view extension;
  std::uint64_t max_bytes;
};
constexpr SizeLimit kSizeLimits[] = {{".json", 10 * kGib}, {".pt", 10 * kGib}, {".npy", 10 * kGib},
                                     {".yaml", kGib},      {".csv", kGib},     {".xlsx", kGib}};
constexpr std::size_t kMaxPath = 4096, kMaxName = 255;
constexpr mode_t kFolderMode = 0750;

bool IsPlain(std::string_view path, bool colon_allowed) {
  for (const char c : path) {
    const bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
    const bool digit = c >= '0' && c <= '9';
    if (!letter && !digit && std::string_view("_./-").find(c) == std::string_view::npos &&
        !(c == ':' && colon_allowed)) {
      return false;
    }
  }
  return true;
}

Outcome<Done> CheckName(const fs::path& path, bool colon_allowed, Log& log) {
  std::error_code ignored;  // without a working folder the path itself is looked at
  const fs::path whole = fs::absolute(path, ignored);
  const std::string absolute = (ignored ? path : whole).lexically_normal().string();
  bool too_long = absolute.size() > kMaxPath;
  for (const fs::path& part : fs::path(absolute)) too_long = too_long || part.string().size() > kMaxName;
  if (too_long) return RankFailure(log, "The file path length exceeds limit.");
  if (!IsPlain(absolute, colon_allowed)) {
    return RankFailure(log, fmt::format("The file path {} contains special characters.", path.string()));
  }
  return Done{};
}

Outcome<NameMapping> ReadYaml(const std::string& path, bool strict, Log& log) {
  if (!Exists(path)) return RunFailure(log, fmt::format("The file path {} does not exist.", path));
  if (fs::path(path).extension() != ".yaml") {
    return RunFailure(
        log, strict ? fmt::format("The {} should be a .yaml file!", path)
                    : fmt::format("{} should be one of the following types of files: ['.yaml']!", path));
  }
  VN_RETURN_IF_ERROR(CheckInputFile(path, strict, log));
  Result<NameMapping> mapping = ReadNameMapping(path);
  if (mapping) return *std::move(mapping);
  return RunFailure(log,
                    mapping.error().code == ErrorCode::kBadShape
                        ? fmt::format("The format of {} is incorrect: expected an object of names.", path)
                        : fmt::format("The yaml file failed to load. Please check the path: {}.", path));
}

// The guide shows compare.json with notes behind #, which JSON does not have.
std::string WithoutComments(std::string_view json) {
  std::string text(json);
  bool in_string = false, in_comment = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_comment) {
      in_comment = text[i] != '\n';
      if (in_comment) text[i] = ' ';
    } else if (in_string && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      in_string = !in_string;
    } else if (text[i] == '#' && !in_string) {
      in_comment = true;
      text[i] = ' ';
    }
  }
  return text;
}

}  // namespace

bool Settings::Writes(ReportFormat wanted) const {
  return (!output_path.empty() && format == wanted) ||
         std::any_of(outputs.begin(), outputs.end(),
                     [&](const OutputFile& file) { return file.format == wanted; });
}

Outcome<Done> CheckInputFile(const fs::path& path, bool strict, Log& log) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    return RankFailure(log, fmt::format("The file path {} does not exist.", path.string()));
  }
  const auto refuse = [&](std::string text) -> Outcome<Done> {
    if (strict) return RankFailure(log, std::move(text));
    log.Warning(text);
    return Done{};
  };
  if (IsLink(path))
    VN_RETURN_IF_ERROR(refuse(fmt::format("The file path {} is a soft link.", path.string())));
  if (strict) VN_RETURN_IF_ERROR(CheckName(path, true, log));
  if (access(path.c_str(), R_OK) != 0) {
    return RankFailure(log, fmt::format("The file path {} is not readable.", path.string()));
  }
  if (status.st_mode & S_IWOTH) {
    VN_RETURN_IF_ERROR(refuse(fmt::format("The file path {} may be written by others.", path.string())));
  }
  std::uint64_t max_bytes = kMib;
  for (const SizeLimit& limit : kSizeLimits) {
    if (path.extension() == limit.extension) max_bytes = limit.max_bytes;
  }
  if (S_ISREG(status.st_mode) && static_cast<std::uint64_t>(status.st_size) >= max_bytes) {
    return RankFailure(log, fmt::format("The size ({}) of {} exceeds ({}) bytes, tools not support.",
                                        status.st_size, path.string(), max_bytes));
  }
  return Done{};
}

Outcome<Done> CreateOutputFolder(const fs::path& path, bool strict, Log& log) {
  if (strict) VN_RETURN_IF_ERROR(CheckName(path, false, log));
  std::error_code error;
  const bool is_new = fs::create_directories(path, error);
  if (error || !IsFolder(path)) {
    return RunFailure(log, fmt::format("The folder {} cannot be created: {}.", path.string(),
                                       error ? error.message() : "a file of that name exists"));
  }
  if (is_new) RestrictMode(path, kFolderMode);
  if (access(path.c_str(), W_OK) != 0) {
    return RunFailure(log, fmt::format("The file path {} is not writable.", path.string()));
  }
  return Done{};
}

Outcome<Mappings> ReadMappings(const Settings& settings, Log& log) {
  Mappings mappings;
  const bool strict = ProfileOf(settings.generation).strict_paths;
  if (settings.data_mapping_path) {
    VN_ASSIGN_OR_RETURN(const NameMapping names, ReadYaml(*settings.data_mapping_path, strict, log));
    DataMapping& data = mappings.data.emplace();
    for (const auto& [npu, bench] : names) data[npu] = bench;
  }
  if (settings.cell_mapping) {
    mappings.cell.emplace();
    if (settings.cell_mapping_path) {
      VN_ASSIGN_OR_RETURN(mappings.cell, ReadYaml(*settings.cell_mapping_path, strict, log));
    }
  }
  return mappings;
}

Outcome<Done> ReadCompareJson(const std::string& path, CompareRequest& request, Log& log) {
  const std::string base = fs::path(path).filename().string();
  const std::string failed = fmt::format("load json file \"{}\" failed.", base);
  if (!Exists(path)) {
    log.Error(fmt::format("The file path {} does not exist.", path));
    return RunFailure(log, failed);
  }
  VN_RETURN_IF_ERROR(CheckInputFile(path, true, log));
  const Result<FileRef> file = MappedFile::Open(path);
  if (!file) return RunFailure(log, failed);
  const std::string json = WithoutComments(TextOf(*file));
  JsonCursor cursor(json);
  if (cursor.Peek() != JsonKind::kObject) {
    cursor.Skip();
    return RunFailure(log,
                      cursor.ok() && cursor.AtEnd() ? "input_param should be dict, please check!" : failed);
  }
  bool log_rows = true, log_rows_is_bool = true;
  request.target.clear();
  request.golden.clear();
  cursor.ForEachMember([&](std::string_view key, bool) {
    const JsonKind kind = cursor.Peek();
    if (key == "is_print_compare_log") {
      log_rows_is_bool = kind == JsonKind::kBool;
      if (log_rows_is_bool) {
        log_rows = cursor.TakeBool();
      } else {
        cursor.Skip();
      }
      return;
    }
    if (kind != JsonKind::kString) return cursor.Skip();
    std::string buffer;
    const std::string text(cursor.TakeString(buffer));
    if (key == "npu_path") request.target = text;
    if (key == "bench_path") request.golden = text;
    if (key == "stack_path" && !text.empty()) request.options["stack_path"] = text;
  });
  if (!cursor.ok() || !cursor.AtEnd()) return RunFailure(log, failed);
  if (request.target.empty())
    return RunFailure(log, "Missing npu_path in input configuration file, please check!");
  if (request.golden.empty())
    return RunFailure(log, "Missing bench_path in input configuration file, please check!");
  if (!log_rows_is_bool) {
    return PreparationFailure(
        log, "Invalid input parameter, is_print_compare_log which should be only bool type.");
  }
  request.options["log_rows"] = log_rows ? "true" : "false";
  return Done{};
}

}  // namespace vernier::msprobe

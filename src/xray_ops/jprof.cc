#include "xray_ops/jprof.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <set>

#include "core/atomic_file.h"
#include "core/json_cursor.h"
#include "core/json_writer.h"
#include "core/mapped_file.h"
#include "core/paths.h"
#include "core/text.h"
#include "xray_ops/call_text.h"
#include "xray_ops/shipped.h"

namespace vernier::xray_ops {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kManifest = "manifest.json", kProducer = "vernier jprof";
constexpr std::string_view kFormat = "xray-ops";
constexpr std::int64_t kFormatVersion = 1;
constexpr std::size_t kToldProblems = 5;

// What is looked at of dump.json; the calls are still text.
struct OpsFile {
  FileRef file;  // keeps the texts
  std::string format, version;
  double format_version = 0;
  std::int64_t pid = 0;
  std::vector<std::string_view> calls;
};

Result<OpsFile> ReadOps(const fs::path& path) {
  if (!Exists(path)) return MissingPath(path);
  VN_ASSIGN_OR_RETURN(const FileRef file, MappedFile::Open(path.string()));
  OpsFile ops;
  ops.file = file;
  const std::string_view text = TextOf(file);
  JsonCursor cursor(text);
  std::string buffer;
  bool has_ops = false;
  cursor.ForEachMember([&](std::string_view key, bool) {
    const JsonKind kind = cursor.Peek();
    if (key == "format" && kind == JsonKind::kString) {
      ops.format = cursor.TakeString(buffer);
    } else if (key == "vernier_version" && kind == JsonKind::kString) {
      ops.version = cursor.TakeString(buffer);
    } else if (key == "version" && kind == JsonKind::kInt) {
      ops.format_version = cursor.TakeNumber();
    } else if (key == "pid" && kind == JsonKind::kInt) {
      ops.pid = static_cast<std::int64_t>(std::clamp(cursor.TakeNumber(), 0.0, 1e15));
    } else if (key == "ops" && kind == JsonKind::kArray) {
      has_ops = true;
      cursor.ForEachElement([&] {
        static_cast<void>(cursor.Peek());
        const std::size_t start = cursor.position();
        cursor.Skip();
        ops.calls.push_back(text.substr(start, cursor.position() - start));
      });
    } else {
      cursor.Skip();
    }
  });
  if (cursor.ran_out()) return Error{ErrorCode::kTruncated, path.string(), cursor.problem()};
  if (!cursor.ok()) return Error{ErrorCode::kBadHeader, path.string(), cursor.problem()};
  if (ops.format != kFormat || !has_ops) {
    return Error{ErrorCode::kBadArgument, path.string(),
                 ops.format == kFormat
                     ? "it has no ops"
                     : "no operator recording; expected the dump.json that begin_dump() and "
                       "end_dump() write, with \"format\": \"xray-ops\""};
  }
  if (ops.format_version > static_cast<double>(kFormatVersion)) {
    return Error{
        ErrorCode::kUnsupported, path.string(),
        fmt::format("version {}; this vernier knows version {}", ops.format_version, kFormatVersion)};
  }
  return ops;
}

Result<bool> IsOurs(const fs::path& manifest) {
  VN_ASSIGN_OR_RETURN(const FileRef file, MappedFile::Open(manifest.string()));
  JsonCursor cursor(TextOf(file));
  std::string buffer, producer;
  cursor.ForEachMember([&](std::string_view key, bool) {
    if (key == "producer" && cursor.Peek() == JsonKind::kString) {
      producer = cursor.TakeString(buffer);
    } else {
      cursor.Skip();
    }
  });
  return cursor.ok() && producer == kProducer;
}

Error Refused(const fs::path& folder, const std::string& why) {
  return {ErrorCode::kBadArgument, folder.string(), why + "; choose another folder with -o, or remove it"};
}

// Only a folder of our own making may go.
Result<Done> CheckReplaceable(const fs::path& folder) {
  if (!Exists(folder) && !IsLink(folder)) return Done{};
  if (IsLink(folder) || !IsFolder(folder)) return Refused(folder, "is in the way");
  const std::vector<std::string> names = NamesIn(folder);
  if (names.empty()) return Done{};
  if (!Exists(folder / kManifest)) return Refused(folder, "exists and was not made by jprof");
  VN_ASSIGN_OR_RETURN(const bool ours, IsOurs(folder / kManifest));
  if (!ours) return Refused(folder, "exists and was not made by jprof");
  for (const std::string& name : names) {
    const bool known = name == kManifest || name == "__pycache__" || name == ".pytest_cache" ||
                       fnmatch("test_[0-9]*_*.py", name.c_str(), 0) == 0;
    if (!known) return Refused(folder, fmt::format("holds {}, which jprof did not write", Printable(name)));
  }
  return Done{};
}

// A hidden folder beside the one it will become.
class NewFolder {
 public:
  static Result<NewFolder> Create(const fs::path& target) {
    NewFolder folder;
    std::error_code problem;
    folder.target_ = fs::absolute(target, problem).lexically_normal();
    if (!folder.target_.has_filename()) folder.target_ = folder.target_.parent_path();  // "pytests/"
    fs::create_directories(folder.target_.parent_path(), problem);
    if (problem) return ErrnoError(folder.target_.parent_path().string(), problem.value());
    const std::string stem = fmt::format(".{}.vernier-", folder.target_.filename().string());
    RemoveLeftovers(folder.target_.parent_path(), stem);
    folder.path_ = folder.target_.parent_path() / (stem + std::to_string(getpid()));
    fs::remove_all(folder.path_, problem);
    if (!fs::create_directory(folder.path_, problem) || problem)
      return ErrnoError(folder.path_.string(), problem ? problem.value() : EEXIST);
    return folder;
  }
  NewFolder(NewFolder&& other) noexcept { *this = std::move(other); }
  NewFolder& operator=(NewFolder&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(target_, other.target_);
    return *this;
  }
  ~NewFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }

  const fs::path& path() const { return path_; }
  // The two change names at once, and what was there goes.
  Result<Done> Place() {
    if (renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) return Done{};
    std::error_code problem;
    if (Exists(target_)) fs::remove_all(target_, problem);  // a file system that cannot exchange
    fs::rename(path_, target_, problem);
    if (problem) return ErrnoError(target_.string(), problem.value());
    path_.clear();
    return Done{};
  }

 private:
  NewFolder() = default;

  // Folders of runs that were killed.
  static void RemoveLeftovers(const fs::path& parent, const std::string& stem) {
    for (const std::string& name : NamesIn(parent)) {
      pid_t process = 0;
      if (!name.starts_with(stem)) continue;
      const auto [end, problem] =
          std::from_chars(name.data() + stem.size(), name.data() + name.size(), process);
      if (problem != std::errc() || *end != 0 || kill(process, 0) == 0 || errno != ESRCH) continue;
      std::error_code ignored;
      fs::remove_all(parent / name, ignored);
    }
  }

  fs::path path_, target_;
};

Result<Done> WriteWhole(const fs::path& path, std::string_view text) {
  VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  VN_RETURN_IF_ERROR(file.Write(text));
  return file.CommitUnsynced();
}

class TestWriter {
 public:
  TestWriter(const JprofOptions& options, const OpsFile& ops) : options_(options), ops_(ops) {
    std::error_code ignored;
    folder_ = fs::absolute(options.dump_json, ignored).lexically_normal().parent_path();
    const std::string own = folder_.filename().string();
    const bool named =
        own.starts_with("proc_") &&
        own.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
            std::string::npos;
    process_ = named ? own : fmt::format("proc_{}", ops.pid);
    outcome_.num_calls = ops.calls.size();
    if (ops.version != kVersion) outcome_.version = ops.version.empty() ? "unknown" : ops.version;
  }

  Result<JprofOutcome> Run(const fs::path& folder,
                           const std::function<bool(std::uint64_t, std::uint64_t)>& on_progress) {
    for (std::size_t i = 0; i < ops_.calls.size(); ++i) {
      if (on_progress && !on_progress(i, ops_.calls.size())) return Error{ErrorCode::kCancelled, "", ""};
      VN_RETURN_IF_ERROR(Add(i, folder));
    }
    VN_RETURN_IF_ERROR(WriteWhole(folder / kManifest, Manifest()));
    return outcome_;
  }

 private:
  Result<Done> Add(std::size_t index, const fs::path& folder) {
    const Result<CallText> read = ReadCall(ops_.calls[index], options_.load);
    if (!read) return Problem(index, read.error().where, read.error().detail);
    const CallText& call = *read;
    if (options_.blacklist && options_.blacklist->Has(call.op)) {
      ++outcome_.num_blacklisted;
      return Done{};
    }
    std::string op = call.op;
    std::replace(op.begin(), op.end(), '.', '_');
    const std::string name = fmt::format("test_{:05}_{}.py", call.id, op);
    if (!names_.insert(name).second) return Problem(index, "id", fmt::format("{} comes twice", call.id));
    for (const std::string& file : call.files) {
      ++outcome_.num_files;
      if (Exists(folder_ / file)) continue;
      if (outcome_.num_missing++ == 0)
        outcome_.first_missing = (options_.dump_json.parent_path() / file).string();
    }
    ++outcome_.num_tests;
    return WriteWhole(folder / name, Source(call));
  }

  Result<Done> Problem(std::size_t index, const std::string& where, const std::string& detail) {
    if (outcome_.num_problems++ < kToldProblems)
      outcome_.problems.push_back(
          fmt::format("ops[{}]{}{}: {}", index, where.empty() ? "" : ": ", where, detail));
    return Done{};
  }

  std::string Source(const CallText& call) const {
    return fmt::format(
        "\"\"\"{0}, call {1} of {2}. Written by vernier jprof; run: "
        "pytest --detail_compare_path=out.csv {2}/pytests\"\"\"\n"
        "from vernier.xray.replay import run\n\n"
        "CALL = {3}\n\n\n"
        "def test_call(xray):\n"
        "    run(xray, CALL, factory=\"{4}\", cpu_init={5})\n",
        call.op, call.id, process_, call.literal, options_.load ? "load" : "rand",
        options_.cpu_init ? "True" : "False");
  }

  std::string Manifest() const {
    std::string text = "{\n";
    const auto add = [&](std::string_view key, std::string_view value) {
      if (text.size() > 2) text += ",\n";
      text += fmt::format("  \"{}\": {}", key, value);
    };
    const auto quoted = [](std::string_view value) {
      std::string out;
      AppendJsonString(ValidUtf8(value), out);
      return out;
    };
    const auto truth = [](bool value) { return value ? "true" : "false"; };
    add("producer", quoted(kProducer));
    add("vernier_version", quoted(kVersion));
    add("recorded_by", quoted(ops_.version));
    add("process", quoted(process_));
    add("cpu_init", truth(options_.cpu_init));
    add("factory", quoted(options_.load ? "load" : "rand"));
    add("blacklist", truth(options_.blacklist.has_value()));
    add("count", std::to_string(outcome_.num_tests));
    return text + "\n}\n";
  }

  const JprofOptions& options_;
  const OpsFile& ops_;
  fs::path folder_;  // of dump.json
  std::string process_;
  JprofOutcome outcome_;
  std::set<std::string> names_;
};

}  // namespace

Result<JprofOutcome> GenerateTests(const JprofOptions& options,
                                   const std::function<bool(std::uint64_t, std::uint64_t)>& on_progress) {
  VN_ASSIGN_OR_RETURN(const OpsFile ops, ReadOps(options.dump_json));
  VN_RETURN_IF_ERROR(CheckReplaceable(options.output));
  VN_ASSIGN_OR_RETURN(NewFolder folder, NewFolder::Create(options.output));
  VN_ASSIGN_OR_RETURN(JprofOutcome outcome, TestWriter(options, ops).Run(folder.path(), on_progress));
  if (ops.file->changed()) return Error{ErrorCode::kFileChanged, options.dump_json.string(), ""};
  VN_RETURN_IF_ERROR(folder.Place());
  return outcome;
}

}  // namespace vernier::xray_ops

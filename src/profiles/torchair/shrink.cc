#include "profiles/torchair/shrink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>

#include "core/atomic_file.h"
#include "core/json_writer.h"
#include "core/mapped_file.h"
#include "core/paths.h"
#include "core/threads.h"
#include "format/ge_dump.h"
#include "format/npy.h"
#include "format/npz.h"
#include "profiles/torchair/dumps.h"
#include "profiles/torchair/extremes.h"
#include "profiles/torchair/open_files.h"
#include "profiles/torchair/tree.h"

namespace vernier::torchair {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view kKeepWords[] = {"min", "max", "mean", "norm", "crc32", "shape", "dtype"};
constexpr std::string_view kInfoEnding = "_info.json", kNpyEnding = ".npy";
constexpr std::string_view kOtherEndings[] = {".txt", ".swp", ".csv", ".json"};
constexpr milliseconds kBetweenLooks{200}, kBetweenPasses{500};
// The disk is waited for by several threads at once, which costs it little more than one.
constexpr int kFewestThreads = 8;
constexpr std::size_t kFilesOfABatch = 256;

// Two looks at a file must agree on these.
struct Look {
  std::uint64_t size = 0;
  std::int64_t seconds = 0, nanoseconds = 0;
  std::uint64_t inode = 0;
  friend bool operator==(const Look&, const Look&) = default;
};

std::optional<Look> LookAt(const std::string& path) {
  struct stat found = {};
  if (lstat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return std::nullopt;
  return Look{static_cast<std::uint64_t>(found.st_size), found.st_mtim.tv_sec, found.st_mtim.tv_nsec,
              static_cast<std::uint64_t>(found.st_ino)};
}

// One tensor as it will be written.
struct Shrunken {
  Extremes extremes;
  Dtype dtype = Dtype::kF32;
  Shape shape;
};

// Rows of [min, max] in the type that holds them all.
Result<TensorView> ArrayOf(std::span<const Shrunken> tensors, bool in_rows) {
  Dtype dtype = tensors.empty() ? Dtype::kF64 : tensors[0].dtype;
  for (const Shrunken& tensor : tensors) dtype = Promoted(dtype, tensor.dtype);
  std::string bytes;
  for (const Shrunken& tensor : tensors) {
    if (tensor.extremes.num_elements == 0) {
      if (!HoldsNan(dtype))
        return Error{ErrorCode::kUnsupported, "", "an empty tensor has no minimum, and its type no NaN"};
      const AnyNumber nan{Dtype::kF64, std::nan(""), 0};
      AppendAs(nan, dtype, bytes);
      AppendAs(nan, dtype, bytes);
    } else {
      AppendAs(tensor.extremes.min, dtype, bytes);
      AppendAs(tensor.extremes.max, dtype, bytes);
    }
  }
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  const auto count = static_cast<std::int64_t>(tensors.size());
  const Shape shape = !in_rows ? Shape{2} : tensors.empty() ? Shape{0} : Shape{count, 2};
  TensorView view = BorrowTensor(dtype, shape, owner->data());
  view.owner = owner;
  return view;
}

void AppendNumber(const AnyNumber& number, std::string& json) {
  switch (Class(number.dtype)) {
    case DtypeClass::kFloat:
      return AppendJsonFloat(number.number.real(), json, JsonFloat::kQuotedWords);
    case DtypeClass::kComplex:
      json += '[';
      AppendJsonFloat(number.number.real(), json, JsonFloat::kQuotedWords);
      json += ", ";
      AppendJsonFloat(number.number.imag(), json, JsonFloat::kQuotedWords);
      json += ']';
      return;
    case DtypeClass::kBool:
      return AppendJsonBool(number.bits != 0, json);
    case DtypeClass::kUnsigned:
      return AppendInteger(number.bits, json);
    case DtypeClass::kSigned:
      return AppendInteger(static_cast<std::int64_t>(number.bits), json);
  }
}

void AppendWord(std::string_view word, const Shrunken& tensor, std::string& json) {
  const Extremes& e = tensor.extremes;
  if (word == "shape") {
    json += ShapeText(tensor.shape);
  } else if (word == "dtype") {
    AppendJsonString(Name(tensor.dtype), json);
  } else if (word == "crc32") {
    AppendJsonString(fmt::format("{:08x}", e.crc32), json);
  } else if (e.num_elements == 0) {
    json += "null";
  } else if (word == "mean") {
    AppendJsonFloat(e.sum / static_cast<double>(e.num_elements), json, JsonFloat::kQuotedWords);
  } else if (word == "norm") {
    AppendJsonFloat(std::sqrt(e.sum_sq), json, JsonFloat::kQuotedWords);
  } else {
    AppendNumber(word == "min" ? e.min : e.max, json);
  }
}

void AppendObject(const std::vector<std::string>& words, const Shrunken& tensor, std::string& json) {
  json += '{';
  for (std::size_t i = 0; i < words.size(); ++i) {
    json += i ? ", " : "";
    AppendJsonString(words[i], json);
    json += ": ";
    AppendWord(words[i], tensor, json);
  }
  json += '}';
}

// Makes the names in a folder durable.
Result<Done> SyncFolder(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoError(folder, errno);
  const int result = fsync(fd), error = errno;
  close(fd);
  // Some file systems have nothing to do here and say so.
  if (result != 0 && error != EINVAL && error != ENOSYS) return ErrnoError(folder, error);
  return Done{};
}

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

class Shrinker {
 public:
  explicit Shrinker(const ShrinkOptions& options) : options_(options) {
    const auto is_more = [](const std::string& word) { return word != "min" && word != "max"; };
    const auto keeps = [&](std::string_view word) {
      return std::find(options.keep.begin(), options.keep.end(), word) != options.keep.end();
    };
    writes_info_ = std::any_of(options.keep.begin(), options.keep.end(), is_more);
    request_.sums = keeps("mean") || keeps("norm");
    request_.crc32 = keeps("crc32");
  }

  Result<ShrinkOutcome> Run() {
    if (!Exists(options_.folder)) return MissingPath(options_.folder);
    if (!IsFolder(options_.folder)) return Error{ErrorCode::kBadArgument, options_.folder, "not a folder"};
    Pass();
    if (options_.watch) {
      Watch();
    } else if (waits_ && !stopped()) {  // a second look: what is finished did not change
      Sleep(kBetweenLooks);
      Pass();
    }
    CountLeft();
    return outcome_;
  }

 private:
  struct Seen {
    Look look;
    Clock::time_point since;  // the first look that found it so
    bool failed = false;      // told; not tried again before it changes
  };
  struct Item {
    std::string path;
    Look look;
  };

  void Watch() {
    Clock::time_point last_change = Clock::now();
    while (!stopped()) {
      Sleep(kBetweenPasses);
      if (stopped()) return;
      if (Pass()) last_change = Clock::now();
      if (options_.until_idle && Clock::now() - last_change >= *options_.until_idle) return;
    }
  }

  bool stopped() const { return options_.stop.stop_requested(); }

  void Sleep(milliseconds time) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any().wait_for(lock, options_.stop, time, [] { return false; });
  }

  void Tell(LogLevel level, const std::string& line) {
    const std::scoped_lock lock(mutex_);
    if (options_.on_log) options_.on_log(level, line);
  }

  // Looks at everything once and converts what is finished. Gives whether anything changed since the last
  // pass.
  bool Pass() {
    bool changed = false;
    waits_ = false;
    std::unordered_map<std::string, Seen> seen;
    std::vector<Item> ready;
    const Clock::time_point now = Clock::now();
    const Tree tree(options_.folder, Links::kPassOver);
    for (const Folder& folder : tree.folders()) {
      for (const std::string& name : folder.files) {
        if (!IsCandidate(folder.path, name)) continue;
        const std::string path = folder.path + "/" + name;
        const std::optional<Look> look = LookAt(path);
        if (!look) continue;
        Seen found{*look, now};
        if (const auto before = seen_.find(path); before != seen_.end() && before->second.look == *look) {
          found = before->second;
        } else {
          changed = true;
        }
        if (!found.failed && now - found.since >= kBetweenLooks) {
          ready.push_back({path, *look});
        } else if (!found.failed) {
          waits_ = true;
        }
        seen.emplace(path, found);
      }
    }
    seen_ = std::move(seen);
    if (!ready.empty()) Convert(ready);
    return changed || !ready.empty();
  }

  // Names that say that a file is no dump are told once.
  bool IsCandidate(const std::string& folder, const std::string& name) {
    if (name.starts_with('.') || name.ends_with(kShrunkGe) || name.ends_with(kShrunkFx)) return false;
    const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
    if (std::none_of(std::begin(kOtherEndings), std::end(kOtherEndings), ends)) return true;
    if (!name.ends_with(kInfoEnding) && skipped_.insert(folder + "/" + name).second)
      Tell(LogLevel::kInfo, fmt::format("{}/{}: skipped, not a dump file by its name", folder, name));
    return false;
  }

  void Convert(std::vector<Item>& ready) {
    const std::unordered_set<std::string> open = FilesOpenElsewhere();
    std::erase_if(ready, [&](const Item& item) {
      if (!open.contains(item.path)) return false;
      return waits_ = true;
    });
    std::uint64_t num_bytes = 0, bytes_done = 0;
    for (const Item& item : ready) num_bytes += item.look.size;
    ThreadPool pool(std::max(NumThreads(options_.num_threads), kFewestThreads));
    for (std::size_t first = 0; first < ready.size() && !stopped(); first += kFilesOfABatch) {
      const std::span<const Item> batch =
          std::span(ready).subspan(first, std::min(kFilesOfABatch, ready.size() - first));
      std::vector<std::string> written(batch.size());  // empty: it failed
      pool.ForEach(batch.size(), [&](std::size_t i) {
        if (stopped()) return;
        Result<std::string> result = ConvertFile(batch[i]);
        if (result) {
          written[i] = *std::move(result);
        } else {
          Failed(batch[i], result.error());
        }
        const std::scoped_lock lock(mutex_);
        bytes_done += batch[i].look.size;
        if (options_.on_progress) options_.on_progress({first + i + 1, ready.size(), bytes_done, num_bytes});
      });
      RemoveOriginals(batch, written);
    }
  }

  void Failed(const Item& item, const Error& error) {
    Tell(LogLevel::kWarning, fmt::format("left as it is: {}", error.Message()));
    const std::scoped_lock lock(mutex_);
    seen_[item.path].failed = true;
  }

  // Only what is durable in every folder lets its original go.
  void RemoveOriginals(std::span<const Item> batch, const std::vector<std::string>& written) {
    std::unordered_map<std::string, bool> durable;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (written[i].empty()) continue;
      const std::string folder = FolderOf(batch[i].path);
      if (!durable.contains(folder)) {
        const Result<Done> synced = SyncFolder(folder);
        durable[folder] = synced.has_value();
        if (!synced) Tell(LogLevel::kError, synced.error().Message());
      }
      // Written to in the meantime: what was made of it is not what it is now.
      const std::optional<Look> look = LookAt(batch[i].path);
      if (!durable[folder] || look != batch[i].look) {
        unlink(written[i].c_str());
        continue;
      }
      if (unlink(batch[i].path.c_str()) != 0) {
        Failed(batch[i], ErrnoError(batch[i].path, errno));
        continue;
      }
      ++outcome_.num_converted;
      outcome_.bytes_before += batch[i].look.size;
      if (const auto small = LookAt(written[i])) outcome_.bytes_after += small->size;
      Tell(LogLevel::kDebug, fmt::format("Converted: {} -> {}", batch[i].path, written[i]));
      seen_.erase(batch[i].path);
    }
  }

  // The path of what was written.
  Result<std::string> ConvertFile(const Item& item) {
    if (access(FolderOf(item.path).c_str(), W_OK) != 0) return ErrnoError(FolderOf(item.path), errno);
    VN_ASSIGN_OR_RETURN(const FileRef file, MappedFile::Open(item.path));
    Result<std::string> written = item.path.ends_with(kNpyEnding) ? ConvertNpy(file) : ConvertGe(file);
    if (written && file->changed()) {
      unlink(written->c_str());
      return Error{ErrorCode::kFileChanged, item.path, ""};
    }
    return written;
  }

  Shrunken Measure(const TensorView& view, Dtype dtype) const {
    return {FindExtremes(view, dtype, request_), dtype, view.shape};
  }

  Result<std::string> ConvertNpy(const FileRef& file) {
    VN_ASSIGN_OR_RETURN(const Entries entries, ListNpy(file));
    VN_ASSIGN_OR_RETURN(const TensorView view, Inside(file->path(), LoadEntry(entries[0], file)));
    const Shrunken shrunken = Measure(view, view.dtype);
    VN_ASSIGN_OR_RETURN(const TensorView array, Inside(file->path(), ArrayOf({&shrunken, 1}, false)));
    const std::string stem = file->path().substr(0, file->path().size() - kNpyEnding.size());
    if (writes_info_) {
      std::string json = "{\"data\": ";
      AppendObject(options_.keep, shrunken, json);
      VN_RETURN_IF_ERROR(WriteInfo(stem, json + "}\n"));
    }
    const std::string path = stem + std::string(kShrunkFx);
    VN_RETURN_IF_ERROR(WriteNpy(path, array));
    return path;
  }

  Result<std::string> ConvertGe(const FileRef& file) {
    VN_ASSIGN_OR_RETURN(const GeDump dump, Inside(file->path(), ParseGeDump(file->bytes())));
    std::vector<NamedTensor> arrays;
    std::string json = "{";
    for (const auto& [tensors, name] : {std::pair{&dump.inputs, "inputs"}, {&dump.outputs, "outputs"}}) {
      std::vector<Shrunken> shrunken;
      for (std::size_t i = 0; i < tensors->size(); ++i) {
        const std::string where = fmt::format("{}: {} {}", file->path(), name, i);
        VN_ASSIGN_OR_RETURN(const GeTensorView loaded,
                            Inside(where, LoadGeTensor(file, (*tensors)[i], GeForm::kPlainOrder)));
        shrunken.push_back(Measure(loaded.view, loaded.type->shown()));
      }
      VN_ASSIGN_OR_RETURN(TensorView array, Inside(file->path(), ArrayOf(shrunken, true)));
      arrays.push_back({name, std::move(array)});
      json += fmt::format("{}\"{}\": [", json.size() > 1 ? ", " : "", name);
      for (std::size_t i = 0; i < shrunken.size(); ++i) {
        json += i ? ", " : "";
        AppendObject(options_.keep, shrunken[i], json);
      }
      json += ']';
    }
    if (writes_info_) VN_RETURN_IF_ERROR(WriteInfo(file->path(), json + "}\n"));
    const std::string path = file->path() + std::string(kShrunkGe);
    VN_RETURN_IF_ERROR(WriteNpz(path, arrays));
    return path;
  }

  static Result<Done> WriteInfo(const std::string& stem, const std::string& json) {
    VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(stem + std::string(kInfoEnding)));
    VN_RETURN_IF_ERROR(file.Write(json));
    return file.Commit();
  }

  // What is there at the end and was not converted.
  void CountLeft() {
    for (const auto& [path, seen] : seen_) {
      if (!LookAt(path)) continue;
      ++outcome_.num_left;
      if (!seen.failed) Tell(LogLevel::kWarning, path + ": left as it is, still being written");
    }
  }

  const ShrinkOptions& options_;
  bool writes_info_ = false;
  ExtremesRequest request_;
  std::unordered_map<std::string, Seen> seen_;
  std::set<std::string> skipped_;
  bool waits_ = false;  // something may be finished at the next look
  std::mutex mutex_;
  ShrinkOutcome outcome_;
};

}  // namespace

std::span<const std::string_view> KeepWords() { return kKeepWords; }

Result<ShrinkOutcome> Shrink(const ShrinkOptions& options) { return Shrinker(options).Run(); }

}  // namespace vernier::torchair

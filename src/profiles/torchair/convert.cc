#include "profiles/torchair/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <system_error>

#include "core/atomic_file.h"
#include "core/mapped_file.h"
#include "core/md5.h"
#include "core/paths.h"
#include "core/threads.h"
#include "format/atb_bin.h"
#include "format/csv.h"
#include "format/ge_dump.h"
#include "format/npy.h"
#include "format/pt_write.h"
#include "format/safetensors.h"
#include "profiles/torchair/tree.h"
#include "vernier/measure.h"

namespace vernier::torchair {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kEndings[] = {".npy", ".pt", ".safetensors"};  // in the order of ConvertTo
constexpr std::string_view kMapping = "mapping.csv", kFailedList = "convert_failed_file_list.txt";
constexpr std::string_view kOverflowName = "Opdebug.Node_OpDebug.";
// What lies in a tree of dumps and is none.
constexpr std::string_view kOtherEndings[] = {".txt",  ".npy", ".npz", ".pt",         ".csv",
                                              ".json", ".swp", ".log", ".safetensors"};
constexpr std::size_t kLongestName = 254;

struct Item {
  std::string path, name;  // name: of what is written, below the output folder
};

bool EndsInBin(std::string_view name) {
  constexpr std::string_view kBin = ".bin";
  return name.size() >= kBin.size() &&
         std::equal(kBin.begin(), kBin.end(), name.end() - 4,
                    [](char a, char b) { return a == static_cast<char>(b | 0x20) || a == b; });
}

// In memory, and of a type that the file can have: NumPy and torch get what other tools read the elements as.
template <class To>
TensorView As(const TensorView& view, Dtype dtype) {
  const auto values = std::make_shared<std::vector<To>>(static_cast<std::size_t>(view.num_elements));
  ReadNumbers(view, 0, values->size(), values->data());
  TensorView converted = BorrowTensor(dtype, view.shape, values->data());
  converted.owner = values;
  return converted;
}

Result<TensorView> Writable(const TensorView& view, std::optional<Dtype> read_as, ConvertTo to) {
  if (to != ConvertTo::kSafetensors && read_as == Dtype::kF32) return As<float>(view, Dtype::kF32);
  if (to != ConvertTo::kSafetensors && read_as == Dtype::kF64) return As<double>(view, Dtype::kF64);
  return InMemory(view);
}

class Conversion {
 public:
  explicit Conversion(const ConvertOptions& options) : options_(options), folder_(options.output_folder) {}

  Result<ConvertOutcome> Run() {
    VN_RETURN_IF_ERROR(FindItems());
    std::error_code problem;
    fs::create_directories(folder_, problem);
    if (problem) return ErrnoError(folder_.string(), problem.value());
    outcome_.num_files = items_.size();
    ThreadPool(NumThreads(options_.num_threads)).ForEach(items_.size(), [this](std::size_t i) {
      if (options_.stop.stop_requested()) return;
      Finished(i, ConvertItem(items_[i]));
    });
    if (options_.stop.stop_requested()) return Error{ErrorCode::kCancelled, "", ""};
    VN_RETURN_IF_ERROR(WriteLists());
    return std::move(outcome_);
  }

 private:
  Result<Done> FindItems() {
    if (!Exists(options_.path)) return MissingPath(options_.path);
    if (!IsFolder(options_.path)) {
      const fs::path path(options_.path);
      items_.push_back({path.string(), path.filename().string()});
      return Done{};
    }
    const Tree tree(options_.path);
    for (const Folder& folder : tree.folders()) {
      if (!options_.subfolders && folder.path != tree.root()) continue;
      const std::string below =
          folder.path == tree.root() ? "" : folder.path.substr(tree.root().size() + 1) + "/";
      for (const std::string& name : folder.files) {
        const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
        const bool is_other =
            name.starts_with('.') || std::any_of(std::begin(kOtherEndings), std::end(kOtherEndings), ends);
        if (name == kMapping || (is_other && !options_.every_file)) continue;
        items_.push_back({folder.path + "/" + name, below + name});
      }
    }
    if (items_.empty()) return Error{ErrorCode::kNotADump, options_.path, "no dump file in it"};
    return Done{};
  }

  Result<Done> ConvertItem(const Item& item) {
    VN_ASSIGN_OR_RETURN(const FileRef file, MappedFile::Open(item.path));
    const std::string name = item.name.substr(item.name.rfind('/') + 1);
    VN_RETURN_IF_ERROR(EndsInBin(name)                   ? ConvertAtb(file, item)
                       : name.starts_with(kOverflowName) ? ConvertOverflow(file, item)
                                                         : ConvertGe(file, item));
    return file->changed() ? Result<Done>(Error{ErrorCode::kFileChanged, item.path, ""}) : Done{};
  }

  Result<Done> ConvertAtb(const FileRef& file, const Item& item) {
    VN_ASSIGN_OR_RETURN(const Entries entries, ListAtbBin(file));
    VN_ASSIGN_OR_RETURN(TensorView view, LoadEntry(entries[0], file));
    const bool widens = view.dtype == Dtype::kBF16 && options_.to == ConvertTo::kNpy;
    VN_ASSIGN_OR_RETURN(view,
                        Writable(view, widens ? std::optional(Dtype::kF32) : std::nullopt, options_.to));
    const std::string stem = item.name.substr(0, item.name.size() - 4);
    if (options_.to == ConvertTo::kSafetensors) {
      const std::string name = stem.substr(stem.rfind('/') + 1);
      return WriteTensors(stem + ".safetensors", {{name, view}});
    }
    return WriteTensor(stem + std::string(kEndings[static_cast<std::size_t>(options_.to)]), view);
  }

  Result<Done> ConvertGe(const FileRef& file, const Item& item) {
    VN_ASSIGN_OR_RETURN(const GeDump dump, Inside(item.path, ParseGeDump(file->bytes())));
    std::vector<NamedTensor> all;
    std::optional<Error> problem;
    for (const auto& [tensors, kind] : {std::pair{&dump.inputs, "input"}, {&dump.outputs, "output"}}) {
      for (std::size_t i = 0; i < tensors->size(); ++i) {
        const std::string name = fmt::format("{}.{}", kind, i);
        Result<Done> converted = ConvertGeTensor(file, (*tensors)[i], item, name, all);
        if (converted) continue;
        problem = In(item.path + ": " + name, std::move(converted).error());
        Tell(LogLevel::kWarning, problem->Message());
      }
    }
    if (options_.to == ConvertTo::kSafetensors && !all.empty())
      VN_RETURN_IF_ERROR(WriteTensors(item.name + ".safetensors", all));
    for (const auto& [blobs, kind] : {std::pair{&dump.buffers, "l1buffer"}, {&dump.spaces, "space"}}) {
      for (std::size_t i = 0; i < blobs->size(); ++i) {
        const GeBlob& blob = (*blobs)[i];
        VN_RETURN_IF_ERROR(WriteBytes(fmt::format("{}.{}.{}.bin", item.name, kind, i),
                                      file->bytes().subspan(static_cast<std::size_t>(blob.offset_bytes),
                                                            static_cast<std::size_t>(blob.size_bytes))));
      }
    }
    if (problem && !options_.tensors_may_fail) return *problem;
    return Done{};
  }

  Result<Done> ConvertGeTensor(const FileRef& file, const GeTensor& tensor, const Item& item,
                               const std::string& name, std::vector<NamedTensor>& all) {
    VN_ASSIGN_OR_RETURN(const GeTensorView loaded, LoadGeTensor(file, tensor, GeForm::kStored));
    VN_ASSIGN_OR_RETURN(TensorView view, Writable(loaded.view, loaded.type->read_as, options_.to));
    if (options_.to == ConvertTo::kSafetensors) {
      all.push_back({name, std::move(view)});
      return Done{};
    }
    const std::string_view ending = kEndings[static_cast<std::size_t>(options_.to)];
    return WriteTensor(fmt::format("{}.{}{}", item.name, name, ending), view);
  }

  Result<Done> ConvertOverflow(const FileRef& file, const Item& item) {
    VN_ASSIGN_OR_RETURN(const GeDump dump, Inside(item.path, ParseGeDump(file->bytes())));
    for (std::size_t i = 0; i < dump.outputs.size(); ++i) {
      const GeTensor& output = dump.outputs[i];
      if (output.damage) return In(item.path, *output.damage);
      VN_ASSIGN_OR_RETURN(
          const std::string json,
          Inside(fmt::format("{}: output.{}", item.path, i),
                 OverflowJson(file->bytes().subspan(static_cast<std::size_t>(output.offset_bytes),
                                                    static_cast<std::size_t>(output.size_bytes)))));
      VN_RETURN_IF_ERROR(
          WriteBytes(fmt::format("{}.output.{}.json", item.name, i), std::as_bytes(std::span(json))));
    }
    return Done{};
  }

  // Where a file goes. One whose name is too long for the system gets another, which mapping.csv records.
  fs::path PathOf(const std::string& name) {
    const std::size_t slash = name.rfind('/');
    const std::string base = name.substr(slash + 1);
    std::string short_name = base;
    if (base.size() > kLongestName) {
      short_name = NameBasedUuid(base) + base.substr(base.rfind('.'));
      const std::scoped_lock lock(mutex_);
      mapping_.emplace_back(short_name, base);
    }
    {
      const std::scoped_lock lock(mutex_);
      ++outcome_.num_written;
    }
    return folder_ / (slash == std::string::npos ? "" : name.substr(0, slash)) / short_name;
  }

  Result<Done> WriteTensor(const std::string& name, const TensorView& view) {
    if (options_.to == ConvertTo::kNpy) return WriteNpyUnsynced(PathOf(name), view);
    PtWriteOptions options;
    options.wait_for_disk = false;
    return WritePt(PathOf(name), view, options);
  }
  Result<Done> WriteTensors(const std::string& name, const std::vector<NamedTensor>& tensors) {
    return WriteSafetensors(PathOf(name), tensors);
  }
  Result<Done> WriteBytes(const std::string& name, std::span<const std::byte> bytes) {
    VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(PathOf(name)));
    VN_RETURN_IF_ERROR(file.Write(bytes));
    return file.CommitUnsynced();
  }

  void Finished(std::size_t item, const Result<Done>& result) {
    if (!result) Tell(LogLevel::kError, result.error().Message());
    const std::scoped_lock lock(mutex_);
    if (!result) failed_.push_back(item);
    ++num_done_;
    if (options_.on_progress) options_.on_progress({num_done_, items_.size(), 0, 0});
  }

  void Tell(LogLevel level, const std::string& line) {
    const std::scoped_lock lock(log_mutex_);
    if (options_.on_log) options_.on_log(level, line);
  }

  Result<Done> WriteLists() {
    std::sort(failed_.begin(), failed_.end());
    std::string list;
    for (const std::size_t i : failed_) {
      outcome_.failed.push_back(items_[i].path);
      list += items_[i].path + "\n";
    }
    if (!failed_.empty()) VN_RETURN_IF_ERROR(WriteList(kFailedList, list));
    std::sort(mapping_.begin(), mapping_.end());
    std::string mapping;
    for (const auto& [short_name, name] : mapping_) {
      AppendCsvText(short_name, mapping);
      mapping += ',';
      AppendCsvText(name, mapping);
      mapping += '\n';
    }
    return mapping.empty() ? Result<Done>(Done{}) : WriteList(kMapping, mapping);
  }

  Result<Done> WriteList(std::string_view name, const std::string& text) {
    VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(folder_ / name));
    VN_RETURN_IF_ERROR(file.Write(text));
    return file.Commit();
  }

  const ConvertOptions& options_;
  const fs::path folder_;
  std::vector<Item> items_;
  std::mutex mutex_, log_mutex_;
  std::vector<std::size_t> failed_;
  std::vector<std::pair<std::string, std::string>> mapping_;
  std::uint64_t num_done_ = 0;
  ConvertOutcome outcome_;
};

}  // namespace

Result<ConvertOutcome> ConvertDumps(const ConvertOptions& options) { return Conversion(options).Run(); }

}  // namespace vernier::torchair

#include "record/hdf5_sink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <deque>
#include <unordered_map>
#include <utility>

#include "core/atomic_file.h"
#include "core/json_cursor.h"
#include "core/text.h"
#include "format/hdf5_write.h"
#include "format/module_key.h"
#include "record/tensor_files.h"
#include "record/writer.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCsvHeader =
    "Step,Rank,Module,Dtype,Shape,Numel,Min,Max,Mean,Std,NanCount,InfCount\r\n";

struct StoredElements : Stored {
  Hdf5Data data;      // set by the writer
  TensorStats stats;  // of the elements
};

// What RecordFolder::header says.
struct Settings {
  Hdf5WriteAttributes root;
  std::int64_t step = 1, rank = 0;
  std::string device = "cpu";
  bool tensors = true, pack = false;
};

Result<Settings> ReadSettings(std::string_view header) {
  Settings settings;
  JsonCursor json(header);
  const auto text = [&] {
    std::string buffer;
    return std::string(json.TakeString(buffer));
  };
  const auto take_root = [&] {
    json.ForEachMember([&](std::string_view key, bool) {
      const std::string name(key);
      switch (json.Peek()) {
        case JsonKind::kString:
          settings.root.emplace_back(name, text());
          break;
        case JsonKind::kBool:
          settings.root.emplace_back(name, json.TakeBool());
          break;
        default:
          settings.root.emplace_back(name, static_cast<std::int64_t>(json.TakeNumber()));
      }
    });
  };
  json.ForEachMember([&](std::string_view key, bool) {
    if (key == "root") return take_root();
    if (key == "step") return void(settings.step = static_cast<std::int64_t>(json.TakeNumber()));
    if (key == "rank") return void(settings.rank = static_cast<std::int64_t>(json.TakeNumber()));
    if (key == "device") return void(settings.device = text());
    if (key == "tensors") return void(settings.tensors = json.TakeBool());
    if (key == "pack") return void(settings.pack = json.TakeBool());
    json.Fail(JsonError::kUnknownKey);
  });
  if (!json.ok()) return Error{ErrorCode::kBadArgument, "begin.header", json.problem()};
  return settings;
}

// The files of one rank.
class Recording {
 public:
  static Result<std::unique_ptr<Recording>> Create(const fs::path& path, const Settings& settings) {
    auto recording = std::make_unique<Recording>();
    recording->path_ = path;
    recording->csv_path_ = path.parent_path() / (path.stem().string() + "_summary.csv");
    VN_ASSIGN_OR_RETURN(AtomicFile csv, AtomicFile::Create(recording->csv_path_));
    VN_RETURN_IF_ERROR(csv.Write(kCsvHeader));
    VN_RETURN_IF_ERROR(csv.CommitUnsynced());
    if (settings.tensors) {
      VN_ASSIGN_OR_RETURN(recording->writer_, Hdf5Writer::Create(path, settings.root));
    }
    return recording;
  }

  const fs::path& path() const { return path_; }
  Hdf5Writer* writer() { return writer_.get(); }  // null: no tensors are wanted

  // One write: another process sees whole rows.
  Result<Done> AppendRows(const std::string& rows) {
    if (rows.empty()) return Done{};
    const int fd = open(csv_path_.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return ErrnoError(csv_path_.string(), errno);
    const ssize_t written = write(fd, rows.data(), rows.size());
    const int problem = written < 0 ? errno : written < static_cast<ssize_t>(rows.size()) ? ENOSPC : 0;
    close(fd);
    if (problem != 0) return ErrnoError(csv_path_.string(), problem);
    return Done{};
  }

 private:
  fs::path path_, csv_path_;
  std::unique_ptr<Hdf5Writer> writer_;
};

// Up to nine digits that count.
std::string NumberText(double value) { return fmt::format("{:.9g}", value); }

std::string QuotedCell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

// The standard deviation of one element is 0.
double StdOf(const TensorStats& stats) {
  return stats.num_elements == 1 && stats.num_finite() == 1 ? 0 : stats.Std();
}

class Hdf5Sink : public Sink {
 public:
  Hdf5Sink(const SinkContext& context, fs::path folder, std::shared_ptr<Recording> recording,
           Settings settings)
      : context_(context),
        folder_(std::move(folder)),
        recording_(std::move(recording)),
        settings_(std::move(settings)) {}

  Result<Done> Begin() {
    VN_RETURN_IF_ERROR(context_.floor.CheckNow(folder_));
    if (recording_->writer() == nullptr) return Done{};
    return recording_->writer()->BeginGroup(std::to_string(settings_.step), GroupAttributes());
  }

  Result<Done> Append(Entry& entry, std::span<const Field> fields) override {
    std::vector<std::string>& keys = keys_[entry.name];
    for (const Field& field : fields) {
      for (const Port& port : field.ports) VN_RETURN_IF_ERROR(Add(entry, field, port, keys));
    }
    return recording_->writer() == nullptr ? Done{} : recording_->writer()->Commit();
  }

  // What is put again replaces what was there, tensor by tensor.
  Result<std::vector<Field>> Reopen(const Entry&) override { return std::vector<Field>(); }

  Result<Done> Arrange(std::span<Entry* const> entries) override {
    order_.clear();
    for (const Entry* entry : entries) {
      const auto found = keys_.find(entry->name);
      if (found != keys_.end()) order_.insert(order_.end(), found->second.begin(), found->second.end());
    }
    return recording_->writer() == nullptr ? Done{} : recording_->writer()->Arrange(order_, "index");
  }

  Result<Done> Flush(bool) override {
    std::string rows;
    for (const std::string& key : order_) {
      const auto found = rows_.find(key);
      if (found != rows_.end()) rows += std::exchange(found->second, std::string());
    }
    VN_RETURN_IF_ERROR(recording_->AppendRows(rows));
    return recording_->writer() == nullptr ? Done{}
                                           : recording_->writer()->SetGroupAttributes(GroupAttributes());
  }

  bool stores() const override { return true; }

  Stored& Store(const Place&, Elements elements) override {
    StoredElements& stored = stored_.emplace_back();
    stored.stats = elements.stats;
    if (recording_->writer() == nullptr) return stored;
    std::uint64_t num_bytes = ItemBytes(elements.dtype);
    for (const std::int64_t size : elements.shape) num_bytes *= static_cast<std::uint64_t>(size);
    context_.totals.bytes_stored += num_bytes;
    context_.writer.Push([this, &stored, num_bytes, bytes = std::move(elements.bytes)]() -> Result<Done> {
      VN_RETURN_IF_ERROR(context_.floor.Check(folder_, num_bytes));
      VN_ASSIGN_OR_RETURN(stored.data,
                          recording_->writer()->WriteData({bytes.get(), num_bytes}, settings_.pack));
      return Done{};
    });
    return stored;
  }

  Stored& StoreAgain(const Place&, Stored& known) override { return known; }
  void Drop(Stored&) override {}
  std::string_view NameOf(const Stored&) const override { return ""; }
  void AddStack(std::string_view, std::uint32_t) override {}
  void SetParent(std::string_view, std::optional<std::string_view>, std::optional<std::int64_t>) override {}
  Result<Done> KeepUp() override { return context_.floor.CheckNow(folder_); }
  void SetState(std::string_view) override {}

 private:
  Hdf5WriteAttributes GroupAttributes() const {
    return {{"step", settings_.step},
            {"rank", settings_.rank},
            {"count", static_cast<std::int64_t>(order_.size())}};
  }

  static std::string KeyOf(const Entry& entry, const Field& field, const Port& port) {
    std::string key = entry.name;
    for (const std::string& part : {DecodeJsonString(field.key), port.path}) {
      if (!part.empty()) key += (key.empty() ? "" : ".") + part;
    }
    return key;
  }

  std::string DeviceOf(const Port& port) const {
    std::string device = port.extras.empty() ? "cpu" : settings_.device;
    JsonCursor json(port.extras);
    if (!port.extras.empty()) {
      json.ForEachMember([&](std::string_view name, bool) {
        std::string buffer;
        if (name == "device" && json.Peek() == JsonKind::kString) {
          device = json.TakeString(buffer);
        } else {
          json.Skip();
        }
      });
    }
    return device;
  }

  Result<Done> Add(const Entry& entry, const Field& field, const Port& port, std::vector<std::string>& keys) {
    if (!port.dtype || port.Has(kNoData)) return Done{};
    const auto* const stored = static_cast<const StoredElements*>(port.elements());
    const std::span<const std::int64_t> shape = port.shape(field.sizes);
    const bool is_empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
    if (stored == nullptr && !is_empty) return Done{};
    const std::string key = KeyOf(entry, field, port);
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    if (rows_.emplace(key, std::string()).second) order_.push_back(key);
    const TensorStats stats = stored == nullptr ? TensorStats() : stored->stats;
    rows_[key] = RowOf(key, *port.dtype, shape, stats);
    if (recording_->writer() == nullptr) return Done{};
    return recording_->writer()->AddDataset(key, *port.dtype, shape,
                                            stored == nullptr ? Hdf5Data() : stored->data,
                                            AttributesOf(key, port, shape, stats));
  }

  Hdf5WriteAttributes AttributesOf(const std::string& key, const Port& port,
                                   std::span<const std::int64_t> shape, const TensorStats& stats) const {
    const ModuleKey parts = SplitModuleKey(key);
    const bool is_bits = Class(*port.dtype) == DtypeClass::kFloat &&
                         (ItemBytes(*port.dtype) == 1 || *port.dtype == Dtype::kBF16);
    std::int64_t call = 0;
    std::from_chars(parts.call.data(), parts.call.data() + parts.call.size(), call);
    const auto found = numbers_.try_emplace(key, static_cast<std::int64_t>(numbers_.size())).first;
    Hdf5WriteAttributes attributes = {
        {"dtype", "torch." + std::string(Name(*port.dtype))},
        {"encoding", std::string(is_bits ? "bits" : "native")},
        {"shape", std::vector<std::int64_t>(shape.begin(), shape.end())},
        {"index", found->second},
        {"category", std::string(parts.category)},
        {"module", std::string(parts.path)},
        {"class", std::string(parts.class_name)},
        {"call", call},
        {"device", DeviceOf(port)},
        {"requires_grad", port.Has(kRequiresGrad)},
    };
    if (stats.num_elements > 0) {
      attributes.emplace_back("min", stats.Min());
      attributes.emplace_back("max", stats.Max());
      attributes.emplace_back("mean", stats.Mean());
      attributes.emplace_back("std", StdOf(stats));
      attributes.emplace_back("nan_count", static_cast<std::int64_t>(stats.num_nan));
      attributes.emplace_back("inf_count", static_cast<std::int64_t>(stats.num_pos_inf + stats.num_neg_inf));
    }
    return attributes;
  }

  std::string RowOf(const std::string& key, Dtype dtype, std::span<const std::int64_t> shape,
                    const TensorStats& stats) const {
    const bool has = stats.num_elements > 0;
    const auto number = [&](double value) { return has ? NumberText(value) : std::string(); };
    return fmt::format("{},{},{},torch.{},{},{},{},{},{},{},{},{}\r\n", settings_.step, settings_.rank,
                       QuotedCell(key), Name(dtype), QuotedCell(ShapeText({shape.begin(), shape.end()})),
                       stats.num_elements, number(stats.Min()), number(stats.Max()), number(stats.Mean()),
                       number(StdOf(stats)), stats.num_nan, stats.num_pos_inf + stats.num_neg_inf);
  }

  const SinkContext context_;
  const fs::path folder_;
  const std::shared_ptr<Recording> recording_;
  const Settings settings_;
  std::deque<StoredElements> stored_;
  std::unordered_map<std::string, std::vector<std::string>> keys_;  // of each record
  std::unordered_map<std::string, std::string> rows_;               // of the csv, by key; empty once written
  std::vector<std::string> order_;                                  // of the keys
  mutable std::unordered_map<std::string, std::int64_t> numbers_;   // of the keys
};

}  // namespace

std::function<Result<std::unique_ptr<Sink>>(const SinkContext&, RecordFolder)> Hdf5Sinks() {
  return [recording = std::shared_ptr<Recording>()](
             const SinkContext& context, RecordFolder where) mutable -> Result<std::unique_ptr<Sink>> {
    VN_ASSIGN_OR_RETURN(Settings settings, ReadSettings(where.header));
    const fs::path path = where.folder / where.file;
    if (recording == nullptr || recording->path() != path) {
      VN_ASSIGN_OR_RETURN(recording, Recording::Create(path, settings));
    }
    auto sink = std::make_unique<Hdf5Sink>(context, where.folder, recording, std::move(settings));
    VN_RETURN_IF_ERROR(sink->Begin());
    return std::unique_ptr<Sink>(std::move(sink));
  };
}

}  // namespace vernier

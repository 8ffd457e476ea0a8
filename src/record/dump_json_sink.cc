#include "record/dump_json_sink.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/atomic_file.h"
#include "core/json_cursor.h"
#include "record/descriptor_text.h"

namespace vernier {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kTensorFolder = "dump_tensor_data";

Result<Done> CreateFolder(const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (!problem && !fs::is_directory(folder, problem))
    problem = std::make_error_code(std::errc::not_a_directory);
  if (problem) return Error{CodeOfErrno(problem.value()), folder.string(), problem.message()};
  return Done{};
}

// "Module.conv.Conv2d.parameters_grad.0": its fields are parameters.
bool HoldsGradients(std::string_view record) {
  const std::size_t last = record.rfind('.');
  return last != std::string_view::npos && record.substr(0, last).ends_with(".parameters_grad");
}

// The name of a tensor's file, without its ending.
std::string StemOf(const Place& place) {
  std::string stem(place.record);
  std::string_view path = place.path;
  const auto add = [&](std::string_view part) {
    if (!stem.empty() && !part.empty()) stem += '.';
    stem += part;
  };
  if (HoldsGradients(place.record) && !place.whole) {
    add(DecodeJsonString(place.field));
    if (path == "0" || path.starts_with("0.")) path.remove_prefix(std::min<std::size_t>(2, path.size()));
  } else if (place.field == "input_args") {
    add("input");
  } else if (place.field == "input_kwargs") {
    add("kwargs");
  } else {
    add(DecodeJsonString(place.field));
  }
  add(path);
  return stem;
}

}  // namespace

Result<std::unique_ptr<Sink>> DumpJsonSink::Open(const SinkContext& context, RecordFolder where) {
  std::unique_ptr<DumpJsonSink> sink(new DumpJsonSink(context, std::move(where)));
  VN_RETURN_IF_ERROR(sink->Create());
  return std::unique_ptr<Sink>(std::move(sink));
}

Result<Done> DumpJsonSink::Create() {
  const RecorderOptions& options = context_.options;
  const fs::path& folder = where_.folder;
  const bool has_tensors = options.tensors || where_.dump_data_dir.has_value();
  VN_RETURN_IF_ERROR(CreateFolder(has_tensors ? folder / kTensorFolder : folder));
  VN_RETURN_IF_ERROR(context_.floor.CheckNow(folder));
  if (has_tensors) {
    context_.earlier.BeginFolder();
    files_.emplace(folder / kTensorFolder, options.dedup, context_);
  }
  VN_RETURN_IF_ERROR(document_.Create(folder / where_.file, where_.header, where_.dump_data_dir));
  if (options.identity) VN_RETURN_IF_ERROR(identity_.Create(folder / "identity.jsonl"));
  stacks_.SetPath(folder / "stack.json");
  construct_.SetPath(folder / "construct.json");
  return WriteBeside();
}

Result<Done> DumpJsonSink::Append(Entry& entry, std::span<const Field> fields) {
  value_.clear();
  AppendValue(fields, entry.whole, context_.options.summary, *this, value_);
  VN_RETURN_IF_ERROR(context_.floor.Check(where_.folder, value_.size()));
  VN_ASSIGN_OR_RETURN(entry.range, document_.Append(entry.name, value_));
  return identity_.Add(entry, fields);
}

Result<std::vector<Field>> DumpJsonSink::Reopen(const Entry& entry) {
  VN_ASSIGN_OR_RETURN(const std::string value, document_.Read(entry.range));
  std::vector<Field> fields = SplitValue(value, entry.whole);
  constexpr std::string_view kDataName = "\"data_name\": ";
  for (Field& field : fields) {
    for (std::size_t at = field.text.find(kDataName); files_ && at != std::string::npos;
         at = field.text.find(kDataName, at + 1)) {
      JsonCursor cursor(field.text, at + kDataName.size());
      std::string buffer;
      StoredFile* const file = files_->Find(cursor.TakeString(buffer));
      if (file != nullptr) field.stored.push_back(file);
    }
  }
  return fields;
}

Result<Done> DumpJsonSink::Arrange(std::span<Entry* const> entries) {
  std::vector<RecordRange*> ranges;
  ranges.reserve(entries.size());
  for (Entry* entry : entries) {
    if (entry->range.size > 0) ranges.push_back(&entry->range);
  }
  return document_.Rewrite(ranges);
}

Result<Done> DumpJsonSink::Flush(bool complete) {
  if (files_ && complete) files_->RemoveUnused();
  if (files_ && context_.writer.failed()) files_->RemoveAfter(context_.writer.failed_at());
  Result<Done> beside = WriteBeside();
  Result<Done> identities = identity_.Flush();
  document_.Rest();
  stacks_.Rest();
  construct_.Rest();
  VN_RETURN_IF_ERROR(beside);
  return identities;
}

// A name that begins with a record's stands for one value of it.
Stored& DumpJsonSink::Named(const Place& place, StoredFile& file) {
  if (place.record.empty()) return file;
  return files_->NameWithin(place.record, file, StemOf(place));
}

Stored& DumpJsonSink::Store(const Place& place, Elements elements) {
  return Named(place, files_->Store(StemOf(place), std::move(elements), context_.totals));
}

Stored& DumpJsonSink::StoreAgain(const Place& place, Stored& known) {
  auto& file = static_cast<StoredFile&>(known);
  files_->AddUser(file);
  return Named(place, file);
}

Kept DumpJsonSink::Keep(const Place& place, Elements elements, std::uint64_t number) {
  return files_->Keep(place.record, StemOf(place), std::move(elements), number);
}

Kept DumpJsonSink::KeepAgain(const Place& place, Stored& known, std::uint64_t number) {
  return files_->KeepAgain(place.record, StemOf(place), static_cast<StoredFile&>(known), number);
}

void DumpJsonSink::Drop(Stored& stored) { files_->DropUser(static_cast<StoredFile&>(stored)); }

std::string_view DumpJsonSink::NameOf(const Stored& stored) const {
  return static_cast<const StoredFile&>(stored).name;
}

void DumpJsonSink::AddStack(std::string_view name, std::uint32_t stack) {
  if (where_.stack) stacks_.Add(stack, name);
}

void DumpJsonSink::SetParent(std::string_view name, std::optional<std::string_view> parent,
                             std::optional<std::int64_t> micro_step) {
  if (where_.construct) construct_.Set(name, parent, micro_step);
}

void DumpJsonSink::SetState(std::string_view state) { identity_.SetState(state); }

Result<Done> DumpJsonSink::WriteBeside() {
  if (where_.stack) VN_RETURN_IF_ERROR(stacks_.Write());
  if (where_.construct) VN_RETURN_IF_ERROR(construct_.Write());
  return Done{};
}

Result<Done> DumpJsonSink::KeepUp() {
  VN_RETURN_IF_ERROR(context_.floor.CheckNow(where_.folder));
  if (where_.stack) VN_RETURN_IF_ERROR(stacks_.Grow());
  if (where_.construct) VN_RETURN_IF_ERROR(construct_.Grow());
  return identity_.Flush();
}

}  // namespace vernier

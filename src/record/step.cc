#include "record/step.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <iterator>
#include <system_error>
#include <utility>

#include "core/atomic_file.h"
#include "core/json_cursor.h"
#include "core/json_writer.h"
#include "record/json_indenter.h"

namespace vernier {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kTensorFolder = "dump_tensor_data";
constexpr int kFieldDepth = 3, kWholeDepth = 2;
constexpr std::size_t kUsualFields = 4, kMaxSpareFields = 64, kMaxSpareLists = 16;
// The files beside the document are written whole, so not often: a twentieth of the time at most.
constexpr std::uint64_t kLookEveryCommits = 64;
constexpr std::size_t kManyWaiting = 64;
constexpr std::chrono::milliseconds kSideFilesEvery{1000};
constexpr int kSideFilesShare = 20;

Result<Done> CreateFolder(const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (!problem && !fs::is_directory(folder, problem))
    problem = std::make_error_code(std::errc::not_a_directory);
  if (problem) return Error{CodeOfErrno(problem.value()), folder.string(), problem.message()};
  return Done{};
}

bool ByOrder(const Entry* a, const Entry* b) { return a->order < b->order; }

StatisticText TextOf(const FilledValue& value) {
  switch (value.kind) {
    case FilledValue::kBool:
      return StatisticText::OfBool(value.bits != 0);
    case FilledValue::kInt:
      return StatisticText::OfInt(value.bits);
    case FilledValue::kUint:
      return StatisticText::OfUint(static_cast<std::uint64_t>(value.bits));
    case FilledValue::kDouble:
      return StatisticText::OfDouble(std::bit_cast<double>(value.bits));
    default:
      return StatisticText::Null();
  }
}

}  // namespace

// Behind the files that the record names, so that it never names one that is not there.
class Step::CommitJob : public Writer::Job {
 public:
  CommitJob(Document& document, Entry& entry, std::string value)
      : document_(document), entry_(entry), value_(std::move(value)) {}
  Result<Done> Run() override {
    VN_ASSIGN_OR_RETURN(entry_.range, document_.Append(entry_.name, value_));
    return Done{};
  }

 private:
  Document& document_;
  Entry& entry_;
  std::string value_;
};

// Waits for numbers of a device first: formatting and writing then take no time of the program that is
// recorded.
class Step::DeviceJob : public Writer::Job {
 public:
  explicit DeviceJob(Step& step) : step_(step) {}

  void Take(Entry& entry, std::uint64_t sequence) {
    Record& record = records_.emplace_back(Record{entry, {}, sequence});
    record.content.whole = entry.whole;
    if (entry.keep) {
      record.content.fields = entry.fields;
    } else {
      record.content.fields = std::exchange(entry.fields, {});
      entry.in_memory = false;
    }
  }
  Result<Done> Run() override {
    std::string value;
    for (Record& record : records_) {
      step_.shared_.cuda->WaitFor(record.sequence);
      value.clear();
      AppendValue(record.content, step_.shared_.options.summary, value);
      VN_ASSIGN_OR_RETURN(record.entry.range, step_.document_.Append(record.entry.name, value));
    }
    return Done{};
  }

 private:
  struct Record {
    Entry& entry;
    Entry content;
    std::uint64_t sequence;
  };
  Step& step_;
  std::vector<Record> records_;
};

Result<std::unique_ptr<Step>> Step::Create(RecorderShared& shared, RecordFolder where) {
  const bool has_tensors = shared.options.tensors || where.dump_data_dir.has_value();
  VN_RETURN_IF_ERROR(CreateFolder(has_tensors ? where.folder / kTensorFolder : where.folder));
  if (has_tensors) {
    shared.floor.AskAgain();
    VN_RETURN_IF_ERROR(shared.floor.Check(where.folder, 0));
  }
  shared.writer.ForgetFailure();
  VN_ASSIGN_OR_RETURN(Document document,
                      Document::Create(where.folder / where.file, where.header, where.dump_data_dir));
  std::unique_ptr<Step> step(new Step(shared, std::move(where), std::move(document)));
  if (has_tensors) {
    step->files_.emplace(step->where_.folder / kTensorFolder, shared.options.dedup, shared.writer,
                         shared.floor);
  }
  VN_RETURN_IF_ERROR(step->WriteSideFiles());
  return step;
}

Step::Step(RecorderShared& shared, RecordFolder where, Document document)
    : shared_(shared),
      where_(std::move(where)),
      document_(std::move(document)),
      stack_changed_(true),
      construct_changed_(true),
      side_files_due_(std::chrono::steady_clock::now() + kSideFilesEvery) {}

Step::~Step() { shared_.writer.Drain(); }

const std::optional<Error>& Step::stopped() {
  if (!stopped_ && shared_.writer.failed()) stopped_ = shared_.writer.failure();
  return stopped_;
}

Entry& Step::EntryFor(std::string_view name) {
  if (last_ != nullptr && last_->name == name) return *last_;
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return *(last_ = found->second);
  Entry& entry = entries_.emplace_back();
  last_ = &entry;
  if (spare_lists_.empty()) {
    entry.fields.reserve(kUsualFields);
  } else {
    entry.fields = std::move(spare_lists_.back());
    spare_lists_.pop_back();
  }
  entry.name = name;
  entry.order = next_order_++;
  by_name_.emplace(entry.name, &entry);
  ++shared_.totals.num_records;
  return entry;
}

Field& Step::FreshField() {
  if (spare_.empty()) return fresh_.emplace_back();
  fresh_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  return fresh_.back();
}

void Step::ForgetFields(Entry& entry) {
  for (Field& field : entry.fields) {
    if (spare_.size() == kMaxSpareFields) break;
    field.text.clear();
    field.holes.clear();
    field.files.clear();
    spare_.push_back(std::move(field));
  }
  entry.fields.clear();
  if (spare_lists_.size() < kMaxSpareLists) spare_lists_.push_back(std::move(entry.fields));
  entry.fields = {};
  entry.in_memory = false;
}

// Brings back an entry that went to the file already.
Result<Done> Step::Reopen(Entry& entry) {
  shared_.writer.Drain();
  if (stopped()) return *stopped_;
  VN_ASSIGN_OR_RETURN(const std::string value, document_.Read(entry.range));
  entry.fields = SplitValue(value, entry.whole);
  entry.in_memory = true;
  constexpr std::string_view kDataName = "\"data_name\": ";
  for (Field& field : entry.fields) {
    for (std::size_t at = field.text.find(kDataName); files_ && at != std::string::npos;
         at = field.text.find(kDataName, at + 1)) {
      JsonCursor cursor(field.text, at + kDataName.size());
      std::string buffer;
      StoredFile* const file = files_->Find(cursor.TakeString(buffer));
      if (file != nullptr) field.files.push_back(file);
    }
  }
  return Done{};
}

void Step::ReleaseFiles(Field& field) {
  for (StoredFile* file : field.files) files_->DropUser(*file);
  field.files.clear();
  for (Hole& hole : field.holes) {
    if (hole.slot->sequence != 0) continue;  // not ours alone
    hole.slot->entry = nullptr;
    if (StoredFile* const file = std::exchange(hole.slot->file, nullptr)) files_->DropUser(*file);
  }
}

// The text of a Put, into fresh_. The files of what it replaces are let go of first, so that their names are
// free again.
Result<Done> Step::Read(Entry& entry, std::string_view text, std::uint32_t flags,
                        DescriptorWriter& descriptors) {
  fresh_.clear();
  JsonIndenter indenter(text, &descriptors);
  if ((flags & kWhole) != 0) {
    for (Field& field : entry.fields) ReleaseFiles(field);
    entry.whole = true;
    Field& field = FreshField();
    field.key.clear();
    descriptors.Enter(entry, field, indenter.path());
    VN_RETURN_IF_ERROR(indenter.Value(kWholeDepth, field.text));
  } else {
    VN_RETURN_IF_ERROR(indenter.Members([&](std::string_view key) {
      for (Field& field : entry.fields) {
        if ((flags & kReplace) != 0 && field.key == key) ReleaseFiles(field);
      }
      Field& field = FreshField();
      field.key = key;
      descriptors.Enter(entry, field, indenter.path());
      return indenter.Value(kFieldDepth, field.text);
    }));
  }
  if (!indenter.AtEnd()) return Error{ErrorCode::kBadArgument, entry.name, "something follows the JSON text"};
  return Done{};
}

void Step::Apply(Entry& entry, std::uint32_t flags) {
  if ((flags & kWhole) != 0) entry.fields.clear();
  for (Field& field : fresh_) {
    const auto same = (flags & kReplace) == 0
                          ? entry.fields.end()
                          : std::find_if(entry.fields.begin(), entry.fields.end(),
                                         [&](const Field& old) { return old.key == field.key; });
    if (same != entry.fields.end()) {
      *same = std::move(field);
    } else {
      entry.fields.push_back(std::move(field));
    }
  }
  if ((flags & kMoveToEnd) != 0) entry.order = next_order_++;
  entry.keep |= (flags & kKeep) != 0;
  entry.finished = (flags & kFinish) != 0;
}

Result<Done> Step::Put(std::string_view name, std::string_view text, std::span<const std::int64_t> words,
                       std::int64_t stack, std::uint32_t flags, std::uint32_t& seen) {
  Entry& entry = EntryFor(name);
  if (!entry.in_memory) VN_RETURN_IF_ERROR(Reopen(entry));
  Open(entry);
  if (stack >= 0 && !entry.has_stack && where_.stack) {
    const std::optional<std::uint32_t> known = shared_.stacks.Find(stack);
    if (!known) {
      return Error{ErrorCode::kBadArgument, entry.name,
                   "stack " + std::to_string(stack) + " is not declared"};
    }
    stack_file_.Add(*known, entry.name);
    entry.has_stack = stack_changed_ = true;
  }
  DescriptorWriter descriptors(shared_.meter, shared_.cuda.get(), files_ ? &*files_ : nullptr,
                               shared_.options.summary, slots_, words, shared_.totals);
  if (Result<Done> read = Read(entry, text, flags, descriptors); !read) {
    return In(entry.name, std::move(read).error());
  }
  Result<Done> launched = shared_.cuda != nullptr ? shared_.cuda->Launch() : Done{};
  if (descriptors.not_finite()) seen |= kSeenNotFinite;
  Apply(entry, flags);
  CommitIfComplete(entry);
  return launched;
}

void Step::CommitIfComplete(Entry& entry) {
  if (!entry.finished || entry.open_at == Entry::kNotOpen || !IsComplete(entry)) return;
  if (LastSequence(entry) == 0) {
    Commit(entry, nullptr);
  } else if (++num_waiting_ >= kManyWaiting) {
    CommitWaiting();
  }
  WriteSideFilesNowAndThen();
}

// Records whose numbers are on a device are handed to the writer together, because each time costs as much as
// making the record.
void Step::CommitWaiting() {
  num_waiting_ = 0;
  std::vector<Entry*> finished;
  std::copy_if(open_.begin(), open_.end(), std::back_inserter(finished),
               [](const Entry* entry) { return entry->finished && IsComplete(*entry); });
  std::sort(finished.begin(), finished.end(), ByOrder);
  auto job = std::make_unique<DeviceJob>(*this);
  for (Entry* entry : finished) Commit(*entry, job.get());
  shared_.writer.Push(std::move(job));
}

void Step::Open(Entry& entry) {
  if (entry.open_at != Entry::kNotOpen) return;
  entry.open_at = open_.size();
  open_.push_back(&entry);
}

// Numbers from a device are waited for by `later`, or here when that is null. REQUIRES: the entry is open
void Step::Commit(Entry& entry, DeviceJob* later) {
  if (stopped()) return;
  // With deferred tensors a whole step may be open: the last one takes its place.
  open_[entry.open_at] = open_.back();
  open_[entry.open_at]->open_at = entry.open_at;
  open_.pop_back();
  entry.open_at = Entry::kNotOpen;
  const std::uint64_t sequence = LastSequence(entry);
  out_of_order_ |= entry.committed || entry.order < last_written_order_;
  last_written_order_ = std::max(last_written_order_, entry.order);
  entry.committed = true;
  if (sequence != 0 && later != nullptr) return later->Take(entry, sequence);
  if (sequence != 0) shared_.cuda->WaitFor(sequence);
  value_.clear();
  AppendValue(entry, shared_.options.summary, value_);
  if (!entry.keep) ForgetFields(entry);
  if (!shared_.writer.idle()) {
    shared_.writer.Push(std::make_unique<CommitJob>(document_, entry, value_));
  } else if (stopped()) {
    // It has failed since we asked: the files that this record names may not be there.
  } else if (Result<RecordRange> range = document_.Append(entry.name, value_); range) {
    entry.range = *range;
  } else {
    stopped_ = std::move(range).error();
  }
}

Result<Done> Step::Construct(std::string_view name, std::optional<std::string_view> parent,
                             std::optional<std::int64_t> micro_step) {
  if (!where_.construct) return Done{};
  construct_file_.Set(name, parent, micro_step);
  construct_changed_ = true;
  return Done{};
}

Result<Done> Step::Note(std::string_view name, std::int64_t stack) {
  if (!where_.stack) return Done{};
  const std::optional<std::uint32_t> known = shared_.stacks.Find(stack);
  if (!known) {
    return Error{ErrorCode::kBadArgument, std::string(name),
                 "stack " + std::to_string(stack) + " is not declared"};
  }
  stack_file_.Add(*known, noted_names_.emplace_back(name));
  stack_changed_ = true;
  return Done{};
}

Result<std::string> Step::Describe(std::string_view file_stem, std::span<const std::int64_t> words) {
  DescriptorWriter descriptors(shared_.meter, shared_.cuda.get(), files_ ? &*files_ : nullptr,
                               shared_.options.summary, slots_, words, shared_.totals);
  std::string text;
  VN_RETURN_IF_ERROR(descriptors.WriteAlone(file_stem, text));
  return text;
}

Result<std::shared_ptr<Slot>> Step::SlotFor(std::int64_t number) const {
  const auto found = slots_.find(number);
  if (found != slots_.end()) return found->second;
  return Error{ErrorCode::kBadArgument, "slot " + std::to_string(number), "nothing waits for it"};
}

void Step::Complete(std::int64_t number, Slot& slot) {
  slot.filled = true;
  Entry* const entry = slot.entry;
  slots_.erase(number);
  if (entry != nullptr) CommitIfComplete(*entry);
}

Result<Done> Step::Fill(std::int64_t number, std::span<const FilledValue, 4> values,
                        std::optional<std::uint64_t> digest) {
  VN_ASSIGN_OR_RETURN(const std::shared_ptr<Slot> slot, SlotFor(number));
  for (std::size_t i = 0; i < values.size(); ++i) slot->measured.statistics[i] = TextOf(values[i]);
  slot->measured.has_digest = digest.has_value();
  slot->measured.digest = digest.value_or(0);
  slot->has_numbers = true;
  if (!slot->copy_follows) Complete(number, *slot);
  return Done{};
}

Result<Done> Step::FillTensor(std::int64_t number, std::span<const std::int64_t> words) {
  VN_ASSIGN_OR_RETURN(const std::shared_ptr<Slot> slot, SlotFor(number));
  VN_ASSIGN_OR_RETURN(TensorWords tensor, TakeTensor(words));
  tensor.flags |= slot->wants_file ? kStore : kNoStore;
  tensor.storage = 0;
  --shared_.totals.num_tensors;  // it was counted when it was put
  TensorFiles* const files = files_ && slot->entry != nullptr ? &*files_ : nullptr;
  VN_ASSIGN_OR_RETURN(const MeasureCache::Known known,
                      shared_.meter.Measure(
                          tensor, files, [&] { return slot->stem; }, shared_.totals));
  slot->file = known.file;
  if (!slot->has_numbers) slot->measured = known.measured;
  if (!slot->measured.has_digest) {
    slot->measured.has_digest = known.measured.has_digest;
    slot->measured.digest = known.measured.digest;
  }
  slot->has_numbers = true;
  Complete(number, *slot);
  return Done{};
}

Result<Done> Step::Flush() {
  slots_.clear();  // what never came is null
  std::vector<Entry*> unfinished = open_;
  std::sort(unfinished.begin(), unfinished.end(), ByOrder);
  for (Entry* entry : unfinished) Commit(*entry, nullptr);
  num_waiting_ = 0;
  shared_.writer.Drain();
  if (files_ && !stopped()) files_->RemoveUnused();
  const Result<Done> ordered = WriteInOrder();
  Result<Done> beside = WriteSideFiles();
  document_.Rest();
  if (stopped()) return *stopped_;
  VN_RETURN_IF_ERROR(ordered);
  if (shared_.cuda != nullptr) VN_RETURN_IF_ERROR(shared_.cuda->TakeFailure());
  return beside;
}

// REQUIRES: the writer is idle
Result<Done> Step::WriteInOrder() {
  if (!out_of_order_) return Done{};
  std::vector<Entry*> written;
  for (Entry& entry : entries_) {
    if (entry.range.size > 0) written.push_back(&entry);
  }
  std::sort(written.begin(), written.end(), ByOrder);
  std::vector<RecordRange*> ranges;
  ranges.reserve(written.size());
  for (Entry* entry : written) ranges.push_back(&entry->range);
  VN_RETURN_IF_ERROR(document_.Rewrite(ranges));
  out_of_order_ = false;
  return Done{};
}

Result<Done> Step::WriteSideFiles() {
  const auto start = std::chrono::steady_clock::now();
  if (where_.stack && stack_changed_) {
    VN_RETURN_IF_ERROR(stack_file_.Write(where_.folder / "stack.json", shared_.stacks));
  }
  if (where_.construct && construct_changed_) {
    VN_RETURN_IF_ERROR(construct_file_.Write(where_.folder / "construct.json"));
  }
  stack_changed_ = construct_changed_ = false;
  const auto now = std::chrono::steady_clock::now();
  side_files_due_ =
      now + std::max<std::chrono::nanoseconds>(kSideFilesEvery, kSideFilesShare * (now - start));
  return Done{};
}

// A failure shows at Flush(), which writes them again.
void Step::WriteSideFilesNowAndThen() {
  if (++num_commits_ % kLookEveryCommits != 0 || !(stack_changed_ || construct_changed_)) return;
  if (std::chrono::steady_clock::now() >= side_files_due_) (void)WriteSideFiles();
}

Result<Done> Step::Move(fs::path folder, std::optional<std::string> dump_data_dir) {
  shared_.writer.Drain();
  std::error_code problem;
  fs::rename(where_.folder, folder, problem);
  if (problem) return Error{CodeOfErrno(problem.value()), folder.string(), problem.message()};
  where_.folder = std::move(folder);
  where_.dump_data_dir = std::move(dump_data_dir);
  if (files_) files_->Moved(where_.folder / kTensorFolder);
  VN_RETURN_IF_ERROR(document_.Moved(where_.folder / where_.file, where_.dump_data_dir));
  out_of_order_ = true;
  return WriteInOrder();
}

}  // namespace vernier

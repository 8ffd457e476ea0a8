#include "record/step.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "record/descriptor_text.h"
#include "record/dump_json_sink.h"
#include "record/json_indenter.h"

namespace vernier {
namespace {

constexpr int kFieldDepth = 3, kWholeDepth = 2;
constexpr std::size_t kUsualFields = 4, kMaxSpareFields = 64, kMaxSpareLists = 16;
constexpr std::size_t kManyWaiting = 64;

// Calls fn with each value that the entry still waits for.
template <class Fn>
void ForEachSlot(const Entry& entry, Fn&& fn) {
  for (const Field& field : entry.fields) {
    for (const Port& port : field.ports) {
      if (port.slot != nullptr) fn(*port.slot);
    }
  }
}

// All slots are filled, but for those that a device fills.
bool IsComplete(const Entry& entry) {
  bool complete = true;
  ForEachSlot(entry, [&](const Slot& slot) { complete = complete && (slot.sequence != 0 || slot.filled); });
  return complete;
}

// Of the slots that a device fills, the last; 0: none.
std::uint64_t LastSequence(const Entry& entry) {
  std::uint64_t last = 0;
  ForEachSlot(entry, [&](const Slot& slot) { last = std::max(last, slot.sequence); });
  return last;
}

bool ByOrder(const Entry* a, const Entry* b) { return a->order < b->order; }

StatisticText TextOf(const FilledValue& value) {
  switch (value.kind) {
    case FilledValue::kBool:
      return StatisticText::OfBool(value.bits != 0);
    case FilledValue::kInt:
      return StatisticText::OfInteger(value.bits);
    case FilledValue::kUint:
      return StatisticText::OfInteger(static_cast<std::uint64_t>(value.bits));
    case FilledValue::kDouble:
      return StatisticText::OfDouble(std::bit_cast<double>(value.bits));
    default:
      return StatisticText::Null();
  }
}

}  // namespace

Result<std::unique_ptr<Step>> Step::Create(RecorderShared& shared, RecordFolder where) {
  const SinkContext context{shared.options, shared.writer,      shared.floor,  shared.stacks,
                            shared.totals,  shared.late_totals, shared.earlier};
  std::filesystem::path folder = where.folder;
  shared.writer.ForgetFailure();
  VN_ASSIGN_OR_RETURN(std::unique_ptr<Sink> sink, shared.options.open_sink
                                                      ? shared.options.open_sink(context, std::move(where))
                                                      : DumpJsonSink::Open(context, std::move(where)));
  return std::unique_ptr<Step>(new Step(shared, std::move(folder), std::move(sink)));
}

Step::Step(RecorderShared& shared, std::filesystem::path folder, std::unique_ptr<Sink> sink)
    : shared_(shared), folder_(std::move(folder)), sink_(std::move(sink)) {}

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
    field.ports.clear();
    field.sizes.clear();
    field.stored.clear();
    field.from_sink = false;
    spare_.push_back(std::move(field));
  }
  entry.fields.clear();
  if (spare_lists_.size() < kMaxSpareLists) spare_lists_.push_back(std::move(entry.fields));
  entry.fields = {};
  entry.in_memory = false;
}

// Brings back an entry that the sink has already.
Result<Done> Step::Reopen(Entry& entry) {
  shared_.writer.Drain();
  if (stopped()) return *stopped_;
  VN_ASSIGN_OR_RETURN(entry.fields, sink_->Reopen(entry));
  entry.in_memory = true;
  return Done{};
}

void Step::Release(Field& field) {
  // What is replaced has to be there first: its file, or which one it is.
  const bool is_late = std::any_of(field.ports.begin(), field.ports.end(), [](const Port& port) {
    return port.slot != nullptr && port.slot->from_writer;
  });
  if (is_late || !field.stored.empty()) shared_.writer.Drain();
  for (Stored* stored : field.stored) sink_->Drop(*stored);
  field.stored.clear();
  for (Port& port : field.ports) {
    if (port.slot == nullptr || port.slot->sequence != 0) continue;  // not ours alone
    port.slot->entry = nullptr;
    if (Stored* const stored = std::exchange(port.slot->stored, nullptr)) sink_->Drop(*stored);
  }
}

PortContext Step::Ports() {
  return {shared_.meter, shared_.device.get(), sink_->stores() ? sink_.get() : nullptr, slots_,
          shared_.totals};
}

// The text of a Put, into fresh_. The elements of what it replaces are let go of first, so that their names
// are free again.
Result<Done> Step::Read(Entry& entry, std::string_view text, std::uint32_t flags, PortReader& ports) {
  fresh_.clear();
  JsonIndenter indenter(text, &ports);
  if ((flags & kWhole) != 0) {
    for (Field& field : entry.fields) Release(field);
    entry.whole = true;
    Field& field = FreshField();
    field.key.clear();
    ports.Enter(entry, field, indenter.path());
    VN_RETURN_IF_ERROR(indenter.Value(kWholeDepth, field.text));
  } else {
    VN_RETURN_IF_ERROR(indenter.Members([&](std::string_view key) {
      for (Field& field : entry.fields) {
        if ((flags & kReplace) != 0 && field.key == key) Release(field);
      }
      Field& field = FreshField();
      field.key = key;
      ports.Enter(entry, field, indenter.path());
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
  entry.repeated |= (flags & kRepeated) != 0;
  entry.finished = (flags & kFinish) != 0;
}

Result<Done> Step::Put(std::string_view name, std::string_view text, std::span<const std::int64_t> words,
                       std::int64_t stack, std::uint32_t flags, std::uint32_t& seen) {
  Entry& entry = EntryFor(name);
  if (!entry.in_memory) VN_RETURN_IF_ERROR(Reopen(entry));
  Open(entry);
  if (stack >= 0 && !entry.has_stack) {
    VN_ASSIGN_OR_RETURN(const std::uint32_t known, shared_.stacks.Find(stack, name));
    sink_->AddStack(entry.name, known);
    entry.has_stack = true;
  }
  PortReader ports(Ports(), words);
  Result<Done> read = Read(entry, text, flags, ports);
  // Even if that failed: some may be on their way, and the next call may change their memory.
  Result<Done> launched = shared_.device != nullptr ? shared_.device->Launch() : Done{};
  if (shared_.queue != nullptr && shared_.queue->has_queued()) seen |= kSeenLaunches;
  if (!read) return In(entry.name, std::move(read).error());
  if (ports.not_finite()) seen |= kSeenNotFinite;
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
}

// Records whose numbers are on a device are handed to the writer together, because each time costs as much as
// making the record.
void Step::CommitWaiting() {
  num_waiting_ = 0;
  std::vector<Entry*> finished;
  std::copy_if(open_.begin(), open_.end(), std::back_inserter(finished),
               [](const Entry* entry) { return entry->finished && IsComplete(*entry); });
  std::sort(finished.begin(), finished.end(), ByOrder);
  std::vector<Record> records;
  for (Entry* entry : finished) Commit(*entry, &records);
  AppendLater(std::move(records));
}

// The content of an entry, which is no longer open.
Step::Record Step::Take(Entry& entry, std::uint64_t sequence) {
  Record record{&entry, {}, sequence};
  if (entry.keep) {
    record.fields = entry.fields;
  } else {
    record.fields = std::exchange(entry.fields, {});
    entry.in_memory = false;
  }
  return record;
}

// On a thread of the writer: because elements that they name are still to be written, or because their
// numbers come from a device. Formatting and writing then take no time of the program that is recorded.
void Step::AppendLater(std::vector<Record> records) {
  shared_.writer.Push([this, records = std::move(records)]() -> Result<Done> {
    for (const Record& record : records) {
      if (record.sequence != 0) shared_.device->WaitFor(record.sequence);
      VN_RETURN_IF_ERROR(sink_->Append(*record.entry, record.fields));
    }
    return Done{};
  });
}

void Step::Open(Entry& entry) {
  if (entry.open_at != Entry::kNotOpen) return;
  entry.open_at = open_.size();
  open_.push_back(&entry);
}

// Numbers from a device are waited for by `later`, or here when that is null. REQUIRES: the entry is open
void Step::Commit(Entry& entry, std::vector<Record>* later) {
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
  if (sequence != 0 && later != nullptr) {
    later->push_back(Take(entry, sequence));
    return;
  }
  if (sequence != 0) shared_.device->WaitFor(sequence);
  if (!shared_.writer.idle()) {
    std::vector<Record> one;
    one.push_back(Take(entry, 0));
    return AppendLater(std::move(one));
  }
  if (stopped()) return;  // since we asked: the elements that this record names may not be there
  if (Result<Done> appended = sink_->Append(entry, entry.fields); !appended) {
    stopped_ = std::move(appended).error();
  }
  if (!entry.keep) ForgetFields(entry);
}

Result<Done> Step::Construct(std::string_view name, std::optional<std::string_view> parent,
                             std::optional<std::int64_t> micro_step) {
  sink_->SetParent(name, parent, micro_step);
  return Done{};
}

Result<Done> Step::Note(std::string_view name, std::int64_t stack) {
  VN_ASSIGN_OR_RETURN(const std::uint32_t known, shared_.stacks.Find(stack, name));
  sink_->AddStack(noted_names_.emplace_back(name), known);
  return Done{};
}

Result<Done> Step::SetState(std::string_view state) {
  JsonIndenter reader(state, nullptr);
  VN_ASSIGN_OR_RETURN(const std::string_view object, reader.RawValue());
  if (!object.starts_with('{') || !reader.AtEnd()) {
    return Error{ErrorCode::kBadArgument, "state", "not a JSON object"};
  }
  shared_.writer.Drain();
  sink_->SetState(object);
  return Done{};
}

Result<std::string> Step::Describe(std::string_view file_stem, std::span<const std::int64_t> words) {
  PortReader ports(Ports(), words);
  Field field;
  VN_RETURN_IF_ERROR(ports.ReadAlone(file_stem, field));
  std::string text;
  AppendDescriptor(field.ports.front(), field, shared_.options.summary, *sink_, text);
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

Result<Done> Step::FillSketch(std::int64_t number, std::span<const std::uint64_t, VN_SKETCH_WORDS> words) {
  VN_ASSIGN_OR_RETURN(const std::shared_ptr<Slot> slot, SlotFor(number));
  const std::size_t num_sums = shared_.options.sketch_sums;
  if (num_sums == 0 || !slot->dtype || Class(*slot->dtype) == DtypeClass::kComplex) {
    return Error{ErrorCode::kBadArgument, "slot " + std::to_string(number),
                 num_sums == 0 ? "no sketches were asked for" : "no sketch of its dtype can be filled in"};
  }
  slot->sketch = SketchFrom(words, slot->num_elements, num_sums);
  return Done{};
}

Result<Done> Step::FillFound(std::int64_t number, const cuda::Found& found) {
  VN_ASSIGN_OR_RETURN(const std::shared_ptr<Slot> slot, SlotFor(number));
  if (slot->dtype) {
    const FoundTensor tensor{*slot->dtype, slot->is_scalar, slot->num_elements, 1};
    slot->measured = MeasuredFrom(found, tensor, shared_.options);
    slot->has_numbers = true;
  }
  Complete(number, *slot);
  return Done{};
}

// REQUIRES: somebody waits for it
Place Step::PlaceOf(const Slot& slot) { return {slot.entry->name, slot.field, slot.path, slot.entry->whole}; }

Result<Done> Step::FillTensor(std::int64_t number, std::span<const std::int64_t> words,
                              StagingPool::Buffer lent) {
  VN_ASSIGN_OR_RETURN(const std::shared_ptr<Slot> slot, SlotFor(number));
  std::span<const std::int64_t> rest = words;
  VN_ASSIGN_OR_RETURN(TensorWords tensor, TakeTensor(rest));
  if (const auto first = firsts_.find(number); first != firsts_.end()) first->second = slot;
  slot->num_bytes = tensor.num_bytes();
  tensor.flags |= slot->wants_file ? kStore : kNoStore;
  tensor.storage = 0;
  Sink* const store = sink_->stores() && slot->entry != nullptr ? sink_.get() : nullptr;
  const Place place = store == nullptr ? Place{} : PlaceOf(*slot);
  Sink* const keeper = slot->wants_file ? store : nullptr;
  if (lent != nullptr && LateTensor::IsInOrder(tensor) && (keeper == nullptr || keeper->keeps())) {
    auto late = std::make_shared<LateTensor>(
        LateTensor{{words.begin(), words.end()}, {}, std::move(lent), slot, keeper, place});
    std::span<const std::int64_t> kept = late->words;
    VN_ASSIGN_OR_RETURN(late->tensor, TakeTensor(kept));
    ++shared_.totals.num_measured;
    shared_.totals.bytes_measured += tensor.num_bytes();
    if (keeper != nullptr) shared_.totals.bytes_seen += tensor.num_bytes();
    slot->from_writer = true;
    shared_.writer.PushElements(LateTensor::Jobs(std::move(late), shared_.meter), tensor.num_bytes());
    Complete(number, *slot);
    return Done{};
  }
  --shared_.totals.num_tensors;  // it was counted when it was put
  VN_ASSIGN_OR_RETURN(const TensorMeter::Taken taken,
                      shared_.meter.Measure(tensor, store, place, shared_.totals));
  slot->stored = slot->decided = taken.known.stored;
  slot->TakeNumbers(taken.known.measured, taken.sketch);
  Complete(number, *slot);
  return Done{};
}

Result<std::int64_t> Step::FindSame(std::int64_t number, std::span<const std::int64_t> words,
                                    std::uint32_t crc32, std::uint64_t xor64) {
  VN_ASSIGN_OR_RETURN(const TensorWords tensor, TakeTensor(words));
  if (!tensor.dtype || tensor.num_elements == 0 || !shared_.options.dedup) return 0;
  if (sink_->stores() && !sink_->keeps()) return 0;
  const auto [first, is_new] = first_with_.try_emplace(
      {*tensor.dtype, {tensor.shape.begin(), tensor.shape.end()}, crc32, xor64}, number);
  if (!is_new) return first->second;
  firsts_[number] = nullptr;
  return 0;
}

Result<Done> Step::FillSame(std::int64_t number, std::int64_t same) {
  VN_ASSIGN_OR_RETURN(const std::shared_ptr<Slot> slot, SlotFor(number));
  const auto first = firsts_.find(same);
  const bool is_there = first != firsts_.end() && first->second != nullptr;
  if (!is_there || (slot->wants_file && !first->second->wants_file)) {
    return Error{ErrorCode::kBadArgument, "slot " + std::to_string(same),
                 is_there ? "its elements are not stored" : "nothing was filled into it"};
  }
  Sink* const store = slot->wants_file && slot->entry != nullptr ? sink_.get() : nullptr;
  const Place place = store == nullptr ? Place{} : PlaceOf(*slot);
  if (store != nullptr) {
    shared_.totals.bytes_seen += first->second->num_bytes;
    shared_.totals.bytes_saved += first->second->num_bytes;
  }
  slot->from_writer = true;
  shared_.writer.PushElements(SameTensor::Jobs({slot, first->second, store, place}), 0);
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
  Result<Done> arranged = Arrange();
  Result<Done> flushed = sink_->Flush(!stopped());
  if (stopped()) return *stopped_;
  VN_RETURN_IF_ERROR(arranged);
  if (shared_.device != nullptr) VN_RETURN_IF_ERROR(shared_.device->TakeFailure());
  return flushed;
}

// REQUIRES: the writer is idle
Result<Done> Step::Arrange() {
  if (!out_of_order_) return Done{};
  std::vector<Entry*> committed;
  for (Entry& entry : entries_) {
    if (entry.committed) committed.push_back(&entry);
  }
  std::sort(committed.begin(), committed.end(), ByOrder);
  VN_RETURN_IF_ERROR(sink_->Arrange(committed));
  out_of_order_ = false;
  return Done{};
}

void Step::KeepUp() {
  if (stopped()) return;
  if (num_waiting_ > 0) CommitWaiting();
  if (Result<Done> kept = sink_->KeepUp(); !kept) stopped_ = std::move(kept).error();
}

}  // namespace vernier

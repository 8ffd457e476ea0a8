// Everything recorded into one folder: its entries, their order, and when each goes to the sink.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "record/device_meter.h"
#include "record/earlier_files.h"
#include "record/entry.h"
#include "record/kernel_queue.h"
#include "record/late_tensor.h"
#include "record/loans.h"
#include "record/ports.h"
#include "record/side_files.h"
#include "record/sink.h"
#include "record/tensor_files.h"
#include "record/tensor_meter.h"
#include "record/writer.h"
#include "vernier/record.h"

namespace vernier {

// What a recorder keeps from one step folder to the next.
struct RecorderShared {
  explicit RecorderShared(RecorderOptions chosen)
      : options(std::move(chosen)), floor(options), meter(options), writer(options.num_writers) {}

  RecorderOptions options;
  DiskFloor floor;
  StackTable stacks;
  RecordTotals totals;
  LateTotals late_totals;
  EarlierFiles earlier;
  Loans loans;
  TensorMeter meter;
  std::unique_ptr<DeviceMeter> device;  // null: not used
  KernelQueue* queue = nullptr;         // of `device`, where the program launches
  Writer writer;                        // last, because its jobs use what is above
};

// Used by one thread at a time. Drains the writer before it goes.
class Step {
 public:
  // Opens the sink: the folder and its files are there.
  static Result<std::unique_ptr<Step>> Create(RecorderShared& shared, RecordFolder where);
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  ~Step();

  const std::filesystem::path& folder() const { return folder_; }
  Result<Done> Put(std::string_view name, std::string_view text, std::span<const std::int64_t> words,
                   std::int64_t stack, std::uint32_t flags, std::uint32_t& seen);
  Result<Done> Construct(std::string_view name, std::optional<std::string_view> parent,
                         std::optional<std::int64_t> micro_step);
  Result<Done> Note(std::string_view name, std::int64_t stack);
  Result<Done> SetState(std::string_view state);
  Result<std::string> Describe(std::string_view file_stem, std::span<const std::int64_t> words);
  Result<Done> Fill(std::int64_t slot, std::span<const FilledValue, 4> values,
                    std::optional<std::uint64_t> digest);
  Result<Done> FillSketch(std::int64_t slot, std::span<const std::uint64_t, VN_SKETCH_WORDS> words);
  Result<Done> FillFound(std::int64_t slot, const cuda::Found& found);
  // `lent`: the memory of the tensor, which stays as it is while somebody holds that; null: until the return.
  Result<Done> FillTensor(std::int64_t slot, std::span<const std::int64_t> words, StagingPool::Buffer lent);
  Result<std::int64_t> FindSame(std::int64_t slot, std::span<const std::int64_t> words, std::uint32_t crc32,
                                std::uint64_t xor64);
  Result<Done> FillSame(std::int64_t slot, std::int64_t same);
  Result<Done> Flush();
  // What is finished goes into files, as far as it did not yet. Recording stops when that fails.
  void KeepUp();

  // Set once nothing more can be written; what is there stays as it is.
  const std::optional<Error>& stopped();

 private:
  // A finished record on its way to the sink.
  struct Record {
    Entry* entry;
    std::vector<Field> fields;
    std::uint64_t sequence;  // of DeviceMeter, to be waited for; 0: none
  };
  // What two tensors share that are taken to be the same.
  struct Checksums {
    Dtype dtype;
    std::vector<std::int64_t> shape;
    std::uint32_t crc32;
    std::uint64_t xor64;
    friend auto operator<=>(const Checksums&, const Checksums&) = default;
  };
  Step(RecorderShared& shared, std::filesystem::path folder, std::unique_ptr<Sink> sink);

  Entry& EntryFor(std::string_view name);
  Field& FreshField();
  void ForgetFields(Entry& entry);
  Result<Done> Reopen(Entry& entry);
  Result<Done> Read(Entry& entry, std::string_view text, std::uint32_t flags, PortReader& ports);
  void Apply(Entry& entry, std::uint32_t flags);
  void Release(Field& field);
  PortContext Ports();
  void Open(Entry& entry);
  void Commit(Entry& entry, std::vector<Record>* later);
  static Record Take(Entry& entry, std::uint64_t sequence);
  void AppendLater(std::vector<Record> records);
  void CommitWaiting();
  void CommitIfComplete(Entry& entry);
  Result<std::shared_ptr<Slot>> SlotFor(std::int64_t number) const;
  static Place PlaceOf(const Slot& slot);
  void Complete(std::int64_t number, Slot& slot);
  Result<Done> Arrange();

  RecorderShared& shared_;
  const std::filesystem::path folder_;
  std::deque<Entry> entries_;
  std::unordered_map<std::string_view, Entry*> by_name_;
  Entry* last_ = nullptr;     // that was put to: the next Put is often for it
  std::vector<Entry*> open_;  // not committed, or changed since; in no order
  std::vector<Field> fresh_;  // of the Put that is going on
  std::vector<Field> spare_;  // used up, kept for their memory, like the next one
  std::vector<std::vector<Field>> spare_lists_;
  Slots slots_;
  std::map<Checksums, std::int64_t> first_with_;                    // these checksums: its slot
  std::unordered_map<std::int64_t, std::shared_ptr<Slot>> firsts_;  // by their slots; null: not filled yet
  std::uint64_t next_order_ = 0, last_written_order_ = 0;
  bool out_of_order_ = false;  // what the sink has is, or holds what was replaced
  std::optional<Error> stopped_;

  std::deque<std::string> noted_names_;  // that have a stack and no entry
  std::size_t num_waiting_ = 0;          // finished, for numbers of a device
  std::unique_ptr<Sink> sink_;           // last, because the names above outlive it
};

}  // namespace vernier

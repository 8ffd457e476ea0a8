// Where the records of one folder go. The recorder decides what belongs to a record, its place among the
// others and when it is finished; a sink decides how that lies on the disk.
//
// A sink promises that
// - a record it was given is there from then on, whatever becomes of the process; what it keeps in memory
//   beside them (stacks, parents) follows with the next KeepUp();
// - a call that fails leaves what was written before as it was. The recorder stops then.
// The recorder promises that
// - calls come one at a time, but for Append(), Keep() and KeepAgain(): these come from the writer's threads
// as
//   long as the writer is busy, one Append() and one of the others at a time, and run beside Store(),
//   StoreAgain(), Drop(), AddStack(), SetParent() and KeepUp();
// - KeepUp() comes about once a second as long as recording goes on;
// - the jobs that Store() pushes to the writer have run before a record that names their elements comes.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "record/entry.h"
#include "record/staging_pool.h"
#include "vernier/measure.h"
#include "vernier/record.h"

namespace vernier {

class DiskFloor;
class EarlierFiles;
class StackTable;
class Writer;

// What is counted on the writer's threads, beside RecordTotals.
struct LateTotals {
  std::atomic<std::uint64_t> num_files{0}, bytes_stored{0}, bytes_saved{0};
};

// What a sink may use of the recorder, which outlives it.
struct SinkContext {
  const RecorderOptions& options;
  Writer& writer;
  DiskFloor& floor;
  const StackTable& stacks;
  RecordTotals& totals;
  LateTotals& late_totals;
  EarlierFiles& earlier;
};

// Which tensor of which record. A tensor on its own has a path only.
struct Place {
  std::string_view record, field, path;
  bool whole = false;  // Entry::whole
};

// A copy of a tensor, in C order.
struct Elements {
  Dtype dtype{};
  std::span<const std::int64_t> shape;
  std::uint32_t crc32 = 0;
  StagingPool::Buffer bytes;
  TensorStats stats;  // with RecorderOptions::full_statistics
  std::optional<std::uint64_t> xor64 = std::nullopt;
};

// Where elements will be, and what is left to do for it: on any thread, beside others. That says where they
// are in the end.
struct Kept {
  Stored* stored = nullptr;
  std::function<Result<Stored*>()> write;
};

class Sink {
 public:
  virtual ~Sink() = default;

  // ---- records
  // A finished record; `fields` are its content (entry.fields may be elsewhere by now). One that came before
  // is replaced.
  virtual Result<Done> Append(Entry& entry, std::span<const Field> fields) = 0;
  // The fields of a record that was appended, so that it can be added to.
  virtual Result<std::vector<Field>> Reopen(const Entry& entry) = 0;
  // Puts all records into this order. REQUIRES, like all that follow: the writer is idle
  virtual Result<Done> Arrange(std::span<Entry* const> entries) = 0;
  // Recording pauses: everything is in files, nothing is locked. `complete`: false when records were lost, so
  // that what they would have replaced must stay.
  virtual Result<Done> Flush(bool complete) = 0;

  // ---- elements of tensors; only when stores()
  virtual bool stores() const = 0;
  // Keeps them for `place`: as they are, or by what it knows to hold the same.
  virtual Stored& Store(const Place& place, Elements elements) = 0;
  // Whether Keep() and KeepAgain() may be called.
  virtual bool keeps() const { return false; }
  // As Store(), for a job of the writer with this number: the same is kept whichever thread is fast.
  virtual Kept Keep(const Place&, Elements, std::uint64_t) { return {}; }
  // As StoreAgain(), like Keep().
  virtual Kept KeepAgain(const Place&, Stored&, std::uint64_t) { return {}; }
  // The same elements at another place.
  virtual Stored& StoreAgain(const Place& place, Stored& known) = 0;
  // One place fewer names them.
  virtual void Drop(Stored& stored) = 0;
  // The data_name of these elements in the tensor's description.
  virtual std::string_view NameOf(const Stored& stored) const = 0;

  // ---- beside the records. Names outlive the sink.
  virtual void AddStack(std::string_view name, std::uint32_t stack) = 0;  // of StackTable
  virtual void SetParent(std::string_view name, std::optional<std::string_view> parent,
                         std::optional<std::int64_t> micro_step) = 0;
  // Everything that was given is in files, though perhaps not yet as Flush() will leave it.
  virtual Result<Done> KeepUp() = 0;
  // What holds for the whole step: autocast, random numbers, ... `state`: a compact JSON object. REQUIRES:
  // the writer is idle
  virtual void SetState(std::string_view state) = 0;
};

}  // namespace vernier

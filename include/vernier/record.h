// record: a running program's tensors -> a dump folder. The program hands over what it sees, as it sees it;
// everything written is readable at every moment, whatever happens to the program. See
// docs/formats/msprobe_dump.md for the files.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "vernier/c_api.h"
#include "vernier/result.h"

namespace vernier {

class Sink;  // src/record/sink.h: where records go
struct SinkContext;
struct RecordFolder;

enum class SummaryMode { kStatistics, kMd5, kXor };  // "md5" is CRC-32, and comes beside the statistics

struct DiskSpace {
  std::uint64_t free_bytes = 0, total_bytes = 0;
};
Result<DiskSpace> DiskSpaceAt(const std::filesystem::path& folder);

struct RecorderOptions {
  // What changes what is written.
  SummaryMode summary = SummaryMode::kStatistics;
  bool high_precision = false;       // Mean and Norm in double, of integers and float64 too
  bool tensors = false;              // write a file for each tensor
  bool dedup = true;                 // write equal tensors of a folder once
  bool full_statistics = false;      // measure what is stored as measure.h does, instead of as torch would
  std::size_t sketch_sums = 0;       // of a sketch beside statistics: 8, 16, 32 or 64; 0: none
  bool identity = false;             // write identity.jsonl: which tensors are the same memory
  std::int64_t diff_nums = 1;        // with a reference: stop after so many calls that differ; -1: never
  std::int64_t min_free_bytes = -1;  // stop below; -1: 5 GiB or 5 % of the disk, whichever is less
  // What only changes the speed.
  int num_threads = 0;  // that measure large tensors; 0: OpenMP's, or one per core
  int num_writers = 0;  // threads that write tensor files, at most; 0: the cores but two, 16 at most
  std::uint64_t staging_bytes = std::uint64_t{1} << 30;  // of tensors that wait for the writer
  // Where the records of each folder go; empty: files as in docs/formats/msprobe_dump.md.
  std::function<Result<std::unique_ptr<Sink>>(const SinkContext&, RecordFolder)> open_sink;
  // For tests.
  std::function<Result<DiskSpace>(const std::filesystem::path&)> disk_space = DiskSpaceAt;
  // What is finished goes into files this often. docs/record.md promises it after two seconds.
  std::chrono::milliseconds keep_up_every{1000};
};

// One folder of one step and rank.
struct RecordFolder {
  std::filesystem::path folder;
  std::string file = "dump.json";
  std::string header;  // compact JSON: the members that open the document
  std::optional<std::string> dump_data_dir;
  bool stack = true, construct = true;  // write stack.json, construct.json
};

// What a call is beside the same call of a reference.
struct LiveVerdict {
  bool store = false, stop = false;
  std::uint64_t num_found = 0;  // calls in which a difference began, in all steps
  std::string says;             // lines to be shown; empty: nothing
};
struct LiveSummary {
  bool is_problem = false;
  std::string says;
};

struct RecordTotals {
  std::uint64_t num_records = 0, num_tensors = 0, num_measured = 0, num_files = 0;
  std::uint64_t bytes_seen = 0, bytes_stored = 0, bytes_saved = 0;
  std::uint64_t bytes_measured = 0;  // of elements that were read
};

// Flags of a tensor in the words of Put, and of Put itself: c_api.h says what they mean.
enum TensorFlags : std::uint32_t {
  kRequiresGrad = VN_TENSOR_REQUIRES_GRAD,
  kNoData = VN_TENSOR_NO_DATA,
  kDeferred = VN_TENSOR_DEFERRED,
  kStore = VN_TENSOR_STORE,
  kNoStore = VN_TENSOR_NO_STORE,
  kCopyFollows = VN_TENSOR_COPY_FOLLOWS,
  kOnDevice = VN_TENSOR_ON_DEVICE,
  kArray = VN_TENSOR_ARRAY,
  kParameter = VN_TENSOR_PARAMETER,
  kPlaced = VN_TENSOR_PLACED,
};
enum PutFlags : std::uint32_t {
  kFinish = VN_PUT_FINISH,
  kMoveToEnd = VN_PUT_MOVE_TO_END,
  kReplace = VN_PUT_REPLACE,
  kWhole = VN_PUT_WHOLE,
  kKeep = VN_PUT_KEEP,
  kRepeated = VN_PUT_REPEATED,
};
enum SeenFlags : std::uint32_t {
  kSeenNotFinite = VN_SEEN_NOT_FINITE,
  kSeenStopped = VN_SEEN_STOPPED,
  kSeenLaunches = VN_SEEN_LAUNCHES
};

// A statistic computed elsewhere, for Fill.
struct FilledValue {
  enum Kind : std::uint8_t {
    kNull = VN_CELL_NONE,
    kBool = VN_CELL_BOOL,
    kInt = VN_CELL_INT,
    kUint = VN_CELL_UINT,
    kDouble = VN_CELL_DOUBLE
  } kind = kNull;
  std::int64_t bits = 0;  // of kDouble: the bits of a double
};

// c_api.h says what each call does. Thread-safe.
class Recorder {
 public:
  static Result<std::unique_ptr<Recorder>> Open(RecorderOptions options);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();  // as End(), but for a process that was forked off

  Result<Done> Begin(RecordFolder where);
  Result<Done> CompareWith(std::filesystem::path folder);
  Result<LiveVerdict> CompareCall(std::string_view name, std::string_view parts, std::uint64_t found_before);
  Result<LiveSummary> Compared();
  Result<Done> Put(std::string_view name, std::string_view text, std::span<const std::int64_t> words,
                   std::int64_t stack, std::uint32_t flags, std::uint32_t& seen);
  Result<Done> Construct(std::string_view name, std::optional<std::string_view> parent,
                         std::optional<std::int64_t> micro_step = std::nullopt);
  Result<Done> Note(std::string_view name, std::int64_t stack);
  Result<Done> SetState(std::string_view state);
  Result<Done> DeclareStack(std::int64_t stack, std::string_view frames_json);
  Result<Done> UseCuda(const std::string& compiler_path);
  Result<Done> UseKernels(void* ring, std::uint64_t ring_on_device);
  std::vector<std::int64_t> TakeLaunches();
  // A number for TakeChecksums; 0: they cannot be computed where the tensor is.
  std::uint64_t BeginChecksums(std::span<const std::int64_t> words);
  std::optional<std::pair<std::uint32_t, std::uint64_t>> TakeChecksums(std::uint64_t number);
  void Lose(std::uint64_t first, std::uint64_t count, Error why);
  static std::uint64_t DeviceDtypes();
  static std::span<const std::uint32_t> KernelTables();
  Result<std::string> Describe(std::string_view file_stem, std::span<const std::int64_t> words);
  Result<Done> Fill(std::int64_t slot, std::span<const FilledValue, 4> values,
                    std::optional<std::uint64_t> digest);
  Result<Done> FillSketch(std::int64_t slot, std::span<const std::uint64_t, VN_SKETCH_WORDS> words);
  Result<Done> FillFound(std::int64_t slot, std::span<const std::uint64_t, 8> words);
  Result<Done> FillTensor(std::int64_t slot, std::span<const std::int64_t> words);
  Result<Done> LendTensor(std::int64_t slot, std::span<const std::int64_t> words);
  std::size_t TakeReturned(std::span<std::int64_t> slots, bool wait);
  Result<std::int64_t> FindSame(std::int64_t slot, std::span<const std::int64_t> words, std::uint32_t crc32,
                                std::uint64_t xor64);
  Result<Done> FillSame(std::int64_t slot, std::int64_t same);
  Result<Done> Flush();
  Result<Done> End();
  RecordTotals Totals() const;

 private:
  struct Impl;
  explicit Recorder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace vernier

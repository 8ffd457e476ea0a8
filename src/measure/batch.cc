// Pairs and tensors as tasks of chunks.
#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "core/mapped_file.h"
#include "measure/accumulate_internal.h"
#include "measure/chunk_queue_internal.h"
#include "vernier/measure.h"

namespace vernier {
namespace {

using internal::ActiveKernels;
using internal::ChunkQueue;
using internal::kChunkNumbers;
using internal::Reader;

// Smaller mappings go away with their tensor; there is no need to let go of them piece by piece.
constexpr std::size_t kReleaseFilesAboveBytes = std::size_t{32} << 20;

std::uint64_t NumChunks(std::uint64_t num_numbers) {
  return std::max<std::uint64_t>(1, (num_numbers + kChunkNumbers - 1) / kChunkNumbers);
}

// Letting go of pages interrupts every core, so it is done for this many chunks at a time.
constexpr std::uint64_t kChunksPerRelease = 16;

// The bytes of one chunk of one tensor, brought into memory in one go; only their number where there is no
// such place.
std::span<const std::byte> FetchChunk(const TensorView& view, const Reader& reader, std::uint64_t first,
                                      std::uint64_t count) {
  const std::size_t begin = reader.OffsetBytes(first), end = reader.OffsetBytes(first + count);
  if (view.source != nullptr) return {static_cast<const std::byte*>(nullptr), end - begin};
  const std::span<const std::byte> bytes(view.data + begin, end - begin);
  if (view.file != nullptr) view.file->Fetch(bytes);
  return bytes;
}

// Lets go of the chunks that have been read, a run of them at a time: whoever finishes the last of a run does
// it.
class ReadRuns {
 public:
  explicit ReadRuns(std::uint64_t num_chunks)
      : num_chunks_(num_chunks), done_((num_chunks + kChunksPerRelease - 1) / kChunksPerRelease) {}

  void Finished(std::uint64_t chunk,
                std::initializer_list<std::pair<const TensorView*, const Reader*>> sides) {
    const std::uint64_t run = chunk / kChunksPerRelease, first = run * kChunksPerRelease;
    const std::uint64_t end = std::min(first + kChunksPerRelease, num_chunks_);
    if (done_[run].fetch_add(1, std::memory_order_acq_rel) + 1 != end - first) return;
    for (const auto& [view, reader] : sides) {
      if (view->source != nullptr || view->file == nullptr ||
          view->file->bytes().size() <= kReleaseFilesAboveBytes)
        continue;
      const std::size_t begin = reader->OffsetBytes(first * kChunkNumbers);
      const std::size_t past = reader->OffsetBytes(std::min(end * kChunkNumbers, reader->num_numbers));
      view->file->Release({view->data + begin, past - begin});
    }
  }

 private:
  std::uint64_t num_chunks_;
  std::vector<std::atomic<std::uint32_t>> done_;
};

Result<Done> CheckUnchanged(const TensorView& view) {
  if (view.file != nullptr && view.file->changed()) {
    return Error{ErrorCode::kFileChanged, view.file->path(), ""};
  }
  return Done{};
}

class PairTask {
 public:
  using Output = PairMeasures;

  static Result<std::unique_ptr<PairTask>> Open(LoadedPair pair, const MeasureOptions& options) {
    VN_ASSIGN_OR_RETURN(internal::PairPlan plan, internal::PlanPair(pair.target, pair.golden, options));
    return std::make_unique<PairTask>(std::move(pair), plan);
  }

  PairTask(LoadedPair pair, const internal::PairPlan& plan)
      : pair_(std::move(pair)), plan_(plan), chunks_(NumChunks(plan_.target.num_numbers)) {}

  std::uint64_t num_chunks() const { return chunks_.size(); }

  std::uint64_t RunChunk(std::uint64_t k) {
    const std::uint64_t first = k * kChunkNumbers;
    const std::uint64_t count = std::min(kChunkNumbers, plan_.target.num_numbers - first);
    const std::size_t num_bytes = FetchChunk(pair_.target, plan_.target, first, count).size() +
                                  FetchChunk(pair_.golden, plan_.golden, first, count).size();
    chunks_[k] = MeasurePairChunk(plan_, ActiveKernels(), first, count);
    read_.Finished(k, {{&pair_.target, &plan_.target}, {&pair_.golden, &plan_.golden}});
    return num_bytes;
  }

  Result<PairMeasures> Finish() {
    VN_RETURN_IF_ERROR(CheckUnchanged(pair_.target));
    VN_RETURN_IF_ERROR(CheckUnchanged(pair_.golden));
    PairMeasures total = chunks_.front();
    for (std::size_t k = 1; k < chunks_.size(); ++k) internal::Merge(total, chunks_[k]);
    // Special positions were zero on both sides when closeness was counted.
    if (plan_.options.groups.Has(Group::kClose)) total.num_close -= total.num_special_mismatches();
    if (plan_.options.groups.Has(Group::kErrors)) total.num_error_above += total.num_special_mismatches();
    if (plan_.is_complex) {
      total.max_abs_diff_index /= 2;
      if (total.first_special_mismatch != kNoIndex) total.first_special_mismatch /= 2;
    }
    return total;
  }

 private:
  LoadedPair pair_;
  internal::PairPlan plan_;
  std::vector<PairMeasures> chunks_;
  ReadRuns read_{chunks_.size()};
};

class StatsTask {
 public:
  using Output = TensorStats;

  StatsTask(TensorView view, const StatsOptions& options)
      : view_(std::move(view)),
        crc32_(options.crc32),
        zeros_(options.zeros),
        reader_(internal::MakeReader(view_, {options.real_part_only, options.as_float32, false})),
        chunks_(NumChunks(reader_.num_numbers)) {}

  std::uint64_t num_chunks() const { return chunks_.size(); }

  std::uint64_t RunChunk(std::uint64_t k) {
    const std::uint64_t first = k * kChunkNumbers;
    const std::uint64_t count = std::min(kChunkNumbers, reader_.num_numbers - first);
    const std::span<const std::byte> bytes = FetchChunk(view_, reader_, first, count);
    chunks_[k] = MeasureTensorChunk(reader_, ActiveKernels(), first, count, zeros_);
    if (crc32_) chunks_[k].crc32 = view_.source == nullptr ? Crc32(bytes) : CollectedCrc32(first, count);
    read_.Finished(k, {{&view_, &reader_}});
    return bytes.size();
  }

  Result<TensorStats> Finish() {
    VN_RETURN_IF_ERROR(CheckUnchanged(view_));
    TensorStats total = chunks_.front();
    for (std::size_t k = 1; k < chunks_.size(); ++k) {
      internal::Merge(total, chunks_[k]);
      const std::uint64_t next = k * kChunkNumbers;
      const std::size_t num_bytes =
          reader_.OffsetBytes(next + chunks_[k].num_elements) - reader_.OffsetBytes(next);
      total.crc32 = static_cast<std::uint32_t>(
          crc32_combine(total.crc32, chunks_[k].crc32, static_cast<z_off_t>(num_bytes)));
    }
    return total;
  }

 private:
  // Of numbers that are whole elements: chunks are cut at even numbers.
  std::uint32_t CollectedCrc32(std::uint64_t first, std::uint64_t count) const {
    constexpr std::uint64_t kElements = internal::kBlockElements;
    const bool in_twos = reader_.parts == internal::Parts::kAll && reader_.element != reader_.number;
    std::uint64_t next = in_twos ? first / 2 : first;
    const std::uint64_t end = next + (in_twos ? count / 2 : count);
    std::vector<std::byte> bytes(kElements * ItemBytes(view_.dtype));
    std::uint32_t crc = 0;
    for (; next < end; next += kElements) {
      const auto n = static_cast<std::size_t>(std::min(kElements, end - next));
      view_.source->Read(next, n, bytes.data());
      crc = Crc32(std::span(bytes).first(n * ItemBytes(view_.dtype)), crc);
    }
    return crc;
  }

  TensorView view_;
  bool crc32_, zeros_;
  Reader reader_;
  std::vector<TensorStats> chunks_;
  ReadRuns read_{chunks_.size()};
};

template <class Task>
auto ProgressOf(const BatchHooks& hooks) -> typename ChunkQueue<Task>::OnProgress {
  if (!hooks.on_progress) return nullptr;
  return [&hooks](std::uint64_t items, std::uint64_t bytes) { hooks.on_progress({items, bytes}); };
}

// One task on the calling thread, unless it is worth more.
template <class Task>
Result<typename Task::Output> RunOne(std::unique_ptr<Task> task, int num_threads) {
  const auto threads = static_cast<int>(
      std::min<std::uint64_t>(static_cast<std::uint64_t>(NumThreads(num_threads)), task->num_chunks()));
  Result<typename Task::Output> output = Error{ErrorCode::kInternal, "", "nothing was measured"};
  ChunkQueue<Task> queue(
      1, [&](std::size_t) -> Result<std::unique_ptr<Task>> { return std::move(task); },
      [&](std::size_t, const Result<typename Task::Output>& result) { output = result; }, nullptr, {});
  queue.Run(threads);
  return output;
}

template <class W>
void ReadBlocks(const TensorView& tensor, std::uint64_t first, std::size_t count, W* out) {
  const Reader reader = internal::MakeReader(tensor, {false, std::is_same_v<W, float>, false});
  for (std::size_t done = 0; done < count; done += internal::kBlockElements) {
    const std::size_t n = std::min(internal::kBlockElements, count - done);
    const W* values = internal::ReadBlock(reader, first + done, n, ActiveKernels(), out + done);
    if (values != out + done) std::memcpy(out + done, values, n * sizeof(W));
  }
}

}  // namespace

void ReadNumbers(const TensorView& tensor, std::uint64_t first, std::size_t count, float* out) {
  ReadBlocks(tensor, first, count, out);
}
void ReadNumbers(const TensorView& tensor, std::uint64_t first, std::size_t count, double* out) {
  ReadBlocks(tensor, first, count, out);
}

std::uint32_t Crc32(std::span<const std::byte> bytes, std::uint32_t crc) {
  return libdeflate_crc32(crc, bytes.data(), bytes.size());
}

Result<PairMeasures> MeasurePair(const TensorView& target, const TensorView& golden,
                                 const MeasureOptions& options) {
  VN_ASSIGN_OR_RETURN(std::unique_ptr<PairTask> task, PairTask::Open({target, golden}, options));
  return RunOne(std::move(task), options.num_threads);
}

Result<TensorStats> MeasureTensor(const TensorView& tensor, const StatsOptions& options) {
  return RunOne(std::make_unique<StatsTask>(tensor, options), options.num_threads);
}

void MeasurePairs(std::size_t num_pairs, const LoadPair& load, const MeasureOptions& options,
                  const PairSink& sink, const BatchHooks& hooks) {
  const auto open = [&](std::size_t index) -> Result<std::unique_ptr<PairTask>> {
    VN_ASSIGN_OR_RETURN(LoadedPair pair, load(index));
    return PairTask::Open(std::move(pair), options);
  };
  ChunkQueue<PairTask>(num_pairs, open, sink, ProgressOf<PairTask>(hooks), hooks.stop)
      .Run(NumThreads(options.num_threads));
}

void MeasureTensors(std::size_t num_tensors, const LoadTensor& load, const StatsOptions& options,
                    const StatsSink& sink, const BatchHooks& hooks) {
  const auto open = [&](std::size_t index) -> Result<std::unique_ptr<StatsTask>> {
    VN_ASSIGN_OR_RETURN(TensorView view, load(index));
    return std::make_unique<StatsTask>(std::move(view), options);
  };
  ChunkQueue<StatsTask>(num_tensors, open, sink, ProgressOf<StatsTask>(hooks), hooks.stop)
      .Run(NumThreads(options.num_threads));
}

}  // namespace vernier

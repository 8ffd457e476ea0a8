#include "record/kernel_queue.h"

#include <algorithm>
#include <array>
#include <utility>

namespace vernier {
namespace {

using Clock = std::chrono::steady_clock;

// A device from which nothing has come for so long while we wait has failed: the program itself has no better
// way to know from another thread.
constexpr std::chrono::minutes kLongestSilence{2};
constexpr std::int64_t kNoBlock = std::int64_t{1} << 40;  // the first block of a job that is not there
constexpr unsigned kLayoutShift = 24, kAxesShift = 32, kWideShift = 40;

// The kernel is compiled for these numbers of axes.
unsigned RoundedAxes(unsigned num_axes) { return num_axes <= 2 ? 2 : num_axes <= 4 ? 4 : cuda::kMaxAxes; }

std::int64_t VariantOf(const cuda::Job& job) {
  const bool is_one_run = job.layout == cuda::kOneRun;
  const std::uint64_t axes = is_one_run ? 1 : RoundedAxes(job.num_axes);
  // Offsets of elements are computed in 32 bits where they fit, which is much faster.
  std::uint64_t reach = job.num_elements + cuda::kVectorBytes;
  for (unsigned i = 0; i < job.num_axes; ++i) {
    reach += static_cast<std::uint64_t>((job.axes[i].size - 1) * job.axes[i].stride);
  }
  const std::uint64_t wide = !is_one_run && reach >= (std::uint64_t{1} << 31) ? 1 : 0;
  return static_cast<std::int64_t>(job.kind | job.item_bytes << 8 | job.wanted << 16 |
                                   std::uint64_t{job.layout} << kLayoutShift | axes << kAxesShift |
                                   wide << kWideShift);
}

}  // namespace

KernelQueue::KernelQueue(FoundRing ring) : ring_(ring), last_sign_(Clock::now().time_since_epoch()) {}

Result<FoundRing> KernelQueue::Prepare(std::int64_t) { return ring_; }

bool KernelQueue::FitsIn(const cuda::Job& first, unsigned num_jobs, const cuda::Job& next) const {
  return num_jobs < kMaxJobs && first.layout == cuda::kOneRun && VariantOf(first) == VariantOf(next);
}

Result<Launcher::Launched> KernelQueue::Launch(const DeviceStream& stream, Jobs& jobs, unsigned num_blocks) {
  const cuda::Job& first = jobs.jobs[0];
  Queued& queued = by_thread_[std::this_thread::get_id()];
  std::vector<std::int64_t>& words = queued.words;
  if (words.empty()) queued.first = first.sequence;
  words.insert(words.end(), {stream.device, stream.stream, num_blocks, jobs.num_jobs, VariantOf(first),
                             static_cast<std::int64_t>(first.sequence)});
  for (std::size_t i = 0; i < kMaxJobs; ++i) {
    const bool is_there = i < jobs.num_jobs;
    const cuda::Job& job = jobs.jobs[is_there ? i : 0];
    words.insert(words.end(),
                 {static_cast<std::int64_t>(job.data), static_cast<std::int64_t>(job.num_elements),
                  static_cast<std::int64_t>(job.vectors_per_block)});
    if (i > 0) words.push_back(is_there ? job.first_block : kNoBlock);
  }
  // Axes of one element come before those of the tensor, so that the kernel's loop ends with the first.
  const unsigned padding = first.num_axes == 0 ? 0 : RoundedAxes(first.num_axes) - first.num_axes;
  std::array<cuda::Axis, cuda::kMaxAxes> axes;
  axes.fill({1, 0});
  for (unsigned i = 0; i < first.num_axes; ++i) axes[padding + i] = first.axes[i];
  for (const cuda::Axis& axis : axes) words.push_back(axis.size);
  for (const cuda::Axis& axis : axes) words.push_back(axis.stride);
  last_queued_ = jobs.jobs[jobs.num_jobs - 1].sequence;
  return Launched::kDone;
}

bool KernelQueue::HasArrived(const cuda::Found& found, std::uint64_t sequence) const {
  constexpr std::size_t kNumWords = sizeof(cuda::Found) / sizeof(unsigned long long);
  auto* const words = reinterpret_cast<unsigned long long*>(const_cast<cuda::Found*>(&found));
  const auto read = [&](std::size_t i) {
    return std::atomic_ref<unsigned long long>(words[i]).load(std::memory_order_acquire);
  };
  if (read(offsetof(cuda::Found, sequence) / sizeof(unsigned long long)) != sequence) return false;
  // Words of a device come in any order: only together are they zero.
  unsigned long long all = 0;
  for (std::size_t i = 0; i < kNumWords; ++i) all ^= read(i);
  if (all == 0) last_sign_ = Clock::now().time_since_epoch();
  return all == 0;
}

bool KernelQueue::HasSketch(const std::uint64_t* words, std::uint64_t sequence) const {
  auto* const changing = const_cast<std::uint64_t*>(words);
  std::uint64_t all = sequence;
  for (std::size_t i = 0; i < cuda::kSketchWords; ++i)
    all ^= std::atomic_ref<std::uint64_t>(changing[i]).load(std::memory_order_acquire);
  return all == 0;
}

Launcher::StreamState KernelQueue::Ask(const DeviceStream&) {
  if (Clock::now().time_since_epoch() - last_sign_.load() < kLongestSilence) return {true, ""};
  return {false, "nothing came from it for two minutes: numbers are missing from here on"};
}

std::vector<std::int64_t> KernelQueue::Take() {
  auto queued = by_thread_.extract(std::this_thread::get_id());
  std::uint64_t taken = last_queued_;
  for (const auto& [thread, waiting] : by_thread_) taken = std::min(taken, waiting.first - 1);
  taken_ = taken;
  if (queued.empty()) return {};
  last_sign_ = Clock::now().time_since_epoch();
  return std::move(queued.mapped().words);
}

std::span<const std::uint32_t> TablesByHalfBytes() {
  static const std::vector<std::uint32_t> tables = [] {
    const cuda::CrcTables& by_bytes = cuda::TablesForCrc();
    std::vector<std::uint32_t> made;
    for (const auto* table : {&by_bytes.step, &by_bytes.word}) {
      for (const auto& of_byte : *table) {
        for (unsigned value = 0; value < 16; ++value) made.push_back(of_byte[value]);
        for (unsigned value = 0; value < 16; ++value) made.push_back(of_byte[value << 4]);
      }
    }
    made.insert(made.end(), std::begin(by_bytes.place), std::end(by_bytes.place));
    for (const auto& of_byte : by_bytes.power)
      made.insert(made.end(), std::begin(of_byte), std::end(of_byte));
    return made;
  }();
  return tables;
}

}  // namespace vernier

// The recorder as its callers see it: folders begun and ended, records put, errors kept away from the model.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <exception>
#include <mutex>
#include <utility>

#include "record/cuda_launcher.h"
#include "record/live_comparison.h"
#include "record/step.h"
#include "record/ticker.h"
#include "vernier/record.h"

namespace vernier {
namespace {

constexpr std::uint64_t kLookEveryCalls = 64;

}  // namespace

// One lock around everything: calls are short, and the long ones, measuring a large tensor, use every core
// themselves.
struct Recorder::Impl {
  explicit Impl(RecorderOptions options) : shared(std::move(options)) {}

  // Runs `fn` on the open step unless recording has stopped; the first caller after that hears why.
  template <class Fn>
  Result<Done> OnStep(std::uint32_t& seen, Fn&& fn) {
    const std::scoped_lock lock(mutex);
    if (step == nullptr) {
      return Error{ErrorCode::kBadArgument, "the recorder", "no folder is open: begin one first"};
    }
    if (!step->stopped()) {
      Result<Done> result = fn(*step);
      if (!has_ticker) KeepUpNowAndThen();
      if (!step->stopped()) return result;
    }
    seen |= kSeenStopped;
    if (std::exchange(stop_was_told, true)) return Done{};
    return *step->stopped();
  }
  template <class Fn>
  Result<Done> OnStep(Fn&& fn) {
    std::uint32_t seen = 0;
    return OnStep(seen, std::forward<Fn>(fn));
  }

  // On the ticker's thread.
  void KeepUp() {
    const std::scoped_lock lock(mutex);
    try {
      if (step != nullptr) step->KeepUp();
    } catch (const std::exception&) {  // no memory: the next record will say so
    }
  }

  // REQUIRES: mutex is held, for these
  // Where the system has no thread for the ticker, calls of the program do its work.
  void KeepUpNowAndThen() {
    if (++num_calls % kLookEveryCalls != 0) return;
    const auto now = std::chrono::steady_clock::now();
    if (now < keep_up_due) return;
    step->KeepUp();
    keep_up_due = now + shared.options.keep_up_every;
  }
  Result<Done> Flush() {
    if (step == nullptr) return Done{};
    Result<Done> result = step->Flush();
    if (step->stopped() && std::exchange(stop_was_told, true)) return Done{};
    return result;
  }
  Result<Done> End() {
    Result<Done> result = Flush();
    step.reset();
    shared.meter.Forget();
    return result;
  }

  const pid_t process = getpid();
  std::mutex mutex;
  RecorderShared shared;
  std::unique_ptr<Step> step;
  std::optional<LiveComparison> live;
  std::unordered_map<std::uint64_t, DeviceMeter::Checksums> checksums;  // begun
  bool stop_was_told = false;
  bool has_ticker = false;
  std::uint64_t num_calls = 0;  // without a ticker
  std::chrono::steady_clock::time_point keep_up_due;
  Ticker ticker;  // last, because it uses what is above
};

Recorder::Recorder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Recorder::~Recorder() {
  if (impl_->process == getpid()) {
    (void)End();
  } else {
    (void)impl_.release();  // the threads and the files belong to the parent
  }
}

Result<std::unique_ptr<Recorder>> Recorder::Open(RecorderOptions options) {
  return std::unique_ptr<Recorder>(new Recorder(std::make_unique<Impl>(std::move(options))));
}

Result<Done> Recorder::Begin(RecordFolder where) {
  const std::scoped_lock lock(impl_->mutex);
  std::error_code problem;
  where.folder = std::filesystem::absolute(where.folder, problem).lexically_normal();
  if (impl_->step != nullptr && impl_->step->folder() == where.folder) return Done{};
  VN_RETURN_IF_ERROR(impl_->End());
  VN_ASSIGN_OR_RETURN(impl_->step, Step::Create(impl_->shared, std::move(where)));
  impl_->stop_was_told = false;
  impl_->has_ticker =
      impl_->ticker.Start(impl_->shared.options.keep_up_every, [impl = impl_.get()] { impl->KeepUp(); });
  return Done{};
}

Result<Done> Recorder::CompareWith(std::filesystem::path folder) {
  const std::scoped_lock lock(impl_->mutex);
  if (!impl_->live) impl_->live.emplace(impl_->shared.options.diff_nums);
  return impl_->live->BeginStep(std::move(folder));
}

static Error NoReference() {
  return {ErrorCode::kBadArgument, "the recorder", "there is nothing to compare with"};
}

Result<LiveVerdict> Recorder::CompareCall(std::string_view name, std::string_view parts,
                                          std::uint64_t found_before) {
  const std::scoped_lock lock(impl_->mutex);
  if (!impl_->live) return NoReference();
  return impl_->live->Compare(name, parts, found_before,
                              impl_->step != nullptr ? impl_->step->folder() : std::filesystem::path());
}

Result<LiveSummary> Recorder::Compared() {
  const std::scoped_lock lock(impl_->mutex);
  if (!impl_->live) return NoReference();
  return impl_->live->Summary();
}

Result<Done> Recorder::Put(std::string_view name, std::string_view text, std::span<const std::int64_t> words,
                           std::int64_t stack, std::uint32_t flags, std::uint32_t& seen) {
  return impl_->OnStep(seen, [&](Step& step) { return step.Put(name, text, words, stack, flags, seen); });
}

Result<Done> Recorder::Note(std::string_view name, std::int64_t stack) {
  return impl_->OnStep([&](Step& step) { return step.Note(name, stack); });
}

Result<Done> Recorder::SetState(std::string_view state) {
  return impl_->OnStep([&](Step& step) { return step.SetState(state); });
}

Result<Done> Recorder::Construct(std::string_view name, std::optional<std::string_view> parent,
                                 std::optional<std::int64_t> micro_step) {
  return impl_->OnStep([&](Step& step) { return step.Construct(name, parent, micro_step); });
}

Result<Done> Recorder::DeclareStack(std::int64_t stack, std::string_view frames_json) {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->shared.stacks.Declare(stack, frames_json);
}

Result<std::string> Recorder::Describe(std::string_view file_stem, std::span<const std::int64_t> words) {
  std::string text = "null";  // once recording has stopped
  VN_RETURN_IF_ERROR(impl_->OnStep([&](Step& step) -> Result<Done> {
    VN_ASSIGN_OR_RETURN(text, step.Describe(file_stem, words));
    return Done{};
  }));
  return text;
}

Result<Done> Recorder::Fill(std::int64_t slot, std::span<const FilledValue, 4> values,
                            std::optional<std::uint64_t> digest) {
  return impl_->OnStep([&](Step& step) { return step.Fill(slot, values, digest); });
}

Result<Done> Recorder::FillSketch(std::int64_t slot, std::span<const std::uint64_t, VN_SKETCH_WORDS> words) {
  return impl_->OnStep([&](Step& step) { return step.FillSketch(slot, words); });
}

Result<Done> Recorder::FillFound(std::int64_t slot, std::span<const std::uint64_t, 8> words) {
  const auto found = std::bit_cast<cuda::Found>(std::to_array<std::uint64_t>(
      {words[0], words[1], words[2], words[3], words[4], words[5], words[6], words[7]}));
  return impl_->OnStep([&](Step& step) { return step.FillFound(slot, found); });
}

Result<Done> Recorder::FillTensor(std::int64_t slot, std::span<const std::int64_t> words) {
  return impl_->OnStep([&](Step& step) { return step.FillTensor(slot, words, nullptr); });
}

// Whatever becomes of the call, the memory comes back when nobody has it any more.
Result<Done> Recorder::LendTensor(std::int64_t slot, std::span<const std::int64_t> words) {
  StagingPool::Buffer lent = impl_->shared.loans.Borrow(words.empty() ? 0 : words.front(), slot);
  return impl_->OnStep([&](Step& step) { return step.FillTensor(slot, words, std::move(lent)); });
}

std::size_t Recorder::TakeReturned(std::span<std::int64_t> slots, bool wait) {
  return impl_->shared.loans.TakeReturned(slots, wait);
}

Result<std::int64_t> Recorder::FindSame(std::int64_t slot, std::span<const std::int64_t> words,
                                        std::uint32_t crc32, std::uint64_t xor64) {
  std::int64_t found = 0;
  VN_RETURN_IF_ERROR(impl_->OnStep([&](Step& step) -> Result<Done> {
    VN_ASSIGN_OR_RETURN(found, step.FindSame(slot, words, crc32, xor64));
    return Done{};
  }));
  return found;
}

Result<Done> Recorder::FillSame(std::int64_t slot, std::int64_t same) {
  return impl_->OnStep([&](Step& step) { return step.FillSame(slot, same); });
}

Result<Done> Recorder::UseCuda(const std::string& compiler_path) {
  const std::scoped_lock lock(impl_->mutex);
  RecorderShared& shared = impl_->shared;
  if (shared.device != nullptr) return Done{};
  VN_ASSIGN_OR_RETURN(std::unique_ptr<Launcher> launcher,
                      CudaLauncher::Create(compiler_path, shared.options.sketch_sums != 0));
  shared.device = std::make_unique<DeviceMeter>(shared.options, std::move(launcher));
  return Done{};
}

Result<Done> Recorder::UseKernels(void* ring, std::uint64_t ring_on_device) {
  const std::scoped_lock lock(impl_->mutex);
  RecorderShared& shared = impl_->shared;
  if (shared.device != nullptr) {
    return Error{ErrorCode::kBadArgument, "the recorder", "tensors on devices are measured already"};
  }
  auto* const found = static_cast<cuda::Found*>(ring);
  std::fill_n(found, FoundRing::kPlaces, cuda::Found{});
  FoundRing places{found, ring_on_device};
  if (shared.options.sketch_sums != 0) {
    places.sketches = static_cast<const std::uint64_t*>(ring) + VN_RING_WORDS;
    places.sketches_on_device = ring_on_device + VN_RING_WORDS * sizeof(std::uint64_t);
  }
  auto queue = std::make_unique<KernelQueue>(places);
  shared.queue = queue.get();
  shared.device = std::make_unique<DeviceMeter>(shared.options, std::move(queue));
  return Done{};
}

std::vector<std::int64_t> Recorder::TakeLaunches() {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->shared.queue == nullptr ? std::vector<std::int64_t>() : impl_->shared.queue->Take();
}

std::uint64_t Recorder::BeginChecksums(std::span<const std::int64_t> words) {
  const std::scoped_lock lock(impl_->mutex);
  RecorderShared& shared = impl_->shared;
  if (shared.device == nullptr) return 0;
  const Result<TensorWords> tensor = TakeTensor(words);
  Result<DeviceMeter::Checksums> begun =
      tensor ? shared.device->MeasureChecksums(*tensor) : Result<DeviceMeter::Checksums>(tensor.error());
  if (!begun) return 0;
  const std::uint64_t number = begun->xor64->sequence;
  impl_->checksums.emplace(number, *std::move(begun));
  return number;
}

std::optional<std::pair<std::uint32_t, std::uint64_t>> Recorder::TakeChecksums(std::uint64_t number) {
  std::optional<DeviceMeter::Checksums> begun;
  {
    const std::scoped_lock lock(impl_->mutex);
    if (const auto found = impl_->checksums.extract(number)) begun = found.mapped();
  }
  // Not under the lock: other threads go on while the device computes.
  const auto values = begun ? begun->Take(*impl_->shared.device) : std::nullopt;
  if (!values) return std::nullopt;
  return std::pair(values->crc32, values->xor64);
}

void Recorder::Lose(std::uint64_t first, std::uint64_t count, Error why) {
  // Not under the lock: whoever holds it may be waiting for these.
  if (DeviceMeter* const device = impl_->shared.device.get()) device->Lose(first, count, std::move(why));
}

std::uint64_t Recorder::DeviceDtypes() { return DeviceMeter::SupportedDtypes(); }
std::span<const std::uint32_t> Recorder::KernelTables() { return TablesByHalfBytes(); }

Result<Done> Recorder::Flush() {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->Flush();
}

Result<Done> Recorder::End() {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->End();
}

RecordTotals Recorder::Totals() const {
  const std::scoped_lock lock(impl_->mutex);
  RecordTotals totals = impl_->shared.totals;
  const LateTotals& late = impl_->shared.late_totals;
  totals.num_files += late.num_files;
  totals.bytes_stored += late.bytes_stored;
  totals.bytes_saved += late.bytes_saved;
  return totals;
}

}  // namespace vernier

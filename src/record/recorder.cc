#include <unistd.h>

#include <mutex>
#include <utility>

#include "record/step.h"
#include "vernier/record.h"

namespace vernier {
namespace {

Error NothingBegun() {
  return Error{ErrorCode::kBadArgument, "the recorder", "no folder is open: begin one first"};
}

}  // namespace

// One lock around everything: calls are short, and the long ones, measuring a large tensor, use every core
// themselves.
class Recorder::Impl {
 public:
  explicit Impl(RecorderOptions options) : shared_(std::move(options)) {}

  bool IsMine() const { return getpid() == process_; }

  Result<Done> Begin(RecordFolder where) {
    const std::scoped_lock lock(mutex_);
    std::error_code problem;
    where.folder = std::filesystem::absolute(where.folder, problem).lexically_normal();
    if (step_ != nullptr && step_->folder() == where.folder) return Done{};
    VN_RETURN_IF_ERROR(EndLocked());
    VN_ASSIGN_OR_RETURN(step_, Step::Create(shared_, std::move(where)));
    stop_was_told_ = false;
    return Done{};
  }

  Result<Done> Move(const std::filesystem::path& folder, std::optional<std::string> dump_data_dir) {
    const std::scoped_lock lock(mutex_);
    if (step_ == nullptr) return NothingBegun();
    std::error_code problem;
    return step_->Move(std::filesystem::absolute(folder, problem).lexically_normal(),
                       std::move(dump_data_dir));
  }

  // Runs `fn` on the open step unless recording has stopped; the first caller after that hears why.
  template <class Fn>
  Result<Done> OnStep(std::uint32_t& seen, Fn&& fn) {
    const std::scoped_lock lock(mutex_);
    if (step_ == nullptr) return NothingBegun();
    if (!step_->stopped()) {
      Result<Done> result = fn(*step_);
      if (!step_->stopped()) return result;
    }
    seen |= kSeenStopped;
    if (std::exchange(stop_was_told_, true)) return Done{};
    return *step_->stopped();
  }
  template <class Fn>
  Result<Done> OnStep(Fn&& fn) {
    std::uint32_t seen = 0;
    return OnStep(seen, std::forward<Fn>(fn));
  }

  Result<Done> DeclareStack(std::int64_t stack, std::string_view frames_json) {
    const std::scoped_lock lock(mutex_);
    return shared_.stacks.Declare(stack, frames_json);
  }

  Result<Done> UseCuda(const std::string& compiler_path) {
    const std::scoped_lock lock(mutex_);
    if (shared_.cuda != nullptr) return Done{};
    VN_ASSIGN_OR_RETURN(shared_.cuda, CudaMeter::Create(shared_.options, compiler_path));
    return Done{};
  }

  Result<Done> Flush() {
    const std::scoped_lock lock(mutex_);
    return FlushLocked();
  }

  Result<Done> End() {
    const std::scoped_lock lock(mutex_);
    return EndLocked();
  }

  RecordTotals Totals() {
    const std::scoped_lock lock(mutex_);
    return shared_.totals;
  }

 private:
  Result<Done> FlushLocked() {
    if (step_ == nullptr) return Done{};
    Result<Done> result = step_->Flush();
    if (step_->stopped() && std::exchange(stop_was_told_, true)) return Done{};
    return result;
  }

  Result<Done> EndLocked() {
    Result<Done> result = FlushLocked();
    step_.reset();
    shared_.meter.Forget();
    if (shared_.cuda != nullptr) shared_.cuda->Forget();
    return result;
  }

  const pid_t process_ = getpid();
  std::mutex mutex_;
  RecorderShared shared_;
  std::unique_ptr<Step> step_;
  bool stop_was_told_ = false;
};

Recorder::Recorder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Recorder::~Recorder() {
  if (impl_->IsMine()) {
    (void)impl_->End();
  } else {
    (void)impl_.release();  // the threads and the files belong to the parent
  }
}

Result<std::unique_ptr<Recorder>> Recorder::Open(RecorderOptions options) {
  return std::unique_ptr<Recorder>(new Recorder(std::make_unique<Impl>(std::move(options))));
}

Result<Done> Recorder::Begin(const RecordFolder& folder) { return impl_->Begin(folder); }

Result<Done> Recorder::Move(const std::filesystem::path& folder, std::optional<std::string> dump_data_dir) {
  return impl_->Move(folder, std::move(dump_data_dir));
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
  return impl_->DeclareStack(stack, frames_json);
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

Result<Done> Recorder::FillTensor(std::int64_t slot, std::span<const std::int64_t> words) {
  return impl_->OnStep([&](Step& step) { return step.FillTensor(slot, words); });
}

Result<Done> Recorder::UseCuda(const std::string& compiler_path) { return impl_->UseCuda(compiler_path); }
std::uint64_t Recorder::CudaDtypes() { return CudaMeter::SupportedDtypes(); }
Result<Done> Recorder::Flush() { return impl_->Flush(); }
Result<Done> Recorder::End() { return impl_->End(); }
RecordTotals Recorder::Totals() const { return impl_->Totals(); }

}  // namespace vernier

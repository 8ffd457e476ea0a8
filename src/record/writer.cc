#include "record/writer.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

namespace vernier {
namespace {

constexpr int kMostThreads = 16;
constexpr int kCoresOfTheModel = 2;
// Waking a thread takes as long as writing a small file: another one is worth it when this much waits.
constexpr std::uint64_t kWorthAThread = std::uint64_t{1} << 20;
constexpr std::uint64_t kBytesOfAFile = std::uint64_t{16} << 10;  // that take as long as making the file

std::size_t MaxThreads(int asked) {
  if (asked > 0) return static_cast<std::size_t>(asked);
  const int num_cores = static_cast<int>(std::thread::hardware_concurrency());
  return static_cast<std::size_t>(std::clamp(num_cores - kCoresOfTheModel, 1, kMostThreads));
}

Error NoMemory(const std::exception& exception) {
  return Error{ErrorCode::kTooLarge, "the writer of the recorder", exception.what()};
}

// Only the standard library throws, and only for lack of memory.
Result<Done> RunSafely(const Writer::Job& job) {
  try {
    return job();
  } catch (const std::exception& exception) {
    return NoMemory(exception);
  }
}

}  // namespace

Writer::Writer(int max_threads) : max_threads_(MaxThreads(max_threads)) { threads_.reserve(max_threads_); }

Writer::~Writer() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  has_work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool Writer::StartThread() {
  if (threads_.size() >= max_threads_) return false;
  try {
    threads_.emplace_back([this] { Work(); });
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

// Asks again each time: the system may have one later.
bool Writer::HasThread() { return !threads_.empty() || StartThread(); }

bool Writer::WakeOne() {
  if (num_sleeping_ == 0) return false;
  --num_sleeping_;
  has_work_.notify_one();
  return true;
}

// Small jobs are left to the thread that is awake.
void Writer::WakeForWork() {
  const bool all_sleep = num_sleeping_ >= threads_.size();
  if (!all_sleep && waiting_bytes_ < kWorthAThread) return;
  if (!WakeOne()) StartThread();
}

std::uint64_t Writer::Push(Job record) {
  Item item;
  item.in_order = true;
  item.job = std::move(record);
  return Add(std::move(item));
}

std::uint64_t Writer::PushElements(Job write, std::uint64_t num_bytes) {
  Item item;
  item.num_bytes = num_bytes + kBytesOfAFile;
  item.job = std::move(write);
  return Add(std::move(item));
}

std::uint64_t Writer::PushElements(Undecided elements, std::uint64_t num_bytes) {
  Item item;
  item.num_bytes = num_bytes + kBytesOfAFile;
  item.measured = false;
  item.job = std::move(elements.measure);
  item.decide = std::move(elements.decide);
  return Add(std::move(item));
}

std::uint64_t Writer::Add(Item fresh) {
  std::unique_lock lock(mutex_);
  fresh.number = next_number_++;
  const std::uint64_t number = fresh.number;
  if (!HasThread()) {
    if (!fresh.measured) {
      Fail(number, RunJob(fresh, lock));
      Decide(fresh, lock);
    }
    Fail(number, RunJob(fresh, lock));
    return number;
  }
  Item& item = items_.emplace_back(std::move(fresh));
  if (!item.measured) undecided_.push_back(&item);
  if (!item.in_order) {
    (item.measured ? to_write_ : to_measure_).push_back(&item);
    waiting_bytes_ += item.num_bytes;
  }
  num_pending_.fetch_add(1, std::memory_order_release);
  WakeForWork();
  return number;
}

void Writer::Drain() {
  std::unique_lock lock(mutex_);
  is_idle_.wait(lock, [&] { return idle(); });
}

std::optional<Error> Writer::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

void Writer::ForgetFailure() {
  const std::scoped_lock lock(mutex_);
  failure_.reset();
  failed_at_.store(kNone, std::memory_order_release);
}

// The failure that counts is the one of the job pushed first, whichever is noticed first.
void Writer::Fail(std::uint64_t number, Result<Done> result) {
  if (result || number > failed_at()) return;
  failure_ = std::move(result).error();
  failed_at_.store(number, std::memory_order_release);
}

// Unless one before it has failed. Memory that the job holds is given back before anyone hears of its end.
Result<Done> Writer::RunJob(Item& item, std::unique_lock<std::mutex>& lock) {
  Job job = std::exchange(item.job, nullptr);
  const bool skip = job == nullptr || item.number > failed_at();
  lock.unlock();
  Result<Done> result = skip ? Done{} : RunSafely(job);
  job = nullptr;
  lock.lock();
  return result;
}

void Writer::Decide(Item& item, std::unique_lock<std::mutex>& lock) {
  std::function<Job(std::uint64_t)> decide = std::exchange(item.decide, nullptr);
  const bool skip = item.number >= failed_at();
  Result<Done> result = Done{};
  lock.unlock();
  try {
    if (!skip) item.job = decide(item.number);
  } catch (const std::exception& exception) {
    result = NoMemory(exception);
  }
  decide = nullptr;
  lock.lock();
  Fail(item.number, std::move(result));
}

// By whichever thread has measured the one that the others wait for.
void Writer::DecideInOrder(std::unique_lock<std::mutex>& lock) {
  if (deciding_) return;
  deciding_ = true;
  while (!undecided_.empty() && undecided_.front()->measured) {
    Item& item = *undecided_.front();
    undecided_.pop_front();
    Decide(item, lock);
    to_write_.push_back(&item);
    waiting_bytes_ += item.num_bytes;
    WakeForWork();
  }
  deciding_ = false;
}

// What is measured is written first, so that its memory comes back.
Writer::Item* Writer::Next() {
  if (!items_.empty() && items_.front().in_order && !std::exchange(items_.front().taken, true)) {
    return &items_.front();
  }
  for (std::deque<Item*>* const queue : {&to_write_, &to_measure_}) {
    if (queue->empty()) continue;
    Item* const item = queue->front();
    queue->pop_front();
    waiting_bytes_ -= item->num_bytes;
    return item;
  }
  return nullptr;
}

void Writer::Finish(Item& item) {
  item.done = true;
  while (!items_.empty() && items_.front().done) items_.pop_front();
  if (num_pending_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  is_idle_.notify_all();
  if (stopping_) has_work_.notify_all();
}

void Writer::Run(Item& item, std::unique_lock<std::mutex>& lock) {
  Fail(item.number, RunJob(item, lock));
  if (item.measured) return Finish(item);
  item.measured = true;
  DecideInOrder(lock);
}

void Writer::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (Item* const item = Next()) {
      Run(*item, lock);
    } else if (stopping_ && num_pending_ == 0) {
      return;
    } else {
      ++num_sleeping_;  // whoever wakes one takes it back; more than there are does no harm
      has_work_.wait(lock);
    }
  }
}

}  // namespace vernier

#include "core/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "core/atomic_file.h"
#include "core/descriptor.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; older kernels answer EINVAL and fault page by page
#endif

namespace vernier {
namespace {

// Below this, two read() calls cost less than mapping, faulting and unmapping.
constexpr std::size_t kReadInsteadOfMapBytes = std::size_t{64} << 10;

// What the SIGBUS handler knows. A fixed table of atomics, because a handler may neither lock nor allocate.
struct FaultSlot {
  std::atomic<std::uintptr_t> begin{0}, end{0};  // begin 0: free; 1: being filled
  std::atomic<bool> faulted{false};
};
constexpr int kNumFaultSlots = 8192;
FaultSlot fault_slots[kNumFaultSlots];
std::atomic<int> fault_slot_hint{0};
struct sigaction previous_handler;
const std::uintptr_t page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));

void OnBusError(int signal_number, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (FaultSlot& slot : fault_slots) {
    const std::uintptr_t begin = slot.begin.load(std::memory_order_acquire);
    if (begin <= 1 || address < begin || address >= slot.end.load(std::memory_order_acquire)) continue;
    void* page = reinterpret_cast<void*>(address & ~(page_bytes - 1));
    if (mmap(page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
      break;
    slot.faulted.store(true, std::memory_order_release);
    return;
  }
  if (previous_handler.sa_flags & SA_SIGINFO)
    return previous_handler.sa_sigaction(signal_number, info, context);
  if (previous_handler.sa_handler == SIG_DFL || previous_handler.sa_handler == SIG_IGN) {
    signal(SIGBUS,
           SIG_DFL);  // the fault happens again on return and ends the process as it would have without us
    return;
  }
  previous_handler.sa_handler(signal_number);
}

void InstallHandlerOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous_handler);
  });
}

int TakeFaultSlot(const std::byte* data, std::size_t size_bytes) {
  InstallHandlerOnce();
  const int first = fault_slot_hint.load(std::memory_order_relaxed);
  for (int i = 0; i < kNumFaultSlots; ++i) {
    const int index = (first + i) % kNumFaultSlots;
    FaultSlot& slot = fault_slots[index];
    std::uintptr_t free_mark = 0;
    if (!slot.begin.compare_exchange_strong(free_mark, 1)) continue;
    slot.faulted.store(false);
    slot.end.store(reinterpret_cast<std::uintptr_t>(data) + size_bytes);
    slot.begin.store(reinterpret_cast<std::uintptr_t>(data), std::memory_order_release);
    fault_slot_hint.store((index + 1) % kNumFaultSlots, std::memory_order_relaxed);
    return index;
  }
  return -1;
}

Result<std::vector<std::byte>> ReadWhole(int fd, std::size_t size_bytes, const std::string& path) {
  std::vector<std::byte> bytes(size_bytes);
  std::size_t filled = 0;
  while (filled < size_bytes) {
    const ssize_t got = read(fd, bytes.data() + filled, size_bytes - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError(path, errno);
    if (got == 0) return Error{ErrorCode::kFileChanged, path, "it became shorter"};
    filled += static_cast<std::size_t>(got);
  }
  return bytes;
}

std::int64_t Nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

// The pages that touch `window`, or with `inside` only those that lie in it wholly.
std::span<std::byte> Pages(std::span<const std::byte> window, bool inside) {
  auto begin = reinterpret_cast<std::uintptr_t>(window.data());
  std::uintptr_t end = begin + window.size();
  begin = inside ? (begin + page_bytes - 1) & ~(page_bytes - 1) : begin & ~(page_bytes - 1);
  if (inside) end &= ~(page_bytes - 1);
  if (begin >= end) return {};
  return {reinterpret_cast<std::byte*>(begin), end - begin};
}

}  // namespace

Result<FileRef> MappedFile::Open(std::string path) {
  // Without O_NONBLOCK, opening a pipe that nobody writes to would hang before we could see that it is one.
  const Descriptor descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.get() < 0) return ErrnoError(path, errno);
  struct stat status;
  if (fstat(descriptor.get(), &status) != 0) return ErrnoError(path, errno);
  if (S_ISDIR(status.st_mode)) return Error{ErrorCode::kIo, path, "is a directory"};
  if (!S_ISREG(status.st_mode)) return Error{ErrorCode::kUnsupported, path, "not a regular file"};

  const auto size_bytes = static_cast<std::size_t>(status.st_size);
  if (size_bytes < kReadInsteadOfMapBytes) {
    VN_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, ReadWhole(descriptor.get(), size_bytes, path));
    return FromBytes(std::move(bytes), std::move(path), Nanoseconds(status.st_mtim));
  }
  void* data = mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, descriptor.get(), 0);
  if (data == MAP_FAILED) return ErrnoError(path, errno);
  const int slot = TakeFaultSlot(static_cast<const std::byte*>(data), size_bytes);
  if (slot < 0) {
    munmap(data, size_bytes);
    return Error{ErrorCode::kIo, path, "too many files are mapped at once"};
  }
  auto* file = new MappedFile();
  file->path_ = std::move(path);
  file->data_ = static_cast<const std::byte*>(data);
  file->size_ = size_bytes;
  file->fault_slot_ = slot;
  file->inode_ = status.st_ino;
  file->modified_ns_ = Nanoseconds(status.st_mtim);
  return FileRef(file);
}

FileRef MappedFile::FromBytes(std::vector<std::byte> bytes, std::string name, std::int64_t modified_ns) {
  auto* file = new MappedFile();
  file->path_ = std::move(name);
  file->owned_ = std::move(bytes);
  file->data_ = file->owned_.data();
  file->size_ = file->owned_.size();
  file->modified_ns_ = modified_ns;
  return FileRef(file);
}

MappedFile::~MappedFile() {
  if (fault_slot_ < 0) return;
  // The slot first: once unmapped, the addresses may be those of another thread's mapping.
  fault_slots[fault_slot_].begin.store(0, std::memory_order_release);
  munmap(const_cast<std::byte*>(data_), size_);
}

bool MappedFile::changed() const {
  if (fault_slot_ < 0) return false;
  if (fault_slots[fault_slot_].faulted.load(std::memory_order_acquire)) return true;
  // Written in place: same file, newer contents. A file renamed over ours leaves our mapping as it was.
  struct stat now;
  if (stat(path_.c_str(), &now) != 0 || now.st_ino != inode_) return false;
  return static_cast<std::size_t>(now.st_size) != size_ || Nanoseconds(now.st_mtim) != modified_ns_;
}

void MappedFile::Fetch(std::span<const std::byte> window) const {
  if (fault_slot_ < 0) return;
  const std::span<std::byte> pages = Pages(window, /*inside=*/false);
  if (!pages.empty()) madvise(pages.data(), pages.size(), MADV_POPULATE_READ);
}

void MappedFile::Release(std::span<const std::byte> window) const {
  if (fault_slot_ < 0) return;
  const std::span<std::byte> pages = Pages(window, /*inside=*/true);
  if (!pages.empty()) madvise(pages.data(), pages.size(), MADV_DONTNEED);
}

}  // namespace vernier

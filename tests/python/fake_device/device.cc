// A device for torch that is neither the CPU nor CUDA: "fake:0" and "fake:1", for the tests of recording.
//
// The CPU computes for it, so every result has the same bits as on the CPU. What makes it a device is its
// memory: the address of a tensor cannot be read or written, so code that takes it for memory of the host
// ends with a segmentation fault; and a copy to the host that need not block has not arrived before its
// stream, an event behind it or the device was waited for.

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/mman.h>
#include <torch/library.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace {

using at::IntArrayRef;
using at::Tensor;
template <class T>
using Optional = c10::optional<T>;

constexpr auto kFake = c10::DeviceType::PrivateUse1;
constexpr c10::DeviceIndex kNumDevices = 2;

thread_local c10::DeviceIndex current_device = 0;
thread_local c10::StreamId current_streams[kNumDevices] = {};

// ---- memory: of two halves of the same size, the first is what torch knows, the second holds the elements.

struct Block {
  char* address;
  size_t half_bytes;
};

std::atomic<size_t> used_bytes{0};
std::atomic<size_t> limit_bytes{SIZE_MAX};

void FreeBlock(void* context) {
  const auto* block = static_cast<Block*>(context);
  used_bytes -= block->half_bytes;
  munmap(block->address, 2 * block->half_bytes);
  delete block;
}

struct FakeAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t num_bytes) override {
    const c10::Device device(kFake, current_device);
    if (num_bytes == 0) return {nullptr, nullptr, &c10::detail::deleteNothing, device};
    const size_t page_bytes = sysconf(_SC_PAGESIZE);
    const size_t half_bytes = (num_bytes + page_bytes - 1) / page_bytes * page_bytes;
    TORCH_CHECK_WITH(OutOfMemoryError, used_bytes + half_bytes <= limit_bytes, "fake device: out of memory, ",
                     num_bytes, " bytes wanted");
    void* address = mmap(nullptr, 2 * half_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(address != MAP_FAILED, "fake device: no address space for ", num_bytes, " bytes");
    used_bytes += half_bytes;
    auto* block = new Block{static_cast<char*>(address), half_bytes};
    mprotect(block->address + half_bytes, half_bytes, PROT_READ | PROT_WRITE);
    return {address, block, &FreeBlock, device};
  }
  c10::DeleterFnPtr raw_deleter() const { return nullptr; }
  void copy_data(void*, const void*, std::size_t) const { TORCH_CHECK(false, "fake device: no raw copies"); }
};
FakeAllocator allocator;
REGISTER_ALLOCATOR(kFake, &allocator);

// The same elements as a tensor of the CPU. Only the device itself may look there.
Tensor Inside(const Tensor& tensor) {
  if (!tensor.is_privateuseone()) return tensor;
  const auto options = tensor.options().device(at::kCPU).pinned_memory(false);
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  const auto* block = static_cast<const Block*>(tensor.storage().data_ptr().get_context());
  char* elements = static_cast<char*>(tensor.data_ptr()) + block->half_bytes;
  Tensor inside = at::from_blob(elements, tensor.sizes(), tensor.strides(), options);
  if (tensor.is_conj()) inside._set_conj(true);
  if (tensor.is_neg()) inside._set_neg(true);
  return inside;
}

// Memory of the host that is said to be pinned.
struct PinnedAllocator final : c10::Allocator {
  static std::map<const char*, size_t>& Blocks() {
    static auto* blocks = new std::map<const char*, size_t>;
    return *blocks;
  }
  static std::mutex& Lock() {
    static auto* lock = new std::mutex;
    return *lock;
  }
  c10::DataPtr allocate(size_t num_bytes) override {
    auto* address = new char[num_bytes + 1];
    const std::lock_guard guard(Lock());
    Blocks()[address] = num_bytes + 1;
    return {address, address, &Free, at::kCPU};
  }
  static void Free(void* address) {
    const std::lock_guard guard(Lock());
    Blocks().erase(static_cast<char*>(address));
    delete[] static_cast<char*>(address);
  }
  static bool Holds(const void* address) {
    const std::lock_guard guard(Lock());
    auto after = Blocks().upper_bound(static_cast<const char*>(address));
    if (after == Blocks().begin()) return false;
    --after;
    return static_cast<const char*>(address) < after->first + after->second;
  }
  c10::DeleterFnPtr raw_deleter() const { return &Free; }
  void copy_data(void* to, const void* from, std::size_t num_bytes) const {
    std::memcpy(to, from, num_bytes);
  }
};
PinnedAllocator pinned_allocator;

// ---- copies to the host that are on their way

using StreamKey = std::pair<c10::DeviceIndex, c10::StreamId>;
StreamKey Key(const c10::Stream& stream) { return {stream.device_index(), stream.id()}; }

struct Delivery {
  Tensor elements, destination;
  std::set<StreamKey> streams;  // who waits for one of them waits for this copy
  size_t number;
};
struct Event {
  StreamKey stream;
  size_t number;  // of the last copy before it
};
std::mutex deliveries_lock;
std::vector<Delivery>& Deliveries() {
  static auto* deliveries = new std::vector<Delivery>;
  return *deliveries;
}
size_t num_deliveries = 0;

bool IsBefore(const Delivery& delivery, const Event& event) {
  return delivery.number <= event.number && delivery.streams.count(event.stream) != 0;
}

template <class Wanted>
void Deliver(Wanted wanted) {
  const std::lock_guard guard(deliveries_lock);
  auto& all = Deliveries();
  const auto rest = std::stable_partition(all.begin(), all.end(), wanted);
  for (auto delivery = all.begin(); delivery != rest; ++delivery)
    delivery->destination.copy_(delivery->elements);
  all.erase(all.begin(), rest);
}

void SynchronizeStream(StreamKey stream) {
  Deliver([&](const Delivery& delivery) { return delivery.streams.count(stream) != 0; });
}

Tensor CopyFrom(const Tensor& source, const Tensor& destination, bool non_blocking) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (source.is_privateuseone() && destination.is_cpu()) {
    const StreamKey stream{source.get_device(), current_streams[source.get_device()]};
    if (non_blocking) {
      Tensor elements = Inside(source).clone();
      const std::lock_guard guard(deliveries_lock);
      Deliveries().push_back({std::move(elements), destination.detach(), {stream}, ++num_deliveries});
      return destination;
    }
    SynchronizeStream(stream);
  }
  Inside(destination).copy_(Inside(source));
  return destination;
}

// ---- operators that the CPU cannot do for the device

Tensor Empty(IntArrayRef size, Optional<at::ScalarType> dtype, Optional<at::Layout>,
             Optional<at::Device> device, Optional<bool>, Optional<at::MemoryFormat> memory_format) {
  const c10::OptionalDeviceGuard guard(device);
  const c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return at::detail::empty_generic(size, &allocator, keys, at::dtype_or_default(dtype), memory_format);
}

Tensor EmptyStrided(IntArrayRef size, IntArrayRef stride, Optional<at::ScalarType> dtype,
                    Optional<at::Layout>, Optional<at::Device> device, Optional<bool>) {
  const c10::OptionalDeviceGuard guard(device);
  const c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return at::detail::empty_strided_generic(size, stride, &allocator, keys, at::dtype_or_default(dtype));
}

void ResizeBytes(c10::StorageImpl* storage, size_t num_bytes) {
  const c10::OptionalDeviceGuard guard(storage->device());
  c10::DataPtr larger = allocator.allocate(num_bytes);
  const auto* from = static_cast<const Block*>(storage->data_ptr().get_context());
  const auto* to = static_cast<const Block*>(larger.get_context());
  const size_t num_kept = std::min(num_bytes, storage->nbytes());
  if (num_kept != 0) std::memcpy(to->address + to->half_bytes, from->address + from->half_bytes, num_kept);
  storage->set_data_ptr(std::move(larger));
  storage->set_nbytes(num_bytes);
}

const Tensor& Resize(const Tensor& self, IntArrayRef size, Optional<at::MemoryFormat> memory_format) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(size);
  if (memory_format) impl->empty_tensor_restride(*memory_format);
  const size_t num_bytes = (self.storage_offset() + self.numel()) * self.element_size();
  auto* storage = self.storage().unsafeGetStorageImpl();
  if (self.numel() != 0 && num_bytes > storage->nbytes()) ResizeBytes(storage, num_bytes);
  return self;
}

Tensor CopyFromAndResize(const Tensor& source, const Tensor& destination) {
  if (destination.sizes() != source.sizes()) destination.resize_(source.sizes());
  return CopyFrom(source, destination, false);
}

void RecordStream(Tensor&, at::Stream) {}

// Everything else: on copies, by the CPU. As on every device, tensors of two devices do not meet in one
// operator.
void ByTheCpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Optional<at::Device> device;
  const auto check = [&](const Tensor& tensor) {
    if (!tensor.defined() || (tensor.is_cpu() && tensor.dim() == 0)) return;
    if (!device) device = tensor.device();
    TORCH_CHECK(*device == tensor.device(), op.schema().name(),
                ": Expected all tensors to be on the same device, ", "but found at least two devices, ",
                *device, " and ", tensor.device());
  };
  for (const c10::IValue& value : torch::jit::last(*stack, op.schema().arguments().size())) {
    if (value.isTensor()) check(value.toTensor());
    if (value.isTensorList()) {
      for (const Tensor& tensor : value.toTensorVector()) check(tensor);
    }
  }
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&ByTheCpu>()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", Empty);
  m.impl("empty_strided", EmptyStrided);
  m.impl("resize_", Resize);
  m.impl("_copy_from", CopyFrom);
  m.impl("_copy_from_and_resize", CopyFromAndResize);
  m.impl("record_stream", RecordStream);
  // Views look at no element.
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", static_cast<Tensor (*)(const Tensor&, IntArrayRef)>(at::native::view));
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("view_as_complex", at::native::view_as_complex);
  m.impl("set_.source_Storage", static_cast<Tensor& (*)(Tensor&, at::Storage)>(at::native::set_));
  m.impl("set_.source_Storage_storage_offset", at::native::set_storage_cpu_);
  m.impl("set_.source_Tensor", at::native::set_tensor_);
  // torch would choose a kernel by the device before it comes to the fallback.
  m.impl("convolution", torch::CppFunction::makeFromBoxedFunction<&ByTheCpu>());
  m.impl("convolution_backward", torch::CppFunction::makeFromBoxedFunction<&ByTheCpu>());
  // And build these from other operators, which round differently from the CPU's own kernel.
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (!op || name.name.rfind("aten::", 0) != 0 ||
        op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1))
      continue;
    if (!op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd)) continue;
    if (!op->hasKernelForDispatchKey(c10::DispatchKey::CPU)) continue;
    m.impl(c10::toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&ByTheCpu>());
  }
}

// A copy knows itself what a lazy conjugate or negative means.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

// ---- devices, streams, events

struct FakeGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const { return kFake; }
  c10::Device exchangeDevice(c10::Device device) const {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const { return {kFake, current_device}; }
  void setDevice(c10::Device device) const {
    if (!device.has_index()) return;
    TORCH_CHECK(device.index() < kNumDevices, "fake device: there is no ", device);
    current_device = device.index();
  }
  void uncheckedSetDevice(c10::Device device) const noexcept { current_device = device.index(); }
  c10::DeviceIndex deviceCount() const noexcept { return kNumDevices; }

  static c10::Stream StreamOf(c10::Device device, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, {kFake, device.has_index() ? device.index() : current_device},
                       id);
  }
  c10::Stream getStream(c10::Device device) const noexcept {
    return StreamOf(device, current_streams[device.has_index() ? device.index() : current_device]);
  }
  c10::Stream getDefaultStream(c10::Device device) const { return StreamOf(device, 0); }
  c10::Stream getNewStream(c10::Device device, int) const {
    static std::atomic<c10::StreamId> last{0};
    return StreamOf(device, ++last);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const { return getNewStream(device, 0); }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept {
    const c10::Stream before = getStream(stream.device());
    current_streams[stream.device_index()] = stream.id();
    return before;
  }
  bool queryStream(const c10::Stream& stream) const {
    SynchronizeStream(Key(stream));
    return true;
  }
  void synchronizeStream(const c10::Stream& stream) const { SynchronizeStream(Key(stream)); }
  void synchronizeDevice(c10::DeviceIndex index) const {
    Deliver([&](const Delivery& delivery) { return delivery.streams.begin()->first == index; });
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const {
    if (*event == nullptr) *event = new Event;
    const std::lock_guard guard(deliveries_lock);
    *static_cast<Event*>(*event) = {Key(stream), num_deliveries};
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept { delete static_cast<Event*>(event); }
  void block(void* event, const c10::Stream& stream) const {
    if (event == nullptr) return;
    const std::lock_guard guard(deliveries_lock);
    for (Delivery& delivery : Deliveries()) {
      if (IsBefore(delivery, *static_cast<Event*>(event))) delivery.streams.insert(Key(stream));
    }
  }
  void synchronizeEvent(void* event) const {
    if (event == nullptr) return;
    Deliver([&](const Delivery& delivery) { return IsBefore(delivery, *static_cast<Event*>(event)); });
  }
  bool queryEvent(void* event) const {
    synchronizeEvent(event);
    return true;
  }
  double elapsedTime(void*, void*, c10::DeviceIndex) const { return 0; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, FakeGuard);
const FakeGuard fake_guard;

// What a version of torch does not ask for is a plain member function there, so none of these says
// `override`.
struct FakeHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const { return true; }
  bool isAvailable() const { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const { return true; }
  void init() const {}
  c10::DeviceIndex deviceCount() const { return kNumDevices; }
  c10::DeviceIndex getCurrentDevice() const { return current_device; }
  void setCurrentDevice(c10::DeviceIndex index) const { fake_guard.setDevice({kFake, index}); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const {
    return fake_guard.exchangeDevice({kFake, index}).index();
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const { return exchangeDevice(index); }
  bool isPinnedPtr(const void* address) const { return PinnedAllocator::Holds(address); }
  c10::Allocator* getPinnedMemoryAllocator() const { return &pinned_allocator; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const {
    return at::detail::getDefaultCPUGenerator();
  }
  at::Device getDeviceFromPtr(void*) const { return {kFake, current_device}; }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t num_bytes) const {
    ResizeBytes(storage.unsafeGetStorageImpl(), num_bytes);
  }
};
const bool is_registered = (at::RegisterPrivateUse1HooksInterface(new FakeHooks), true);

}  // namespace

extern "C" {
int FakeCurrentDevice() { return current_device; }
void FakeSetDevice(int index) { current_device = static_cast<c10::DeviceIndex>(index); }
void FakeLimitMemory(bool is_full) { limit_bytes = is_full ? used_bytes.load() : SIZE_MAX; }
void FakeSynchronize(int index) { fake_guard.synchronizeDevice(static_cast<c10::DeviceIndex>(index)); }
}

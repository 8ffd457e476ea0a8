#include "format/hdf5_write.h"

#include <fcntl.h>
#include <libdeflate.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "core/atomic_file.h"
#include "format/hdf5_internal.h"
#include "format/little_endian.h"

namespace vernier {
namespace {

// The kernel copies a write page by page, and stops between two pages when the process is killed. What must
// never be half there lies in one page.
constexpr std::size_t kPageBytes = 4096;
constexpr std::uint64_t kSuperblockBytes = 48, kRootAddress = 64;
constexpr std::uint64_t kDataAlignment = 64;
constexpr std::size_t kChecksumBytes = 4, kMessageHeaderBytes = 4, kContinuationBytes = 16;
constexpr std::uint8_t kNil = 0, kGroupInfo = 0x0a;
constexpr int kPackLevel = 4;
constexpr std::uint64_t kLeastPacked = 1024, kMostPacked = std::uint64_t{1} << 30;

void AppendByte(std::string& out, std::uint64_t value) { out += static_cast<char>(value); }

void AppendChecksum(std::string& bytes) { AppendLittle(bytes, Hdf5Checksum(AsBytes(bytes))); }

void AppendMessage(std::string& out, unsigned type, std::string_view data) {
  AppendByte(out, type);
  AppendLittle(out, static_cast<std::uint16_t>(data.size()));
  AppendByte(out, 0);
  out += data;
}

// ---- datatypes

void AppendTypeHeader(std::string& out, unsigned type_class, unsigned version, unsigned flags,
                      std::size_t num_bytes) {
  AppendByte(out, version << 4 | type_class);
  AppendByte(out, flags & 0xff);
  AppendByte(out, flags >> 8 & 0xff);
  AppendByte(out, flags >> 16);
  AppendLittle(out, static_cast<std::uint32_t>(num_bytes));
}

std::string IntegerType(std::size_t num_bytes, bool is_signed) {
  std::string out;
  AppendTypeHeader(out, 0, 1, is_signed ? 8 : 0, num_bytes);
  AppendLittle(out, std::uint16_t{0});
  AppendLittle(out, static_cast<std::uint16_t>(8 * num_bytes));
  return out;
}

std::string FloatType(std::size_t num_bytes) {
  struct Layout {
    std::size_t num_bytes;
    unsigned exponent_bits, mantissa_bits, bias;
  };
  constexpr Layout kLayouts[] = {{2, 5, 10, 15}, {4, 8, 23, 127}, {8, 11, 52, 1023}};
  const auto* const layout = std::find_if(std::begin(kLayouts), std::end(kLayouts),
                                          [&](const Layout& row) { return row.num_bytes == num_bytes; });
  std::string out;
  const auto num_bits = static_cast<unsigned>(8 * num_bytes);
  AppendTypeHeader(out, 1, 1, 0x20 | (num_bits - 1) << 8, num_bytes);
  AppendLittle(out, std::uint16_t{0});
  AppendLittle(out, static_cast<std::uint16_t>(num_bits));
  for (const unsigned value : {layout->mantissa_bits, layout->exponent_bits, 0u, layout->mantissa_bits})
    AppendByte(out, value);
  AppendLittle(out, static_cast<std::uint32_t>(layout->bias));
  return out;
}

// As h5py has them: an enum, a compound.
std::string BoolType() {
  std::string out;
  AppendTypeHeader(out, 8, 3, 2, 1);
  out += IntegerType(1, true);
  out.append("FALSE\0TRUE\0\0\1", 13);
  return out;
}

std::string ComplexType(std::size_t num_bytes) {
  std::string out;
  AppendTypeHeader(out, 6, 3, 2, num_bytes);
  for (const unsigned part : {0u, 1u}) {
    out += part == 0 ? 'r' : 'i';
    out += '\0';
    AppendByte(out, part * static_cast<unsigned>(num_bytes / 2));
    out += FloatType(num_bytes / 2);
  }
  return out;
}

std::string TextType() {
  std::string out;
  AppendTypeHeader(out, 9, 1, 0x0101, 16);  // a text, in UTF-8
  return out + IntegerType(1, false);
}

std::string TypeOf(Dtype dtype) {
  const std::size_t num_bytes = ItemBytes(dtype);
  switch (Class(dtype)) {
    case DtypeClass::kBool:
      return BoolType();
    case DtypeClass::kComplex:
      return ComplexType(num_bytes);
    case DtypeClass::kFloat:
      return num_bytes == 1 || dtype == Dtype::kBF16 ? IntegerType(num_bytes, false) : FloatType(num_bytes);
    default:
      return IntegerType(num_bytes, Class(dtype) == DtypeClass::kSigned);
  }
}

std::string SpaceOf(std::span<const std::int64_t> shape) {
  std::string out;
  AppendByte(out, 2);
  AppendByte(out, static_cast<unsigned>(shape.size()));
  AppendByte(out, 0);
  AppendByte(out, shape.empty() ? 0 : 1);
  for (const std::int64_t size : shape) AppendLittle(out, size);
  return out;
}

// ---- object headers

// "OHDR", version 2; the messages follow.
std::string HeaderStart(std::size_t message_bytes) {
  std::string out = "OHDR";
  AppendByte(out, 2);
  AppendByte(out, 1);  // sizes in two bytes
  AppendLittle(out, static_cast<std::uint16_t>(message_bytes));
  return out;
}
constexpr std::size_t kHeaderStartBytes = 8, kMostMessageBytes = 0xffff;

std::string LinkInfo(std::uint64_t next_order) {
  std::string out;
  AppendByte(out, 0);
  AppendByte(out, 3);  // creation order is tracked and indexed
  AppendLittle(out, next_order);
  for (int i = 0; i < 3; ++i) AppendLittle(out, kHdf5Undefined);  // no heap, no trees
  return out;
}

constexpr std::size_t kOrderInLink = 2;  // in the message's data

std::string LinkMessage(const std::string& name, std::uint64_t order, std::uint64_t address) {
  std::string out;
  const bool is_long = name.size() > 0xff;
  AppendByte(out, 1);
  AppendByte(out, 0x14u | (is_long ? 1u : 0u));  // with creation order and character set
  AppendLittle(out, order);
  AppendByte(out, 1);  // UTF-8
  if (is_long) {
    AppendLittle(out, static_cast<std::uint16_t>(name.size()));
  } else {
    AppendByte(out, static_cast<unsigned>(name.size()));
  }
  out += name;
  AppendLittle(out, address);
  return out;
}

std::string FillValueMessage() { return std::string("\x03\x0a", 2); }

std::string LayoutMessage(std::span<const std::int64_t> shape, std::size_t item_bytes, const Hdf5Data& data) {
  std::string out;
  if (data.packed_bytes == 0) {
    AppendByte(out, 3);
    AppendByte(out, 1);
    AppendLittle(out, data.num_bytes == 0 ? kHdf5Undefined : data.address);
    AppendLittle(out, data.num_bytes);
    return out;
  }
  AppendByte(out, 4);
  AppendByte(out, 2);
  AppendByte(out, 2);  // one chunk, filtered
  AppendByte(out, static_cast<unsigned>(shape.size() + 1));
  std::vector<std::uint64_t> sizes(shape.begin(), shape.end());
  sizes.push_back(item_bytes);
  const std::size_t size_bytes = (std::bit_width(*std::max_element(sizes.begin(), sizes.end())) + 7) / 8;
  AppendByte(out, static_cast<unsigned>(size_bytes));
  for (const std::uint64_t size : sizes) {
    for (std::size_t i = 0; i < size_bytes; ++i) AppendByte(out, size >> 8 * i & 0xff);
  }
  AppendByte(out, 1);
  AppendLittle(out, data.packed_bytes);
  AppendLittle(out, std::uint32_t{0});
  AppendLittle(out, data.address);
  return out;
}

std::string DeflateMessage() {
  std::string out;
  AppendByte(out, 2);
  AppendByte(out, 1);
  AppendLittle(out, std::uint16_t{1});  // deflate
  AppendLittle(out, std::uint16_t{1});  // optional
  AppendLittle(out, std::uint16_t{1});
  AppendLittle(out, std::uint32_t{kPackLevel});
  return out;
}

std::uint64_t RoundUp(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace

Result<std::unique_ptr<Hdf5Writer>> Hdf5Writer::Create(const std::filesystem::path& path,
                                                       const Hdf5WriteAttributes& attributes) {
  // Under its name only once it is a whole file. What a link leads to is not ours.
  const std::string temporary = path.string() + ".new" + std::to_string(getpid());
  unlink(temporary.c_str());
  const int fd = open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0) return ErrnoError(temporary, errno);
  std::unique_ptr<Hdf5Writer> writer(new Hdf5Writer(path, fd));
  writer->end_ = kPageBytes;
  const auto begin = [&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(
        writer->BeginGroupAt(writer->root_, kRootAddress, kPageBytes - kRootAddress, attributes));
    VN_RETURN_IF_ERROR(writer->WriteBlocks(writer->root_));
    VN_RETURN_IF_ERROR(writer->WriteSuperblock());
    if (rename(temporary.c_str(), path.c_str()) != 0) return ErrnoError(path.string(), errno);
    return Done{};
  };
  if (const Result<Done> begun = begin(); !begun) {
    unlink(temporary.c_str());
    return begun.error();
  }
  return writer;
}

Hdf5Writer::~Hdf5Writer() { close(fd_); }

Result<Done> Hdf5Writer::Write(std::uint64_t at, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return ErrnoError(path_.string(), written == 0 ? ENOSPC : errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
    at += static_cast<std::uint64_t>(written);
  }
  return Done{};
}

std::uint64_t Hdf5Writer::Take(std::uint64_t num_bytes, std::uint64_t alignment) {
  const std::uint64_t address = RoundUp(end_, alignment);
  end_ = address + num_bytes;
  return address;
}

std::uint64_t Hdf5Writer::TakeWithinPage(std::uint64_t num_bytes) {
  constexpr std::uint64_t kAlignment = 8;
  const std::uint64_t address = RoundUp(end_, kAlignment);
  const bool crosses = address / kPageBytes != (address + num_bytes - 1) / kPageBytes;
  return Take(num_bytes, crosses ? kPageBytes : kAlignment);
}

// The end of the file and where the root group is. What lies behind that end is not part of the file yet.
Result<Done> Hdf5Writer::WriteSuperblock() {
  std::string bytes = "\x89HDF\r\n\x1a\n";
  AppendByte(bytes, 2);
  AppendByte(bytes, 8);
  AppendByte(bytes, 8);
  AppendByte(bytes, 0);
  AppendLittle(bytes, std::uint64_t{0});
  AppendLittle(bytes, kHdf5Undefined);
  AppendLittle(bytes, end_);
  AppendLittle(bytes, kRootAddress);
  AppendChecksum(bytes);
  // A reader wants as many bytes as the end says, also where the last ones were never written.
  if (ftruncate(fd_, static_cast<off_t>(end_)) != 0) return ErrnoError(path_.string(), errno);
  return Write(0, bytes);
}

// ---- groups

Result<Done> Hdf5Writer::BeginGroupAt(Group& group, std::uint64_t address, std::size_t num_bytes,
                                      const Hdf5WriteAttributes& attributes) {
  group = Group();
  Block& block = group.blocks.emplace_back();
  block.address = address;
  block.bytes = HeaderStart(num_bytes - kHeaderStartBytes - kChecksumBytes);
  AppendMessage(block.bytes, hdf5_message::kLinkInfo, LinkInfo(0));
  AppendMessage(block.bytes, kGroupInfo, std::string_view("\0\0", 2));
  group.attributes_at = block.bytes.size();
  VN_ASSIGN_OR_RETURN(const std::string messages, AttributeMessages(attributes));
  block.bytes += messages;
  block.used = block.bytes.size();
  if (block.used + kMessageHeaderBytes + kContinuationBytes + kChecksumBytes + kMessageHeaderBytes >
      num_bytes)
    return Error{ErrorCode::kTooLarge, path_.string(), "the attributes of a group take more than a page"};
  block.bytes.resize(num_bytes);
  return Done{};
}

// Every block ends with room for the message that leads to the next one.
Result<Done> Hdf5Writer::AddLink(Group& group, const std::string& name, std::uint64_t address) {
  const auto known = group.links.find(name);
  if (known != group.links.end()) {
    Block& block = group.blocks[known->second.block];
    const auto size = LoadLittle<std::uint16_t>(AsBytes(block.bytes), known->second.message + 1);
    std::string target;
    AppendLittle(target, address);
    block.bytes.replace(known->second.message + kMessageHeaderBytes + size - target.size(), target.size(),
                        target);
    block.dirty = true;
    return Done{};
  }
  constexpr std::size_t kMostName = 0xf000;
  if (name.size() > kMostName)
    return Error{ErrorCode::kTooLarge, path_.string(), "a name of more than 61440 bytes"};
  std::string message;
  AppendMessage(message, hdf5_message::kLink, LinkMessage(name, group.next_order++, address));
  constexpr std::size_t kEndBytes = kMessageHeaderBytes + kContinuationBytes + kChecksumBytes;
  const auto room = [](const Block& block) { return block.bytes.size() - kEndBytes - block.used; };
  const auto fits = [&](const Block& block) {
    const std::size_t left = room(block);
    return left == message.size() ||
           left >= message.size() + kMessageHeaderBytes;  // what is left must be a message
  };
  if (!fits(group.blocks.back())) {
    Block next;
    next.bytes = "OCHK";
    next.used = next.bytes.size();
    next.bytes.resize(RoundUp(next.used + message.size() + kMessageHeaderBytes + kEndBytes, kPageBytes));
    next.address = Take(next.bytes.size(), kPageBytes);
    Block& last = group.blocks.back();
    std::string where, continuation;
    AppendLittle(where, next.address);
    AppendLittle(where, static_cast<std::uint64_t>(next.bytes.size()));
    AppendMessage(continuation, hdf5_message::kContinuation, where);
    last.bytes.replace(last.bytes.size() - kEndBytes, continuation.size(), continuation);
    last.dirty = true;
    group.blocks.push_back(std::move(next));
  }
  Block& block = group.blocks.back();
  group.links.emplace(name, Link{group.blocks.size() - 1, block.used, address, 0});
  block.bytes.replace(block.used, message.size(), message);
  block.used += message.size();
  block.dirty = true;
  return Done{};
}

// The later ones first: a block leads to the next one only when that is there.
Result<Done> Hdf5Writer::WriteBlocks(Group& group) {
  for (std::size_t i = group.blocks.size(); i-- > 0;) {
    Block& block = group.blocks[i];
    if (!block.dirty) continue;
    const std::size_t end = block.bytes.size() - kChecksumBytes - kContinuationBytes - kMessageHeaderBytes;
    std::string filler;
    if (end > block.used)
      AppendMessage(filler, kNil, std::string(end - block.used - kMessageHeaderBytes, '\0'));
    block.bytes.replace(block.used, filler.size(), filler);
    if (i + 1 == group.blocks.size()) {
      std::string unused;
      AppendMessage(unused, kNil, std::string(kContinuationBytes, '\0'));
      block.bytes.replace(end, unused.size(), unused);
    }
    block.bytes.resize(block.bytes.size() - kChecksumBytes);
    AppendChecksum(block.bytes);
    VN_RETURN_IF_ERROR(Write(block.address, block.bytes));
    block.dirty = false;
  }
  return Done{};
}

Result<Done> Hdf5Writer::BeginGroup(const std::string& name, const Hdf5WriteAttributes& attributes) {
  const std::uint64_t address = Take(kPageBytes, kPageBytes);
  VN_RETURN_IF_ERROR(BeginGroupAt(group_, address, kPageBytes, attributes));
  VN_RETURN_IF_ERROR(WriteBlocks(group_));
  VN_RETURN_IF_ERROR(AddLink(root_, name, address));
  VN_RETURN_IF_ERROR(WriteSuperblock());
  return WriteBlocks(root_);
}

Result<Done> Hdf5Writer::SetGroupAttributes(const Hdf5WriteAttributes& attributes) {
  Block& first = group_.blocks.front();
  VN_ASSIGN_OR_RETURN(const std::string messages, AttributeMessages(attributes));
  first.bytes.replace(group_.attributes_at, messages.size(), messages);
  std::string info;
  AppendMessage(info, hdf5_message::kLinkInfo, LinkInfo(group_.next_order));
  first.bytes.replace(kHeaderStartBytes, info.size(), info);
  first.dirty = true;
  return WriteBlocks(group_);
}

Result<Done> Hdf5Writer::Commit() {
  VN_RETURN_IF_ERROR(WriteSuperblock());
  return WriteBlocks(group_);
}

// ---- attributes

// Texts lie in collections of a page; one that is wanted again is not written again.
Result<std::string> Hdf5Writer::TextReference(const std::string& text) {
  auto known = texts_.find(text);
  if (known == texts_.end()) {
    constexpr std::size_t kObjectBytes = 16;  // in front of each text
    const std::size_t wanted = kObjectBytes + RoundUp(text.size(), 8);
    if (heap_.size() + wanted + kObjectBytes > heap_bytes_) {
      heap_bytes_ = RoundUp(kObjectBytes + wanted + kObjectBytes, kPageBytes);
      heap_address_ = Take(heap_bytes_, kPageBytes);
      num_in_heap_ = 0;
      heap_ = "GCOL";
      AppendLittle(heap_, std::uint32_t{1});
      AppendLittle(heap_, static_cast<std::uint64_t>(heap_bytes_));
    }
    AppendLittle(heap_, static_cast<std::uint16_t>(++num_in_heap_));
    AppendLittle(heap_, std::uint16_t{1});
    AppendLittle(heap_, std::uint32_t{0});
    AppendLittle(heap_, static_cast<std::uint64_t>(text.size()));
    heap_ += text;
    heap_.resize(RoundUp(heap_.size(), 8));
    std::string whole = heap_;
    AppendLittle(whole, std::uint64_t{0});  // what is free
    AppendLittle(whole, static_cast<std::uint64_t>(heap_bytes_ - heap_.size()));
    whole.resize(heap_bytes_);
    VN_RETURN_IF_ERROR(Write(heap_address_, whole));
    known = texts_.emplace(text, TextPlace{heap_address_, num_in_heap_}).first;
  }
  std::string reference;
  AppendLittle(reference, static_cast<std::uint32_t>(text.size()));
  AppendLittle(reference, known->second.address);
  AppendLittle(reference, known->second.number);
  return reference;
}

Result<std::string> Hdf5Writer::AttributeMessages(const Hdf5WriteAttributes& attributes) {
  std::string messages;
  for (const auto& [name, value] : attributes) {
    std::string type, space = SpaceOf({}), data;
    if (const auto* const truth = std::get_if<bool>(&value)) {
      type = BoolType();
      AppendByte(data, *truth ? 1 : 0);
    } else if (const auto* const integer = std::get_if<std::int64_t>(&value)) {
      type = IntegerType(8, true);
      AppendLittle(data, *integer);
    } else if (const auto* const number = std::get_if<double>(&value)) {
      type = FloatType(8);
      AppendLittle(data, std::bit_cast<std::uint64_t>(*number));
    } else if (const auto* const text = std::get_if<std::string>(&value)) {
      type = TextType();
      VN_ASSIGN_OR_RETURN(data, TextReference(*text));
    } else {
      const auto& list = std::get<std::vector<std::int64_t>>(value);
      const std::int64_t size = static_cast<std::int64_t>(list.size());
      type = IntegerType(8, true);
      space = SpaceOf({&size, 1});
      for (const std::int64_t item : list) AppendLittle(data, item);
    }
    std::string message;
    AppendByte(message, 3);
    AppendByte(message, 0);
    AppendLittle(message, static_cast<std::uint16_t>(name.size() + 1));
    AppendLittle(message, static_cast<std::uint16_t>(type.size()));
    AppendLittle(message, static_cast<std::uint16_t>(space.size()));
    AppendByte(message, 1);  // the name is UTF-8
    message += name;
    message += '\0';
    AppendMessage(messages, hdf5_message::kAttribute, message + type + space + data);
  }
  return messages;
}

// ---- datasets

Result<Hdf5Data> Hdf5Writer::WriteData(ByteSpan elements, bool pack) {
  Hdf5Data data;
  data.num_bytes = elements.size();
  if (elements.empty()) return data;
  std::string packed;
  if (pack && elements.size() >= kLeastPacked && elements.size() <= kMostPacked) {
    const std::unique_ptr<libdeflate_compressor, decltype(&libdeflate_free_compressor)> compressor(
        libdeflate_alloc_compressor(kPackLevel), libdeflate_free_compressor);
    if (!compressor) return Error{ErrorCode::kTooLarge, path_.string(), "no memory to deflate with"};
    packed.resize(libdeflate_zlib_compress_bound(compressor.get(), elements.size()));
    packed.resize(libdeflate_zlib_compress(compressor.get(), elements.data(), elements.size(), packed.data(),
                                           packed.size()));
    data.packed_bytes = packed.size();
  }
  const std::string_view stored = packed.empty() ? AsText(elements) : std::string_view(packed);
  data.address = Take(stored.size(), kDataAlignment);
  VN_RETURN_IF_ERROR(Write(data.address, stored));
  return data;
}

Result<Done> Hdf5Writer::AddDataset(const std::string& name, Dtype dtype, std::span<const std::int64_t> shape,
                                    const Hdf5Data& data, const Hdf5WriteAttributes& attributes) {
  // A chunk of no dimension cannot be; its elements are too few to be packed.
  std::string messages;
  AppendMessage(messages, hdf5_message::kDataspace, SpaceOf(shape));
  AppendMessage(messages, hdf5_message::kDatatype, TypeOf(dtype));
  AppendMessage(messages, hdf5_message::kFillValue, FillValueMessage());
  AppendMessage(messages, hdf5_message::kLayout, LayoutMessage(shape, ItemBytes(dtype), data));
  if (data.packed_bytes > 0) AppendMessage(messages, hdf5_message::kFilters, DeflateMessage());
  VN_ASSIGN_OR_RETURN(const std::string more, AttributeMessages(attributes));
  messages += more;
  if (messages.size() > kMostMessageBytes)
    return Error{ErrorCode::kTooLarge, path_.string() + ": " + name, "too many attributes"};
  std::string header = HeaderStart(messages.size()) + messages;
  AppendChecksum(header);
  const std::uint64_t address = TakeWithinPage(header.size());
  VN_RETURN_IF_ERROR(Write(address, header));
  VN_RETURN_IF_ERROR(AddLink(group_, name, address));
  Link& link = group_.links[name];
  link.header_address = address;
  link.header_bytes = header.size();
  return Done{};
}

Result<Done> Hdf5Writer::Arrange(std::span<const std::string> names, std::string_view number) {
  std::int64_t place = 0;
  for (const std::string& name : names) {
    const auto found = group_.links.find(name);
    if (found == group_.links.end()) continue;
    const Link& link = found->second;
    Block& block = group_.blocks[link.block];
    std::string order;
    AppendLittle(order, static_cast<std::uint64_t>(place));
    block.bytes.replace(link.message + kMessageHeaderBytes + kOrderInLink, order.size(), order);
    block.dirty = true;
    std::string header(link.header_bytes, '\0');
    if (pread(fd_, header.data(), header.size(), static_cast<off_t>(link.header_address)) !=
        static_cast<ssize_t>(header.size()))
      return ErrnoError(path_.string(), errno);
    // The attribute ends with its value: name, type, a scalar space, eight bytes.
    const std::string key = std::string(number) + '\0' + IntegerType(8, true) + SpaceOf({});
    const std::size_t at = header.find(key);
    if (at != std::string::npos) {
      header.replace(at + key.size(), order.size(), order);
      header.resize(header.size() - kChecksumBytes);
      AppendChecksum(header);
      VN_RETURN_IF_ERROR(Write(link.header_address, header));
    }
    ++place;
  }
  return WriteBlocks(group_);
}

}  // namespace vernier

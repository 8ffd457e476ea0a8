// Superblock and object headers.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "format/hdf5.h"
#include "format/hdf5_internal.h"
#include "format/little_endian.h"

namespace vernier {
namespace {

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
constexpr std::uint8_t kSharedFlag = 1 << 1;

// At the start, or after a block of the user's own whose size is a power of two from 512.
std::optional<std::size_t> FindSuperblock(ByteSpan file) {
  const std::string_view text = AsText(file);
  for (std::size_t at = 0; at + kSignature.size() <= file.size(); at = at == 0 ? 512 : at * 2) {
    if (text.substr(at, kSignature.size()) == kSignature) return at;
  }
  return std::nullopt;
}

// Three words that every byte of the input changes all of.
class Lookup3 {
 public:
  explicit Lookup3(std::size_t num_bytes) {
    a_ = b_ = c_ = 0xdeadbeef + static_cast<std::uint32_t>(num_bytes);
  }

  // Up to twelve bytes.
  void Add(ByteSpan bytes) {
    std::uint32_t words[3] = {};
    std::memcpy(words, bytes.data(), bytes.size());
    a_ += words[0], b_ += words[1], c_ += words[2];
  }
  void Mix() {
    Step(a_, c_, 4), c_ += b_;
    Step(b_, a_, 6), a_ += c_;
    Step(c_, b_, 8), b_ += a_;
    Step(a_, c_, 16), c_ += b_;
    Step(b_, a_, 19), a_ += c_;
    Step(c_, b_, 4), b_ += a_;
  }
  std::uint32_t Finish() {
    Fold(c_, b_, 14), Fold(a_, c_, 11), Fold(b_, a_, 25), Fold(c_, b_, 16);
    Fold(a_, c_, 4), Fold(b_, a_, 14), Fold(c_, b_, 24);
    return c_;
  }
  std::uint32_t word() const { return c_; }

 private:
  static void Step(std::uint32_t& word, std::uint32_t other, int turn) {
    word = (word - other) ^ std::rotl(other, turn);
  }
  static void Fold(std::uint32_t& word, std::uint32_t other, int turn) {
    word = (word ^ other) - std::rotl(other, turn);
  }
  std::uint32_t a_, b_, c_;
};

bool IsNumberWidth(std::uint64_t num_bytes) { return num_bytes == 2 || num_bytes == 4 || num_bytes == 8; }

// Collects the messages of one object header.
class HeaderReader {
 public:
  explicit HeaderReader(const Hdf5File& file) : file_(file) {}

  Result<Hdf5Messages> Read(std::uint64_t address) {
    VN_RETURN_IF_ERROR(ReadFirstBlock(address));
    for (std::size_t i = 0; i < continuations_.size(); ++i) {
      const auto [at, num_bytes] = continuations_[i];
      VN_RETURN_IF_ERROR(file_.Spend(num_bytes));
      const auto block = file_.Bytes(at, num_bytes);
      if (!block) return Hdf5Error("object header continuation", at, "lies outside of the file");
      VN_RETURN_IF_ERROR(version_ == 1 ? ReadMessages(*block) : ReadContinuation2(*block, at));
    }
    return std::move(messages_);
  }

 private:
  Result<Done> ReadFirstBlock(std::uint64_t address) {
    version_ = file_.From(address).Signature("OHDR") ? 2 : 1;
    Hdf5Cursor cursor = file_.From(address);
    if (version_ == 2) cursor.Skip(4);  // the signature
    const std::uint64_t version = cursor.Number(1), flags = cursor.Number(1);
    std::uint64_t num_bytes = 0;
    if (version_ == 1) {  // without flags
      cursor.Skip(2 + 4);
      num_bytes = cursor.Number(4);
      cursor.Skip(4);
    } else {
      if (flags & 0x20) cursor.Skip(16);  // times
      if (flags & 0x10) cursor.Skip(4);   // about attributes
      num_bytes = cursor.Number(1u << (flags & 3));
      has_message_order_ = (flags & 0x04) != 0;
    }
    const ByteSpan block = cursor.Take(num_bytes);
    if (!cursor.ok() || version != version_) return Hdf5Error("object header", address, "damaged");
    if (version_ == 2 && !cursor.Checksum()) return Hdf5Error("object header", address, kHdf5WrongChecksum);
    VN_RETURN_IF_ERROR(file_.Spend(num_bytes));
    return ReadMessages(block);
  }

  Result<Done> ReadContinuation2(ByteSpan block, std::uint64_t address) {
    Hdf5Cursor cursor = file_.In(block);
    if (!cursor.Signature("OCHK") || cursor.left() < 4) {
      return Hdf5Error("object header continuation", address, "damaged");
    }
    cursor.Skip(cursor.left() - 4);
    if (!cursor.Checksum()) return Hdf5Error("object header continuation", address, kHdf5WrongChecksum);
    return ReadMessages(block.subspan(4, block.size() - 8));  // without signature and checksum
  }

  Result<Done> ReadMessages(ByteSpan block) {
    Hdf5Cursor cursor = file_.In(block);
    const std::size_t prefix_bytes = version_ == 1 ? 8 : has_message_order_ ? 6 : 4;
    while (cursor.left() >= prefix_bytes) {  // less than that is a gap
      Hdf5Message message;
      message.type = static_cast<std::uint16_t>(cursor.Number(version_ == 1 ? 2 : 1));
      const std::uint64_t num_bytes = cursor.Number(2);
      const std::uint64_t flags = cursor.Number(1);
      cursor.Skip(prefix_bytes - (version_ == 1 ? 5 : 4));
      message.data = cursor.Take(num_bytes);
      if (!cursor.ok())
        return Error{ErrorCode::kBadHeader, "hdf5 object header", "a message runs past its end"};
      if (message.type == hdf5_message::kContinuation) {
        Hdf5Cursor target = file_.In(message.data);
        const std::uint64_t at = target.Address(), size = target.Length();
        if (!target.ok())
          return Error{ErrorCode::kBadHeader, "hdf5 object header", "a continuation is damaged"};
        continuations_.emplace_back(at, size);
      } else if (flags & kSharedFlag) {
        VN_RETURN_IF_ERROR(AddShared(message));
      } else {
        messages_.push_back(message);
      }
    }
    return Done{};
  }

  // A datatype that lies in an object of its own, so that several datasets can have the same.
  Result<Done> AddShared(const Hdf5Message& message) {
    if (message.type != hdf5_message::kDatatype) return Done{};
    Hdf5Cursor cursor = file_.In(message.data);
    const std::uint64_t version = cursor.Number(1), kind = cursor.Number(1);
    if (version == 1) cursor.Skip(6);
    const std::uint64_t address = cursor.Address();
    const bool committed = version < 3 || kind == 2;
    if (!cursor.ok() || version > 3 || !committed) {
      messages_.push_back({message.type, {}});  // in a shared heap; reported when the type is needed
      return Done{};
    }
    if (!may_follow_) return Hdf5Error("committed datatype", address, "refers to another one");
    HeaderReader other(file_);
    other.may_follow_ = false;
    VN_ASSIGN_OR_RETURN(const Hdf5Messages found, other.Read(address));
    if (const Hdf5Message* type = Find(found, hdf5_message::kDatatype)) messages_.push_back(*type);
    return Done{};
  }

  const Hdf5File& file_;
  std::uint64_t version_ = 1;
  bool has_message_order_ = false, may_follow_ = true;
  Hdf5Messages messages_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> continuations_;
};

}  // namespace

ByteSpan Hdf5Cursor::Take(std::uint64_t num_bytes) {
  if (!ok_ || num_bytes > left()) {
    ok_ = false;
    return {};
  }
  const ByteSpan taken = bytes_.subspan(at_, num_bytes);
  at_ += num_bytes;
  return taken;
}

std::uint64_t Hdf5Cursor::Number(unsigned num_bytes) {
  std::uint64_t number = 0;
  const ByteSpan raw = Take(num_bytes);
  if (raw.size() <= sizeof(number) && !raw.empty()) std::memcpy(&number, raw.data(), raw.size());
  return number;
}

std::uint64_t Hdf5Cursor::Address() {
  const std::uint64_t number = Number(offset_bytes_);
  const std::uint64_t all_ones =
      offset_bytes_ == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << offset_bytes_ * 8) - 1;
  return number == all_ones ? kHdf5Undefined : number;
}

std::string_view Hdf5Cursor::TextUntilNul() {
  const std::string_view rest = AsText(bytes_.subspan(at_));
  const std::size_t end = rest.find('\0');
  if (!ok_ || end == std::string_view::npos) {
    ok_ = false;
    return {};
  }
  at_ += end + 1;
  return rest.substr(0, end);
}

bool Hdf5Cursor::Signature(std::string_view signature) {
  ok_ = ok_ && AsText(Take(signature.size())) == signature;
  return ok_;
}

bool Hdf5Cursor::Checksum(std::size_t from) {
  const std::size_t end = at_;
  const std::uint64_t stored = Number(4);
  ok_ = ok_ && (kFuzzing || stored == Hdf5Checksum(bytes_.subspan(from, end - from)));
  return ok_;
}

std::uint32_t Hdf5Checksum(ByteSpan bytes) {
  constexpr std::size_t kBlockBytes = 12;
  Lookup3 hash(bytes.size());
  if (bytes.empty()) return hash.word();
  for (; bytes.size() > kBlockBytes; bytes = bytes.subspan(kBlockBytes)) {
    hash.Add(bytes.first(kBlockBytes));
    hash.Mix();
  }
  hash.Add(bytes);
  return hash.Finish();
}

const Hdf5Message* Find(const Hdf5Messages& messages, std::uint16_t type) {
  const auto found =
      std::find_if(messages.begin(), messages.end(), [&](auto& message) { return message.type == type; });
  return found == messages.end() ? nullptr : &*found;
}

Error Hdf5Error(std::string_view structure, std::uint64_t address, std::string detail) {
  const std::string at =
      address == kHdf5Undefined ? "an undefined address" : "address " + std::to_string(address);
  return Error{ErrorCode::kBadHeader, "hdf5 " + std::string(structure) + " at " + at, std::move(detail)};
}

Result<Hdf5File> Hdf5File::Open(ByteSpan file) {
  const std::optional<std::size_t> start = FindSuperblock(file);
  if (!start) return Error{ErrorCode::kBadMagic, "hdf5 superblock", "not found"};
  Hdf5File opened;
  Hdf5Cursor cursor(file.subspan(*start + kSignature.size()), 8, 8);
  const std::uint64_t version = cursor.Number(1);
  if (version > 3)
    return Error{ErrorCode::kUnsupported, "hdf5 superblock", "version " + std::to_string(version)};
  if (version < 2) cursor.Skip(4);
  opened.offset_bytes_ = static_cast<unsigned>(cursor.Number(1));
  opened.length_bytes_ = static_cast<unsigned>(cursor.Number(1));
  if (!IsNumberWidth(opened.offset_bytes_) || !IsNumberWidth(opened.length_bytes_)) {
    return Error{ErrorCode::kBadHeader, "hdf5 superblock", "unknown size of addresses"};
  }
  Hdf5Cursor rest = opened.In(file.subspan(*start + kSignature.size() + cursor.at()));
  rest.Skip(version == 0 ? 1 + 2 + 2 + 4 : version == 1 ? 1 + 2 + 2 + 4 + 4 : 1);
  const std::uint64_t base = rest.Address();
  rest.Address();
  const std::uint64_t end = rest.Address();
  if (version < 2)
    rest.Skip(2 * opened.offset_bytes_);  // driver information; then the root's name in a symbol table entry
  opened.root_address_ = rest.Address();
  if (!rest.ok()) return Error{ErrorCode::kTruncated, "hdf5 superblock", ""};
  if (version >= 2) {
    Hdf5Cursor whole = opened.In(file.subspan(*start));
    whole.Skip(kSignature.size() + 4 + 4 * opened.offset_bytes_);
    if (!whole.Checksum()) return Error{ErrorCode::kBadHeader, "hdf5 superblock", kHdf5WrongChecksum};
  }
  if (base > file.size())
    return Error{ErrorCode::kBadHeader, "hdf5 superblock", "base address outside of the file"};
  opened.base_bytes_ = base;
  opened.bytes_ = file.subspan(base);
  opened.budget_ = file.size() * 8 + (1 << 20);
  if (end != kHdf5Undefined && end > opened.bytes_.size() && end - base > opened.bytes_.size()) {
    return Error{
        ErrorCode::kTruncated, "hdf5 superblock",
        "the file had " + std::to_string(end) + " bytes, " + std::to_string(file.size()) + " are there"};
  }
  return opened;
}

Hdf5Cursor Hdf5File::From(std::uint64_t address) const {
  Hdf5Cursor cursor = In(address <= bytes_.size() ? bytes_.subspan(address) : ByteSpan());
  if (address > bytes_.size()) cursor.Fail();
  return cursor;
}

std::optional<ByteSpan> Hdf5File::Bytes(std::uint64_t address, std::uint64_t num_bytes) const {
  if (address > bytes_.size() || num_bytes > bytes_.size() - address) return std::nullopt;
  return bytes_.subspan(address, num_bytes);
}

Result<Hdf5Messages> Hdf5File::Messages(std::uint64_t address) const {
  return HeaderReader(*this).Read(address);
}

Result<Done> Hdf5File::Spend(std::uint64_t num_bytes) const {
  constexpr std::uint64_t kEachVisitBytes = 16;
  if (num_bytes > budget_ || budget_ - num_bytes < kEachVisitBytes) {
    return Error{ErrorCode::kBadHeader, "hdf5", "its structures refer to each other in circles"};
  }
  budget_ -= num_bytes + kEachVisitBytes;
  return Done{};
}

bool LooksLikeHdf5(ByteSpan bytes) { return FindSuperblock(bytes).has_value(); }

}  // namespace vernier

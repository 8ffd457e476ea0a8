#include "format/zip.h"

#include <libdeflate.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "core/mapped_file.h"
#include "core/text.h"
#include "format/little_endian.h"

namespace vernier {
namespace {

constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kDirectorySignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocator64Signature = 0x07064b50;
constexpr std::size_t kLocalBytes = 30, kDirectoryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56,
                      kLocator64Bytes = 20;
constexpr std::size_t kMaxCommentBytes = 0xffff;
constexpr std::uint16_t kStored = 0, kDeflated = 8;
constexpr std::uint16_t kEncryptedFlags =
    1 << 0 | 1 << 5 | 1 << 6 | 1 << 13;  // and patches, which need another file
constexpr std::uint16_t kSizesFollowFlag = 1 << 3;
constexpr std::uint16_t kUtf8Flag = 1 << 11;
constexpr std::uint16_t kExtraZip64 = 0x0001, kExtraAlignment = 0xd935;
constexpr std::uint32_t kIn64 = 0xffffffff;  // in a 32-bit field: the number is in the zip64 record
constexpr std::uint16_t kIn64Short = 0xffff;
constexpr std::uint64_t kMaxDeflateRatio = 1032;

Error Bad(std::string where, std::string detail) {
  return Error{ErrorCode::kBadHeader, std::move(where), std::move(detail)};
}

// ---- where the central directory is

struct Directory {
  std::uint64_t offset_bytes = 0, size_bytes = 0, num_members = 0;
};

// An end record without comment, right behind its directory or the zip64 records: any reader takes this one.
bool EndsPlainly(ByteSpan file, std::size_t end) {
  if (LoadLittle<std::uint32_t>(file, end) != kEndSignature || LoadLittle<std::uint16_t>(file, end + 20) != 0)
    return false;
  const std::uint64_t directory_end =
      std::uint64_t{LoadLittle<std::uint32_t>(file, end + 12)} + LoadLittle<std::uint32_t>(file, end + 16);
  return directory_end == end ||
         (end >= kLocator64Bytes &&
          LoadLittle<std::uint32_t>(file, end - kLocator64Bytes) == kLocator64Signature);
}

// The end record is the one whose comment ends with the file. Two of them would be two archives in one, and
// which one is meant would depend on the reader.
Result<std::size_t> FindEnd(ByteSpan file) {
  if (file.size() < kEndBytes) return Error{ErrorCode::kTruncated, "zip end record", ""};
  const std::size_t last = file.size() - kEndBytes;
  if (EndsPlainly(file, last)) return last;  // the usual case, without a search through 64 KiB
  const std::size_t first = last > kMaxCommentBytes ? last - kMaxCommentBytes : 0;
  std::optional<std::size_t> found;
  for (std::size_t at = last + 1; at-- > first;) {
    if (LoadLittle<std::uint32_t>(file, at) != kEndSignature) continue;
    if (at + kEndBytes + LoadLittle<std::uint16_t>(file, at + 20) != file.size()) continue;
    if (found) return Bad("zip end record", "there are two of them");
    found = at;
  }
  if (!found) return Error{ErrorCode::kTruncated, "zip end record", "not found in the last 64 KiB"};
  return *found;
}

template <class Short>
bool Agrees(Short narrow, std::uint64_t wide) {
  return narrow == static_cast<Short>(-1) || narrow == wide;
}

Result<Directory> ReadEnd64(ByteSpan file, std::size_t end, std::size_t& directory_end) {
  const std::size_t locator = end - kLocator64Bytes;
  const auto at = LoadLittle<std::uint64_t>(file, locator + 8);
  if (LoadLittle<std::uint32_t>(file, locator + 4) != 0 ||
      LoadLittle<std::uint32_t>(file, locator + 16) > 1) {
    return Error{ErrorCode::kUnsupported, "zip64 locator", "an archive in several parts"};
  }
  if (locator < kEnd64Bytes || at > locator - kEnd64Bytes ||
      LoadLittle<std::uint32_t>(file, at) != kEnd64Signature ||
      LoadLittle<std::uint64_t>(file, at + 4) != locator - at - 12) {
    return Bad("zip64 end record", "not where its locator says");
  }
  if (LoadLittle<std::uint32_t>(file, at + 16) != 0 || LoadLittle<std::uint32_t>(file, at + 20) != 0) {
    return Error{ErrorCode::kUnsupported, "zip64 end record", "an archive in several parts"};
  }
  const Directory directory{LoadLittle<std::uint64_t>(file, at + 48),
                            LoadLittle<std::uint64_t>(file, at + 40),
                            LoadLittle<std::uint64_t>(file, at + 32)};
  if (LoadLittle<std::uint64_t>(file, at + 24) != directory.num_members ||
      !Agrees(LoadLittle<std::uint16_t>(file, end + 10), directory.num_members) ||
      !Agrees(LoadLittle<std::uint32_t>(file, end + 12), directory.size_bytes) ||
      !Agrees(LoadLittle<std::uint32_t>(file, end + 16), directory.offset_bytes)) {
    return Bad("zip64 end record", "disagrees with the end record");
  }
  directory_end = at;
  return directory;
}

Result<Directory> FindDirectory(ByteSpan file) {
  VN_ASSIGN_OR_RETURN(const std::size_t end, FindEnd(file));
  std::size_t directory_end = end;
  Directory directory{LoadLittle<std::uint32_t>(file, end + 16), LoadLittle<std::uint32_t>(file, end + 12),
                      LoadLittle<std::uint16_t>(file, end + 10)};
  if (end >= kLocator64Bytes &&
      LoadLittle<std::uint32_t>(file, end - kLocator64Bytes) == kLocator64Signature) {
    VN_ASSIGN_OR_RETURN(directory, ReadEnd64(file, end, directory_end));
  } else if (LoadLittle<std::uint16_t>(file, end + 8) != directory.num_members ||
             LoadLittle<std::uint16_t>(file, end + 4) != 0 || LoadLittle<std::uint16_t>(file, end + 6) != 0) {
    return Error{ErrorCode::kUnsupported, "zip end record", "an archive in several parts"};
  }
  if (directory.size_bytes > directory_end ||
      directory.offset_bytes != directory_end - directory.size_bytes) {
    return Bad("zip end record", "the directory does not lie where it says; bytes are missing or were added");
  }
  if (directory.num_members > directory.size_bytes / kDirectoryBytes) {
    return Bad("zip end record", "more members than the directory has room for");
  }
  return directory;
}

// ---- one member: its directory record and its local header

std::optional<ByteSpan> FindExtra(ByteSpan extra, std::uint16_t wanted_id) {
  while (extra.size() >= 4) {
    const auto id = LoadLittle<std::uint16_t>(extra, 0);
    const std::size_t num_bytes = LoadLittle<std::uint16_t>(extra, 2);
    if (num_bytes > extra.size() - 4) return std::nullopt;
    if (id == wanted_id) return extra.subspan(4, num_bytes);
    extra = extra.subspan(4 + num_bytes);
  }
  return std::nullopt;
}

// Numbers that did not fit their 32-bit field follow in the zip64 extra field, in this order.
bool ResolveZip64(ByteSpan extra, std::initializer_list<std::uint64_t*> numbers) {
  std::optional<ByteSpan> wide = FindExtra(extra, kExtraZip64);
  for (std::uint64_t* number : numbers) {
    if (*number != kIn64) continue;
    if (!wide || wide->size() < 8) return false;
    *number = LoadLittle<std::uint64_t>(*wide, 0);
    *wide = wide->subspan(8);
  }
  return true;
}

std::string Where(const ZipMember& member) { return "zip member '" + Printable(member.name) + "'"; }

Result<Done> CheckMethod(const ZipMember& member, std::uint16_t flags, std::uint16_t method) {
  if (flags & kEncryptedFlags)
    return Error{ErrorCode::kUnsupported, Where(member), "an encrypted zip member"};
  if (method == kStored || method == kDeflated) return Done{};
  return Error{ErrorCode::kUnsupported, Where(member), "zip compression method " + std::to_string(method)};
}

// Finds where the data begins: the local header may have other extra fields than the directory has.
Result<Done> ResolveLocal(ByteSpan file, std::uint64_t limit, std::uint16_t flags, std::uint16_t method,
                          ZipMember& member) {
  const std::uint64_t at = member.header_offset_bytes;
  if (at > limit || limit - at < kLocalBytes || LoadLittle<std::uint32_t>(file, at) != kLocalSignature) {
    return Bad(Where(member), "no local header at offset " + std::to_string(at));
  }
  const ByteSpan header = file.subspan(at, kLocalBytes);
  const std::size_t name_bytes = LoadLittle<std::uint16_t>(header, 26);
  const std::size_t extra_bytes = LoadLittle<std::uint16_t>(header, 28);
  if (limit - at - kLocalBytes < name_bytes + extra_bytes)
    return Bad(Where(member), "its local header runs past the directory");
  if (AsText(file.subspan(at + kLocalBytes, name_bytes)) != member.name ||
      LoadLittle<std::uint16_t>(header, 8) != method ||
      ((LoadLittle<std::uint16_t>(header, 6) ^ flags) & (kEncryptedFlags | kSizesFollowFlag)) != 0) {
    return Bad(Where(member), "its local header disagrees with the directory");
  }
  member.data_offset_bytes = at + kLocalBytes + name_bytes + extra_bytes;
  if (limit - member.data_offset_bytes < member.stored_bytes) {
    return Error{ErrorCode::kTruncated, Where(member), "its data runs past the directory"};
  }
  std::uint64_t unpacked = LoadLittle<std::uint32_t>(header, 22),
                stored = LoadLittle<std::uint32_t>(header, 18);
  if (!ResolveZip64(file.subspan(at + kLocalBytes + name_bytes, extra_bytes), {&unpacked, &stored})) {
    return Bad(Where(member), "its local zip64 field is missing");
  }
  const bool sizes_follow = (flags & kSizesFollowFlag) != 0 && unpacked == 0 && stored == 0;
  if (!sizes_follow && (unpacked != member.unpacked_bytes || stored != member.stored_bytes ||
                        LoadLittle<std::uint32_t>(header, 14) != member.crc32)) {
    return Bad(Where(member), "sizes in its local header disagree with the directory");
  }
  return Done{};
}

// Reads the record at the front of `directory` and moves past it.
Result<ZipMember> ReadMember(ByteSpan file, ByteSpan& directory, std::uint64_t limit) {
  if (directory.size() < kDirectoryBytes || LoadLittle<std::uint32_t>(directory, 0) != kDirectorySignature) {
    return Bad("zip directory", "a record is damaged");
  }
  const std::size_t name_bytes = LoadLittle<std::uint16_t>(directory, 28);
  const std::size_t extra_bytes = LoadLittle<std::uint16_t>(directory, 30);
  const std::size_t record_bytes =
      kDirectoryBytes + name_bytes + extra_bytes + LoadLittle<std::uint16_t>(directory, 32);
  if (directory.size() < record_bytes) return Bad("zip directory", "a record runs past its end");

  ZipMember member;
  member.name = AsText(directory.subspan(kDirectoryBytes, name_bytes));
  const auto flags = LoadLittle<std::uint16_t>(directory, 8),
             method = LoadLittle<std::uint16_t>(directory, 10);
  member.crc32 = LoadLittle<std::uint32_t>(directory, 16);
  member.stored_bytes = LoadLittle<std::uint32_t>(directory, 20);
  member.unpacked_bytes = LoadLittle<std::uint32_t>(directory, 24);
  member.header_offset_bytes = LoadLittle<std::uint32_t>(directory, 42);
  if (!ResolveZip64(directory.subspan(kDirectoryBytes + name_bytes, extra_bytes),
                    {&member.unpacked_bytes, &member.stored_bytes, &member.header_offset_bytes})) {
    return Bad(Where(member), "its zip64 field is missing");
  }
  VN_RETURN_IF_ERROR(CheckMethod(member, flags, method));
  member.deflated = method == kDeflated;
  VN_RETURN_IF_ERROR(ResolveLocal(file, limit, flags, method, member));
  if (!member.deflated && member.stored_bytes != member.unpacked_bytes) {
    return Bad(Where(member), "stored, but with two different sizes");
  }
  if (member.unpacked_bytes / kMaxDeflateRatio > member.stored_bytes) {
    return Error{ErrorCode::kTooLarge, Where(member),
                 "claims to unpack to more than deflate can, as a zip bomb does"};
  }
  directory = directory.subspan(record_bytes);
  return member;
}

Result<Done> CheckOverlapsAndNames(std::span<const ZipMember> members) {
  std::vector<const ZipMember*> order;
  order.reserve(members.size());
  for (const ZipMember& member : members) order.push_back(&member);
  const auto by_offset = [](auto* a, auto* b) { return a->header_offset_bytes < b->header_offset_bytes; };
  const auto by_name = [](auto* a, auto* b) { return a->name < b->name; };
  if (!std::is_sorted(order.begin(), order.end(), by_offset))
    std::sort(order.begin(), order.end(), by_offset);
  for (std::size_t i = 1; i < order.size(); ++i) {
    const ZipMember& before = *order[i - 1];
    if (order[i]->header_offset_bytes < before.data_offset_bytes + before.stored_bytes) {
      return Bad(Where(*order[i]), "overlaps '" + Printable(before.name) + "', as a zip bomb does");
    }
  }
  // Not std::sort: another program may change the names under it, which may confuse it beyond the array's
  // ends.
  std::partial_sort(order.begin(), order.end(), order.end(), by_name);
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i]->name == order[i - 1]->name) return Bad(Where(*order[i]), "is there twice");
  }
  return Done{};
}

Result<std::vector<ZipMember>> ListMembers(ByteSpan file) {
  VN_ASSIGN_OR_RETURN(const Directory directory, FindDirectory(file));
  ByteSpan records = file.subspan(directory.offset_bytes, directory.size_bytes);
  std::vector<ZipMember> members;
  members.reserve(directory.num_members);
  for (std::uint64_t i = 0; i < directory.num_members; ++i) {
    VN_ASSIGN_OR_RETURN(const ZipMember next, ReadMember(file, records, directory.offset_bytes));
    members.push_back(next);
  }
  if (!records.empty()) return Bad("zip directory", "has more records than the end record counts");
  VN_RETURN_IF_ERROR(CheckOverlapsAndNames(members));
  std::erase_if(members, [](const ZipMember& member) {
    return member.name.ends_with('/') && member.unpacked_bytes == 0;  // a folder
  });
  return members;
}

bool IsChecksum(std::uint32_t crc32, ByteSpan bytes) {
  if constexpr (kFuzzing) return true;  // a fuzzer cannot guess them
  return libdeflate_crc32(0, bytes.data(), bytes.size()) == crc32;
}

Result<Bytes> Inflated(ByteSpan packed, std::uint64_t unpacked_bytes) {
  VN_ASSIGN_OR_RETURN(Bytes bytes, Allocate(unpacked_bytes, "", " unpacked"));
  VN_RETURN_IF_ERROR(InflateInto(packed, /*has_zlib_header=*/false, bytes));
  return bytes;
}

}  // namespace

bool LooksLikeZip(ByteSpan bytes) {
  if (bytes.size() < 4) return false;
  const auto signature = LoadLittle<std::uint32_t>(bytes, 0);
  return signature == kLocalSignature || signature == kEndSignature;  // the latter: an empty archive
}

Result<std::vector<ZipMember>> ListZip(const FileRef& file) {
  return Inside(file->path(), ListMembers(file->bytes()));
}

Result<Done> InflateInto(ByteSpan packed, bool has_zlib_header, Bytes& out) {
  const std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)> decompressor(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  if (!decompressor) return Error{ErrorCode::kTooLarge, "", "out of memory"};
  const auto decompress = has_zlib_header ? libdeflate_zlib_decompress : libdeflate_deflate_decompress;
  // Without a pointer for the actual size, anything but exactly this many bytes is an error.
  if (decompress(decompressor.get(), packed.data(), packed.size(), out.data(), out.size(), nullptr) !=
      LIBDEFLATE_SUCCESS) {
    return Bad("", "its deflated data is damaged");
  }
  return Done{};
}

ByteSpan StoredBytes(const FileRef& file, const ZipMember& member) {
  return file->bytes().subspan(member.data_offset_bytes, member.stored_bytes);
}

Result<Done> CheckStoredMember(const FileRef& file, const ZipMember& member) {
  const ByteSpan stored = StoredBytes(file, member);
  if (IsChecksum(member.crc32, stored)) return Done{};
  return Bad(file->path() + ": " + Where(member), "its checksum is wrong");
}

Result<Bytes> UnzipMember(const FileRef& file, const ZipMember& member) {
  const std::string where = file->path() + ": " + Where(member);
  const ByteSpan stored = StoredBytes(file, member);
  Result<Bytes> bytes =
      member.deflated ? Inflated(stored, member.unpacked_bytes) : Bytes(stored.begin(), stored.end());
  if (file->changed()) return Error{ErrorCode::kFileChanged, where, ""};
  if (!bytes) return In(where, std::move(bytes).error());
  if (!IsChecksum(member.crc32, *bytes)) return Bad(where, "its checksum is wrong");
  return bytes;
}

Result<Bytes> PackedMember::Unzip(const FileRef& file) const {
  ZipMember member = member_;
  member.name = name_;
  return UnzipMember(file, member);
}

// ---- writing

namespace {

// The number as a 32-bit field holds it: all ones when the zip64 field has it instead.
std::uint32_t Narrow(std::uint64_t number) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(number, kIn64));
}

// The part that the local header and the directory record share.
void AppendShared(std::string& out, std::uint32_t crc32, std::uint64_t num_bytes, std::size_t name_bytes,
                  std::size_t extra_bytes) {
  constexpr std::uint16_t kVersionZip64 = 45;
  constexpr std::uint16_t kMidnight = 0, kFirstOf1980 = 1 << 5 | 1;  // no clock: same bytes in, same file out
  AppendLittle<std::uint16_t>(out, kVersionZip64);
  AppendLittle<std::uint16_t>(out, kUtf8Flag);
  AppendLittle<std::uint16_t>(out, kStored);
  AppendLittle<std::uint16_t>(out, kMidnight);
  AppendLittle<std::uint16_t>(out, kFirstOf1980);
  AppendLittle(out, crc32);
  AppendLittle(out, Narrow(num_bytes));
  AppendLittle(out, Narrow(num_bytes));
  AppendLittle(out, static_cast<std::uint16_t>(name_bytes));
  AppendLittle(out, static_cast<std::uint16_t>(extra_bytes));
}

std::string Zip64Field(const std::vector<std::uint64_t>& numbers) {
  std::string extra;
  if (numbers.empty()) return extra;
  AppendLittle(extra, kExtraZip64);
  AppendLittle(extra, static_cast<std::uint16_t>(numbers.size() * 8));
  for (const std::uint64_t number : numbers) AppendLittle(extra, number);
  return extra;
}

// Extra field after which the data begins at a multiple of the alignment.
std::string AlignmentField(std::uint64_t position, std::size_t align_bytes) {
  constexpr std::size_t kFieldBytes = 6;
  const std::size_t padding_bytes = (align_bytes - (position + kFieldBytes) % align_bytes) % align_bytes;
  std::string extra;
  AppendLittle(extra, kExtraAlignment);
  AppendLittle(extra, static_cast<std::uint16_t>(2 + padding_bytes));
  AppendLittle(extra, static_cast<std::uint16_t>(align_bytes));
  extra.append(padding_bytes, '\0');
  return extra;
}

}  // namespace

void ZipLayout::Add(std::string_view name, ByteSpan data, std::optional<std::uint32_t> crc32) {
  Record record;
  record.name = name;
  record.data = data;
  record.header_offset_bytes = position_;
  record.crc32 = crc32 ? *crc32 : libdeflate_crc32(0, data.data(), data.size());
  std::string extra;
  if (data.size() >= kIn64) extra = Zip64Field({data.size(), data.size()});
  extra += AlignmentField(position_ + kLocalBytes + name.size() + extra.size(), kAlignBytes);
  AppendLittle(record.header, kLocalSignature);
  AppendShared(record.header, record.crc32, data.size(), name.size(), extra.size());
  record.header.append(name).append(extra);
  position_ += record.header.size() + data.size();
  records_.push_back(std::move(record));
}

std::string ZipLayout::DirectoryRecord(const Record& record) const {
  const std::uint64_t num_bytes = record.data.size();
  std::vector<std::uint64_t> wide;  // in this order
  if (num_bytes >= kIn64) wide = {num_bytes, num_bytes};
  if (record.header_offset_bytes >= kIn64) wide.push_back(record.header_offset_bytes);
  const std::string extra = Zip64Field(wide);
  std::string out;
  AppendLittle(out, kDirectorySignature);
  AppendLittle<std::uint16_t>(out, 45);
  AppendShared(out, record.crc32, num_bytes, record.name.size(), extra.size());
  AppendLittle<std::uint16_t>(out, 0);  // comment
  AppendLittle<std::uint16_t>(out, 0);  // disk
  AppendLittle<std::uint16_t>(out, 0);  // attributes
  AppendLittle<std::uint32_t>(out, 0);
  AppendLittle(out, Narrow(record.header_offset_bytes));
  return out + record.name + extra;
}

std::vector<ByteSpan> ZipLayout::Finish() {
  const std::uint64_t directory_offset = position_;
  for (const Record& record : records_) trailer_ += DirectoryRecord(record);
  const std::uint64_t directory_bytes = trailer_.size(), num_members = records_.size();
  const std::uint64_t end64_offset = directory_offset + directory_bytes;
  if (end64_offset >= kIn64 || num_members >= kIn64Short) {
    AppendLittle(trailer_, kEnd64Signature);
    AppendLittle<std::uint64_t>(trailer_, kEnd64Bytes - 12);
    AppendLittle<std::uint16_t>(trailer_, 45);
    AppendLittle<std::uint16_t>(trailer_, 45);
    AppendLittle<std::uint64_t>(trailer_, 0);  // this disk, and the directory's
    AppendLittle(trailer_, num_members);
    AppendLittle(trailer_, num_members);
    AppendLittle(trailer_, directory_bytes);
    AppendLittle(trailer_, directory_offset);
    AppendLittle(trailer_, kLocator64Signature);
    AppendLittle<std::uint32_t>(trailer_, 0);
    AppendLittle(trailer_, end64_offset);
    AppendLittle<std::uint32_t>(trailer_, 1);
  }
  const auto short_count = static_cast<std::uint16_t>(std::min<std::uint64_t>(num_members, kIn64Short));
  AppendLittle(trailer_, kEndSignature);
  AppendLittle<std::uint32_t>(trailer_, 0);
  AppendLittle(trailer_, short_count);
  AppendLittle(trailer_, short_count);
  AppendLittle(trailer_, Narrow(directory_bytes));
  AppendLittle(trailer_, Narrow(directory_offset));
  AppendLittle<std::uint16_t>(trailer_, 0);
  position_ += trailer_.size();

  std::vector<ByteSpan> pieces;
  for (const Record& record : records_) {
    pieces.push_back(AsBytes(record.header));
    if (!record.data.empty()) pieces.push_back(record.data);
  }
  pieces.push_back(AsBytes(trailer_));
  return pieces;
}

}  // namespace vernier

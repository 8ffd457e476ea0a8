#include "format/npz.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "core/atomic_file.h"
#include "core/mapped_file.h"
#include "format/little_endian.h"
#include "format/npy.h"

namespace vernier {
namespace {

constexpr std::string_view kSuffix = ".npy";
// Headers are padded to 64 or 128 bytes; only rare ones need a second try.
constexpr std::uint64_t kFirstPrefixBytes = 1024;
constexpr std::uint64_t kMaxPrefixBytes = std::uint64_t{2} << 20;

// The first `num_bytes` that raw deflate data unpacks to. libdeflate cannot stop early, zlib can: an archive
// of many gigabytes is listed without unpacking it.
Result<Bytes> InflatePrefix(std::span<const std::byte> deflated, std::uint64_t num_bytes) {
  Bytes out(num_bytes);
  z_stream stream = {};
  constexpr int kRawDeflate = -15;
  if (inflateInit2(&stream, kRawDeflate) != Z_OK) return Error{ErrorCode::kInternal, "zlib", ""};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(deflated.data()));
  stream.avail_in =
      static_cast<uInt>(std::min<std::uint64_t>(deflated.size(), std::numeric_limits<uInt>::max()));
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = inflate(&stream, Z_SYNC_FLUSH);
  inflateEnd(&stream);
  if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
    return Error{ErrorCode::kBadHeader, "deflated data", "damaged"};
  }
  out.resize(out.size() - stream.avail_out);
  return out;
}

Result<NpyHeader> DeflatedHeader(std::span<const std::byte> deflated, std::uint64_t unpacked_bytes) {
  for (std::uint64_t want = kFirstPrefixBytes;; want *= 16) {
    const std::uint64_t num_bytes = std::min({want, unpacked_bytes, kMaxPrefixBytes});
    VN_ASSIGN_OR_RETURN(const Bytes prefix, InflatePrefix(deflated, num_bytes));
    Result<NpyHeader> header = ParseNpyHeader(prefix);
    const bool longer_may_help = prefix.size() == num_bytes && num_bytes == want;
    if (header || header.error().code != ErrorCode::kTruncated || !longer_may_help) return header;
  }
}

Result<TensorEntry> DeflatedEntry(const FileRef& file, const ZipMember& member) {
  VN_ASSIGN_OR_RETURN(const NpyHeader header,
                      DeflatedHeader(StoredBytes(file, member), member.unpacked_bytes));
  VN_ASSIGN_OR_RETURN(TensorEntry entry, NpyEntry(header, 0, member.unpacked_bytes));
  TensorSource packed;
  packed.unpack = [member = PackedMember(member), info = entry.info,
                   source = entry.source](const FileRef& again) -> Result<Bytes> {
    VN_ASSIGN_OR_RETURN(Bytes bytes, member.Unzip(again));
    if (!source.strides.empty() || source.big_endian) return CopyElements(info, source, bytes);
    VN_RETURN_IF_ERROR(CheckExtent(info, source, bytes.size()));
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(source.offset_bytes));
    bytes.resize(info.num_bytes());
    return bytes;
  };
  entry.source = std::move(packed);
  return entry;
}

Result<TensorEntry> StoredEntry(const FileRef& file, const ZipMember& member) {
  VN_ASSIGN_OR_RETURN(const NpyHeader header, ParseNpyHeader(StoredBytes(file, member)));
  return NpyEntry(header, member.data_offset_bytes, member.data_offset_bytes + member.stored_bytes);
}

}  // namespace

bool HoldsNpy(std::span<const ZipMember> members) {
  return std::any_of(members.begin(), members.end(),
                     [](const ZipMember& member) { return member.name.ends_with(kSuffix); });
}

Entries ListNpz(const FileRef& file, std::span<const ZipMember> members) {
  Entries entries;
  for (const ZipMember& member : members) {
    if (!member.name.ends_with(kSuffix)) continue;
    Result<TensorEntry> read = member.deflated ? DeflatedEntry(file, member) : StoredEntry(file, member);
    TensorEntry entry;
    if (read) {
      entry = *std::move(read);
    } else {
      entry.info.damage = In(file->path() + ": " + std::string(member.name), std::move(read).error());
    }
    entry.info.name = member.name.substr(0, member.name.size() - kSuffix.size());
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<Done> WriteNpz(const std::filesystem::path& path, std::span<const NamedTensor> tensors) {
  ZipLayout layout;
  std::vector<std::string> members(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    VN_ASSIGN_OR_RETURN(members[i], NpyStart(tensors[i].tensor, path.string()));
    members[i] += AsText(tensors[i].tensor.bytes());
    layout.Add(tensors[i].name + std::string(kSuffix), AsBytes(members[i]));
  }
  VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  for (const std::span<const std::byte> piece : layout.Finish()) VN_RETURN_IF_ERROR(file.Write(piece));
  return file.Commit();
}

}  // namespace vernier

// Zip archives, as numpy (.npz) and torch (.pt) write them. See docs/formats/zip.md for the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/entry.h"
#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

struct ZipMember {
  std::string_view name;                  // lies in the file
  std::uint64_t header_offset_bytes = 0;  // of its local header
  std::uint64_t data_offset_bytes = 0;    // of the stored or deflated bytes in the file
  std::uint64_t stored_bytes = 0;         // as they lie in the file
  std::uint64_t unpacked_bytes = 0;       // equal to stored_bytes unless deflated
  bool deflated = false;
  std::uint32_t crc32 = 0;  // of the unpacked bytes
};

bool LooksLikeZip(std::span<const std::byte> bytes);

// Members in the order of the central directory, zip64 included; directories are left out. What it gives is
// safe to use: every range lies in the file and no two overlap, local headers agree with the directory,
// nothing unpacks to more than deflate can (1032 : 1). Encrypted members, other methods and archives in
// several parts are errors. `file` must outlive what it gives.
Result<std::vector<ZipMember>> ListZip(const FileRef& file);

// The member's bytes as they lie in the file. REQUIRES: `member` comes from ListZip(file)
std::span<const std::byte> StoredBytes(const FileRef& file, const ZipMember& member);

// The member's bytes, inflated when deflated, crc checked.
Result<Bytes> UnzipMember(const FileRef& file, const ZipMember& member);

// Fails when the bytes of a member that is not deflated do not have its checksum.
Result<Done> CheckStoredMember(const FileRef& file, const ZipMember& member);

// Raw deflate data, or with zlib's header around it; an error unless it fills `out` exactly.
Result<Done> InflateInto(ByteSpan packed, bool has_zlib_header, Bytes& out);

// A member that is unpacked later, from the same file opened again.
class PackedMember {
 public:
  explicit PackedMember(const ZipMember& member) : member_(member), name_(member.name) {}
  Result<Bytes> Unzip(const FileRef& file) const;

 private:
  ZipMember member_;
  std::string name_;  // the member's own name goes with the first opening
};

// Lays out an archive of stored members whose data begin at multiples of 64, without copying them: Finish()
// gives the pieces of the file in order, some ours, some the caller's.
class ZipLayout {
 public:
  static constexpr std::size_t kAlignBytes = 64;

  // The bytes behind `data` must outlive the use of Finish(). Reads them once for the crc, unless it is
  // given.
  void Add(std::string_view name, std::span<const std::byte> data,
           std::optional<std::uint32_t> crc32 = std::nullopt);
  // To be called once. The pieces live as long as this object does.
  std::vector<std::span<const std::byte>> Finish();
  std::uint64_t size_bytes() const { return position_; }  // of everything so far; of the file after Finish()

 private:
  struct Record {
    std::string name;
    std::string header;  // with its padding
    std::span<const std::byte> data;
    std::uint64_t header_offset_bytes = 0;
    std::uint32_t crc32 = 0;
  };
  std::string DirectoryRecord(const Record& record) const;

  std::vector<Record> records_;
  std::string trailer_;
  std::uint64_t position_ = 0;
};

}  // namespace vernier

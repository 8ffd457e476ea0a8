#include "format/pt.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/mapped_file.h"
#include "core/text.h"
#include "format/little_endian.h"
#include "format/pickle.h"
#include "format/pt_tensors_internal.h"

namespace vernier {
namespace {

// ---- zip

constexpr std::string_view kPickleName = "data.pkl";

bool IsPickle(const ZipMember& member) {
  const std::string_view name = member.name;
  return name == kPickleName ||
         (name.ends_with(kPickleName) && name[name.size() - kPickleName.size() - 1] == '/');
}

// The members of an archive by name, without the folder that torch puts all of them in.
class Archive {
 public:
  Archive(const FileRef& file, const std::vector<ZipMember>& members, std::string_view prefix) : file_(file) {
    by_name_.reserve(members.size());
    for (const ZipMember& member : members) {
      const std::string_view name = member.name;
      if (name.starts_with(prefix)) by_name_.push_back({name.substr(prefix.size()), &member});
    }
    // Not std::sort: the names lie in the file, see zip.cc.
    std::partial_sort(by_name_.begin(), by_name_.end(), by_name_.end());
  }

  const ZipMember* Find(std::string_view name) const {
    const auto found =
        std::lower_bound(by_name_.begin(), by_name_.end(), name,
                         [](const auto& entry, std::string_view wanted) { return entry.first < wanted; });
    return found == by_name_.end() || found->first != name ? nullptr : found->second;
  }

  // In place when stored; `unpacked` holds the bytes otherwise. Torch can be told to leave checksums out, and
  // then writes 0.
  Result<ByteSpan> Read(const ZipMember& member, Bytes& unpacked) const {
    if (!member.deflated) {
      if (member.crc32 != 0) VN_RETURN_IF_ERROR(CheckStoredMember(file_, member));
      return StoredBytes(file_, member);
    }
    VN_ASSIGN_OR_RETURN(unpacked, UnzipMember(file_, member));
    return ByteSpan(unpacked);
  }

  Result<bool> BigEndian() const {
    const ZipMember* member = Find("byteorder");
    if (!member) return false;  // only torch 2.1 and later say it
    Bytes unpacked;
    VN_ASSIGN_OR_RETURN(const ByteSpan bytes, Read(*member, unpacked));
    const std::string_view text = AsText(bytes);
    if (text != "little" && text != "big")
      return Error{ErrorCode::kBadHeader, "byteorder", Printable(text.substr(0, 40))};
    return text == "big";
  }

 private:
  const FileRef& file_;
  std::vector<std::pair<std::string_view, const ZipMember*>> by_name_;  // sorted
};

Result<Entries> ListArchive(const FileRef& file, const std::vector<ZipMember>& members) {
  const auto pickle_member = std::find_if(members.begin(), members.end(), IsPickle);
  if (pickle_member == members.end())
    return Error{ErrorCode::kBadMagic, "", "a zip archive without data.pkl"};
  const std::string_view pickle_name = pickle_member->name;
  const Archive archive(file, members, pickle_name.substr(0, pickle_name.size() - kPickleName.size()));
  if (archive.Find("constants.pkl")) {
    return Error{
        ErrorCode::kUnsupported, "",
        "a TorchScript archive (torch.jit.save); save the module's state_dict() with torch.save instead"};
  }
  VN_ASSIGN_OR_RETURN(const bool big_endian, archive.BigEndian());
  Bytes unpacked;
  VN_ASSIGN_OR_RETURN(const ByteSpan pickle, archive.Read(*pickle_member, unpacked));
  VN_ASSIGN_OR_RETURN(const PickleTree tree, ParsePickle(pickle));
  if (tree.num_bytes != pickle.size()) {
    return Error{ErrorCode::kBadHeader, std::string(pickle_name),
                 "its pickle ends " + std::to_string(pickle.size() - tree.num_bytes) + " bytes too early"};
  }
  return ListPickledTensors(tree, file, [&](const PtStorageId& id) -> Result<PtStorage> {
    const ZipMember* member = archive.Find("data/" + id.key);
    if (!member) {
      return Error{ErrorCode::kBadHeader, "",
                   "its storage 'data/" + Printable(id.key) + "' is not in the archive"};
    }
    if (member->deflated) return PtStorage{0, member->unpacked_bytes, *member, big_endian};
    return PtStorage{member->data_offset_bytes, member->stored_bytes, std::nullopt, big_endian};
  });
}

// ---- legacy: five pickles, then the storages

constexpr std::string_view kLegacyMagic =
    "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";  // LONG1 … STOP
constexpr std::size_t kMaxBytesBeforeMagic = 11;          // PROTO and FRAME
constexpr std::int64_t kLegacyProtocol = 1001;

class LegacyReader {
 public:
  explicit LegacyReader(const FileRef& file) : file_(file), bytes_(file->bytes()) {}

  Result<Entries> List() {
    VN_RETURN_IF_ERROR(NextPickle());  // the magic number
    VN_ASSIGN_OR_RETURN(const PickleTree protocol, NextPickle());
    if (protocol.root.kind != PickleKind::kInt || protocol.root.integer != kLegacyProtocol) {
      return Error{ErrorCode::kUnsupported, "protocol version", "only 1001 is known"};
    }
    VN_RETURN_IF_ERROR(
        NextPickle());  // about the machine that wrote it; storages are little endian on all of them
    VN_ASSIGN_OR_RETURN(const PickleTree tree, NextPickle());
    VN_ASSIGN_OR_RETURN(const PickleTree keys, NextPickle());
    VN_RETURN_IF_ERROR(FindStorages(tree, keys));
    return ListPickledTensors(tree, file_, [this](const PtStorageId& id) -> Result<PtStorage> {
      const auto found = storages_.find(id.key);
      if (found != storages_.end()) return found->second;
      return Error{ErrorCode::kTruncated, "", "its storage '" + Printable(id.key) + "' is not in the file"};
    });
  }

 private:
  Result<PickleTree> NextPickle() {
    auto tree = ParsePickle(bytes_.subspan(position_));
    if (tree) position_ += tree->num_bytes;
    return tree;
  }

  // Each storage is its number of elements and then these, in the order of the keys. Where the file ends too
  // early, what was found until then can still be read.
  Result<Done> FindStorages(const PickleTree& tree, const PickleTree& keys) {
    std::unordered_map<std::string, std::uint64_t> item_bytes;  // as the first one to mention a storage says
    for (const PickleValue& value : tree.persistent) {
      VN_ASSIGN_OR_RETURN(const PtStorageId id, ParsePtStorageId(tree, value));
      item_bytes.emplace(id.key, id.storage_class->item_bytes);
    }
    if (keys.root.kind != PickleKind::kList)
      return Error{ErrorCode::kBadHeader, "storage keys", "not a list"};
    for (const PickleValue& key : keys.objects[keys.root.object].items) {
      const auto found =
          key.kind == PickleKind::kText ? item_bytes.find(std::string(TextOf(key))) : item_bytes.end();
      if (found == item_bytes.end())
        return Error{ErrorCode::kBadHeader, "storage keys", "a key that no tensor refers to"};
      if (bytes_.size() - position_ < sizeof(std::uint64_t)) return Done{};
      const auto num_elements = LoadLittle<std::uint64_t>(bytes_, position_);
      position_ += sizeof(std::uint64_t);
      std::uint64_t num_bytes = 0;
      if (__builtin_mul_overflow(num_elements, found->second, &num_bytes) ||
          num_bytes > bytes_.size() - position_) {
        return Done{};
      }
      storages_.emplace(found->first, PtStorage{position_, num_bytes, std::nullopt, /*big_endian=*/false});
      position_ += num_bytes;
    }
    return Done{};
  }

  const FileRef& file_;
  ByteSpan bytes_;
  std::size_t position_ = 0;
  std::unordered_map<std::string, PtStorage> storages_;
};

// Errors about a zip member name the file already.
Result<Entries> InFile(const FileRef& file, Result<Entries> entries) {
  if (entries || entries.error().where.starts_with(file->path())) return entries;
  return Inside(file->path(), std::move(entries));
}

}  // namespace

bool LooksLikePtZip(const std::vector<ZipMember>& members) {
  return std::any_of(members.begin(), members.end(), IsPickle);
}

bool LooksLikePtLegacy(ByteSpan bytes) {
  const std::string_view start = AsText(bytes).substr(0, kMaxBytesBeforeMagic + kLegacyMagic.size());
  return start.starts_with('\x80') && start.find(kLegacyMagic) != std::string_view::npos;
}

Result<Entries> ListPtZip(const FileRef& file, const std::vector<ZipMember>& members) {
  return InFile(file, ListArchive(file, members));
}

Result<Entries> ListPt(const FileRef& file) {
  if (LooksLikePtLegacy(file->bytes())) return InFile(file, LegacyReader(file).List());
  if (!LooksLikeZip(file->bytes()))
    return Error{ErrorCode::kBadMagic, file->path(), "not written by torch.save"};
  VN_ASSIGN_OR_RETURN(const std::vector<ZipMember> members, ListZip(file));
  return ListPtZip(file, members);
}

}  // namespace vernier

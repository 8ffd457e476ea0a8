#include "format/hdf5.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/mapped_file.h"
#include "format/hdf5_internal.h"
#include "format/little_endian.h"

namespace vernier {
namespace {

constexpr std::size_t kMaxEntries = std::size_t{1} << 22;
constexpr std::size_t kMaxDepth = 400;
constexpr std::uint64_t kMaxNameBytes = std::uint64_t{1} << 27;  // of all names together

// float32 that was widened from bfloat16 narrows to the same bits again; anything else to the nearest.
Bytes NarrowToBFloat16(ByteSpan widened) {
  Bytes narrow(widened.size() / 2);
  for (std::size_t i = 0; i < narrow.size() / 2; ++i) {
    const auto bits = LoadLittle<std::uint32_t>(widened, 4 * i);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    const std::uint32_t rounded = is_nan ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
    const auto high = static_cast<std::uint16_t>(rounded >> 16);
    std::memcpy(narrow.data() + 2 * i, &high, sizeof(high));
  }
  return narrow;
}

// What the attribute `dtype` makes of a dataset: h5py has no type for 16-bit brain floats and 8-bit floats,
// so these are stored as their bits, or widened.
void ApplyDtypeAttribute(Dtype dtype, TensorEntry& entry) {
  const Dtype stored = entry.info.dtype;
  if (dtype == stored) return;
  const bool is_bits =
      Class(stored) == DtypeClass::kUnsigned || (dtype == Dtype::kBool && stored == Dtype::kI8);
  if (is_bits && ItemBytes(dtype) == ItemBytes(stored)) {
    entry.info.dtype = dtype;
  } else if (stored == Dtype::kF32 && dtype == Dtype::kBF16) {
    entry.source.unpack = [widened = entry](const FileRef& file) -> Result<Bytes> {
      VN_ASSIGN_OR_RETURN(const TensorView view, LoadEntry(widened, file));
      return NarrowToBFloat16(view.bytes());
    };
    entry.info.dtype = dtype;
  }
}

class Lister {
 public:
  // `objects`: receives the attributes of everything that is visited; null: nobody wants them
  Lister(const Hdf5File& file, std::string path, std::vector<Hdf5Object>* objects = nullptr)
      : file_(file), path_(std::move(path)), attributes_(file), objects_(objects) {}

  Result<Done> ListGroup(std::uint64_t address, const Hdf5Messages& messages, std::size_t depth) {
    if (!groups_.insert(address).second) return Done{};  // linked from inside itself, or twice
    if (depth > kMaxDepth) return Error{ErrorCode::kTooLarge, "hdf5 groups", "more than 400 levels deep"};
    if (objects_ != nullptr) objects_->push_back({name_, attributes_.Read(messages)});
    VN_ASSIGN_OR_RETURN(const std::vector<Hdf5Link> links, Hdf5Links(file_, messages));
    for (const Hdf5Link& link : links) {
      const std::size_t parent_bytes = name_.size();
      if (!name_.empty()) name_ += '/';
      name_ += link.name;
      VN_RETURN_IF_ERROR(ListObject(link.address, depth));
      name_.resize(parent_bytes);
    }
    return Done{};
  }

  Entries entries;

 private:
  Result<Done> ListObject(std::uint64_t address, std::size_t depth) {
    const Result<Hdf5Messages> messages = file_.Messages(address);
    if (!messages) return AddDamaged(messages.error());
    if (IsHdf5Group(*messages)) {
      Result<Done> listed = ListGroup(address, *messages, depth + 1);
      if (listed || listed.error().code == ErrorCode::kTooLarge) return listed;
      return AddDamaged(listed.error());
    }
    const Hdf5Message* space = Find(*messages, hdf5_message::kDataspace);
    const Hdf5Message* type = Find(*messages, hdf5_message::kDatatype);
    if (!space || !type) return Done{};  // a committed datatype, or something newer
    TensorEntry entry;
    bool is_text = false;
    const Result<Done> described = Describe(*messages, *space, *type, entry, is_text);
    if (!described) return AddDamaged(described.error(), std::move(entry));
    if (is_text) return Done{};
    if (objects_ != nullptr) objects_->push_back({name_, attributes_.Read(*messages)});
    for (const auto& [attribute, value] : attributes_.Read(*messages, "dtype")) {
      const auto* const text = std::get_if<std::string>(&value);
      if (const std::optional<Dtype> dtype = text ? ParseDtype(*text) : std::nullopt)
        ApplyDtypeAttribute(*dtype, entry);
    }
    return Add(std::move(entry));
  }

  Result<Done> Describe(const Hdf5Messages& messages, const Hdf5Message& space_message,
                        const Hdf5Message& type_message, TensorEntry& entry, bool& is_text) const {
    VN_ASSIGN_OR_RETURN(const Hdf5Type type, ParseHdf5Type(file_, type_message.data));
    is_text = type.is_text;
    if (is_text) return Done{};
    VN_ASSIGN_OR_RETURN(const Hdf5Space space, ParseHdf5Space(file_, space_message.data));
    entry.info.name = name_;
    entry.info.shape = space.shape;
    if (!type.dtype) return Error{ErrorCode::kUnsupported, "", type.description};
    entry.info.dtype = *type.dtype;
    VN_ASSIGN_OR_RETURN(entry.info.num_elements, NumElements(entry.info.shape, entry.info.dtype));
    return PlaceHdf5Data(file_, messages, type, space, entry);
  }

  Result<Done> Add(TensorEntry entry) {
    num_name_bytes_ += name_.size();
    if (entries.size() >= kMaxEntries || num_name_bytes_ > kMaxNameBytes) {
      return Error{ErrorCode::kTooLarge, "hdf5 groups", "too many datasets"};
    }
    entry.info.name = name_;
    entries.push_back(std::move(entry));
    return Done{};
  }

  Result<Done> AddDamaged(Error error, TensorEntry entry = {}) {
    entry.source = {};
    entry.info.damage = In(path_ + ": " + name_, std::move(error));
    return Add(std::move(entry));
  }

  const Hdf5File& file_;
  const std::string path_;
  Hdf5AttributeReader attributes_;
  std::vector<Hdf5Object>* const objects_;
  std::string name_;
  std::unordered_set<std::uint64_t> groups_;
  std::uint64_t num_name_bytes_ = 0;
};

Result<Entries> List(const FileRef& file, std::vector<Hdf5Object>* objects = nullptr) {
  VN_ASSIGN_OR_RETURN(const Hdf5File opened, Hdf5File::Open(file->bytes()));
  VN_ASSIGN_OR_RETURN(const Hdf5Messages root, opened.Messages(opened.root_address()));
  if (!IsHdf5Group(root)) return Hdf5Error("root group", opened.root_address(), "is not a group");
  Lister lister(opened, file->path(), objects);
  VN_RETURN_IF_ERROR(lister.ListGroup(opened.root_address(), root, 0));
  return std::move(lister.entries);
}

}  // namespace

Result<Entries> ListHdf5(const FileRef& file) { return Inside(file->path(), List(file)); }

const Hdf5Value* Hdf5Object::Find(std::string_view attribute) const {
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const auto& known) { return known.first == attribute; });
  return found == attributes.end() ? nullptr : &found->second;
}

std::optional<double> Hdf5Object::Number(std::string_view attribute) const {
  const Hdf5Value* const value = Find(attribute);
  if (value == nullptr) return std::nullopt;
  if (const auto* const integer = std::get_if<std::int64_t>(value)) return static_cast<double>(*integer);
  const auto* const number = std::get_if<double>(value);
  return number == nullptr ? std::nullopt : std::optional(*number);
}

Result<std::vector<Hdf5Object>> ListHdf5Attributes(const FileRef& file) {
  std::vector<Hdf5Object> objects;
  const Result<Entries> entries = Inside(file->path(), List(file, &objects));
  if (!entries) return entries.error();
  return objects;
}

}  // namespace vernier

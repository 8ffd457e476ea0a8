#include <algorithm>
#include <span>
#include <utility>

#include "core/mapped_file.h"
#include "core/text.h"
#include "format/pt_tensors_internal.h"

namespace vernier {
namespace {

// A pickle of a few bytes can refer to one tensor along a great many paths.
constexpr std::size_t kMaxTensors = std::size_t{1} << 20;
constexpr std::size_t kMaxDepth = 400;
constexpr std::size_t kMaxRank = 64;
constexpr std::uint64_t kMaxVisits = std::uint64_t{1} << 28;
constexpr std::uint64_t kMaxNameBytes = std::uint64_t{1} << 27;  // of all names together

using Kind = PickleKind;
using Values = std::span<const PickleValue>;

Error Bad(std::string detail) { return Error{ErrorCode::kBadHeader, "", std::move(detail)}; }

Result<std::uint64_t> Unsigned(const PickleValue& value, std::string_view what) {
  if (value.kind == Kind::kInt && value.integer >= 0) return static_cast<std::uint64_t>(value.integer);
  return Bad(std::string(what) + ": expected a whole number ≥ 0");
}

std::string FullName(const PickleGlobal& global) {
  return std::string(global.module) + "." + std::string(global.name);
}

// A key of a dict as a part of a name.
std::string KeyText(const PickleValue& key, std::size_t position) {
  switch (key.kind) {
    case Kind::kText:
    case Kind::kBytes:
      return std::string(TextOf(key));
    case Kind::kInt:
      return std::to_string(key.integer);
    case Kind::kReal:
      return ShortestText(key.real);
    case Kind::kBool:
      return key.integer ? "True" : "False";
    case Kind::kNone:
      return "None";
    default:
      return "[" + std::to_string(position) + "]";
  }
}

// ---- from a call to an entry

class TensorBuilder {
 public:
  TensorBuilder(const PickleTree& tree, const FileRef& file, const FindPtStorage& find_storage)
      : tree_(tree), file_(file), find_storage_(find_storage) {}

  // `value` is a call or a persistent id. What goes wrong becomes the entry's damage.
  TensorEntry Build(const PickleValue& value, std::string name) const {
    TensorEntry entry;
    entry.info.name = std::move(name);
    const Result<Done> built = value.kind == Kind::kPersistent ? FromStorage(value, entry)
                                                               : FromCall(value, entry, /*may_nest=*/true);
    if (built) return entry;
    const std::string where = file_->path();
    entry.info.damage = In(entry.info.name.empty() ? where : where + ": " + entry.info.name, built.error());
    entry.source = {};
    return entry;
  }

 private:
  Values ItemsOf(const PickleValue& value) const { return tree_.objects[value.object].items; }

  Result<Done> FromCall(const PickleValue& value, TensorEntry& entry, bool may_nest) const {
    if (value.kind != Kind::kCall) return Bad("expected a tensor");
    return FromFunction(*tree_.objects[value.object].callee, ItemsOf(value), entry, may_nest);
  }

  Result<Done> FromFunction(const PickleGlobal& function, Values arguments, TensorEntry& entry,
                            bool may_nest) const {
    switch (function.role) {
      case PickleRole::kTensor:
        return FromArguments(function, arguments, /*num_needed=*/4, /*metadata_at=*/6, entry);
      case PickleRole::kTensorV3:
        return FromArguments(function, arguments, /*num_needed=*/7, /*metadata_at=*/7, entry);
      case PickleRole::kMetaTensor:
        return FromMeta(arguments, entry);
      case PickleRole::kFirstArgument:
        if (arguments.empty() || !may_nest) return Bad("expected a tensor");
        return FromCall(arguments[0], entry, /*may_nest=*/false);
      case PickleRole::kTensorFromType:
        if (!may_nest || arguments.size() < 3 || arguments[0].kind != Kind::kGlobal ||
            !IsObject(arguments[2]))
          break;
        return FromFunction(*arguments[0].global, ItemsOf(arguments[2]), entry, /*may_nest=*/false);
      default:
        break;
    }
    return Error{ErrorCode::kUnsupported, "",
                 "only dense tensors can be read; this one is rebuilt by " + FullName(function)};
  }

  Result<Done> FromArguments(const PickleGlobal& function, Values arguments, std::size_t num_needed,
                             std::size_t metadata_at, TensorEntry& entry) const {
    if (arguments.size() < num_needed) return Bad("too few arguments for " + FullName(function));
    TensorInfo& info = entry.info;
    VN_ASSIGN_OR_RETURN(info.shape, Numbers(arguments[2], "its shape"));
    VN_ASSIGN_OR_RETURN(const PtStorageId id, ParsePtStorageId(tree_, arguments[0]));
    const PickleValue& dtype_value = arguments[num_needed - 1];
    const bool has_dtype = function.role == PickleRole::kTensorV3;
    if (has_dtype && dtype_value.kind != Kind::kGlobal) return Bad("the tensor has no dtype");
    const PickleGlobal& dtype = has_dtype ? *dtype_value.global : *id.storage_class;
    if (!dtype.dtype) return Error{ErrorCode::kUnsupported, "", "elements of " + FullName(dtype)};
    info.dtype = *dtype.dtype;
    VN_ASSIGN_OR_RETURN(info.num_elements, NumElements(info.shape, info.dtype));
    VN_ASSIGN_OR_RETURN(const std::uint64_t offset, Unsigned(arguments[1], "its storage offset"));
    VN_ASSIGN_OR_RETURN(std::vector<std::int64_t> strides, Numbers(arguments[3], "its strides"));
    if (strides.size() != info.shape.size())
      return Error{ErrorCode::kBadShape, "", "as many strides as dimensions"};
    if (arguments.size() > metadata_at) VN_RETURN_IF_ERROR(CheckMetadata(arguments[metadata_at]));
    return Place(id, offset, std::move(strides), entry);
  }

  // A tensor on the meta device: everything but the elements.
  Result<Done> FromMeta(Values arguments, TensorEntry& entry) const {
    if (arguments.size() < 2) return Bad("too few arguments for a meta tensor");
    VN_ASSIGN_OR_RETURN(entry.info.shape, Numbers(arguments[1], "its shape"));
    if (arguments[0].kind == Kind::kGlobal && arguments[0].global->dtype)
      entry.info.dtype = *arguments[0].global->dtype;
    VN_ASSIGN_OR_RETURN(entry.info.num_elements, NumElements(entry.info.shape, entry.info.dtype));
    return Error{ErrorCode::kUnsupported, "", "a tensor on the meta device has no elements"};
  }

  Result<Done> FromStorage(const PickleValue& value, TensorEntry& entry) const {
    VN_ASSIGN_OR_RETURN(const PtStorageId id, ParsePtStorageId(tree_, value));
    if (!id.storage_class->dtype) {
      return Error{ErrorCode::kUnsupported, "", "elements of " + FullName(*id.storage_class)};
    }
    const std::uint64_t num_elements = id.view ? id.view->num_elements : id.num_elements;
    entry.info.dtype = *id.storage_class->dtype;
    entry.info.shape = {static_cast<std::int64_t>(num_elements)};
    VN_ASSIGN_OR_RETURN(entry.info.num_elements, NumElements(entry.info.shape, entry.info.dtype));
    return Place(id, 0, {1}, entry);
  }

  // torch notes here that a view is conjugated or negated only when it is used.
  Result<Done> CheckMetadata(const PickleValue& metadata) const {
    if (metadata.kind != Kind::kDict) return Done{};
    const Values items = ItemsOf(metadata);
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      const bool lazy =
          items[i].kind == Kind::kText && (TextOf(items[i]) == "conj" || TextOf(items[i]) == "neg");
      if (lazy && items[i + 1].integer != 0) {
        return Error{ErrorCode::kUnsupported, "",
                     "a lazy conjugate or negative; save tensor.resolve_conj().resolve_neg()"};
      }
    }
    return Done{};
  }

  Result<std::vector<std::int64_t>> Numbers(const PickleValue& value, std::string_view what) const {
    if (value.kind != Kind::kTuple && value.kind != Kind::kList)
      return Bad(std::string(what) + ": expected a tuple");
    const Values items = ItemsOf(value);
    if (items.size() > kMaxRank) return Error{ErrorCode::kBadShape, "", "more than 64 dimensions"};
    std::vector<std::int64_t> numbers;
    numbers.reserve(items.size());
    for (const PickleValue& item : items) {
      if (item.kind != Kind::kInt || item.integer < 0) {
        return Error{ErrorCode::kBadShape, "",
                     "a number in " + std::string(what) + ": expected a whole number ≥ 0"};
      }
      numbers.push_back(item.integer);
    }
    return numbers;
  }

  Result<Done> Place(const PtStorageId& id, std::uint64_t offset_elements, std::vector<std::int64_t> strides,
                     TensorEntry& entry) const {
    if (id.location == "meta") {
      return Error{ErrorCode::kUnsupported, "", "a tensor on the meta device has no elements"};
    }
    VN_ASSIGN_OR_RETURN(PtStorage storage, Storage(id));
    const TensorInfo& info = entry.info;
    TensorSource source;  // inside of the storage
    const bool overflow =
        __builtin_mul_overflow(offset_elements, ItemBytes(info.dtype), &source.offset_bytes) &&
        info.num_elements > 0;
    if (info.num_elements > 1) source.strides = std::move(strides);
    if (overflow || !CheckExtent(info, source, storage.num_bytes)) {
      return Error{ErrorCode::kBadShape, "",
                   "shape " + ShapeText(info.shape) + " with strides " + ShapeText(source.strides) +
                       " from element " + std::to_string(offset_elements) + " reaches past its storage of " +
                       std::to_string(storage.num_bytes) + " bytes"};
    }
    if (info.num_elements == 0) source.offset_bytes = 0;
    source.offset_bytes += storage.offset_bytes;
    source.big_endian = storage.big_endian;
    if (storage.packed) source.unpack = Unpacker(*storage.packed, info, source);
    entry.source = std::move(source);
    return Done{};
  }

  // The storage, or the part of it that the id means.
  Result<PtStorage> Storage(const PtStorageId& id) const {
    VN_ASSIGN_OR_RETURN(PtStorage storage, find_storage_(id));
    const std::uint64_t item_bytes = id.storage_class->item_bytes;
    std::uint64_t claimed_bytes = 0;
    if (__builtin_mul_overflow(id.num_elements, item_bytes, &claimed_bytes) ||
        claimed_bytes > storage.num_bytes) {
      return Error{ErrorCode::kTruncated, "",
                   "storage '" + Printable(id.key) + "' has " + std::to_string(storage.num_bytes) +
                       " bytes, " + std::to_string(id.num_elements) + " elements are claimed"};
    }
    if (!id.view) return storage;
    std::uint64_t begin = 0, size = 0, end = 0;
    if (__builtin_mul_overflow(id.view->offset_elements, item_bytes, &begin) ||
        __builtin_mul_overflow(id.view->num_elements, item_bytes, &size) ||
        __builtin_add_overflow(begin, size, &end) || end > storage.num_bytes) {
      return Error{ErrorCode::kBadShape, "", "a view reaches past storage '" + Printable(id.key) + "'"};
    }
    storage.offset_bytes += begin;
    storage.num_bytes = size;
    return storage;
  }

  // Inflates the whole storage for one tensor of it. torch never deflates; somebody zipped the file again.
  static std::function<Result<Bytes>(const FileRef&)> Unpacker(const ZipMember& member,
                                                               const TensorInfo& info,
                                                               const TensorSource& source) {
    return [member = PackedMember(member), info, source](const FileRef& file) -> Result<Bytes> {
      VN_ASSIGN_OR_RETURN(const Bytes storage, member.Unzip(file));
      return CopyElements(info, source, storage);
    };
  }

  const PickleTree& tree_;
  const FileRef& file_;
  const FindPtStorage& find_storage_;
};

// ---- from a tree to its tensors

class Walker {
 public:
  Walker(const PickleTree& tree, const FileRef& file, const FindPtStorage& find_storage)
      : tree_(tree), builder_(tree, file, find_storage), marks_(tree.objects.size()) {}

  Result<Done> Walk(const PickleValue& value, std::size_t depth) {
    if (!IsObject(value)) return Done{};
    if (depth > kMaxDepth) return TooLarge("more than 400 levels deep");
    Marks& marks = marks_[value.object];
    // Inside itself: its tensors are being listed already. Without tensors: no need to look again, and again.
    if (marks.on_path || marks.barren) return Done{};
    const std::size_t num_before = entries.size();
    marks.on_path = true;
    VN_RETURN_IF_ERROR(WalkObject(value, depth));
    marks_[value.object] = {false, entries.size() == num_before};
    return Done{};
  }

  Entries entries;

 private:
  struct Marks {
    bool on_path = false, barren = false;
  };

  static Error TooLarge(std::string detail) {
    return Error{ErrorCode::kTooLarge, "pickle", std::move(detail)};
  }

  Result<Done> WalkObject(const PickleValue& value, std::size_t depth) {
    const PickleObject& object = tree_.objects[value.object];
    num_visits_ += object.items.size() + 1;
    if (num_visits_ > kMaxVisits) return TooLarge("the same objects are referred to too often");
    if (value.kind == Kind::kPersistent) return Add(value);
    if (value.kind == Kind::kCall) {
      return object.callee->role == PickleRole::kObject ? Walk(object.state, depth + 1) : Add(value);
    }
    const bool is_dict = value.kind == Kind::kDict;
    for (std::size_t i = 0; i < object.items.size(); i += is_dict ? 2 : 1) {
      const PickleValue& child = object.items[is_dict ? i + 1 : i];
      if (!IsObject(child)) continue;
      const std::size_t parent_bytes = name_.size();
      if (!name_.empty()) name_ += '.';
      name_ += is_dict ? KeyText(object.items[i], i / 2) : std::to_string(i);
      VN_RETURN_IF_ERROR(Walk(child, depth + 1));
      name_.resize(parent_bytes);
    }
    return Done{};
  }

  Result<Done> Add(const PickleValue& value) {
    num_name_bytes_ += name_.size();
    if (entries.size() >= kMaxTensors || num_name_bytes_ > kMaxNameBytes) return TooLarge("too many tensors");
    entries.push_back(builder_.Build(value, name_));
    return Done{};
  }

  const PickleTree& tree_;
  TensorBuilder builder_;
  std::vector<Marks> marks_;
  std::string name_;
  std::uint64_t num_visits_ = 0, num_name_bytes_ = 0;
};

}  // namespace

// ("storage", class, key, location, number of elements), and in the legacy format a sixth: None or
// (key of the view, offset, number of elements).
Result<PtStorageId> ParsePtStorageId(const PickleTree& tree, const PickleValue& value) {
  if (value.kind != Kind::kPersistent) return Bad("the tensor has no storage");
  const Values items = tree.objects[value.object].items;
  if (items.size() < 5 || items[0].kind != Kind::kText || TextOf(items[0]) != "storage") {
    return Error{ErrorCode::kUnsupported, "", "a persistent id that does not name a storage"};
  }
  if (items[1].kind != Kind::kGlobal || items[1].global->role != PickleRole::kStorageClass) {
    return Bad("unknown class of storage");
  }
  PtStorageId id;
  id.storage_class = items[1].global;
  if (items[2].kind == Kind::kText && TextOf(items[2]).size() > 1024)
    return Bad("the key of its storage is too long");
  id.key = KeyText(items[2], 0);
  if (items[3].kind == Kind::kText) id.location = TextOf(items[3]);
  VN_ASSIGN_OR_RETURN(id.num_elements, Unsigned(items[4], "the size of its storage"));
  if (items.size() < 6 || items[5].kind != Kind::kTuple) return id;
  const Values view = tree.objects[items[5].object].items;
  if (view.size() != 3) return Bad("the view of its storage has no offset and size");
  id.view.emplace();
  VN_ASSIGN_OR_RETURN(id.view->offset_elements, Unsigned(view[1], "the offset of its storage view"));
  VN_ASSIGN_OR_RETURN(id.view->num_elements, Unsigned(view[2], "the size of its storage view"));
  return id;
}

Result<Entries> ListPickledTensors(const PickleTree& tree, const FileRef& file,
                                   const FindPtStorage& find_storage) {
  Walker walker(tree, file, find_storage);
  VN_RETURN_IF_ERROR(walker.Walk(tree.root, 0));
  return std::move(walker.entries);
}

}  // namespace vernier

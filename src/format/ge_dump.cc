#include "format/ge_dump.h"

#include <algorithm>
#include <limits>

#include "core/mapped_file.h"
#include "format/little_endian.h"
#include "format/protobuf_wire.h"

namespace vernier {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::string_view kVersionStart(
    "\x0a\x03"
    "2.0",
    5);  // field 1, three bytes
constexpr std::string_view kSmallDeviceMagic = "\x5a\x5a\x5a\x5a";

// The two tensor messages number the same fields differently.
struct TensorFields {
  std::uint32_t type, format, shape, size, original_shape, sub_format, address;
};
constexpr TensorFields kInputFields = {1, 2, 3, 5, 6, 7, 8};
constexpr TensorFields kOutputFields = {1, 2, 3, 6, 7, 8, 9};
constexpr std::uint32_t kOutput = 3, kInput = 4, kBuffer = 5, kAttribute = 7, kSpace = 8;
constexpr std::uint32_t kBlobSize = 3;

Error Damaged(std::string where, std::string detail) {
  return Error{ErrorCode::kBadHeader, std::move(where), std::move(detail)};
}

// A piece of the payload while the header is read.
struct Piece {
  std::optional<std::uint64_t> size_bytes = 0;  // none: not known
  std::uint64_t address = 1;
};
struct ParsedTensor {
  GeTensor tensor;
  Piece piece;
};
struct ParsedBlob {
  Piece piece;
  bool has_number = false;
};

Result<Shape> ParseShape(const WireField& field, const char* name) {
  if (!field.is_bytes()) return Damaged(name, "a number where a message should be");
  Shape shape;
  WireCursor message(field.bytes);
  const auto add = [&](std::uint64_t dimension) { shape.push_back(static_cast<std::int64_t>(dimension)); };
  while (const auto item = message.Next()) {
    if (item->number != 1) continue;
    if (item->is_number()) {
      add(item->value);
      continue;
    }
    if (!item->is_bytes()) return Damaged(name, "dim is not a list of numbers");
    WireCursor packed(item->bytes);
    while (!packed.at_end()) {
      const auto dimension = packed.TakeVarint();
      if (!dimension) return Damaged(name, "dim is not a list of numbers");
      add(*dimension);
    }
  }
  if (message.damaged()) return Damaged(name, "not a protobuf message");
  return shape;
}

// `problem` keeps the first thing that is wrong.
void TakeNumber(const WireField& field, const char* name, std::uint64_t& to, std::optional<Error>& problem) {
  if (field.is_number()) {
    to = field.value;
  } else if (!problem) {
    problem = Damaged(name, "a text where a number should be");
  }
}

ParsedTensor ParseTensor(std::span<const std::byte> bytes, const TensorFields& fields) {
  ParsedTensor parsed;
  GeTensor& tensor = parsed.tensor;
  tensor.order.format = 0;
  std::uint64_t size = 0, address = 0, sub_format = 0;
  bool knows_size = true, has_address = false;
  WireCursor message(bytes);
  while (const auto field = message.Next()) {
    if (field->number == fields.type) {
      TakeNumber(*field, "data_type", tensor.type, tensor.damage);
    } else if (field->number == fields.format) {
      TakeNumber(*field, "format", tensor.order.format, tensor.damage);
    } else if (field->number == fields.sub_format) {
      TakeNumber(*field, "sub_format", sub_format, tensor.damage);
    } else if (field->number == fields.size) {
      TakeNumber(*field, "size", size, tensor.damage);
      knows_size = field->is_number();
    } else if (field->number == fields.address) {
      TakeNumber(*field, "address", address, tensor.damage);
      has_address = true;
    } else if (field->number == fields.shape || field->number == fields.original_shape) {
      const bool original = field->number == fields.original_shape;
      Result<Shape> shape = ParseShape(*field, original ? "original_shape" : "shape");
      if (shape) {
        (original ? tensor.order.original_shape : tensor.order.shape) = *std::move(shape);
      } else if (!tensor.damage) {
        tensor.damage = std::move(shape).error();
      }
    }
  }
  if (message.damaged()) {
    if (!tensor.damage) tensor.damage = Damaged("", "not a protobuf message");
    knows_size = false;
  }
  tensor.order.sub_format = static_cast<std::int32_t>(sub_format);
  parsed.piece.size_bytes = knows_size ? std::optional(size) : std::nullopt;
  parsed.piece.address = has_address ? address : 0;
  return parsed;
}

ParsedBlob ParseBlob(std::span<const std::byte> bytes) {
  ParsedBlob parsed;
  WireCursor message(bytes);
  while (const auto field = message.Next()) {
    parsed.has_number = parsed.has_number || field->is_number();
    if (field->number == kBlobSize)
      parsed.piece.size_bytes = field->is_number() ? std::optional(field->value) : std::nullopt;
  }
  if (message.damaged()) parsed.piece.size_bytes = std::nullopt;
  return parsed;
}

struct Header {
  std::vector<ParsedTensor> inputs, outputs;
  std::vector<ParsedBlob> buffers, spaces;
};

Result<Header> ParseHeader(std::span<const std::byte> bytes) {
  Header header;
  WireCursor message(bytes);
  while (const auto field = message.Next()) {
    const bool is_known = (field->number >= kOutput && field->number <= kBuffer) ||
                          field->number == kAttribute || field->number == kSpace;
    if (!is_known) continue;
    if (!field->is_bytes())
      return Damaged("header", "field " + std::to_string(field->number) + " is a number, not a message");
    if (field->number == kInput) {
      header.inputs.push_back(ParseTensor(field->bytes, kInputFields));
    } else if (field->number == kOutput) {
      header.outputs.push_back(ParseTensor(field->bytes, kOutputFields));
    } else {
      ParsedBlob blob = ParseBlob(field->bytes);
      // An older schema has the workspaces where the attributes are now, which hold texts only.
      if (field->number == kAttribute && !blob.has_number) continue;
      (field->number == kBuffer ? header.buffers : header.spaces).push_back(blob);
    }
  }
  if (message.damaged()) return Damaged("header", "not a protobuf message");
  return header;
}

// Gives the pieces their places, in the order of the file. False: they do not fit into it.
class Payload {
 public:
  Payload(std::uint64_t begin, std::uint64_t end, bool skips_unaddressed)
      : next_(begin), end_(end), skips_unaddressed_(skips_unaddressed) {}

  // False where the piece does not lie in the file, or nobody knows where.
  bool Place(const Piece& piece, std::uint64_t& offset, std::uint64_t& size) {
    offset = next_;
    size = piece.size_bytes.value_or(0);
    if (skips_unaddressed_ && piece.address == 0) {
      size = 0;
      return known_;
    }
    known_ = known_ && piece.size_bytes;
    const bool fits = known_ && size <= end_ - next_;
    known_ = fits;
    if (fits) next_ += size;
    return fits;
  }
  bool known() const { return known_; }

 private:
  std::uint64_t next_, end_;
  bool skips_unaddressed_, known_ = true;
};

GeDump Placed(const Header& header, Payload& payload) {
  GeDump dump;
  const auto place_tensors = [&](const std::vector<ParsedTensor>& from, std::vector<GeTensor>& to) {
    for (const ParsedTensor& parsed : from) {
      GeTensor& tensor = to.emplace_back(parsed.tensor);
      const bool was_known = payload.known();
      if (!payload.Place(parsed.piece, tensor.offset_bytes, tensor.size_bytes) && !tensor.damage) {
        tensor.damage = was_known
                            ? Error{ErrorCode::kTruncated, "",
                                    std::to_string(tensor.size_bytes) + " bytes are not all in the file"}
                            : Error{ErrorCode::kBadHeader, "", "a tensor before it hides where it begins"};
      }
    }
  };
  const auto place_blobs = [&](const std::vector<ParsedBlob>& from, std::vector<GeBlob>& to) {
    for (const ParsedBlob& parsed : from) {
      GeBlob blob;
      if (payload.Place(parsed.piece, blob.offset_bytes, blob.size_bytes)) to.push_back(blob);
    }
  };
  place_tensors(header.inputs, dump.inputs);
  place_tensors(header.outputs, dump.outputs);
  place_blobs(header.buffers, dump.buffers);
  place_blobs(header.spaces, dump.spaces);
  return dump;
}

// Packed elements, and those of a storage layout.
class GeElements final : public ElementSource {
 public:
  GeElements(FileRef file, std::span<const std::byte> stored, const GeType& type,
             std::optional<PlainOrder> order)
      : file_(std::move(file)), stored_(stored), type_(type), order_(std::move(order)) {}

  void Read(std::uint64_t first, std::size_t count, std::byte* out) const override {
    if (type_.decoding == GeDecoding::kPlain) {
      order_->Gather(stored_.data(), ItemBytes(*type_.dtype), first, count, out);
    } else if (!order_) {
      DecodeElements(type_, stored_, first, count, out);
    } else {
      Bytes bytes(count);  // only hifloat8 has layouts among the packed types
      order_->Gather(stored_.data(), 1, first, count, bytes.data());
      DecodeElements(type_, bytes, 0, count, out);
    }
  }

 private:
  FileRef file_;
  std::span<const std::byte> stored_;
  const GeType& type_;
  std::optional<PlainOrder> order_;
};

}  // namespace

bool LooksLikeGeDump(std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthBytes + kVersionStart.size()) return false;
  return LoadLittle<std::uint64_t>(bytes, 0) <= bytes.size() - kLengthBytes &&
         AsText(bytes.subspan(kLengthBytes)).starts_with(kVersionStart);
}

Result<GeDump> ParseGeDump(std::span<const std::byte> bytes) {
  if (bytes.empty()) return Error{ErrorCode::kTruncated, "", "it is empty"};
  if (bytes.size() <= kLengthBytes) {
    return Error{ErrorCode::kTruncated, "",
                 "only " + std::to_string(bytes.size()) + " bytes, a dump has more than 8"};
  }
  if (AsText(bytes.subspan(kLengthBytes)).starts_with(kSmallDeviceMagic))
    return Error{ErrorCode::kUnsupported, "", "a dump of a small device (5A 5A 5A 5A)"};
  const auto length = LoadLittle<std::uint64_t>(bytes, 0);
  if (length > bytes.size() - kLengthBytes) {
    return Error{ErrorCode::kTruncated, "header",
                 std::to_string(length) + " bytes long, only " + std::to_string(bytes.size() - kLengthBytes) +
                     " are there"};
  }
  VN_ASSIGN_OR_RETURN(const Header header,
                      ParseHeader(bytes.subspan(kLengthBytes, static_cast<std::size_t>(length))));
  Payload all(kLengthBytes + length, bytes.size(), false);
  GeDump dump = Placed(header, all);
  if (all.known()) return dump;
  // The writer leaves out the bytes of tensors without an address, whatever their size.
  Payload addressed(kLengthBytes + length, bytes.size(), true);
  GeDump without = Placed(header, addressed);
  return addressed.known() ? without : dump;
}

Result<GeTensorView> LoadGeTensor(const FileRef& file, const GeTensor& tensor, GeForm form) {
  if (tensor.damage) return *tensor.damage;
  const GeType* type = FindGeType(tensor.type);
  if (type == nullptr || !type->dtype) {
    return Error{ErrorCode::kUnsupported, "",
                 "The output data type (" + std::to_string(tensor.type) + ") does not support." +
                     (type ? " It is " + std::string(type->name) + "." : "")};
  }
  const std::span<const std::byte> bytes = file->bytes();
  if (tensor.offset_bytes > bytes.size() || tensor.size_bytes > bytes.size() - tensor.offset_bytes)
    return Error{ErrorCode::kFileChanged, "", ""};
  const auto stored = bytes.subspan(static_cast<std::size_t>(tensor.offset_bytes),
                                    static_cast<std::size_t>(tensor.size_bytes));
  GeTensorView loaded;
  loaded.type = type;
  TensorView& view = loaded.view;
  view.dtype = *type->dtype;
  view.shape = tensor.type == 0 ? Shape{static_cast<std::int64_t>(tensor.size_bytes)} : tensor.order.shape;
  VN_ASSIGN_OR_RETURN(view.num_elements, NumElements(view.shape, Dtype::kC128));
  const std::uint64_t num_stored = NumStoredElements(*type, tensor.size_bytes);
  if (view.num_elements > num_stored) {
    return Error{ErrorCode::kBadShape, "",
                 std::to_string(tensor.size_bytes) + " bytes for " + ShapeText(view.shape) + " of " +
                     std::string(type->name)};
  }
  std::optional<PlainOrder> order;
  const bool has_layouts = type->decoding == GeDecoding::kPlain || type->decoding == GeDecoding::kHifloat8;
  if (form == GeForm::kPlainOrder && tensor.type != 0 && has_layouts)
    order = PlainOrder::Find(tensor.order, num_stored, loaded.note);
  if (order) {
    view.shape = order->shape();
    VN_ASSIGN_OR_RETURN(view.num_elements, NumElements(view.shape, view.dtype));
  }
  view.owner = file;
  view.file = file;
  if (order || type->decoding != GeDecoding::kPlain) {
    view.source = std::make_shared<GeElements>(file, stored, *type, std::move(order));
  } else {
    view.data = stored.data();
  }
  return loaded;
}

Result<Entries> ListGeDump(const FileRef& file) {
  VN_ASSIGN_OR_RETURN(const GeDump dump, Inside(file->path(), ParseGeDump(file->bytes())));
  Entries entries;
  const auto add = [&](const std::vector<GeTensor>& tensors, const std::string& kind) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      TensorEntry& entry = entries.emplace_back();
      entry.info.name = kind + "." + std::to_string(i);
      const std::string where = file->path() + ": " + entry.info.name;
      Result<GeTensorView> loaded = Inside(where, LoadGeTensor(file, tensors[i], GeForm::kPlainOrder));
      if (!loaded) {
        entry.info.damage = std::move(loaded).error();
        continue;
      }
      entry.info.dtype = loaded->view.dtype;
      entry.info.shape = loaded->view.shape;
      entry.info.num_elements = loaded->view.num_elements;
      entry.source.offset_bytes = tensors[i].offset_bytes;
      if (loaded->view.source == nullptr) continue;
      entry.source.unpack = [tensor = tensors[i]](const FileRef& again) -> Result<Bytes> {
        VN_ASSIGN_OR_RETURN(const GeTensorView view, LoadGeTensor(again, tensor, GeForm::kPlainOrder));
        VN_ASSIGN_OR_RETURN(Bytes bytes, Allocate(view.view.num_bytes()));
        view.view.source->Read(0, static_cast<std::size_t>(view.view.num_elements), bytes.data());
        return bytes;
      };
    }
  };
  add(dump.inputs, "input");
  add(dump.outputs, "output");
  return entries;
}

}  // namespace vernier

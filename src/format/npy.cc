#include "format/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "core/atomic_file.h"
#include "core/mapped_file.h"
#include "format/little_endian.h"

namespace vernier {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kVersionOffset = 6, kLengthOffset = 8;
// NumPy itself refuses headers over 10 000 bytes unless told otherwise; only structured dtypes come near it.
constexpr std::size_t kMaxHeaderBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxRank = 64;     // NumPy's own
constexpr std::size_t kAlignBytes = 64;  // of the data, as NumPy writes it
constexpr std::string_view kByteOrders = "<>|=";

struct DescrRow {
  std::string_view kind_and_bytes;
  Dtype dtype;
};

// clang-format off
constexpr DescrRow kDescrs[] = {
    {"f8", Dtype::kF64}, {"f4", Dtype::kF32}, {"f2", Dtype::kF16}, {"c16", Dtype::kC128}, {"c8", Dtype::kC64},
    {"i8", Dtype::kI64}, {"i4", Dtype::kI32}, {"i2", Dtype::kI16}, {"i1", Dtype::kI8},
    {"u8", Dtype::kU64}, {"u4", Dtype::kU32}, {"u2", Dtype::kU16}, {"u1", Dtype::kU8},
    {"b1", Dtype::kBool}, {"?", Dtype::kBool},
};

struct RefusedKind {
  char kind;
  std::string_view why;
};
constexpr RefusedKind kRefusedKinds[] = {
    {'O', "Python objects, which would have to be unpickled"},
    {'V', "raw bytes; bfloat16 and float8 arrays lose their type in .npy, save them as .pt or .safetensors"},
    {'S', "byte strings"}, {'a', "byte strings"}, {'U', "text"}, {'M', "dates"}, {'m', "time spans"},
    {'f', "floating point of an unsupported size"}, {'c', "complex numbers of an unsupported size"},
};
// clang-format on

Error BadHeader(std::string detail) { return Error{ErrorCode::kBadHeader, "npy header", std::move(detail)}; }

Error UnsupportedDescr(std::string_view descr, std::string_view why) {
  constexpr std::size_t kShown = 80;
  std::string text(descr.substr(0, kShown));
  if (descr.size() > kShown) text += "…";
  return Error{ErrorCode::kUnsupported, "npy header",
               "descr " + text + (why.empty() ? "" : ": ") + std::string(why)};
}

// Reads the one kind of text that a header may be: {'key': value, …} where a value is a string, a truth value
// or a tuple of whole numbers. Nothing is evaluated.
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : rest_(text) {}

  bool Take(char wanted) {
    SkipSpace();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool AtEnd() {
    SkipSpace();
    return rest_.empty();
  }

  bool AtString() {
    SkipSpace();
    return !rest_.empty() && (rest_.front() == '\'' || rest_.front() == '"');
  }

  Result<std::string_view> String() {
    if (!AtString()) return BadHeader("a quoted string is missing" + At());
    const std::size_t end = rest_.find(rest_.front(), 1);
    if (end == rest_.npos) return BadHeader("a string has no end");
    const std::string_view text = rest_.substr(1, end - 1);
    if (text.find('\\') != text.npos) return BadHeader("a string holds an escape");
    rest_.remove_prefix(end + 1);
    return text;
  }

  Result<bool> Bool() {
    SkipSpace();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    return BadHeader("neither True nor False" + At());
  }

  // (), (3,), (3, 4), (3L, 4L,)
  Result<Shape> Tuple() {
    if (!Take('(')) return BadHeader("a tuple is missing" + At());
    Shape shape;
    bool comma = true;
    while (!Take(')')) {
      if (!comma) return BadHeader("a comma is missing in the shape" + At());
      if (shape.size() == kMaxRank) {
        return Error{ErrorCode::kUnsupported, "npy header", "more than 64 dimensions"};
      }
      VN_ASSIGN_OR_RETURN(const std::int64_t dim, Int());
      shape.push_back(dim);
      comma = Take(',');
    }
    if (shape.size() == 1 && !comma) return BadHeader("(3) is a number, not a shape");
    return shape;
  }

  // The list or whatever else stands where a string should, for messages.
  std::string_view Other() const {
    int depth = 0;
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      if (rest_[i] == '[' || rest_[i] == '(') ++depth;
      if (rest_[i] == ']' || rest_[i] == ')') --depth;
      if (depth == 0) return rest_.substr(0, i + 1);
    }
    return rest_;
  }

 private:
  void SkipSpace() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n\f"), rest_.size())); }

  std::string At() const {
    return rest_.empty() ? std::string(" at its end") : " at '" + std::string(rest_.substr(0, 20)) + "'";
  }

  Result<std::int64_t> Int() {
    SkipSpace();
    std::int64_t value = 0;
    const auto [end, failure] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (failure == std::errc::result_out_of_range) {
      return Error{ErrorCode::kBadShape, "npy header", "a dimension does not fit 63 bits"};
    }
    if (failure != std::errc()) return BadHeader("a whole number is missing" + At());
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    if (!rest_.empty() && rest_.front() == 'L') rest_.remove_prefix(1);  // Python 2 wrote long integers so
    return value;
  }

  std::string_view rest_;
};

Result<Done> ReadDescr(std::string_view descr, NpyHeader& header) {
  if (const std::optional<Dtype> named = ParseDtype(descr)) {
    header.dtype = *named;
    return Done{};
  }
  std::string_view kind = descr;
  if (!kind.empty() && kByteOrders.find(kind.front()) != kByteOrders.npos) {
    header.big_endian = kind.front() == '>';
    kind.remove_prefix(1);
  }
  for (const DescrRow& row : kDescrs) {
    if (row.kind_and_bytes != kind) continue;
    header.dtype = row.dtype;
    return Done{};
  }
  std::string_view why;
  for (const RefusedKind& refused : kRefusedKinds) {
    if (!kind.empty() && kind.front() == refused.kind) why = refused.why;
  }
  return UnsupportedDescr("'" + std::string(descr) + "'", why);
}

Result<Done> ReadField(std::string_view key, LiteralReader& reader, NpyHeader& header) {
  if (key == "descr") {
    if (!reader.AtString()) return UnsupportedDescr(reader.Other(), "a structured array, not a tensor");
    VN_ASSIGN_OR_RETURN(const std::string_view descr, reader.String());
    return ReadDescr(descr, header);
  }
  if (key == "fortran_order") {
    VN_ASSIGN_OR_RETURN(header.fortran_order, reader.Bool());
    return Done{};
  }
  VN_ASSIGN_OR_RETURN(header.shape, reader.Tuple());
  return Done{};
}

Result<NpyHeader> ParseDict(std::string_view text) {
  constexpr std::array<std::string_view, 3> kKeys = {"descr", "fortran_order", "shape"};
  std::array<bool, 3> seen = {};
  NpyHeader header;
  LiteralReader reader(text);
  if (!reader.Take('{')) return BadHeader("expected a dict");
  bool comma = true;
  while (!reader.Take('}')) {
    if (!comma) return BadHeader("a comma is missing between two fields");
    VN_ASSIGN_OR_RETURN(const std::string_view key, reader.String());
    const auto row = std::find(kKeys.begin(), kKeys.end(), key);
    if (row == kKeys.end()) return BadHeader("unknown field '" + std::string(key.substr(0, 40)) + "'");
    bool& done = seen[static_cast<std::size_t>(row - kKeys.begin())];
    if (done) return BadHeader("field '" + std::string(key) + "' twice");
    done = true;
    if (!reader.Take(':')) return BadHeader("no ':' after '" + std::string(key) + "'");
    VN_RETURN_IF_ERROR(ReadField(key, reader, header));
    comma = reader.Take(',');
  }
  if (!reader.AtEnd()) return BadHeader("text after the dict");
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (!seen[i]) return BadHeader("field '" + std::string(kKeys[i]) + "' is missing");
  }
  return header;
}

std::string HeaderText(const TensorView& tensor, std::string_view kind_and_bytes) {
  const char byte_order = ItemBytes(tensor.dtype) > 1 ? '<' : '|';
  std::string text =
      "{'descr': '" + (byte_order + std::string(kind_and_bytes)) + "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t dim : tensor.shape) text += std::to_string(dim) + ", ";
  if (tensor.shape.size() == 1) text.pop_back();              // (3,)
  if (tensor.shape.size() > 1) text.resize(text.size() - 2);  // (3, 4)
  text += "), }";
  const std::size_t unpadded = kLengthOffset + 2 + text.size() + 1;
  text.append((kAlignBytes - unpadded % kAlignBytes) % kAlignBytes, ' ');
  return text + '\n';
}

}  // namespace

bool LooksLikeNpy(std::span<const std::byte> bytes) { return AsText(bytes).starts_with(kMagic); }

Result<NpyHeader> ParseNpyHeader(std::span<const std::byte> bytes) {
  const std::string_view start = AsText(bytes.first(std::min(bytes.size(), kMagic.size())));
  if (start != kMagic.substr(0, start.size())) return Error{ErrorCode::kBadMagic, "npy magic", ""};
  if (bytes.size() < kLengthOffset)
    return Error{ErrorCode::kTruncated, "npy header", "ends in its first 8 bytes"};
  const auto version = std::to_integer<unsigned>(bytes[kVersionOffset]);
  if (version < 1 || version > 3 || bytes[kVersionOffset + 1] != std::byte{0}) {
    return Error{ErrorCode::kUnsupported, "npy header",
                 "version " + std::to_string(version) + "." +
                     std::to_string(std::to_integer<unsigned>(bytes[kVersionOffset + 1]))};
  }
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::size_t text_offset = kLengthOffset + length_bytes;
  if (bytes.size() < text_offset) return Error{ErrorCode::kTruncated, "npy header", "ends in its length"};
  const std::size_t text_bytes = version == 1 ? LoadLittle<std::uint16_t>(bytes, kLengthOffset)
                                              : LoadLittle<std::uint32_t>(bytes, kLengthOffset);
  if (text_bytes > kMaxHeaderBytes) {
    return Error{ErrorCode::kTooLarge, "npy header", std::to_string(text_bytes) + " bytes long"};
  }
  if (text_bytes > bytes.size() - text_offset) {
    return Error{ErrorCode::kTruncated, "npy header",
                 std::to_string(text_bytes) + " bytes long, only " +
                     std::to_string(bytes.size() - text_offset) + " are there"};
  }
  VN_ASSIGN_OR_RETURN(NpyHeader header, ParseDict(AsText(bytes.subspan(text_offset, text_bytes))));
  // Old writers pad the header to 16 bytes, new ones to 64, so only the length says where the data begins.
  header.data_offset_bytes = text_offset + text_bytes;
  VN_ASSIGN_OR_RETURN(header.num_elements, NumElements(header.shape, header.dtype));
  return header;
}

Result<TensorEntry> NpyEntry(const NpyHeader& header, std::uint64_t offset_bytes, std::uint64_t end_bytes) {
  TensorEntry entry;
  entry.info.dtype = header.dtype;
  entry.info.shape = header.shape;
  entry.info.num_elements = header.num_elements;
  entry.source.offset_bytes = offset_bytes + header.data_offset_bytes;
  entry.source.big_endian = header.big_endian;
  if (header.fortran_order && header.shape.size() > 1 && header.num_elements > 0) {
    std::int64_t stride = 1;
    for (const std::int64_t dim : header.shape) {
      entry.source.strides.push_back(stride);
      stride *= dim;
    }
  }
  VN_RETURN_IF_ERROR(CheckExtent(entry.info, entry.source, end_bytes));
  return entry;
}

Result<Entries> ListNpy(const FileRef& file) {
  const ByteSpan bytes = file->bytes();
  VN_ASSIGN_OR_RETURN(const NpyHeader header, Inside(file->path(), ParseNpyHeader(bytes)));
  VN_ASSIGN_OR_RETURN(TensorEntry entry, Inside(file->path(), NpyEntry(header, 0, bytes.size())));
  Entries entries;
  entries.push_back(std::move(entry));
  return entries;
}

Result<std::string> NpyStart(const TensorView& tensor, const std::string& where) {
  const auto row = std::find_if(std::begin(kDescrs), std::end(kDescrs),
                                [&](const DescrRow& r) { return r.dtype == tensor.dtype; });
  if (row == std::end(kDescrs)) {
    return Error{ErrorCode::kUnsupported, where,
                 std::string(Name(tensor.dtype)) + " in .npy; write .pt or .safetensors"};
  }
  const std::string text = HeaderText(tensor, row->kind_and_bytes);
  if (text.size() > std::numeric_limits<std::uint16_t>::max()) {
    return Error{ErrorCode::kUnsupported, where, "too many dimensions"};
  }
  std::string prelude(kMagic);
  prelude += '\x01';
  prelude += '\0';
  AppendLittle(prelude, static_cast<std::uint16_t>(text.size()));
  return prelude + text;
}

namespace {

Result<Done> Write(const std::filesystem::path& path, const TensorView& tensor, bool wait_for_disk) {
  VN_ASSIGN_OR_RETURN(const std::string start, NpyStart(tensor, path.string()));
  VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  VN_RETURN_IF_ERROR(file.Write(start));
  VN_RETURN_IF_ERROR(file.Write(tensor.bytes()));
  return file.Commit(wait_for_disk);
}

}  // namespace

Result<Done> WriteNpy(const std::filesystem::path& path, const TensorView& tensor) {
  return Write(path, tensor, true);
}
Result<Done> WriteNpyUnsynced(const std::filesystem::path& path, const TensorView& tensor) {
  return Write(path, tensor, false);
}

}  // namespace vernier

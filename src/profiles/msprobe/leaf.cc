#include "profiles/msprobe/leaf.h"

#include <cmath>

#include <fmt/format.h>
#include <libdeflate.h>

#include "core/json_cursor.h"
#include "core/python_text.h"

namespace vernier::msprobe {
namespace {

constexpr std::string_view kNone = "None";
constexpr std::string_view kStatisticKeys[] = {"Max", "Min", "Mean", "Norm"};
constexpr std::string_view kRankComponents[] = {"src", "dst", "group_src", "group_dst"};
constexpr int kMaxValueDepth = 400;

// str() of a JSON value at the top, repr() of what is inside it.
void AppendPythonText(JsonCursor& cursor, bool nested, int depth, std::string& out) {
  std::string buffer;
  bool first = true;
  const auto separate = [&] {
    if (!first) out += ", ";
    first = false;
  };
  if (depth > kMaxValueDepth) return cursor.Fail(JsonError::kTooDeep);
  switch (cursor.Peek()) {
    case JsonKind::kNull:
      cursor.TakeNull();
      out += kNone;
      break;
    case JsonKind::kBool:
      out += cursor.TakeBool() ? "True" : "False";
      break;
    case JsonKind::kInt: {
      const std::string_view digits = cursor.TakeNumberText();
      out += digits == "-0" ? "0" : digits;
      break;
    }
    case JsonKind::kFloat:
      AppendPythonFloat(cursor.TakeNumber(), out);
      break;
    case JsonKind::kString: {
      const std::string_view text = cursor.TakeString(buffer);
      if (nested) {
        AppendPythonQuoted(text, out);
      } else {
        out += text;
      }
      break;
    }
    case JsonKind::kArray:
      out += '[';
      cursor.ForEachElement([&] {
        separate();
        AppendPythonText(cursor, true, depth + 1, out);
      });
      out += ']';
      break;
    case JsonKind::kObject:
      out += '{';
      cursor.ForEachMember([&](std::string_view key, bool escaped) {
        separate();
        AppendPythonQuoted(escaped ? DecodeJsonString(key) : key, out);
        out += ": ";
        AppendPythonText(cursor, true, depth + 1, out);
      });
      out += '}';
      break;
    case JsonKind::kBad:
      cursor.Fail(JsonError::kExpectedValue);
      break;
  }
}

std::string_view PythonText(std::string_view text, std::size_t at, TextArena& arena) {
  JsonCursor cursor(text, at);
  std::string out;
  AppendPythonText(cursor, false, 0, out);
  return arena.Keep(out);
}

bool ReadsNan(std::string_view text) {
  return text.size() == 3 && (text[0] | 0x20) == 'n' && (text[1] | 0x20) == 'a' && (text[2] | 0x20) == 'n';
}

// A number that knows the digits it was recorded with.
Cell RecordedNumber(double number, std::string_view digits) {
  Cell cell(number);
  cell.text = digits;
  return cell;
}

// A value as it is shown: booleans and None as texts, any nan as "Nan".
Cell ShownValue(std::string_view text, std::size_t at, TextArena& arena) {
  JsonCursor cursor(text, at);
  switch (cursor.Peek()) {
    case JsonKind::kBool:
      return Cell(cursor.TakeBool() ? "True" : "False");
    case JsonKind::kInt: {
      const std::string_view digits = cursor.TakeNumberText();
      return Cell::Digits(ParsePythonFloat(digits).value_or(0), digits == "-0" ? "0" : digits);
    }
    case JsonKind::kFloat: {
      const std::string_view digits = cursor.TakeNumberText();
      const double number = ParsePythonFloat(digits).value_or(0);
      return std::isnan(number) ? Cell("Nan") : RecordedNumber(number, digits);
    }
    case JsonKind::kString: {
      std::string buffer;
      std::string_view shown = cursor.TakeString(buffer);
      if (shown.data() == buffer.data()) shown = arena.Keep(shown);
      return Cell(ReadsNan(shown) ? "Nan" : shown);
    }
    case JsonKind::kNull:
    case JsonKind::kBad:
      return Cell(kNone);
    default:
      return Cell(PythonText(text, at, arena));
  }
}

// What Python calls the type of a value; in the order of JsonKind.
constexpr std::string_view kClassTexts[] = {"<class 'NoneType'>", "<class 'bool'>",    "<class 'int'>",
                                            "<class 'float'>",    "<class 'str'>",     "<class 'list'>",
                                            "<class 'dict'>",     "<class 'NoneType'>"};

std::string_view Checksum(std::string_view value, TextArena& arena) {
  return arena.Keep(fmt::format("{:08x}", libdeflate_crc32(0, value.data(), value.size())));
}

bool EndsInRankComponent(std::string_view name) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  for (const std::string_view component : kRankComponents) {
    if (last == component) return true;
  }
  return false;
}

// Where the members that matter start; 0 for those that are missing, as no value can start a file.
struct Members {
  std::size_t type = 0, dtype = 0, shape = 0, statistics[4] = {}, requires_grad = 0, data_name = 0, md5 = 0;
  std::size_t value = 0, group_ranks = 0, class_type = 0, tensor = 0, op = 0, peer = 0;
  std::size_t sketch = 0, sketch_bad = 0, values = 0;
};

struct MemberKey {
  std::string_view key;
  std::size_t Members::*at;
};
constexpr MemberKey kMemberKeys[] = {
    {"type", &Members::type},
    {"dtype", &Members::dtype},
    {"shape", &Members::shape},
    {"data_name", &Members::data_name},
    {"md5", &Members::md5},
    {"requires_grad", &Members::requires_grad},
    {"value", &Members::value},
    {"class_type", &Members::class_type},
    {"group_ranks", &Members::group_ranks},
    {"tensor", &Members::tensor},
    {"op", &Members::op},
    {"peer", &Members::peer},
    {"sketch", &Members::sketch},
    {"sketch_bad", &Members::sketch_bad},
    {"values", &Members::values},
};

Members FindMembers(std::string_view text, std::size_t at) {
  Members members;
  JsonCursor cursor(text, at);
  cursor.ForEachMember([&](std::string_view key, bool) {
    cursor.Peek();
    const std::size_t start = cursor.position();
    if (!key.empty() && (key[0] == 'M' || key[0] == 'N')) {
      for (std::size_t i = 0; i < std::size(kStatisticKeys); ++i) {
        if (key == kStatisticKeys[i]) members.statistics[i] = start;
      }
    } else {
      for (const MemberKey& known : kMemberKeys) {
        if (key == known.key) {
          members.*known.at = start;
          break;
        }
      }
    }
    cursor.Skip();
  });
  return members;
}

// The text at `at` if there is one, else nothing.
std::string_view TextAt(std::string_view text, std::size_t at, TextArena& arena) {
  if (at == 0) return {};
  JsonCursor cursor(text, at);
  if (cursor.Peek() != JsonKind::kString) return {};
  std::string buffer;
  const std::string_view found = cursor.TakeString(buffer);
  return found.data() == buffer.data() ? arena.Keep(found) : found;
}

Leaf NullLeaf() {
  Leaf leaf;
  leaf.dtype = leaf.shape = kNone;
  leaf.requires_grad = leaf.md5 = "N/A";
  leaf.data_name = "-1";
  leaf.statistics.fill(Cell(kNone));
  return leaf;
}

class LeafReader {
 public:
  LeafReader(std::string_view text, std::size_t at, std::string_view name, TextArena& arena)
      : text_(text), name_(name), arena_(arena), members_(FindMembers(text, at)) {}

  bool IsP2p() { return TextAt(text_, members_.class_type, arena_) == kP2pClass; }
  std::size_t tensor_at() const { return members_.tensor; }
  void AddP2p(Leaf& leaf) {
    if (members_.op != 0) leaf.p2p_op = PythonText(text_, members_.op, arena_);
    if (members_.peer != 0) leaf.p2p_peer = PythonText(text_, members_.peer, arena_);
  }

  Leaf Read() {
    Leaf leaf = NullLeaf();
    leaf.requires_grad = RequiresGrad();
    if (const auto name = TextAt(text_, members_.data_name, arena_); !name.empty()) leaf.data_name = name;
    leaf.dtype = TextAt(text_, members_.dtype, arena_);
    if (!leaf.dtype.empty()) {
      ReadTensor(leaf);
    } else {
      ReadOther(leaf);
    }
    return leaf;
  }

 private:
  std::string_view RequiresGrad() {
    if (members_.requires_grad == 0) return "N/A";
    return PythonText(text_, members_.requires_grad, arena_);
  }

  std::string_view Md5OrChecksum() {
    const std::string_view md5 = TextAt(text_, members_.md5, arena_);
    if (!md5.empty()) return md5;
    return Checksum(members_.value != 0 ? PythonText(text_, members_.value, arena_) : std::string_view(),
                    arena_);
  }

  void ReadTensor(Leaf& leaf) {
    if (members_.shape != 0) leaf.shape = PythonText(text_, members_.shape, arena_);
    for (std::size_t i = 0; i < leaf.statistics.size(); ++i) {
      if (members_.statistics[i] != 0) leaf.statistics[i] = ShownValue(text_, members_.statistics[i], arena_);
    }
    leaf.has_md5 = !TextAt(text_, members_.md5, arena_).empty();
    leaf.md5 = Md5OrChecksum();
    if (members_.sketch != 0 || members_.values != 0) ReadSketch(leaf);
  }

  void ReadSketch(Leaf& leaf) {
    leaf.sketch = TextAt(text_, members_.sketch, arena_);
    leaf.values = TextAt(text_, members_.values, arena_);
    if (members_.sketch_bad == 0) return;
    JsonCursor cursor(text_, members_.sketch_bad);
    // Anything else than a count cannot be told from some.
    const double count = cursor.Peek() == JsonKind::kInt ? cursor.TakeNumber() : 1;
    leaf.sketch_bad = count > 0 && count < 0x1p63 ? static_cast<std::uint64_t>(count) : 1;
  }

  void ReadOther(Leaf& leaf) {
    const std::string_view type = TextAt(text_, members_.type, arena_);
    leaf.md5 = Md5OrChecksum();
    leaf.shape = "[]";
    if (type == "torch.Size" || type == "slice") {
      leaf.dtype = type;
      leaf.shape = type == "slice"       ? "(3,)"
                   : members_.value != 0 ? PythonText(text_, members_.value, arena_)
                                         : "[]";
    } else if (type == "ellipsis") {
      leaf.dtype = type;
      FillStatistics(leaf, members_.value);
    } else if (EndsInRankComponent(name_)) {
      leaf.dtype = type;
      leaf.md5 = members_.value != 0 ? PythonText(text_, members_.value, arena_) : kNone;
      leaf.statistics.fill(Cell(leaf.md5));
    } else if (type == "torch.ProcessGroup") {
      leaf.dtype = type;
      leaf.md5 = members_.group_ranks != 0 ? PythonText(text_, members_.group_ranks, arena_) : kNone;
      leaf.statistics.fill(Cell(leaf.md5));
    } else {
      leaf.dtype =
          ClassText(members_.value != 0 ? JsonCursor(text_, members_.value).Peek() : JsonKind::kNull);
      FillStatistics(leaf, members_.value);
    }
  }

  void FillStatistics(Leaf& leaf, std::size_t at) {
    if (at != 0) leaf.statistics.fill(ShownValue(text_, at, arena_));
  }

  std::string_view text_, name_;
  TextArena& arena_;
  Members members_;
};

}  // namespace

std::string_view ClassText(JsonKind kind) { return kClassTexts[static_cast<std::size_t>(kind)]; }

const Leaf& NoLeaf() {
  static const Leaf leaf = [] {
    Leaf none;
    none.dtype = none.shape = none.requires_grad = none.md5 = none.data_name = "N/A";
    none.statistics.fill(Cell("N/A"));
    return none;
  }();
  return leaf;
}

Leaf ReadLeaf(std::string_view text, std::size_t at, std::string_view name, TextArena& arena) {
  if (JsonCursor(text, at).Peek() != JsonKind::kObject) return NullLeaf();
  LeafReader reader(text, at, name, arena);
  if (!reader.IsP2p()) return reader.Read();
  Leaf leaf = NullLeaf();
  if (reader.tensor_at() != 0 && JsonCursor(text, reader.tensor_at()).Peek() == JsonKind::kObject) {
    leaf = LeafReader(text, reader.tensor_at(), name, arena).Read();
  }
  reader.AddP2p(leaf);
  return leaf;
}

std::string_view DataNameAt(std::string_view text, std::size_t at, std::string& buffer) {
  if (JsonCursor(text, at).Peek() != JsonKind::kObject) return {};
  Members members = FindMembers(text, at);
  if (members.class_type != 0 && members.tensor != 0) {
    if (JsonCursor(text, members.tensor).Peek() != JsonKind::kObject) return {};
    members = FindMembers(text, members.tensor);
  }
  if (members.data_name == 0) return {};
  JsonCursor cursor(text, members.data_name);
  return cursor.Peek() == JsonKind::kString ? cursor.TakeString(buffer) : std::string_view();
}

}  // namespace vernier::msprobe

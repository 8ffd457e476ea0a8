#include "record/descriptor_text.h"

#include <array>
#include <bit>

#include "core/base64.h"
#include "core/json_writer.h"
#include "record/json_indenter.h"

namespace vernier {
namespace {

constexpr int kEntryDepth = 2;
constexpr std::size_t kNumKept = 16;  // nothing but deep nests lies deeper

// The fixed parts of a description. They depend on nothing but how deep it lies, and are most of what is
// written about a small tensor.
struct Style {
  std::string open_type;                  // {\n "type":
  std::string dtype, shape;               // ,\n "dtype":
  std::string shape_item, shape_end;      // the line breaks inside and behind a shape
  std::array<std::string, 4> statistics;  // ,\n "Max":
  std::string requires_grad, sketch, sketch_bad, values, data_name, md5;
  std::string end;  // the line break before the last bracket
};

std::string Line(int depth) {
  std::string text;
  AppendLine(depth, text);
  return text;
}

Style MakeStyle(int depth) {
  const auto member = [&](std::string_view key) {
    return "," + Line(depth + 1) + "\"" + std::string(key) + "\": ";
  };
  Style style;
  style.open_type = "{" + Line(depth + 1) + "\"type\": ";
  style.dtype = member("dtype");
  style.shape = member("shape");
  style.shape_item = Line(depth + 2);
  style.shape_end = Line(depth + 1);
  style.statistics = {member("Max"), member("Min"), member("Mean"), member("Norm")};
  style.requires_grad = member("requires_grad");
  style.sketch = member("sketch");
  style.sketch_bad = member("sketch_bad");
  style.values = member("values");
  style.data_name = member("data_name");
  style.md5 = member("md5");
  style.end = Line(depth);
  return style;
}

// Valid until this thread's next call.
const Style& StyleAt(int depth) {
  static const std::array<Style, kNumKept> kept = [] {
    std::array<Style, kNumKept> styles;
    for (std::size_t i = 0; i < kNumKept; ++i) styles[i] = MakeStyle(static_cast<int>(i));
    return styles;
  }();
  if (static_cast<std::size_t>(depth) < kNumKept) return kept[static_cast<std::size_t>(depth)];
  thread_local Style deep;
  deep = MakeStyle(depth);
  return deep;
}

// What a description says of a tensor beyond its elements.
struct Texts {
  std::string_view type = "\"torch.Tensor\"", dtype;  // JSON; empty: the usual one
  std::string_view after;                             // a JSON object, or empty

  explicit Texts(std::string_view extras) {
    if (extras.empty()) return;
    JsonIndenter reader(extras, nullptr);  // which took it for JSON before, so nothing fails here
    (void)reader.Members([&](std::string_view key) -> Result<Done> {
      VN_ASSIGN_OR_RETURN(const std::string_view value, reader.RawValue());
      if (key == "type") type = value;
      if (key == "dtype") dtype = value;
      if (key == "after") after = value;
      return Done{};
    });
  }
};

void AppendShape(std::span<const std::int64_t> shape, const Style& style, std::string& out) {
  out += '[';
  for (const std::int64_t& size : shape) {
    if (&size != shape.data()) out += ',';
    out += style.shape_item;
    AppendInteger(size, out);
  }
  if (!shape.empty()) out += style.shape_end;
  out += ']';
}

void AppendAfter(std::string_view after, int depth, std::string& out) {
  if (after.empty()) return;
  JsonIndenter members(after, nullptr);
  (void)members.Members([&](std::string_view key) {
    out += ',';
    AppendLine(depth + 1, out);
    out.append("\"").append(key).append("\": ");
    return members.Value(depth + 1, out);
  });
}

void AppendHex(std::uint64_t value, int num_digits, std::string& out) {
  static constexpr char kDigits[] = "0123456789abcdef";
  while (num_digits-- > 0) out += kDigits[value >> (4 * num_digits) & 0xF];
}

void AppendDigest(const Measured& measured, SummaryMode mode, const Style& style, std::string& out) {
  out += style.md5;
  if (!measured.has_digest) {
    out += "null";
    return;
  }
  out += mode == SummaryMode::kXor ? "\"0x" : "\"";
  AppendHex(measured.digest, mode == SummaryMode::kXor ? 16 : 8, out);
  out += '"';
}

void AppendSketch(const Sketch& sketch, const Style& style, std::string& out) {
  static_assert(std::endian::native == std::endian::little);
  out += sketch.whole ? style.values : style.sketch;
  out += '"';
  const std::size_t begin = out.size();
  AppendBase64(std::as_bytes(std::span(sketch.numbers)), out);
  // The reference refuses a dump in which a text begins with a sign; readers of base64 skip blanks.
  if (begin < out.size() && out[begin] == '+') out.insert(begin, 1, ' ');
  out += '"';
  if (sketch.num_bad == 0) return;
  out += style.sketch_bad;
  AppendInteger(sketch.num_bad, out);
}

}  // namespace

void AppendDescriptor(const Port& port, const Field& field, SummaryMode mode, const Sink& sink,
                      std::string& out) {
  const Style& style = StyleAt(port.depth);
  const Texts texts(port.extras);
  const Measured& measured = port.numbers();
  const bool is_array = port.Has(kArray);
  if (is_array) mode = SummaryMode::kStatistics;
  out += style.open_type;
  out += texts.type;
  out += style.dtype;
  if (!texts.dtype.empty()) {
    out += texts.dtype;
  } else if (port.dtype) {
    out.append("\"torch.").append(Name(*port.dtype)).append("\"");
  } else {
    out += "null";
  }
  out += style.shape;
  AppendShape(port.shape(field.sizes), style, out);
  if (mode == SummaryMode::kXor) {
    AppendDigest(measured, mode, style, out);
  } else {
    for (std::size_t i = 0; i < style.statistics.size(); ++i) {
      out += style.statistics[i];
      out += measured.statistics[i].view();
    }
  }
  if (!is_array) {
    out += style.requires_grad;
    AppendJsonBool(port.Has(kRequiresGrad), out);
  }
  AppendAfter(texts.after, port.depth, out);
  if (const Sketch* const sketch = port.sketch_numbers()) AppendSketch(*sketch, style, out);
  if (const Stored* const stored = port.elements()) {
    out += style.data_name;
    AppendJsonString(sink.NameOf(*stored), out);
  }
  if (mode == SummaryMode::kMd5) AppendDigest(measured, mode, style, out);
  out += style.end;
  out += '}';
}

void AppendValue(std::span<const Field> fields, bool whole, SummaryMode mode, const Sink& sink,
                 std::string& out) {
  const auto append_field = [&](const Field& field) {
    std::size_t at = 0;
    for (const Port& port : field.ports) {
      out.append(field.text, at, port.at - at);
      at = port.at;
      AppendDescriptor(port, field, mode, sink, out);
    }
    out.append(field.text, at);
  };
  if (whole) {
    if (fields.empty()) out += "null";
    for (const Field& field : fields) append_field(field);
    return;
  }
  out += '{';
  for (const Field& field : fields) {
    if (&field != fields.data()) out += ',';
    AppendLine(kEntryDepth + 1, out);
    out += '"';
    out += field.key;
    out += "\": ";
    append_field(field);
  }
  if (!fields.empty()) AppendLine(kEntryDepth, out);
  out += '}';
}

std::vector<Field> SplitValue(std::string_view value, bool whole) {
  std::vector<Field> fields;
  const auto add = [&](std::string_view key, std::string_view text) {
    Field& field = fields.emplace_back();
    field.key = key;
    field.text = text;
    field.from_sink = true;
  };
  if (whole) {
    add("", value);
    return fields;
  }
  // A key of the entry itself is a quote behind a line break and exactly three blanks.
  constexpr std::string_view kKey = "\n   \"", kEnd = "\n  }";
  std::size_t at = value.find(kKey);
  while (at != std::string_view::npos) {
    const std::size_t key = at + kKey.size();
    const std::size_t next = value.find(kKey, key);
    std::size_t key_end = key;
    while (key_end < value.size() && value[key_end] != '"') key_end += value[key_end] == '\\' ? 2 : 1;
    const std::size_t begin = key_end + 3;
    const std::size_t end = next != std::string_view::npos ? next - 1 : value.size() - kEnd.size();
    if (begin > end) break;
    add(value.substr(key, key_end - key), value.substr(begin, end - begin));
    at = next;
  }
  return fields;
}

}  // namespace vernier

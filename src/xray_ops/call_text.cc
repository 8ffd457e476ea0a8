#include "xray_ops/call_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>

#include "core/json_cursor.h"
#include "core/json_writer.h"
#include "core/python_text.h"
#include "core/text.h"

namespace vernier::xray_ops {
namespace {

constexpr int kMaxDepth = 16;                                  // of lists in lists
constexpr std::size_t kLongestCall = 120, kLongestList = 100;  // on one line
constexpr std::int64_t kLargestId = 999'999'999'999;

bool IsWord(std::string_view text, std::string_view also) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           also.find(c) != std::string_view::npos;
  });
}

// namespace.name.overload; several names where a namespace has dots itself.
bool IsOpName(std::string_view op) {
  return IsWord(op, ".") && std::count(op.begin(), op.end(), '.') >= 2 && op.front() != '.' &&
         op.back() != '.' && op.find("..") == std::string_view::npos;
}

bool IsTorchName(std::string_view text) { return text.starts_with("torch.") && IsWord(text.substr(6), ""); }

// Inside the folder of the recording: neither absolute nor up.
bool IsInside(const std::string& file) {
  const std::filesystem::path path(file);
  return !file.empty() && path.is_relative() &&
         std::none_of(path.begin(), path.end(), [](const auto& part) { return part == ".."; });
}

void AppendQuoted(std::string_view text, std::string& out) {
  AppendJsonString(ValidUtf8(text), out, JsonText::kUtf8);  // which Python reads the same way
}

class CallReader {
 public:
  CallReader(std::string_view record, bool with_files) : cursor_(record), with_files_(with_files) {}

  Result<CallText> Read() {
    if (cursor_.Peek() != JsonKind::kObject) Fail("", "expected an object");
    cursor_.ForEachMember([&](std::string_view key, bool) {
      if (key == "id") {
        TakeId();
      } else if (key == "op") {
        TakeOp();
      } else if (key == "args") {
        TakeArgs();
      } else if (key == "kwargs") {
        TakeKwargs();
      } else if (key == "mutates") {
        TakeMutates();
      } else {
        cursor_.Skip();
      }
    });
    if (!cursor_.ok() && !error_) Fail("", cursor_.problem());
    if (!error_ && !has_id_) Fail("id", "is missing");
    if (!error_ && call_.op.empty()) Fail("op", "is missing");
    if (error_) return *error_;
    call_.literal = Literal();
    return call_;
  }

 private:
  void Fail(std::string where, std::string detail) {
    if (!error_) error_ = Error{ErrorCode::kBadHeader, std::move(where), std::move(detail)};
    cursor_.Stop();
  }

  std::optional<std::int64_t> TakeInteger(const std::string& where, std::int64_t least) {
    if (cursor_.Peek() == JsonKind::kInt) {
      const std::string_view text = cursor_.TakeNumberText();
      std::int64_t value = 0;
      const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (cursor_.ok() && problem == std::errc() && end == text.data() + text.size() && value >= least)
        return value;
    }
    Fail(where, least == 0 ? "expected a whole number ≥ 0" : "expected a whole number");
    return std::nullopt;
  }

  void TakeId() {
    const auto id = TakeInteger("id", 0);
    if (id && *id > kLargestId) Fail("id", "is too large");
    if (id) call_.id = *id;
    has_id_ = true;
  }

  void TakeOp() {
    std::string buffer;
    const std::string op(cursor_.TakeString(buffer));
    if (!IsOpName(op)) return Fail("op", fmt::format("{} is no name of an operator", Printable(op)));
    call_.op = op;
  }

  void TakeArgs() {
    cursor_.ForEachElement([&] {
      std::string text;
      AppendValue(fmt::format("args.{}", args_.size()), 0, text);
      args_.push_back(std::move(text));
    });
  }

  void TakeKwargs() {
    cursor_.ForEachMember([&](std::string_view raw, bool escaped) {
      const std::string key = escaped ? DecodeJsonString(raw) : std::string(raw);
      if (!IsWord(key, ""))
        return Fail("kwargs", fmt::format("{} is no name of an argument", Printable(key)));
      std::string text = fmt::format("\"{}\": ", key);
      AppendValue("kwargs." + key, 0, text);
      kwargs_.push_back(std::move(text));
    });
  }

  // Positions, and names of what can only be given by name.
  void TakeMutates() {
    cursor_.ForEachElement([&] {
      std::string text;
      if (cursor_.Peek() == JsonKind::kString) {
        AppendText("mutates", text);
      } else if (const auto position = TakeInteger("mutates", 0)) {
        text = std::to_string(*position);
      }
      mutates_.push_back(std::move(text));
    });
  }

  // -- values: {"kind": …, …}

  void AppendText(const std::string& where, std::string& out) {
    std::string buffer;
    if (cursor_.Peek() != JsonKind::kString) return Fail(where, "expected a text");
    AppendQuoted(cursor_.TakeString(buffer), out);
  }

  // The cursor checks their form; torch takes none that is longer than 64 bits.
  std::string_view TakeDigits(const std::string& where) {
    constexpr std::size_t kMostDigits = 20;
    const std::string_view digits = cursor_.TakeNumberText();
    if (digits.size() > kMostDigits) Fail(where, "the number is too long");
    return digits;
  }

  // 1.5, or the texts "nan", "inf" and "-inf", which stay texts: Python has no literal for them.
  void AppendNumber(const std::string& where, bool is_float, std::string& out) {
    double number = 0;
    if (cursor_.Peek() == JsonKind::kString) {
      std::string buffer;
      const std::string_view word = cursor_.TakeString(buffer);
      if (word != "nan" && word != "inf" && word != "-inf") return Fail(where, "expected a number");
      out += fmt::format("\"{}\"", word);
      return;
    }
    if (cursor_.Peek() == JsonKind::kInt && !is_float) {
      out += TakeDigits(where);
    } else {
      number = cursor_.TakeNumber();
      AppendJsonFloat(number, out, JsonFloat::kQuotedWords);
    }
    if (!cursor_.ok()) Fail(where, "expected a number");
  }

  void AppendIntegers(const std::string& where, std::int64_t least, std::string& out) {
    if (cursor_.Peek() != JsonKind::kArray) return Fail(where, "expected a list");
    std::string separator = "[";
    cursor_.ForEachElement([&] {
      if (const auto value = TakeInteger(where, least)) out += separator + std::to_string(*value);
      separator = ", ";
    });
    out += separator == "[" ? "[]" : "]";
  }

  // Finds the member of the object that starts here; the cursor stays in front of the object.
  template <class Take>
  bool WithMember(std::string_view name, const Take& take) {
    const std::size_t start = cursor_.position();
    bool found = false;
    cursor_.ForEachMember([&](std::string_view key, bool) {
      if (key != name || found) return cursor_.Skip();
      found = true;
      take();
    });
    if (cursor_.ok()) cursor_.MoveTo(start);
    return found;
  }

  void AppendValue(const std::string& where, int depth, std::string& out) {
    if (depth > kMaxDepth) return Fail(where, "nested too deeply");
    if (cursor_.Peek() != JsonKind::kObject) return Fail(where, "expected an object with a kind");
    std::string kind, buffer;
    WithMember("kind", [&] { kind = cursor_.TakeString(buffer); });
    if (!cursor_.ok()) return Fail(where, cursor_.problem());
    const auto* row = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&](const KindRow& known) { return known.name == kind; });
    if (row == std::end(kKinds))
      return Fail(where,
                  kind.empty() ? "its kind is missing" : fmt::format("unknown kind {}", Printable(kind)));
    const std::size_t before = out.size();
    (this->*row->append)(where, depth, out);
    if (error_) return;
    if (out.size() == before) return Fail(where, "its value is missing");
    cursor_.Skip();
  }

  void AppendInt(const std::string& where, int, std::string& out) {
    WithMember("value", [&] {
      if (cursor_.Peek() != JsonKind::kInt) return Fail(where, "expected a whole number");
      out += TakeDigits(where);
    });
  }
  void AppendFloat(const std::string& where, int, std::string& out) {
    WithMember("value", [&] {
      std::string number;
      AppendNumber(where, true, number);
      out += number.starts_with('"') ? fmt::format("{{\"float\": {}}}", number) : number;
    });
  }
  void AppendBool(const std::string& where, int, std::string& out) {
    WithMember("value", [&] {
      if (cursor_.Peek() != JsonKind::kBool) return Fail(where, "expected true or false");
      out += cursor_.TakeBool() ? "True" : "False";
    });
  }
  void AppendNone(const std::string&, int, std::string& out) { out += "None"; }
  void AppendStr(const std::string& where, int, std::string& out) {
    WithMember("value", [&] {
      std::string text;
      AppendText(where, text);
      // Bare texts of this form are torch's own objects.
      out += text.starts_with("\"torch.") ? fmt::format("{{\"str\": {}}}", text) : text;
    });
  }
  void AppendTorch(const std::string& where, int, std::string& out) {
    WithMember("value", [&] {
      std::string buffer;
      const std::string name(cursor_.TakeString(buffer));
      if (!IsTorchName(name)) return Fail(where, fmt::format("{} is nothing of torch's", Printable(name)));
      AppendQuoted(name, out);
    });
  }
  void AppendWrapped(const std::string& where, std::string_view member, std::string_view name,
                     std::string& out) {
    WithMember(member, [&] {
      out += fmt::format("{{\"{}\": ", name);
      AppendText(where, out);
      out += '}';
    });
  }
  void AppendDevice(const std::string& where, int, std::string& out) {
    AppendWrapped(where, "value", "device", out);
  }
  void AppendObject(const std::string& where, int, std::string& out) {
    AppendWrapped(where, "type", "object", out);
  }
  void AppendGenerator(const std::string& where, int, std::string& out) {
    std::string seed = "0";
    WithMember("seed", [&] {
      seed.clear();
      AppendNumber(where, false, seed);
    });
    out += fmt::format("{{\"generator\": {}}}", seed);
  }
  void AppendComplex(const std::string& where, int, std::string& out) {
    WithMember("value", [&] {
      std::string parts;
      std::size_t count = 0;
      if (cursor_.Peek() != JsonKind::kArray) return Fail(where, "expected a list of two numbers");
      cursor_.ForEachElement([&] {
        parts += count++ == 0 ? "" : ", ";
        AppendNumber(where, true, parts);
      });
      if (count != 2) return Fail(where, "expected a list of two numbers");
      out += fmt::format("{{\"complex\": [{}]}}", parts);
    });
  }
  void AppendItems(const std::string& where, int depth, std::string& out) {
    WithMember("items", [&] {
      if (cursor_.Peek() != JsonKind::kArray) return Fail(where, "expected a list");
      out += '[';
      std::size_t count = 0;
      cursor_.ForEachElement([&] {
        if (count > 0) out += ", ";
        AppendValue(fmt::format("{}.{}", where, count++), depth + 1, out);
      });
      out += ']';
    });
  }

  // In the order of the table, whatever the order in the recording.
  void AppendTensor(const std::string& where, int, std::string& out) {
    std::string same_as;
    WithMember("same_as", [&] { AppendText(where + ".same_as", same_as); });
    if (!same_as.empty()) {
      out += fmt::format("{{\"same_as\": {}}}", same_as);
      return;
    }
    std::string separator = "{";
    for (const TensorMember& member : kTensorMembers) {
      if (error_) return;
      if (member.name == "file" && !with_files_) continue;
      std::string text;
      const bool found = WithMember(member.name, [&] {
        if (cursor_.Peek() == JsonKind::kNull) return cursor_.TakeNull();
        (this->*member.append)(fmt::format("{}.{}", where, member.name), text);
      });
      if (member.is_needed && (!found || text.empty()))
        return Fail(where, fmt::format("{} is missing", member.name));
      if (text.empty() || text == member.otherwise) continue;
      out += fmt::format("{}\"{}\": {}", separator, member.name, text);
      separator = ", ";
    }
    out += '}';
  }
  void TensorTorch(const std::string& where, std::string& out) {
    std::string buffer;
    const std::string name(cursor_.TakeString(buffer));
    if (!IsTorchName(name)) return Fail(where, fmt::format("{} is nothing of torch's", Printable(name)));
    AppendQuoted(name, out);
  }
  void TensorSizes(const std::string& where, std::string& out) { AppendIntegers(where, 0, out); }
  void TensorNumber(const std::string& where, std::string& out) { AppendNumber(where, false, out); }
  void TensorText(const std::string& where, std::string& out) { AppendText(where, out); }
  void TensorFile(const std::string& where, std::string& out) {
    std::string buffer;
    std::string file(cursor_.TakeString(buffer));
    if (!IsInside(file))
      return Fail(where, fmt::format("{} leads out of the folder of the recording", Printable(file)));
    AppendQuoted(file, out);
    call_.files.push_back(std::move(file));
  }

  // -- the call

  static std::string Joined(const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
    return text;
  }
  static std::string Listed(std::string_view open, std::string_view close,
                            const std::vector<std::string>& parts) {
    std::string line = fmt::format("{}{}{}", open, Joined(parts), close);
    if (line.size() <= kLongestList) return line;
    std::string text(open);
    for (const std::string& part : parts) text += "\n        " + part + ",";
    return text + "\n    " + std::string(close);
  }
  std::string Literal() const {
    const std::string mutates = Joined(mutates_);
    std::string line =
        fmt::format("{{\"id\": {}, \"op\": \"{}\", \"args\": [{}], \"kwargs\": {{{}}}, \"mutates\": [{}]}}",
                    call_.id, call_.op, Joined(args_), Joined(kwargs_), mutates);
    if (line.size() <= kLongestCall) return line;
    return fmt::format(
        "{{\n    \"id\": {},\n    \"op\": \"{}\",\n    \"args\": {},\n    \"kwargs\": {},\n    \"mutates\": "
        "[{}],\n}}",
        call_.id, call_.op, Listed("[", "]", args_), Listed("{", "}", kwargs_), mutates);
  }

  struct KindRow {
    std::string_view name;
    void (CallReader::*append)(const std::string& where, int depth, std::string& out);
  };
  static constexpr KindRow kKinds[] = {{"tensor", &CallReader::AppendTensor},
                                       {"tensor_list", &CallReader::AppendItems},
                                       {"list", &CallReader::AppendItems},
                                       {"int", &CallReader::AppendInt},
                                       {"float", &CallReader::AppendFloat},
                                       {"bool", &CallReader::AppendBool},
                                       {"str", &CallReader::AppendStr},
                                       {"none", &CallReader::AppendNone},
                                       {"dtype", &CallReader::AppendTorch},
                                       {"layout", &CallReader::AppendTorch},
                                       {"memory_format", &CallReader::AppendTorch},
                                       {"device", &CallReader::AppendDevice},
                                       {"generator", &CallReader::AppendGenerator},
                                       {"scalar", &CallReader::AppendComplex},
                                       {"object", &CallReader::AppendObject}};
  struct TensorMember {
    std::string_view name;
    void (CallReader::*append)(const std::string& where, std::string& out);
    bool is_needed;
    std::string_view otherwise;  // a value that goes without saying
  };
  static constexpr TensorMember kTensorMembers[] = {
      {"dtype", &CallReader::TensorTorch, true, ""},
      {"shape", &CallReader::TensorSizes, true, ""},
      {"stride", &CallReader::TensorSizes, false, ""},
      {"offset", &CallReader::TensorNumber, false, "0"},
      {"storage", &CallReader::TensorText, false, ""},
      {"layout", &CallReader::TensorTorch, false, "\"torch.strided\""},
      {"min", &CallReader::TensorNumber, false, ""},
      {"max", &CallReader::TensorNumber, false, ""},
      {"finite_min", &CallReader::TensorNumber, false, ""},
      {"finite_max", &CallReader::TensorNumber, false, ""},
      {"file", &CallReader::TensorFile, false, ""}};

  JsonCursor cursor_;
  bool with_files_;
  std::optional<Error> error_;
  CallText call_;
  bool has_id_ = false;
  std::vector<std::string> args_, kwargs_, mutates_;
};

}  // namespace

Result<CallText> ReadCall(std::string_view record, bool with_files) {
  return CallReader(record, with_files).Read();
}

}  // namespace vernier::xray_ops

#include "record/json_indenter.h"

#include "core/json_writer.h"

namespace vernier {
namespace {

constexpr char kTensorMark = '\x01';
constexpr std::size_t kMaxDepth = 1000;

}  // namespace

void JsonIndenter::SkipBlanks() {
  while (at_ < text_.size() && (text_[at_] == ' ' || (text_[at_] >= '\t' && text_[at_] <= '\r'))) ++at_;
}

bool JsonIndenter::AtEnd() {
  SkipBlanks();
  return at_ == text_.size();
}

bool JsonIndenter::Take(char c) {
  SkipBlanks();
  if (at_ == text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

Error JsonIndenter::Unexpected(std::string_view wanted) const {
  return Error{ErrorCode::kBadArgument, "byte " + std::to_string(at_) + " of the JSON text",
               "expected " + std::string(wanted)};
}

// With its quotes.
Result<Done> JsonIndenter::Text(std::string_view& raw) {
  SkipBlanks();
  const std::size_t start = at_;
  if (at_ == text_.size() || text_[at_] != '"') return Unexpected("a text");
  for (++at_; at_ < text_.size(); ++at_) {
    if (text_[at_] == '"') {
      raw = text_.substr(start, ++at_ - start);
      return Done{};
    }
    if (text_[at_] == '\\') ++at_;
  }
  at_ = text_.size();
  return Unexpected("the end of a string");
}

Result<Done> JsonIndenter::Key(std::string_view& key) {
  VN_RETURN_IF_ERROR(Text(key));
  key = key.substr(1, key.size() - 2);
  return Take(':') ? Result<Done>(Done{}) : Unexpected("':'");
}

Result<Done> JsonIndenter::Word(std::string_view& word) {
  const std::size_t start = at_;
  const auto is_part = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
           c == '+' || c == '.';
  };
  while (at_ < text_.size() && is_part(text_[at_])) ++at_;
  word = text_.substr(start, at_ - start);
  return word.empty() ? Result<Done>(Unexpected("a value")) : Done{};
}

Result<std::string_view> JsonIndenter::RawValue() {
  SkipBlanks();
  const std::size_t start = at_;
  std::string unused;
  VN_RETURN_IF_ERROR(Value(0, unused));
  return text_.substr(start, at_ - start);
}

Result<Done> JsonIndenter::Value(int depth, std::string& out) {
  SkipBlanks();
  if (at_ == text_.size()) return Unexpected("a value");
  const char c = text_[at_];
  if (c == kTensorMark) {
    ++at_;
    if (tensors_ == nullptr) return Unexpected("no tensor");
    std::string_view extras;
    if (at_ < text_.size() && text_[at_] == '{') {
      VN_ASSIGN_OR_RETURN(extras, RawValue());
    }
    return tensors_->WriteTensor(extras, depth, out);
  }
  if (c == '{' || c == '[') {
    ++at_;
    return Container(c, depth, out);
  }
  std::string_view scalar;
  VN_RETURN_IF_ERROR(c == '"' ? Text(scalar) : Word(scalar));
  out += scalar;
  return Done{};
}

Result<Done> JsonIndenter::Container(char open, int depth, std::string& out) {
  const bool is_object = open == '{';
  const char close = is_object ? '}' : ']';
  out += open;
  if (Take(close)) {
    out += close;
    return Done{};
  }
  if (path_.size() >= kMaxDepth) return Unexpected("less depth");
  path_.emplace_back();
  bool first = true;
  do {
    if (!first) out += ',';
    first = false;
    AppendLine(depth + 1, out);
    if (is_object) {
      std::string_view key;
      VN_RETURN_IF_ERROR(Key(key));
      path_.back() = {key, -1};
      out += '"';
      out += key;
      out += "\": ";
    } else {
      ++path_.back().index;
    }
    VN_RETURN_IF_ERROR(Value(depth + 1, out));
  } while (Take(','));
  path_.pop_back();
  if (!Take(close)) return Unexpected(is_object ? "',' or '}'" : "',' or ']'");
  AppendLine(depth, out);
  out += close;
  return Done{};
}

}  // namespace vernier

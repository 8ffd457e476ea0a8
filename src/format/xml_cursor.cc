#include "format/xml_cursor.h"

#include <charconv>
#include <cstdint>

#include "core/text.h"

namespace vernier {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string_view WithoutPrefix(std::string_view name) {
  const std::size_t colon = name.find(':');
  return colon == kNone ? name : name.substr(colon + 1);
}

// Appends what an entity (without & and ;) stands for; unknown ones stay as they are written.
void AppendEntity(std::string_view entity, std::string& out) {
  static constexpr std::pair<std::string_view, char> kEntities[] = {
      {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
  for (const auto& [name, character] : kEntities) {
    if (entity == name) {
      out += character;
      return;
    }
  }
  if (entity.starts_with('#')) {
    const bool hex = entity.size() > 1 && (entity[1] | 0x20) == 'x';
    const char* first = entity.data() + (hex ? 2 : 1);
    std::uint32_t code = 0;
    const auto [end, error] = std::from_chars(first, entity.data() + entity.size(), code, hex ? 16 : 10);
    if (error == std::errc() && end == entity.data() + entity.size() && code > 0 && code < 0x110000) {
      return AppendUtf8(code, out);
    }
  }
  out += '&';
  out += entity;
  out += ';';
}

std::string Decode(std::string_view raw) {
  constexpr std::size_t kLongestEntity = 10;
  std::string text;
  for (std::size_t at = 0; at < raw.size();) {
    if (raw[at] == '&') {
      const std::size_t end = raw.substr(at, kLongestEntity + 1).find(';');
      if (end != kNone) {
        AppendEntity(raw.substr(at + 1, end - 1), text);
        at += end + 1;
        continue;
      }
    }
    text += raw[at++];
  }
  return text;
}

}  // namespace

XmlCursor::Event XmlCursor::Next() {
  if (end_pending_) {
    end_pending_ = false;
    return Event::kEnd;
  }
  while (at_ < text_.size()) {
    if (text_[at_] != '<') {
      const std::size_t end = std::min(text_.find('<', at_), text_.size());
      raw_text_ = text_.substr(at_, end - at_);
      is_plain_text_ = false;
      at_ = end;
      return Event::kText;
    }
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("<![CDATA[")) {
      const std::size_t end = rest.find("]]>");
      if (end == kNone) break;
      raw_text_ = rest.substr(9, end - 9);
      is_plain_text_ = true;
      at_ += end + 3;
      return Event::kText;
    }
    const std::string_view closing = rest.starts_with("<!--") ? "-->" : rest.starts_with("<?") ? "?>" : ">";
    if (rest.starts_with("<!") || rest.starts_with("<?")) {
      const std::size_t end = rest.find(closing);
      if (end == kNone) break;
      at_ += end + closing.size();
      continue;
    }
    return ReadTag();
  }
  at_ = text_.size();
  return Event::kDone;
}

XmlCursor::Event XmlCursor::ReadTag() {
  // A '>' may stand inside a quoted attribute.
  std::size_t end = at_ + 1;
  char quote = 0;
  for (; end < text_.size() && (quote != 0 || text_[end] != '>'); ++end) {
    const char c = text_[end];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    }
  }
  if (end >= text_.size()) {
    at_ = text_.size();
    return Event::kDone;
  }
  std::string_view tag = text_.substr(at_ + 1, end - at_ - 1);
  at_ = end + 1;
  const bool is_end = tag.starts_with('/');
  if (is_end) tag.remove_prefix(1);
  end_pending_ = !is_end && tag.ends_with('/');
  if (end_pending_) tag.remove_suffix(1);
  std::size_t name_end = 0;
  while (name_end < tag.size() && !IsBlank(tag[name_end])) ++name_end;
  name_ = WithoutPrefix(tag.substr(0, name_end));
  attributes_ = tag.substr(name_end);
  return is_end ? Event::kEnd : Event::kStart;
}

std::string XmlCursor::text() const { return is_plain_text_ ? std::string(raw_text_) : Decode(raw_text_); }

std::string XmlCursor::Attribute(std::string_view wanted) const {
  std::string_view rest = attributes_;
  for (;;) {
    const std::size_t equals = rest.find('=');
    if (equals == kNone) return {};
    std::string_view key = rest.substr(0, equals);
    while (!key.empty() && IsBlank(key.front())) key.remove_prefix(1);
    while (!key.empty() && IsBlank(key.back())) key.remove_suffix(1);
    rest.remove_prefix(equals + 1);
    while (!rest.empty() && IsBlank(rest.front())) rest.remove_prefix(1);
    if (rest.empty() || (rest[0] != '"' && rest[0] != '\'')) return {};
    const std::size_t close = rest.find(rest[0], 1);
    if (close == kNone) return {};
    if (WithoutPrefix(key) == wanted) return Decode(rest.substr(1, close - 1));
    rest.remove_prefix(close + 1);
  }
}

}  // namespace vernier

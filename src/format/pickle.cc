#include "format/pickle.h"

#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "core/text.h"
#include "format/little_endian.h"

namespace vernier {
namespace {

// Far above any checkpoint's, and low enough that a hostile pickle costs seconds and a few GB at worst.
constexpr std::uint64_t kMaxSteps = std::uint64_t{1} << 27;
constexpr std::size_t kMaxObjects = std::size_t{1} << 24;
constexpr std::size_t kMaxShownBytes = 120;  // of a name in a message

std::string Shown(std::string_view text) {
  return Printable(text.substr(0, kMaxShownBytes)) + (text.size() > kMaxShownBytes ? "…" : "");
}

class Interpreter {
 public:
  explicit Interpreter(std::span<const std::byte> bytes) : bytes_(bytes) {
    // Room for one tensor: dumps are many small files, and growing step by step would cost more than parsing.
    stack_.reserve(16);
    memo_.reserve(16);
    tree_.objects.reserve(8);
  }
  Result<PickleTree> Run();

 private:
  using Kind = PickleKind;
  struct Opcode {
    unsigned char code;
    std::string_view name;
    bool (Interpreter::*run)();
  };
  static const Opcode kOpcodes[];

  // Every step returns false after one of these.
  bool Fail(ErrorCode code, std::string detail) {
    error_ = Error{code, "pickle", std::move(detail) + " at byte " + std::to_string(opcode_at_)};
    return false;
  }
  bool Bad(std::string_view what) { return Fail(ErrorCode::kBadHeader, std::string(what)); }
  bool Unsupported() { return Fail(ErrorCode::kUnsupported, "opcode " + std::string(opcode_name_)); }

  // -- bytes
  bool Take(std::uint64_t num_bytes, std::string_view& out) {
    if (num_bytes > bytes_.size() - position_) return Fail(ErrorCode::kTruncated, std::string(opcode_name_));
    out = AsText(bytes_.subspan(position_, num_bytes));
    position_ += num_bytes;
    return true;
  }
  template <class T>
  bool Read(T& number) {
    std::string_view raw;
    if (!Take(sizeof(T), raw)) return false;
    std::memcpy(&number, raw.data(), sizeof(T));
    return true;
  }
  bool ReadLine(std::string_view& line) {
    const std::size_t end = AsText(bytes_).find('\n', position_);
    if (end == std::string_view::npos) return Fail(ErrorCode::kTruncated, std::string(opcode_name_));
    Take(end - position_, line);
    ++position_;
    return true;
  }

  // The number that all of `line` is; invalid_argument when something follows it.
  template <class T>
  static std::errc Parse(std::string_view line, T& number) {
    const auto [end, problem] = std::from_chars(line.data(), line.data() + line.size(), number);
    return problem == std::errc() && end != line.data() + line.size() ? std::errc::invalid_argument : problem;
  }

  // -- stack
  std::size_t Base() const { return marks_.empty() ? 0 : marks_.back(); }
  bool Need(std::size_t num_values) {
    return stack_.size() - Base() >= num_values || Bad("too few values for " + std::string(opcode_name_));
  }
  // Not written out in templates: clang 14 finds no member of the union there.
  bool PushInteger(Kind kind, std::int64_t integer) { return Push({.kind = kind, .integer = integer}); }
  bool Push(PickleValue value) {
    stack_.push_back(value);
    return true;
  }
  PickleValue Pop() {  // REQUIRES: Need(1)
    const PickleValue value = stack_.back();
    stack_.pop_back();
    return value;
  }
  std::vector<PickleValue> PopSome(std::size_t num_values) {  // REQUIRES: Need(num_values)
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(num_values);
    std::vector<PickleValue> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    return items;
  }
  // The values above the last mark, which is taken away with them.
  bool PopToMark(std::vector<PickleValue>& items) {
    if (marks_.empty()) return Bad("no mark for " + std::string(opcode_name_));
    items = PopSome(stack_.size() - marks_.back());
    marks_.pop_back();
    return true;
  }

  // -- values
  bool PushText(Kind kind, std::string_view text) {
    if (text.size() > UINT32_MAX) return Constant<Kind::kOpaque>();  // no name is that long
    return Push({.kind = kind, .object = static_cast<std::uint32_t>(text.size()), .characters = text.data()});
  }
  bool PushObject(Kind kind, std::vector<PickleValue> items, const PickleGlobal* callee = nullptr) {
    if (tree_.objects.size() >= kMaxObjects) return Fail(ErrorCode::kTooLarge, "too many objects");
    const auto object = static_cast<std::uint32_t>(tree_.objects.size());
    tree_.objects.push_back({std::move(items), callee, {}});
    return Push({.kind = kind, .object = object, .integer = 0});
  }
  std::vector<PickleValue>& Items(const PickleValue& value) { return tree_.objects[value.object].items; }

  // -- steps: constants
  template <Kind kind, std::int64_t integer = 0>
  bool Constant() {
    return PushInteger(kind, integer);
  }
  template <class T>
  bool Int() {
    T number;
    return Read(number) && PushInteger(Kind::kInt, number);
  }
  template <class Length>
  bool Long() {
    Length num_bytes;
    std::string_view raw;
    if (!Read(num_bytes) || !Take(num_bytes, raw)) return false;
    if (raw.size() > sizeof(std::int64_t)) return Constant<Kind::kOpaque>();
    std::int64_t number = !raw.empty() && raw.back() < 0 ? -1 : 0;  // the sign fills what is not given
    std::memcpy(&number, raw.data(), raw.size());
    return PushInteger(Kind::kInt, number);
  }
  bool IntLine() {
    std::string_view line;
    if (!ReadLine(line)) return false;
    if (line == "00" || line == "01") return Push({.kind = Kind::kBool, .integer = line == "01"});
    if (line.ends_with('L')) line.remove_suffix(1);
    std::int64_t number = 0;
    const std::errc problem = Parse(line, number);
    if (problem == std::errc::result_out_of_range) return Constant<Kind::kOpaque>();
    if (problem != std::errc()) return Bad("not an integer");
    return Push({.kind = Kind::kInt, .integer = number});
  }
  bool RealLine() {
    std::string_view line;
    double number = 0;
    if (!ReadLine(line)) return false;
    if (Parse(line, number) != std::errc()) return Bad("not a number");
    return Push({.kind = Kind::kReal, .real = number});
  }
  bool BinReal() {
    std::uint64_t bits;
    return Read(bits) && Push({.kind = Kind::kReal, .real = std::bit_cast<double>(__builtin_bswap64(bits))});
  }
  template <class Length, Kind kind>
  bool Counted() {
    Length num_bytes;
    std::string_view text;
    return Read(num_bytes) && Take(num_bytes, text) && PushText(kind, text);
  }
  // Escapes stay as written: torch cannot write tensors in the one protocol that has them.
  bool TextLine() {
    std::string_view line;
    if (!ReadLine(line)) return false;
    const bool quoted = line.size() >= 2 && (line[0] == '\'' || line[0] == '"') && line.back() == line[0];
    return PushText(Kind::kText, quoted ? line.substr(1, line.size() - 2) : line);
  }

  // -- steps: stack and memo
  bool Mark() {
    marks_.push_back(stack_.size());
    return true;
  }
  bool PopOne() {
    if (!marks_.empty() && stack_.size() == marks_.back()) {
      marks_.pop_back();
      return true;
    }
    if (!Need(1)) return false;
    stack_.pop_back();
    return true;
  }
  bool PopMark() {
    std::vector<PickleValue> dropped;
    return PopToMark(dropped);
  }
  bool Duplicate() { return Need(1) && Push(PickleValue(stack_.back())); }
  // A writer numbers the objects it remembers, and each took an opcode: a larger number only eats memory.
  bool Put(std::uint64_t index) {
    if (!Need(1)) return false;
    if (index > num_steps_) return Bad("memo index " + std::to_string(index));
    if (index >= memo_.size()) memo_.resize(index + 1);
    memo_[index] = stack_.back();
    return true;
  }
  bool Get(std::uint64_t index) {
    if (index >= memo_.size() || !memo_[index]) return Bad("memo index " + std::to_string(index));
    return Push(*memo_[index]);
  }
  // What to do with the memo, and where: at a number of fixed size, or at one in digits.
  using MemoStep = bool (Interpreter::*)(std::uint64_t index);
  template <class Index, MemoStep step>
  bool At() {
    Index index;
    return Read(index) && (this->*step)(index);
  }
  template <MemoStep step>
  bool AtLine() {
    std::string_view line;
    std::uint64_t index = 0;
    if (!ReadLine(line)) return false;
    return Parse(line, index) == std::errc() ? (this->*step)(index) : Bad("not a memo index");
  }
  bool Memoize() { return Put(memo_.size()); }

  // -- steps: containers
  template <Kind kind>
  bool Empty() {
    return PushObject(kind, {});
  }
  template <Kind kind>
  bool FromMark() {
    std::vector<PickleValue> items;
    if (!PopToMark(items)) return false;
    if (kind == Kind::kDict && items.size() % 2 != 0) return Bad("a key without a value");
    return PushObject(kind, std::move(items));
  }
  template <std::size_t num_items>
  bool SmallTuple() {
    return Need(num_items) && PushObject(Kind::kTuple, PopSome(num_items));
  }
  bool AddTo(Kind kind, const std::vector<PickleValue>& added) {
    if (!Need(1)) return false;
    const PickleValue target = stack_.back();
    if (target.kind == Kind::kOpaque) return true;
    if (target.kind != kind || (kind == Kind::kDict && added.size() % 2 != 0)) {
      return Bad(std::string(opcode_name_) + " to something else");
    }
    std::vector<PickleValue>& items = Items(target);
    items.insert(items.end(), added.begin(), added.end());
    return true;
  }
  template <Kind kind>
  bool AddMarked() {
    std::vector<PickleValue> added;
    return PopToMark(added) && AddTo(kind, added);
  }
  template <Kind kind, std::size_t num_items>
  bool AddSome() {
    return Need(num_items + 1) && AddTo(kind, PopSome(num_items));
  }

  // -- steps: globals and calls
  bool PushGlobal(std::string_view module, std::string_view name);
  bool GlobalLines() {
    std::string_view module, name;
    return ReadLine(module) && ReadLine(name) && PushGlobal(module, name);
  }
  bool StackGlobal() {
    if (!Need(2)) return false;
    const PickleValue name = Pop(), module = Pop();
    if (name.kind != Kind::kText || module.kind != Kind::kText)
      return Bad("the name of a global is not a string");
    return PushGlobal(TextOf(module), TextOf(name));
  }
  bool Call(const PickleValue& callee, std::vector<PickleValue> arguments);
  bool PushItemsOf(Kind kind, const std::vector<PickleValue>& arguments);
  bool Reduce() {
    if (!Need(2)) return false;
    const PickleValue arguments = Pop(), callee = Pop();
    if (arguments.kind != Kind::kTuple) return Bad("the arguments of a call are not a tuple");
    return Charge(Items(arguments).size()) && Call(callee, Items(arguments));
  }
  bool NewObjectEx() {
    if (!Need(3)) return false;
    Pop();  // keyword arguments
    return Reduce();
  }
  bool Instance() {
    std::vector<PickleValue> arguments;
    return PopToMark(arguments) && GlobalLines() && Call(Pop(), std::move(arguments));
  }
  bool ObjectFromMark() {
    std::vector<PickleValue> items;
    if (!PopToMark(items)) return false;
    if (items.empty()) return Bad("a call without a function");
    return Call(items.front(), {items.begin() + 1, items.end()});
  }
  bool Build() {
    if (!Need(2)) return false;
    const PickleValue state = Pop();
    if (stack_.back().kind == Kind::kCall) tree_.objects[stack_.back().object].state = state;
    return true;  // attributes of a dict or a tensor, such as a state dict's _metadata, hold no tensors
  }
  bool Persistent() {
    if (!Need(1)) return false;
    PickleValue id = Pop();
    if (id.kind != Kind::kTuple) return Bad("a persistent id is not a tuple");
    id.kind = Kind::kPersistent;
    tree_.persistent.push_back(id);
    return Push(id);
  }

  // -- steps: the rest
  bool Protocol() {
    std::uint8_t version;
    if (!Read(version)) return false;
    return version <= 5 || Fail(ErrorCode::kUnsupported, "protocol " + std::to_string(version));
  }
  bool Frame() {
    std::uint64_t num_bytes;
    return Read(num_bytes) &&
           (num_bytes <= bytes_.size() - position_ || Fail(ErrorCode::kTruncated, "FRAME"));
  }
  bool Stop() {
    if (!Need(1)) return false;
    tree_.root = Pop();
    stopped_ = true;
    return true;
  }

  bool Charge(std::uint64_t num_steps) {
    num_steps_ += num_steps;
    return num_steps_ <= kMaxSteps || Fail(ErrorCode::kTooLarge, "too many steps");
  }

  std::span<const std::byte> bytes_;
  std::size_t position_ = 0, opcode_at_ = 0;
  std::string_view opcode_name_;
  std::uint64_t num_steps_ = 0;
  bool stopped_ = false;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;
  std::vector<std::optional<PickleValue>> memo_;
  PickleTree tree_;
  Error error_;
};

bool Interpreter::PushGlobal(std::string_view module, std::string_view name) {
  const PickleGlobal* const global = FindPickleGlobal(module, name);
  if (!global) return Fail(ErrorCode::kUnsafePickle, Shown(module) + "." + Shown(name));
  return Push({.kind = Kind::kGlobal, .global = global});
}

// A list or dict of what the first argument holds. Python 2 wrote an OrderedDict as a list of pairs.
bool Interpreter::PushItemsOf(Kind kind, const std::vector<PickleValue>& arguments) {
  std::vector<PickleValue> items;
  if (!arguments.empty() && IsObject(arguments[0])) {
    const std::vector<PickleValue> source = Items(arguments[0]);
    if (!Charge(source.size())) return false;
    const bool pairs = kind == Kind::kDict && arguments[0].kind != Kind::kDict;
    if (!pairs) items = source;
    for (const PickleValue& pair : source) {
      if (!pairs || !IsObject(pair) || Items(pair).size() != 2) continue;
      items.insert(items.end(), Items(pair).begin(), Items(pair).end());
    }
  }
  return PushObject(kind, std::move(items));
}

bool Interpreter::Call(const PickleValue& callee, std::vector<PickleValue> arguments) {
  if (callee.kind == Kind::kOpaque) return Constant<Kind::kOpaque>();
  if (callee.kind != Kind::kGlobal)
    return Fail(ErrorCode::kUnsafePickle, "a call of a function that the pickle computes");
  switch (callee.global->role) {
    case PickleRole::kOpaque:
      return Constant<Kind::kOpaque>();
    case PickleRole::kDict:
      return PushItemsOf(Kind::kDict, arguments);
    case PickleRole::kSequence:
      return PushItemsOf(Kind::kList, arguments);
    case PickleRole::kFirstArgument:
      return arguments.empty() ? Bad("a Parameter without its tensor") : Push(arguments[0]);
    default:
      return PushObject(Kind::kCall, std::move(arguments), callee.global);
  }
}

// clang-format off
const Interpreter::Opcode Interpreter::kOpcodes[] = {
    {'(',  "MARK",             &Interpreter::Mark},
    {'.',  "STOP",             &Interpreter::Stop},
    {'0',  "POP",              &Interpreter::PopOne},
    {'1',  "POP_MARK",         &Interpreter::PopMark},
    {'2',  "DUP",              &Interpreter::Duplicate},
    {'F',  "FLOAT",            &Interpreter::RealLine},
    {'G',  "BINFLOAT",         &Interpreter::BinReal},
    {'I',  "INT",              &Interpreter::IntLine},
    {'L',  "LONG",             &Interpreter::IntLine},
    {'J',  "BININT",           &Interpreter::Int<std::int32_t>},
    {'K',  "BININT1",          &Interpreter::Int<std::uint8_t>},
    {'M',  "BININT2",          &Interpreter::Int<std::uint16_t>},
    {0x8a, "LONG1",            &Interpreter::Long<std::uint8_t>},
    {0x8b, "LONG4",            &Interpreter::Long<std::uint32_t>},
    {'N',  "NONE",             &Interpreter::Constant<Kind::kNone>},
    {0x88, "NEWTRUE",          &Interpreter::Constant<Kind::kBool, 1>},
    {0x89, "NEWFALSE",         &Interpreter::Constant<Kind::kBool, 0>},
    {'S',  "STRING",           &Interpreter::TextLine},
    {'V',  "UNICODE",          &Interpreter::TextLine},
    {'T',  "BINSTRING",        &Interpreter::Counted<std::uint32_t, Kind::kText>},
    {'U',  "SHORT_BINSTRING",  &Interpreter::Counted<std::uint8_t, Kind::kText>},
    {'X',  "BINUNICODE",       &Interpreter::Counted<std::uint32_t, Kind::kText>},
    {0x8c, "SHORT_BINUNICODE", &Interpreter::Counted<std::uint8_t, Kind::kText>},
    {0x8d, "BINUNICODE8",      &Interpreter::Counted<std::uint64_t, Kind::kText>},
    {'B',  "BINBYTES",         &Interpreter::Counted<std::uint32_t, Kind::kBytes>},
    {'C',  "SHORT_BINBYTES",   &Interpreter::Counted<std::uint8_t, Kind::kBytes>},
    {0x8e, "BINBYTES8",        &Interpreter::Counted<std::uint64_t, Kind::kBytes>},
    {0x96, "BYTEARRAY8",       &Interpreter::Counted<std::uint64_t, Kind::kBytes>},
    {']',  "EMPTY_LIST",       &Interpreter::Empty<Kind::kList>},
    {')',  "EMPTY_TUPLE",      &Interpreter::Empty<Kind::kTuple>},
    {'}',  "EMPTY_DICT",       &Interpreter::Empty<Kind::kDict>},
    {0x8f, "EMPTY_SET",        &Interpreter::Empty<Kind::kList>},
    {'l',  "LIST",             &Interpreter::FromMark<Kind::kList>},
    {'t',  "TUPLE",            &Interpreter::FromMark<Kind::kTuple>},
    {'d',  "DICT",             &Interpreter::FromMark<Kind::kDict>},
    {0x91, "FROZENSET",        &Interpreter::FromMark<Kind::kList>},
    {0x85, "TUPLE1",           &Interpreter::SmallTuple<1>},
    {0x86, "TUPLE2",           &Interpreter::SmallTuple<2>},
    {0x87, "TUPLE3",           &Interpreter::SmallTuple<3>},
    {'a',  "APPEND",           &Interpreter::AddSome<Kind::kList, 1>},
    {'e',  "APPENDS",          &Interpreter::AddMarked<Kind::kList>},
    {0x90, "ADDITEMS",         &Interpreter::AddMarked<Kind::kList>},
    {'s',  "SETITEM",          &Interpreter::AddSome<Kind::kDict, 2>},
    {'u',  "SETITEMS",         &Interpreter::AddMarked<Kind::kDict>},
    {'p',  "PUT",              &Interpreter::AtLine<&Interpreter::Put>},
    {'q',  "BINPUT",           &Interpreter::At<std::uint8_t, &Interpreter::Put>},
    {'r',  "LONG_BINPUT",      &Interpreter::At<std::uint32_t, &Interpreter::Put>},
    {0x94, "MEMOIZE",          &Interpreter::Memoize},
    {'g',  "GET",              &Interpreter::AtLine<&Interpreter::Get>},
    {'h',  "BINGET",           &Interpreter::At<std::uint8_t, &Interpreter::Get>},
    {'j',  "LONG_BINGET",      &Interpreter::At<std::uint32_t, &Interpreter::Get>},
    {'c',  "GLOBAL",           &Interpreter::GlobalLines},
    {0x93, "STACK_GLOBAL",     &Interpreter::StackGlobal},
    {'R',  "REDUCE",           &Interpreter::Reduce},
    {0x81, "NEWOBJ",           &Interpreter::Reduce},
    {0x92, "NEWOBJ_EX",        &Interpreter::NewObjectEx},
    {'i',  "INST",             &Interpreter::Instance},
    {'o',  "OBJ",              &Interpreter::ObjectFromMark},
    {'b',  "BUILD",            &Interpreter::Build},
    {'Q',  "BINPERSID",        &Interpreter::Persistent},
    {0x80, "PROTO",            &Interpreter::Protocol},
    {0x95, "FRAME",            &Interpreter::Frame},
    {'P',  "PERSID",           &Interpreter::Unsupported},
    {0x82, "EXT1",             &Interpreter::Unsupported},
    {0x83, "EXT2",             &Interpreter::Unsupported},
    {0x84, "EXT4",             &Interpreter::Unsupported},
    {0x97, "NEXT_BUFFER",      &Interpreter::Unsupported},
    {0x98, "READONLY_BUFFER",  &Interpreter::Unsupported},
};
// clang-format on

Result<PickleTree> Interpreter::Run() {
  static const auto by_code = [] {
    std::array<const Opcode*, 256> table{};
    for (const Opcode& opcode : kOpcodes) table[opcode.code] = &opcode;
    return table;
  }();
  while (!stopped_) {
    opcode_at_ = position_;
    if (position_ >= bytes_.size()) {
      Fail(ErrorCode::kTruncated, "no STOP");
      return std::move(error_);
    }
    const auto code = std::to_integer<unsigned char>(bytes_[position_++]);
    const Opcode* opcode = by_code[code];
    if (!opcode) {
      Fail(ErrorCode::kUnsupported, "unknown opcode " + std::to_string(code));
      return std::move(error_);
    }
    opcode_name_ = opcode->name;
    if (!Charge(1) || !(this->*opcode->run)()) return std::move(error_);
  }
  tree_.num_bytes = position_;
  return std::move(tree_);
}

}  // namespace

Result<PickleTree> ParsePickle(std::span<const std::byte> bytes) { return Interpreter(bytes).Run(); }

}  // namespace vernier

// Requests and outcomes as JSON. Each struct lists its members once, for writing and for reading.
#include <charconv>

#include "core/json_cursor.h"
#include "core/json_writer.h"
#include "core/text.h"
#include "vernier/compare.h"

namespace vernier {
namespace {

constexpr std::string_view kMatchModes[] = {"exact", "fuzzy", "position"};  // in the order of MatchMode

// ---- the members

template <class Io>
void Members(Io& io, CompareRequest& r) {
  io("target", r.target), io("golden", r.golden), io("family", r.family);
  io("match", r.match), io("renames", r.renames), io("mapping", r.mapping);
  io("rtol", r.rtol), io("atol", r.atol), io("check_dtype", r.check_dtype), io("strict", r.strict);
  io("rules", r.rules), io("outputs", r.outputs), io("format", r.format);
  io("only", r.only), io("sort", r.sort), io("top", r.top), io("worst", r.worst);
  io("options", r.options), io("threads", r.num_threads);
}
template <class Io>
void Members(Io& io, Evidence& e) {
  io("name", e.name), io("port", e.port), io("error", e.error), io("target", e.target),
      io("golden", e.golden);
}
template <class Io>
void Members(Io& io, Outside& o) {
  io("what", o.what), io("name", o.name), io("target", o.target), io("golden", o.golden);
  io("where", o.where), io("error", o.error), io("parameter", o.parameter);
}
template <class Io>
void Members(Io& io, CallPair& p) {
  io("target", p.target), io("golden", p.golden), io("how", p.how);
}
template <class Io>
void Members(Io& io, Culprit& c) {
  io("record", c.record), io("reason", c.reason), io("why", c.why), io("call", c.call), io("pass", c.pass);
  io("row", c.row), io("module", c.module), io("called_from", c.called_from), io("stack", c.stack);
  io("given", c.given), io("made", c.made), io("usual", c.usual);
  io("arguments", c.arguments), io("evidence", c.evidence);
  io("around", c.around), io("golden_around", c.golden_around), io("worst", c.worst),
      io("target_file", c.target_file), io("golden_file", c.golden_file);
}
template <class Io>
void Members(Io& io, DifferentElement& e) {
  io("index", e.index), io("part", e.part), io("target", e.target), io("golden", e.golden);
  io("abs_error", e.abs_error), io("ulp", e.ulp);
}
template <class Io>
void Members(Io& io, WorstPair& p) {
  io("name", p.name), io("golden_name", p.golden_name), io("error", p.error);
  io("num_elements", p.num_elements), io("num_different", p.num_different);
  io("worst_elements", p.worst_elements), io("concentrated_in", p.concentrated_in);
  io("axis", p.axis), io("first", p.first), io("last", p.last), io("share", p.share);
}
template <class Io>
void Members(Io& io, RankOutcome& r) {
  io("rank", r.rank), io("target", r.target), io("golden", r.golden), io("mode", r.mode),
      io("level", r.level);
  io("num_target", r.num_target), io("num_golden", r.num_golden), io("num_matched_by", r.num_matched_by);
  io("num_matched", r.num_matched), io("num_only_golden", r.num_only_golden);
  io("num_measured", r.num_measured), io("num_passed", r.num_passed), io("num_failed", r.num_failed);
  io("num_failed_otherwise_paired", r.num_failed_otherwise_paired);
  io("num_errors", r.num_errors), io("num_not_measured", r.num_not_measured), io("torn", r.torn);
  io("verdict", r.verdict), io("doubts", r.doubts), io("culprit", r.culprit), io("victim_of", r.victim_of);
  io("worst_error", r.worst_error), io("worst_record", r.worst_record);
  io("num_calls", r.num_calls), io("num_alone", r.num_alone);
  io("num_alone_behind_backward", r.num_alone_behind_backward);
  io("num_calls_paired_by", r.num_calls_paired_by), io("pairs", r.pairs), io("renames", r.renames);
  io("num_outside", r.num_outside), io("outside", r.outside), io("errors_along", r.errors_along),
      io("worst_pairs", r.worst_pairs);
}
template <class Io>
void Members(Io& io, CompareOutcome& o) {
  io("family", o.family), io("verdict", o.verdict), io("status", o.status), io("ranks", o.ranks);
  io("num_skipped_ranks", o.num_skipped_ranks), io("doubts", o.doubts), io("incomplete", o.incomplete),
      io("first_differences", o.first_differences);
  io("written", o.written), io("text", o.text), io("next", o.next);
}

// ---- writing

class JsonOut {
 public:
  explicit JsonOut(std::string& out) : out_(out) {}

  template <class T>
  void operator()(std::string_view key, T& value) {
    out_ += out_.ends_with('{') ? "" : ", ";
    AppendJsonString(key, out_);
    out_ += ": ";
    Put(value);
  }
  template <class T>
  void Object(T& value) {
    out_ += '{';
    Members(*this, value);
    out_ += '}';
  }

 private:
  void Put(std::string& value) { AppendJsonString(value, out_, JsonText::kUtf8); }
  void Put(bool value) { AppendJsonBool(value, out_); }
  void Put(double value) { AppendJsonFloat(value, out_); }
  void Put(int value) { AppendInteger(value, out_); }
  void Put(std::uint64_t value) { AppendInteger(value, out_); }
  void Put(MatchMode value) { AppendJsonString(kMatchModes[static_cast<std::size_t>(value)], out_); }
  void Put(RunVerdict value) { AppendJsonString(Name(value), out_); }
  template <class T>
  void Put(std::optional<T>& value) {
    value ? Put(*value) : void(out_ += "null");
  }
  template <class A, class B>
  void Put(std::pair<A, B>& pair) {
    out_ += '[';
    Put(pair.first);
    out_ += ", ";
    Put(pair.second);
    out_ += ']';
  }
  template <class T>
  void Put(std::vector<T>& list) {
    out_ += '[';
    for (T& value : list) {
      if (&value != list.data()) out_ += ", ";
      Put(value);
    }
    out_ += ']';
  }
  void Put(std::map<std::string, std::string>& options) {
    out_ += '{';
    for (auto& [key, value] : options) (*this)(key, value);
    out_ += '}';
  }
  template <class T>
  requires requires(T& value, JsonOut& io) { Members(io, value); }
  void Put(T& value) { Object(value); }

  std::string& out_;
};

// ---- reading

class JsonIn {
 public:
  explicit JsonIn(JsonCursor& json) : json_(json) {}

  // Called for every member while one key of the JSON is looked for.
  template <class T>
  void operator()(std::string_view key, T& value) {
    if (key != key_ || found_) return;
    found_ = true;
    Take(value);
  }
  template <class T>
  void Object(T& value) {
    json_.ForEachMember([&](std::string_view key, bool) {
      JsonIn members(json_);
      members.key_ = key;
      Members(members, value);
      if (!members.found_) json_.Fail(JsonError::kUnknownKey);
      if (!json_.ok() && where_.empty()) where_ = members.where_.empty() ? std::string(key) : members.where_;
    });
  }
  const std::string& where() const { return where_; }  // the member that could not be read

 private:
  void Take(std::string& value) {  // bytes that are no UTF-8 stay: names of files may have them
    bool escaped = false;
    const std::string_view raw = json_.TakeRawString(escaped);
    value = escaped ? DecodeJsonString(raw) : std::string(raw);
  }
  void Take(bool& value) { value = json_.TakeBool(); }
  void Take(double& value) { value = json_.TakeNumber(); }
  template <std::integral T>
  void Take(T& value) {
    const std::string_view text = json_.TakeNumberText();
    if (!json_.ok()) return;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc() || end != text.data() + text.size() || text.starts_with('-'))
      json_.Fail(JsonError::kOutOfRange);
  }
  void Take(MatchMode& value) { TakeChoice("match", kMatchModes, value); }
  void Take(RunVerdict& value) { TakeChoice("verdict", RunVerdictNames(), value); }
  template <class Choice>
  void TakeChoice(const std::string& key, std::span<const std::string_view> words, Choice& value) {
    std::string word;
    Take(word);
    const Result<std::size_t> choice = Choose(key, word, words);
    if (!choice) return json_.Fail(JsonError::kUnknownChoice);
    value = static_cast<Choice>(*choice);
  }
  template <class T>
  void Take(std::optional<T>& value) {
    if (json_.Peek() == JsonKind::kNull) return json_.TakeNull();
    Take(value.emplace());
  }
  template <class A, class B>
  void Take(std::pair<A, B>& pair) {
    int place = 0;
    json_.ForEachElement([&] {
      if (place == 2) return json_.Fail(JsonError::kOutOfRange);
      place++ == 0 ? Take(pair.first) : Take(pair.second);
    });
  }
  template <class T>
  void Take(std::vector<T>& list) {
    json_.ForEachElement([&] { Take(list.emplace_back()); });
  }
  void Take(std::map<std::string, std::string>& options) {
    json_.ForEachMember([&](std::string_view key, bool) { Take(options[std::string(key)]); });
  }
  template <class T>
  requires requires(T& value, JsonIn& io) { Members(io, value); }
  void Take(T& value) { Object(value); }

  JsonCursor& json_;
  std::string_view key_;
  bool found_ = false;
  std::string where_;
};

template <class T>
std::string Written(const T& value) {
  T copy = value;  // Members() also reads, so it wants no const
  std::string json;
  JsonOut(json).Object(copy);
  return json;
}

template <class T>
Result<T> Read(std::string_view text, std::string_view what) {
  T value;
  JsonCursor json(text);
  JsonIn in(json);
  in.Object(value);
  if (json.ok() && !json.AtEnd()) json.Fail(JsonError::kMoreAfterEnd);
  if (json.ok()) return value;
  return Error{ErrorCode::kBadArgument, std::string(what) + (in.where().empty() ? "" : "." + in.where()),
               json.problem()};
}

}  // namespace

std::string ToJson(const CompareRequest& request) { return Written(request); }
std::string ToJson(const CompareOutcome& outcome) { return Written(outcome); }

Result<CompareRequest> CompareRequestFromJson(std::string_view json) {
  return Read<CompareRequest>(json, "request");
}
Result<CompareOutcome> CompareOutcomeFromJson(std::string_view json) {
  return Read<CompareOutcome>(json, "outcome");
}

}  // namespace vernier

#include "profiles/torchair/graph_text.h"

#include "core/json_cursor.h"
#include "core/mapped_file.h"

namespace vernier::torchair {
namespace {

constexpr std::string_view kFxName = "_fx_tensor_name";

std::string_view Trimmed(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

// The name of a field: what a line begins with.
std::string_view FieldOf(std::string_view line) { return line.substr(0, line.find_first_of(": {")); }

// The text between the quotes of `name: "text"`, escapes undone; other values as they are.
std::string ValueOf(std::string_view line) {
  std::string_view value = Trimmed(line.substr(std::min(line.find(':') + 1, line.size())));
  if (value.size() < 2 || value.front() != '"' || value.back() != '"') return std::string(value);
  value = value.substr(1, value.size() - 2);
  std::string text;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value[i] != '\\' || i + 1 == value.size()) {
      text += value[i];
      continue;
    }
    const auto is_octal = [&](std::size_t at) {
      return at < value.size() && value[at] >= '0' && value[at] <= '7';
    };
    const char next = value[++i];
    if (is_octal(i)) {
      int code = 0;
      std::size_t end = i;
      for (; end < i + 3 && is_octal(end); ++end) code = code * 8 + (value[end] - '0');
      text += static_cast<char>(code);
      i = end - 1;
    } else {
      text += next == 'n' ? '\n' : next == 't' ? '\t' : next == 'r' ? '\r' : next;
    }
  }
  return text;
}

// "add_1-aten.add.Tensor.OUTPUT.0" without the two last parts, if the first of them is OUTPUT.
std::string NodeOf(const std::string& tensor_name) {
  const std::size_t last = tensor_name.rfind('.');
  if (last == std::string::npos || last == 0) return tensor_name;
  const std::size_t before = tensor_name.rfind('.', last - 1);
  if (before == std::string::npos || tensor_name.substr(before + 1, last - before - 1) != "OUTPUT")
    return tensor_name;
  return tensor_name.substr(0, before);
}

// Whether a line opens a message. A text is never taken for one, whatever stands in it.
bool Opens(std::string_view line) {
  if (!line.ends_with('{')) return false;
  const std::string_view rest = line.substr(FieldOf(line).size());
  return Trimmed(rest) == "{" || Trimmed(rest) == ": {";
}

}  // namespace

Result<Graph> Graph::Parse(std::string_view text) {
  Graph graph;
  std::vector<std::string_view> open;  // the fields around the line
  GraphOp op;
  std::string key;
  bool has_name = false;
  const auto inside = [&](std::initializer_list<std::string_view> path) {
    return std::equal(open.begin(), open.end(), path.begin(), path.end());
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = Trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    if (Opens(line)) {
      open.push_back(FieldOf(line));
      if (inside({"op"})) {
        op = {};
        has_name = false;
      }
      if (inside({"op", "output_desc", "attr"})) key.clear();
      continue;
    }
    if (line == "}") {
      if (inside({"op"}) && has_name) {
        graph.by_name_[op.name] = graph.ops_.size();
        graph.ops_.push_back(std::move(op));
        op = {};
      }
      if (!open.empty()) open.pop_back();
      continue;
    }
    const std::string_view field = FieldOf(line);
    if (inside({"op"}) && field == "name") {
      op.name = ValueOf(line);
      has_name = true;
    } else if (inside({"op"}) && field == "input") {
      const std::string input = ValueOf(line);
      const std::size_t colon = input.rfind(':');
      op.producers.push_back(input.substr(0, colon == std::string::npos ? 0 : colon));
    } else if (inside({"op", "output_desc", "attr"}) && field == "key") {
      key = ValueOf(line);
    } else if (inside({"op", "output_desc", "attr", "value"}) && field == "s" && key == kFxName) {
      op.fx_nodes.push_back(NodeOf(ValueOf(line)));
    }
  }
  if (graph.ops_.empty())
    return Error{ErrorCode::kBadHeader, "", "no operator (op { name: … }) in this graph"};
  return graph;
}

Result<Graph> Graph::Read(const std::string& path) {
  VN_ASSIGN_OR_RETURN(const FileRef file, MappedFile::Open(path));
  Result<Graph> graph = Parse(TextOf(file));
  if (!graph) return In(path, std::move(graph).error());
  if (file->changed()) return Error{ErrorCode::kFileChanged, path, ""};
  return graph;
}

const GraphOp* Graph::Find(std::string_view name) const {
  const auto row = by_name_.find(name);
  return row == by_name_.end() ? nullptr : &ops_[row->second];
}

std::ptrdiff_t Graph::PositionOf(std::string_view name) const {
  const auto row = by_name_.find(name);
  return row == by_name_.end() ? -1 : static_cast<std::ptrdiff_t>(row->second);
}

}  // namespace vernier::torchair

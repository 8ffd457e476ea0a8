// The graph of a model as the text form of protobuf writes it: operators in order, what feeds them, and which
// node of the FX graph an output stands for.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "vernier/result.h"

namespace vernier::torchair {

struct GraphOp {
  std::string name;
  std::vector<std::string> producers;  // of its inputs, in order
  std::vector<std::string> fx_nodes;   // of its outputs that have one, in order
};

class Graph {
 public:
  // Lines that mean nothing to us are passed over; fails for a text without a single operator.
  static Result<Graph> Parse(std::string_view text);
  static Result<Graph> Read(const std::string& path);

  const std::vector<GraphOp>& ops() const { return ops_; }
  // Null: no such operator. Of several of one name the last counts.
  const GraphOp* Find(std::string_view name) const;
  // Its place among the operators; none: -1.
  std::ptrdiff_t PositionOf(std::string_view name) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::vector<GraphOp> ops_;
  std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> by_name_;
};

}  // namespace vernier::torchair

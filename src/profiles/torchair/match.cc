#include "profiles/torchair/match.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_set>

namespace vernier::torchair {
namespace {

constexpr std::string_view kReasonNames[] = {"no partner",       "token missing",  "rank missing",
                                             "not in the graph", "surplus tensor", "unreadable"};
constexpr std::string_view kFusedPrefix = "AutomaticBufferFusionOp";

// In the order of the graph; what is not in it comes first, by file name.
std::vector<const GeOp*> InOrder(const GeToken& token, const Graph& graph) {
  std::vector<const GeOp*> ops;
  for (const auto& [name, op] : token.ops) ops.push_back(&op);
  std::sort(ops.begin(), ops.end(), [](const GeOp* a, const GeOp* b) { return a->path < b->path; });
  std::stable_sort(ops.begin(), ops.end(), [&](const GeOp* a, const GeOp* b) {
    return graph.PositionOf(a->name.op) < graph.PositionOf(b->name.op);
  });
  return ops;
}

// What all matching of one token shares.
class Matcher {
 public:
  Matcher(std::uint64_t token, const Graph& graph, const GeToken& target, const Warn& warn,
          Matching& matching)
      : token_(token), graph_(graph), target_(target), warn_(warn), matching_(matching) {}

 protected:
  static TensorRef Ge(const GeOp& op, bool output, std::size_t index) {
    return {&op, nullptr, output, index};
  }
  static TensorRef Fx(const std::string& path, bool output) { return {nullptr, &path, output, std::nullopt}; }

  void AddPair(const TensorRef& target, const TensorRef& golden) {
    matching_.pairs.push_back({token_, matching_.pairs.size(), target, golden});
  }
  void AddAlone(bool in_target, std::string name, std::string path, Reason reason) {
    matching_.unmatched.push_back({in_target, token_, std::move(name), std::move(path), reason});
  }
  // A file that cannot be read as a whole is one row with its reason, and stands among the unmatched.
  void AddDamaged(const TensorRef& target, const TensorRef& golden) {
    AddPair(target, golden);
    for (const bool in_target : {true, false}) {
      const TensorRef& ref = in_target ? target : golden;
      if (ref.op != nullptr && ref.op->damage)
        AddAlone(in_target, ref.op->name.op, ref.op->path, Reason::kUnreadable);
    }
  }
  // By position, as far as both go.
  void AddPairs(const std::vector<TensorRef>& target, const std::vector<TensorRef>& golden,
                const std::string& target_name, const std::string& golden_name) {
    const std::size_t both = std::min(target.size(), golden.size());
    for (std::size_t i = 0; i < both; ++i) AddPair(target[i], golden[i]);
    for (std::size_t i = both; i < target.size(); ++i)
      AddAlone(true, target_name, ShownPath(target[i]), Reason::kSurplusTensor);
    for (std::size_t i = both; i < golden.size(); ++i)
      AddAlone(false, golden_name, ShownPath(golden[i]), Reason::kSurplusTensor);
  }
  static std::vector<TensorRef> TensorsOf(const GeOp& op, bool outputs) {
    std::vector<TensorRef> tensors;
    for (std::size_t i = 0; i < op.num_tensors(outputs); ++i) tensors.push_back(Ge(op, outputs, i));
    return tensors;
  }
  void AddUnreadable(const GeToken& token, bool in_target) {
    for (const Unreadable& file : token.unreadable)
      AddAlone(in_target, file.name, file.path, Reason::kUnreadable);
  }

  std::uint64_t token_;
  const Graph& graph_;
  const GeToken& target_;
  const Warn& warn_;
  Matching& matching_;
};

class FxMatcher : Matcher {
 public:
  FxMatcher(std::uint64_t token, const Graph& graph, const GeToken& target, const FxToken& golden,
            const Warn& warn, Matching& matching)
      : Matcher(token, graph, target, warn, matching), golden_(golden) {}

  void Run() {
    for (const GeOp* op : InOrder(target_, graph_)) Match(*op);
    AddUnreadable(target_, true);
    for (const auto& [name, node] : golden_) {
      if (used_.contains(name)) continue;
      const auto& files = node.outputs.empty() ? node.inputs : node.outputs;
      AddAlone(false, name, files.front(), Reason::kNoPartner);
    }
  }

 private:
  using Node = FxToken::value_type;

  // Null, and told: the node was not dumped.
  const Node* FindNode(const GeOp& op, const std::string& name) {
    const auto row = golden_.find(name);
    if (row == golden_.end()) {
      warn_(fmt::format("FX data missing, GE tensor name: {}, FX tensor name: {}", op.name.op, name));
      is_alone_ = true;
      return nullptr;
    }
    used_.insert(row->first);
    return &*row;
  }

  static std::vector<TensorRef> FilesOf(const Node& node, bool outputs) {
    std::vector<TensorRef> files;
    for (const std::string& path : node.second.files(outputs)) files.push_back(Fx(path, outputs));
    return files;
  }

  void Match(const GeOp& op) {
    is_alone_ = false;
    const std::size_t num_before = matching_.pairs.size();
    const std::vector<std::string> parts = CutFusedName(op.name.op, graph_, target_, nullptr);
    if (parts.empty()) {
      const bool is_private = op.name.type.find("Cast") != std::string::npos ||
                              op.name.type.find("TransData") != std::string::npos;
      if (!is_private) return AddAlone(true, op.name.op, op.path, Reason::kNotInTheGraph);
      if (op.damage)
        return AddDamaged({&op, nullptr, true, std::nullopt}, {&op, nullptr, false, std::nullopt});
      AddPairs(TensorsOf(op, true), TensorsOf(op, false), op.name.op, op.name.op);
      return;
    }
    const GraphOp& first = *graph_.Find(parts.front());
    const GraphOp& last = *graph_.Find(parts.back());
    if (op.damage) {
      MatchDamaged(op, last);
    } else if (parts.size() == 1) {
      // Every output of an operator names the same node; the last that was dumped counts.
      const Node* node = nullptr;
      for (const std::string& name : first.fx_nodes) {
        if (const Node* found = FindNode(op, name)) node = found;
      }
      if (node != nullptr) {
        for (const bool outputs : {false, true})
          AddPairs(TensorsOf(op, outputs), FilesOf(*node, outputs), op.name.op, node->first);
      }
    } else {
      MatchEnd(op, first, false);
      MatchEnd(op, last, true);
    }
    if (is_alone_ || matching_.pairs.size() == num_before)
      AddAlone(true, op.name.op, op.path, op.damage ? Reason::kUnreadable : Reason::kNoPartner);
  }

  // One end of a fused operator.
  void MatchEnd(const GeOp& op, const GraphOp& part, bool outputs) {
    for (const std::string& name : part.fx_nodes) {
      if (const Node* node = FindNode(op, name))
        AddPairs(TensorsOf(op, outputs), FilesOf(*node, outputs), op.name.op, node->first);
    }
  }

  void MatchDamaged(const GeOp& op, const GraphOp& last) {
    for (const std::string& name : last.fx_nodes) {
      const Node* node = FindNode(op, name);
      if (node == nullptr) continue;
      const auto& files = node->second.outputs.empty() ? node->second.inputs : node->second.outputs;
      return AddDamaged({&op, nullptr, true, std::nullopt}, Fx(files.front(), true));
    }
  }

  const FxToken& golden_;
  std::set<std::string_view> used_;
  bool is_alone_ = false;
};

class GeMatcher : Matcher {
 public:
  GeMatcher(std::uint64_t token, const Graph& graph, const GeToken& target, const GeToken& golden,
            const Warn& warn, Matching& matching)
      : Matcher(token, graph, target, warn, matching), golden_(golden) {}

  void Run() {
    for (const GeOp* op : InOrder(target_, graph_)) Match(*op);
    AddUnreadable(target_, true);
    AddUnreadable(golden_, false);
    for (const auto& [name, op] : golden_.ops) {
      if (!used_.contains(name)) AddAlone(false, name, op.path, Reason::kNoPartner);
    }
  }

 private:
  const GeOp* FindGolden(const std::string& name) {
    const auto row = golden_.ops.find(name);
    if (row == golden_.ops.end()) return nullptr;
    used_.insert(row->first);
    return &row->second;
  }

  void Match(const GeOp& op) {
    if (op.name.type.starts_with(kFusedPrefix)) return MatchFused(op);
    const GeOp* golden = FindGolden(op.name.op);
    if (golden == nullptr) {
      warn_(fmt::format("Golden data missing, My tensor name: {}", op.name.op));
      return AddAlone(true, op.name.op, op.path, Reason::kNoPartner);
    }
    if (op.damage || golden->damage)
      return AddDamaged({&op, nullptr, true, std::nullopt}, {golden, nullptr, true, std::nullopt});
    for (const bool outputs : {false, true})
      AddPairs(TensorsOf(op, outputs), TensorsOf(*golden, outputs), op.name.op, op.name.op);
  }

  // A fused operator reads what its parts read from outside, and writes what the last of them writes.
  void MatchFused(const GeOp& op) {
    const std::vector<std::string> parts = CutFusedName(op.name.op, graph_, target_, &golden_);
    std::size_t cut = 0;
    for (const std::string& part : parts) cut += part.size();
    if (cut < op.name.op.size()) {
      warn_(fmt::format("Failed parsing fused op name: {}. Compare manually if required.",
                        op.name.op.substr(cut)));
    }
    std::vector<TensorRef> inputs;
    std::vector<std::string> producers;
    const GeOp* last = nullptr;
    const GeOp* damaged = op.damage ? &op : nullptr;
    for (const std::string& part : parts) {
      const std::vector<std::string>& names = graph_.Find(part)->producers;
      const GeOp* golden = FindGolden(part);
      if (golden == nullptr) {
        warn_(fmt::format(
            "No dump data for op: {}. Seldom should this happen. Input data matching may be incorrect.",
            part));
      } else {
        last = golden;
        if (golden->damage) damaged = golden;
      }
      const std::size_t count = golden ? std::min(names.size(), golden->num_inputs) : names.size();
      for (std::size_t i = 0; i < count; ++i) {
        inputs.push_back(golden ? Ge(*golden, false, i) : TensorRef{nullptr, nullptr, false, i});
        producers.push_back(names[i]);
      }
    }
    if (damaged != nullptr) {
      return AddDamaged({&op, nullptr, true, std::nullopt},
                        {damaged == &op ? last : damaged, nullptr, true, std::nullopt});
    }
    const std::unordered_set<std::string> inside(parts.begin(), parts.end());
    std::vector<TensorRef> outer;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inside.contains(producers[i])) outer.push_back(inputs[i]);
    }
    const std::size_t num_before = matching_.pairs.size();
    AddPairs(TensorsOf(op, false), outer, op.name.op, op.name.op);
    AddPairs(TensorsOf(op, true), last ? TensorsOf(*last, true) : std::vector<TensorRef>(), op.name.op,
             last ? last->name.op : op.name.op);
    if (matching_.pairs.size() == num_before) AddAlone(true, op.name.op, op.path, Reason::kNoPartner);
    if (last == nullptr || last->name.op == parts.back()) return;
    for (std::size_t i = num_before; i < matching_.pairs.size(); ++i)
      matching_.pairs[i].doubtful = matching_.pairs[i].target.output;
  }

  const GeToken& golden_;
  std::set<std::string_view> used_;
};

}  // namespace

std::string_view Name(Reason reason) { return kReasonNames[static_cast<std::size_t>(reason)]; }

std::string ShownPath(const TensorRef& ref) {
  if (ref.fx_path != nullptr) return *ref.fx_path;
  if (ref.op == nullptr) return "";
  if (!ref.index) return ref.op->path;
  return fmt::format("{},{},{}", ref.op->path, ref.output ? "outputs" : "inputs", *ref.index);
}

std::vector<std::string> CutFusedName(std::string_view name, const Graph& graph, const GeToken& target,
                                      const GeToken* golden) {
  std::vector<std::string> parts;
  const auto is_dumped = [&](std::string_view op) {
    return target.ops.contains(op) || (golden != nullptr && golden->ops.contains(op));
  };
  while (!name.empty()) {
    std::size_t length = name.size();
    for (; length > 0; --length) {
      const std::string_view beginning = name.substr(0, length);
      if (graph.Find(beginning) != nullptr) break;
      if (length < name.size() && is_dumped(beginning)) return parts;
    }
    if (length == 0) return parts;
    parts.emplace_back(name.substr(0, length));
    name.remove_prefix(length);
  }
  return parts;
}

void MatchGeWithFx(std::uint64_t token, const Graph& graph, const GeToken& target, const FxToken& golden,
                   const Warn& warn, Matching& matching) {
  FxMatcher(token, graph, target, golden, warn, matching).Run();
}

void MatchGeWithGe(std::uint64_t token, const Graph& graph, const GeToken& target, const GeToken& golden,
                   const Warn& warn, Matching& matching) {
  GeMatcher(token, graph, target, golden, warn, matching).Run();
}

}  // namespace vernier::torchair

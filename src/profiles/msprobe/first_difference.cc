#include "profiles/msprobe/first_difference.h"

#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "core/json_writer.h"

namespace vernier::msprobe {
namespace {

constexpr double kDifferent = 0.5;
constexpr std::string_view kCommApis[] = {"send",
                                          "recv",
                                          "broadcast",
                                          "all_reduce",
                                          "reduce",
                                          "all_gather",
                                          "gather",
                                          "isend",
                                          "irecv",
                                          "scatter",
                                          "reduce_scatter",
                                          "_reduce_scatter_base",
                                          "_all_gather_base",
                                          "all_to_all_single",
                                          "all_to_all",
                                          "all_gather_into_tensor",
                                          "reduce_scatter_tensor",
                                          "send_object_list",
                                          "recv_object_list"};
constexpr std::string_view kCommPrefixes[] = {"Distributed", "MintDist", "mint.distributed", "comm_func."};
constexpr std::string_view kPairedApis[][2] = {
    {"send", "recv"}, {"isend", "irecv"}, {"send_object_list", "recv_object_list"}};
// These say whom they talk to; without a peer they match nobody.
constexpr std::string_view kDirectedApis[] = {"send",
                                              "recv",
                                              "isend",
                                              "irecv",
                                              "broadcast",
                                              "scatter",
                                              "gather",
                                              "send_object_list",
                                              "recv_object_list"};

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Component `index` of a dotted name, counted from the end when negative; empty when there is none.
std::string_view Component(std::string_view name, int index) {
  std::vector<std::string_view> parts;
  for (std::size_t start = 0;;) {
    const std::size_t dot = name.find('.', start);
    parts.push_back(name.substr(start, dot - start));
    if (dot == std::string_view::npos) break;
    start = dot + 1;
  }
  const int at = index < 0 ? static_cast<int>(parts.size()) + index : index;
  return at >= 0 && at < static_cast<int>(parts.size()) ? parts[static_cast<std::size_t>(at)]
                                                        : std::string_view();
}

bool IsComm(std::string_view name) {
  const bool starts = std::any_of(std::begin(kCommPrefixes), std::end(kCommPrefixes),
                                  [&](std::string_view prefix) { return name.starts_with(prefix); });
  return starts && std::any_of(std::begin(kCommApis), std::end(kCommApis),
                               [&](std::string_view api) { return Contains(name, api); });
}

bool RowDiffers(Mode mode, const ResultRow& row) {
  if (mode == Mode::kMd5) return row.fails();
  return std::any_of(row.metrics.begin() + kFirstRelativeErr, row.metrics.end(), [](const Cell& cell) {
    return cell.kind == Cell::Kind::kShown && cell.number > kDifferent;
  });
}

// The text by which peers are read: the checksum, or the maximum.
std::string PeerText(Mode mode, const ResultRow& row) {
  return mode == Mode::kMd5 ? std::string(row.npu.md5) : CellText(row.npu.statistics[0]);
}

void AddNumbers(std::string_view text, bool keep_zero, std::vector<int>& peers) {
  for (std::size_t at = 0; at < text.size();) {
    int number = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
    if (error != std::errc() || (at > 0 && text[at - 1] == '.')) {
      ++at;
      continue;
    }
    if (number != 0 || keep_zero) peers.push_back(number);
    at = static_cast<std::size_t>(end - text.data());
  }
}

void ReadPeers(Mode mode, std::span<const ResultRow> record, AnalyzedOp& op) {
  bool has_source = false, has_target = false;
  for (const ResultRow& row : record) {
    if (row.state == PortState::kOutput) continue;
    has_source = has_source || Contains(row.npu_name, "src");
    has_target = has_target || Contains(row.npu_name, "dst");
    const std::string_view last = Component(row.npu_name, -1);
    const std::string text = PeerText(mode, row);
    if (last == "src" || last == "dst" || last == "group_src" || last == "group_dst")
      AddNumbers(text, false, op.peers);
    if (last == "group" && text.starts_with('[') && text.ends_with(']')) AddNumbers(text, true, op.peers);
    if (row.npu.p2p_peer != "None") AddNumbers(row.npu.p2p_peer, true, op.peers);
  }
  op.direction = has_source   ? CommDirection::kReceiver
                 : has_target ? CommDirection::kSender
                              : CommDirection::kNone;
}

std::string DataInfo(Mode mode, std::span<const ResultRow> record) {
  static constexpr std::string_view kHeadings[] = {"NPU max", "NPU min", "NPU mean", "NPU l2norm"};
  std::string groups[2];  // inputs, outputs
  for (const ResultRow& row : record) {
    if (row.state != PortState::kInput && row.state != PortState::kOutput) continue;
    std::string& out = groups[row.state == PortState::kOutput ? 1 : 0];
    out += out.empty() ? "\n          " : ",\n          ";
    AppendJsonString(row.npu_name, out, JsonText::kUtf8);
    out += ": {";
    if (mode == Mode::kMd5) {
      out += "\n            \"NPU MD5\": ";
      AppendJsonString(row.npu.md5, out, JsonText::kUtf8);
    } else {
      for (std::size_t i = 0; i < std::size(kHeadings); ++i) {
        out += fmt::format("{}\n            \"{}\": ", i == 0 ? "" : ",", kHeadings[i]);
        AppendJsonCell(row.npu.statistics[i], JsonFloat::kBareWords, out);
      }
    }
    out += ",\n            \"NPU P2POp peer\": ";
    AppendJsonString(row.npu.p2p_peer, out, JsonText::kUtf8);
    out += "\n          }";
  }
  const auto close = [](const std::string& group) {
    return group.empty() ? "{}" : '{' + group + "\n        }";
  };
  return fmt::format("{{\n        \"input\": {},\n        \"output\": {}\n      }}", close(groups[0]),
                     close(groups[1]));
}

struct ComputeOp {
  const AnalyzedOp* op;
  int sub_layer;
};

// A communication of one rank, and what was computed on that rank since the one before.
struct Node {
  int rank = 0;
  const AnalyzedOp* op = nullptr;
  int layer = 0, sub_layer = 0;
  std::vector<ComputeOp> before;
  std::vector<Node*> links;
  bool removed = false, seen = false;

  std::string_view api() const { return Component(op->name, 1); }
};

class Search {
 public:
  explicit Search(std::span<const AnalyzedRank> ranks) : ranks_(ranks) {}

  std::vector<FirstDifference> Run() {
    if (auto found = BeforeCommunication(); !found.empty()) return found;
    MakeNodes();
    LinkNodes();
    RemoveNodes();
    if (auto found = AmongNodes(); !found.empty()) return found;
    return after_;
  }

 private:
  static bool Counts(const AnalyzedOp& op) { return !op.is_ignored; }

  std::vector<FirstDifference> BeforeCommunication() const {
    std::vector<FirstDifference> found;
    for (const AnalyzedRank& rank : ranks_) {
      for (const AnalyzedOp& op : rank.ops) {
        if (op.is_comm) break;
        if (op.is_same || !Counts(op)) continue;
        found.push_back({rank.rank, &op});
        break;
      }
    }
    return found;
  }

  void MakeNodes() {
    for (const AnalyzedRank& rank : ranks_) {
      std::vector<std::unique_ptr<Node>>& nodes = nodes_[rank.rank];
      std::vector<ComputeOp> waiting;
      int sub_layer = 0;
      for (const AnalyzedOp& op : rank.ops) {
        if (op.is_comm) {
          auto node = std::make_unique<Node>();
          node->rank = rank.rank;
          node->op = &op;
          node->layer = static_cast<int>(nodes.size());
          node->sub_layer = nodes.empty() ? 0 : sub_layer;
          if (!nodes.empty()) node->before = std::move(waiting);
          nodes.push_back(std::move(node));
          waiting.clear();
          sub_layer = 0;
        } else if (Counts(op)) {
          if (!op.is_same) waiting.push_back({&op, sub_layer});
          ++sub_layer;
        }
      }
      if (!nodes.empty() && !waiting.empty()) after_.push_back({rank.rank, waiting.front().op});
    }
  }

  void LinkNodes() {
    std::set<int> processed;
    for (auto current = nodes_.begin(); current != nodes_.end(); ++current) {
      if (std::next(current) == nodes_.end()) break;
      processed.insert(current->first);
      std::set<const Node*> linked;
      int previous_layer = -1;
      for (const auto& node : current->second) {
        if (node->layer <= previous_layer) node->layer = previous_layer + 1;
        previous_layer = node->layer;
        for (const int peer : PeersOf(*node)) {
          if (!processed.count(peer)) LinkToRank(*node, peer, linked);
        }
      }
    }
  }

  std::vector<int> PeersOf(const Node& node) const {
    if (!node.op->peers.empty()) return node.op->peers;
    std::vector<int> all;
    for (const auto& [rank, nodes] : nodes_) all.push_back(rank);
    return all;
  }

  static std::string_view CounterpartApi(std::string_view api) {
    for (const auto& pair : kPairedApis) {
      if (api == pair[0]) return pair[1];
      if (api == pair[1]) return pair[0];
    }
    return api;
  }

  void LinkToRank(Node& node, int peer, std::set<const Node*>& linked) {
    const auto found = nodes_.find(peer);
    if (found == nodes_.end()) return;
    const std::string prefix = fmt::format("Distributed.{}", CounterpartApi(node.api()));
    const CommDirection wanted = node.op->direction == CommDirection::kSender     ? CommDirection::kReceiver
                                 : node.op->direction == CommDirection::kReceiver ? CommDirection::kSender
                                                                                  : CommDirection::kNone;
    for (const auto& other : found->second) {
      if (linked.count(other.get()) || !other->op->name.starts_with(prefix) || other->op->direction != wanted)
        continue;
      const std::vector<int>& peers = other->op->peers;
      const bool names_us = peers.empty() ? std::find(std::begin(kDirectedApis), std::end(kDirectedApis),
                                                      other->api()) == std::end(kDirectedApis)
                                          : std::find(peers.begin(), peers.end(), node.rank) != peers.end();
      if (!names_us) continue;
      linked.insert(other.get());
      node.links.push_back(other.get());
      other->links.push_back(&node);
      other->layer = node.layer;
      return;
    }
  }

  void RemoveNodes() {
    for (auto& [rank, nodes] : nodes_) {
      for (auto& node : nodes) node->removed = node->op->is_same && node->before.empty();
    }
  }

  // All nodes that a node is linked to, directly or not, through nodes that are still there.
  static std::vector<Node*> GroupOf(Node* start) {
    std::vector<Node*> group{start};
    start->seen = true;
    for (std::size_t i = 0; i < group.size(); ++i) {
      for (Node* next : group[i]->links) {
        if (next->removed || next->seen) continue;
        next->seen = true;
        group.push_back(next);
      }
    }
    return group;
  }

  struct Candidate {
    int layer, sub_layer;
    FirstDifference found;
  };

  std::vector<FirstDifference> AmongNodes() {
    std::vector<std::vector<Node*>> queues;
    for (auto& [rank, nodes] : nodes_) {
      std::vector<Node*>& queue = queues.emplace_back();
      for (auto& node : nodes) {
        if (!node->removed) queue.push_back(node.get());
      }
      std::stable_sort(queue.begin(), queue.end(),
                       [](const Node* a, const Node* b) { return a->layer < b->layer; });
    }
    for (bool more = true; more;) {
      more = false;
      std::vector<Candidate> candidates;
      for (std::vector<Node*>& queue : queues) {
        const auto next =
            std::find_if(queue.begin(), queue.end(), [](const Node* node) { return !node->seen; });
        if (next == queue.end()) continue;
        more = true;
        for (const Node* node : GroupOf(*next)) Collect(*node, candidates);
      }
      if (!candidates.empty()) return Smallest(candidates);
    }
    return {};
  }

  static void Collect(const Node& node, std::vector<Candidate>& candidates) {
    for (const ComputeOp& compute : node.before) {
      candidates.push_back({node.layer, compute.sub_layer, {node.rank, compute.op}});
    }
    if (!node.op->is_same) candidates.push_back({node.layer, node.sub_layer, {node.rank, node.op}});
  }

  static std::vector<FirstDifference> Smallest(const std::vector<Candidate>& candidates) {
    const auto key = [](const Candidate& c) { return std::pair(c.layer, c.sub_layer); };
    const auto smallest =
        key(*std::min_element(candidates.begin(), candidates.end(),
                              [&](const Candidate& a, const Candidate& b) { return key(a) < key(b); }));
    std::vector<FirstDifference> found;
    for (const Candidate& candidate : candidates) {
      if (key(candidate) == smallest) found.push_back(candidate.found);
    }
    return found;
  }

  std::span<const AnalyzedRank> ranks_;
  std::map<int, std::vector<std::unique_ptr<Node>>> nodes_;
  std::vector<FirstDifference> after_;
};

}  // namespace

bool OutputsAreSame(Mode mode, std::span<const ResultRow> record) {
  // Two outputs of this operator are random states.
  const bool is_attention = Component(record[0].api, -3) == "npu_fusion_attention";
  std::size_t output = 0;
  for (const ResultRow& row : record) {
    if (row.state != PortState::kOutput) continue;
    const std::size_t number = output++;
    if (is_attention && (number == 4 || number == 5)) continue;
    if (RowDiffers(mode, row)) return false;
  }
  return true;
}

AnalyzedOp AnalyzeRecord(Mode mode, const Rules& rules, std::span<const ResultRow> record) {
  AnalyzedOp op;
  op.name = record[0].api;
  op.is_same = OutputsAreSame(mode, record);
  op.is_comm = IsComm(op.name);
  op.is_ignored = rules.ListsPartOf("analyze_ignored", op.name);
  if (op.is_comm) ReadPeers(mode, record, op);
  if (!op.is_same) op.data_info = DataInfo(mode, record);
  return op;
}

std::vector<FirstDifference> FindFirstDifference(std::span<const AnalyzedRank> ranks) {
  return Search(ranks).Run();
}

std::string DiffAnalyzeJson(std::span<const FirstDifference> found) {
  std::map<int, std::vector<const AnalyzedOp*>> by_rank;
  for (const FirstDifference& difference : found) by_rank[difference.rank].push_back(difference.op);
  std::string json = "{";
  for (const auto& [rank, ops] : by_rank) {
    json += fmt::format("{}\n  \"rank_{}\": [", json.size() > 1 ? "," : "", rank);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      json += i > 0 ? ",\n    {\n      \"op_name\": " : "\n    {\n      \"op_name\": ";
      AppendJsonString(ops[i]->name, json, JsonText::kUtf8);
      json += ",\n      \"data_info\": " + ops[i]->data_info + ",\n      \"stack_info\": ";
      if (ops[i]->stack.empty()) json += "null";
      for (std::size_t line = 0; line < ops[i]->stack.size(); ++line) {
        json += line == 0 ? "[\n        " : ",\n        ";
        AppendJsonString(ops[i]->stack[line], json, JsonText::kUtf8);
        if (line + 1 == ops[i]->stack.size()) json += "\n      ]";
      }
      json += "\n    }";
    }
    json += "\n  ]";
  }
  return json + "\n}\n";
}

}  // namespace vernier::msprobe

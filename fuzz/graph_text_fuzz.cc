// The text of a graph, and names cut into its operators.
#include "profiles/torchair/graph_text.h"

#include <cstdint>

#include "profiles/torchair/convert.h"
#include "profiles/torchair/match.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  using namespace vernier::torchair;
  const std::string_view text(reinterpret_cast<const char*>(data), size_bytes);
  static_cast<void>(ParseGeFileName(text.substr(0, text.find('\n'))));
  static_cast<void>(OverflowJson(std::as_bytes(std::span(text))));
  const auto graph = Graph::Parse(text);
  if (!graph) return 0;
  std::string fused;
  for (const GraphOp& op : graph->ops()) fused += op.name;
  GeToken token;
  CutFusedName(std::string_view(fused).substr(0, 200), *graph, token, nullptr);
  return 0;
}

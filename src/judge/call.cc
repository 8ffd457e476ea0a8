#include "judge/call.h"

#include <unordered_set>

namespace vernier {
namespace {

using Paths = std::unordered_set<std::string_view>;

std::string_view Above(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

// A path and what is above it, so far as models are nested; a name of a stranger may have any number of dots.
void AddWithAbove(std::string_view path, Paths& paths) {
  constexpr int kDeepest = 256;
  for (int depth = 0; depth < kDeepest && paths.insert(path).second && !path.empty(); ++depth)
    path = Above(path);
}

}  // namespace

std::string_view PathOf(const Call& call) { return call.place.substr(0, call.place.rfind('#')); }

void MarkFrames(Calls& calls) {
  Paths with_operators, with_modules;
  bool any_operator = false, any_place = false;
  for (const Call& call : calls) {
    if (call.pass == Pass::kGradient) continue;
    const std::string_view path = PathOf(call);
    if (call.is_module) {
      if (!path.empty()) AddWithAbove(Above(path), with_modules);
    } else {
      any_operator = true;
      any_place = any_place || !call.place.empty();
      AddWithAbove(path, with_operators);
    }
  }
  for (Call& call : calls) {
    if (!call.is_module || call.pass == Pass::kGradient) continue;
    const std::string_view path = PathOf(call);
    // Where no operator says in which module it was called, any module may be around it.
    call.is_frame = any_place ? with_operators.contains(path) : any_operator;
    call.is_around = call.is_frame || with_modules.contains(path);
  }
}

}  // namespace vernier

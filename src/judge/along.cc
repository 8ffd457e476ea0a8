#include "judge/along.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace vernier {
namespace {

constexpr std::size_t kDeepest = 6;
constexpr std::size_t kColumns = 93, kColumnsOfABar = 3;  // of a line of the screen, for names and bars

using Parts = std::vector<std::pair<std::string, double>>;

// The first `depth` components of a path.
std::string_view Prefix(std::string_view place, std::size_t depth) {
  place = place.substr(0, place.find('#'));
  std::size_t at = 0;
  for (std::size_t i = 0; i < depth; ++i) {
    at = place.find('.', at);
    if (at == std::string_view::npos) return place;
    ++at;
  }
  return place.substr(0, at - 1);
}

// The last `num_parts` parts of a path, a number together with what it counts: "h3" of "transformer.h.3",
// "h3.attn" of "transformer.h.3.attn" where two are asked for.
std::string Label(std::string_view path, std::size_t num_parts) {
  std::string label;
  for (; num_parts > 0 && !path.empty(); --num_parts) {
    std::string part;
    bool is_number = true;
    while (is_number && !path.empty()) {
      const std::size_t dot = path.rfind('.');
      const std::string_view last = dot == std::string_view::npos ? path : path.substr(dot + 1);
      is_number = part.empty() && last.find_first_not_of("0123456789") == std::string_view::npos;
      part.insert(0, last);
      path = dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
    }
    label = label.empty() ? part : part + '.' + label;
  }
  return label;
}

// Paths to names as short as can be: longer where two would be the same.
void Shorten(Parts& parts) {
  std::vector<std::string> paths;
  for (auto& [name, error] : parts) name = Label(paths.emplace_back(name), 1);
  std::size_t num_parts = 1;
  for (bool any_longer = true; std::exchange(any_longer, false);) {
    std::unordered_map<std::string, std::size_t> counts;
    for (const auto& [name, error] : parts) ++counts[name];
    ++num_parts;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (counts[parts[i].first] == 1) continue;
      std::string longer = Label(paths[i], num_parts);
      any_longer = any_longer || longer != parts[i].first;
      parts[i].first = std::move(longer);
    }
  }
}

bool FitsALine(const Parts& parts) {
  std::size_t columns = 0;
  for (const auto& [name, error] : parts) columns += name.size() + kColumnsOfABar;
  return columns <= kColumns;
}

double ErrorOf(const Recordings& in, std::size_t call) {
  double worst = 0;
  for (std::size_t i = in.first[call]; i < in.first[call + 1]; ++i) {
    const Facts& facts = in.facts[i];
    if (facts.role != Role::kOutput || !facts.Has(Facts::kMeasured) || facts.Has(Facts::kHuge)) continue;
    worst = std::fmax(worst, facts.error);
  }
  return worst;
}

// The model cut into the modules of some depth. A module around its parts adds nothing to them.
Parts CutAt(std::size_t depth, const Recordings& recordings, std::span<const std::size_t> forward) {
  Parts parts;
  std::unordered_map<std::string_view, std::size_t> at;
  for (const std::size_t call : forward) {
    const std::string_view prefix = Prefix(recordings.target[call].place, depth);
    if (prefix.empty()) continue;
    const auto [place, is_new] = at.try_emplace(prefix, parts.size());
    if (is_new) parts.emplace_back(prefix, 0);
    parts[place->second].second = std::fmax(parts[place->second].second, ErrorOf(recordings, call));
  }
  std::unordered_set<std::string_view> around;
  for (const auto& [prefix, place] : at) {
    for (std::size_t dot = prefix.rfind('.'); dot != std::string_view::npos && dot > 0;
         dot = prefix.rfind('.', dot - 1)) {
      around.insert(prefix.substr(0, dot));
    }
  }
  std::erase_if(parts, [&](const auto& part) { return around.contains(part.first); });
  return parts;
}

}  // namespace

std::vector<std::pair<std::string, double>> ErrorsAlong(const Recordings& recordings, std::size_t most) {
  std::vector<std::size_t> forward;
  bool placed = false, any_backward = false;
  for (std::size_t i = 0; i < recordings.target.size(); ++i) {
    const bool is_placed = Prefix(recordings.target[i].place, 1).size() > 0;
    any_backward = any_backward || recordings.target[i].pass == Pass::kBackward;
    // Behind the backward pass the optimizer runs, but also the model once more.
    if (recordings.target[i].pass != Pass::kForward || (any_backward && !is_placed)) continue;
    forward.push_back(i);
    placed = placed || is_placed;
  }
  Parts parts;
  if (placed) {
    // The deepest cut that has not too many parts; rather one whose names fit a line.
    bool fits = false;
    for (std::size_t depth = 1; depth <= kDeepest; ++depth) {
      Parts found = CutAt(depth, recordings, forward);
      if (depth > 1 && found.size() > most) break;
      Shorten(found);
      const bool found_fits = found.size() > 1 && FitsALine(found);
      if (fits && !found_fits) continue;
      fits = found_fits;
      parts = std::move(found);
    }
  } else {
    for (const std::size_t call : forward) parts.emplace_back("", ErrorOf(recordings, call));
  }
  if (parts.size() <= most) return parts;
  Parts merged;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t bucket = i * most / parts.size();
    if (bucket == merged.size()) merged.push_back(parts[i]);
    if (parts[i].second > merged[bucket].second) merged[bucket] = parts[i];  // named after its worst
  }
  return merged;
}

}  // namespace vernier

#include "judge/along.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>

namespace vernier {
namespace {

constexpr std::size_t kDeepest = 6;

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

// "h.3" as h3, "transformer.h.3" as h3, "head" as head.
std::string Label(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) return std::string(path);
  const std::string_view last = path.substr(dot + 1);
  if (last.find_first_not_of("0123456789") != std::string_view::npos) return std::string(last);
  const std::size_t before = path.rfind('.', dot - 1);
  return std::string(path.substr(before == std::string_view::npos ? 0 : before + 1,
                                 dot - (before == std::string_view::npos ? 0 : before + 1))) +
         std::string(last);
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

}  // namespace

std::vector<std::pair<std::string, double>> ErrorsAlong(const Recordings& recordings, std::size_t most) {
  std::vector<std::size_t> forward;
  bool placed = false;
  for (std::size_t i = 0; i < recordings.target.size(); ++i) {
    if (recordings.target[i].pass != Pass::kForward) continue;
    forward.push_back(i);
    placed = placed || Prefix(recordings.target[i].place, 1).size() > 0;
  }
  std::vector<std::pair<std::string, double>> parts;
  if (placed) {
    // The deepest cut of the module tree that has not too many parts.
    std::vector<std::pair<std::string_view, double>> best;
    for (std::size_t depth = 1; depth <= kDeepest; ++depth) {
      std::vector<std::pair<std::string_view, double>> found;
      std::unordered_map<std::string_view, std::size_t> at;
      for (const std::size_t call : forward) {
        const std::string_view prefix = Prefix(recordings.target[call].place, depth);
        if (prefix.empty()) continue;
        const auto [place, is_new] = at.try_emplace(prefix, found.size());
        if (is_new) found.emplace_back(prefix, 0);
        found[place->second].second = std::fmax(found[place->second].second, ErrorOf(recordings, call));
      }
      // A module around its parts adds nothing to them.
      std::erase_if(found, [&](const auto& part) {
        return std::any_of(found.begin(), found.end(), [&](const auto& other) {
          return other.first.size() > part.first.size() && other.first.starts_with(part.first) &&
                 other.first[part.first.size()] == '.';
        });
      });
      if (depth > 1 && found.size() > most) break;
      best = std::move(found);
    }
    for (const auto& [prefix, error] : best) parts.emplace_back(Label(prefix), error);
  } else {
    for (const std::size_t call : forward) parts.emplace_back("", ErrorOf(recordings, call));
  }
  if (parts.size() <= most) return parts;
  std::vector<std::pair<std::string, double>> merged;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t bucket = i * most / parts.size();
    if (bucket == merged.size()) merged.emplace_back(parts[i].first, 0);
    merged[bucket].second = std::fmax(merged[bucket].second, parts[i].second);
  }
  return merged;
}

}  // namespace vernier

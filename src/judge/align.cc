#include "judge/align.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/text.h"

namespace vernier {
namespace {

// Gaps between settled pairs are filled by weight; larger ones than this only front to back.
constexpr std::size_t kMostCells = std::size_t{1} << 22;
constexpr int kSameKind = 2, kSameSignature = 5, kSamePlace = 3;
constexpr std::size_t kMostFused = 32;

class Aligner {
 public:
  explicit Aligner(const AlignInputs& in) : in_(in), target_(in.target), golden_(in.golden) {
    result_.golden_of.assign(target_.size(), kNoCall);
    result_.how.assign(target_.size(), PairedBy::kNothing);
    result_.target_of.assign(golden_.size(), kNoCall);
    result_.is_target_fused.assign(target_.size(), false);
    result_.is_replaced.assign(target_.size(), false);
    result_.is_golden_fused.assign(golden_.size(), false);
  }

  Alignment Run() {
    for (std::size_t t = 0; t < in_.given.size(); ++t) {
      if (in_.given[t] != kNoCall) Pair(static_cast<std::uint32_t>(t), in_.given[t], PairedBy::kName);
    }
    if (!SameEverywhere()) {
      const bool once = Structure(Pass::kForward);
      ByTwin();
      Structure(Pass::kBackward);
      Structure(Pass::kGradient);
      if (once) FindRenames();
      MarkBackwardOfFused(target_, result_.is_target_fused);
      MarkBackwardOfFused(golden_, result_.is_golden_fused);
    }
    return std::move(result_);
  }

 private:
  void Pair(std::uint32_t t, std::uint32_t g, PairedBy how) {
    if (result_.golden_of[t] != kNoCall || result_.target_of[g] != kNoCall) return;
    const bool same = target_[t].name == golden_[g].name && target_[t].place == golden_[g].place;
    result_.golden_of[t] = g;
    result_.target_of[g] = t;
    ++num_pairs_;
    result_.how[t] = same && how != PairedBy::kFused ? PairedBy::kName : how;
  }

  // The usual case: the same calls in the same order at the same places.
  bool SameEverywhere() {
    if (!in_.given.empty() || target_.size() != golden_.size()) return false;
    for (std::size_t i = 0; i < target_.size(); ++i) {
      if (target_[i].name != golden_[i].name || target_[i].place != golden_[i].place) return false;
    }
    for (std::uint32_t i = 0; i < target_.size(); ++i) Pair(i, i, PairedBy::kName);
    return true;
  }

  bool Structure(Pass pass) {
    ByPlace(pass);
    return ByOrder(pass);
  }

  // Calls of one kind at one place, when both sides have equally many: pair them in order.
  void ByPlace(Pass pass) {
    struct Home {
      std::vector<std::uint32_t> target, golden;
    };
    std::unordered_map<std::string, Home> homes;
    const auto key = [](const Call& call) {
      std::string text(call.place);
      text += '\n';
      if (!call.is_module && call.pass != Pass::kGradient) text += call.kind;
      return text;
    };
    for (std::uint32_t i = 0; i < target_.size(); ++i) {
      if (target_[i].pass == pass && result_.golden_of[i] == kNoCall)
        homes[key(target_[i])].target.push_back(i);
    }
    for (std::uint32_t i = 0; i < golden_.size(); ++i) {
      if (golden_[i].pass == pass && result_.target_of[i] == kNoCall)
        homes[key(golden_[i])].golden.push_back(i);
    }
    for (const auto& [name, home] : homes) {
      if (home.target.size() != home.golden.size()) continue;
      for (std::size_t i = 0; i < home.target.size(); ++i)
        Pair(home.target[i], home.golden[i], PairedBy::kPlace);
    }
  }

  // Backward calls by the forward call that they belong to.
  void ByTwin() {
    std::unordered_map<std::string_view, std::uint32_t> forward, backward;
    for (std::uint32_t i = 0; i < golden_.size(); ++i) {
      if (golden_[i].twin.empty() || golden_[i].pass == Pass::kGradient) continue;
      (golden_[i].pass == Pass::kForward ? forward : backward).emplace(golden_[i].twin, i);
    }
    std::unordered_map<std::string_view, std::uint32_t> target_forward;
    for (std::uint32_t i = 0; i < target_.size(); ++i) {
      if (target_[i].pass == Pass::kForward && !target_[i].twin.empty())
        target_forward.emplace(target_[i].twin, i);
    }
    for (std::uint32_t i = 0; i < target_.size(); ++i) {
      if (target_[i].pass != Pass::kBackward || target_[i].twin.empty()) continue;
      const auto twin = target_forward.find(target_[i].twin);
      if (twin == target_forward.end() || result_.golden_of[twin->second] == kNoCall) continue;
      const auto found = backward.find(golden_[result_.golden_of[twin->second]].twin);
      if (found != backward.end()) Pair(i, found->second, result_.how[twin->second]);
    }
  }

  // What is left, between pairs that stand in the same order on both sides. Returns whether anything was
  // left.
  bool ByOrder(Pass pass) {
    std::vector<std::uint32_t> target, golden;
    for (std::uint32_t i = 0; i < target_.size(); ++i) {
      if (target_[i].pass == pass) target.push_back(i);
    }
    for (std::uint32_t i = 0; i < golden_.size(); ++i) {
      if (golden_[i].pass == pass) golden.push_back(i);
    }
    std::vector<std::uint32_t> place_of(golden_.size(), kNoCall);
    for (std::uint32_t i = 0; i < golden.size(); ++i) place_of[golden[i]] = i;
    // Anchors: the longest sequence of pairs that rises on both sides.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
    for (std::uint32_t i = 0; i < target.size(); ++i) {
      const std::uint32_t g = result_.golden_of[target[i]];
      if (g != kNoCall && place_of[g] != kNoCall) pairs.emplace_back(i, place_of[g]);
    }
    const auto anchors = LongestRising(pairs);
    std::size_t t = 0, g = 0;
    bool any = false;
    const auto fill = [&](std::size_t t_end, std::size_t g_end) {
      std::vector<std::uint32_t> left, right;
      for (; t < t_end; ++t) {
        if (result_.golden_of[target[t]] == kNoCall) left.push_back(target[t]);
      }
      for (; g < g_end; ++g) {
        if (result_.target_of[golden[g]] == kNoCall) right.push_back(golden[g]);
      }
      any = any || !left.empty() || !right.empty();
      FillGap(left, right);
    };
    for (const auto& [t_at, g_at] : anchors) {
      fill(t_at, g_at);
      t = t_at + 1, g = g_at + 1;
    }
    fill(target.size(), golden.size());
    return any;
  }

  static std::vector<std::pair<std::uint32_t, std::uint32_t>> LongestRising(
      const std::vector<std::pair<std::uint32_t, std::uint32_t>>& pairs) {
    std::vector<std::size_t> ends, before(pairs.size());
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const auto at =
          std::lower_bound(ends.begin(), ends.end(), pairs[i].second,
                           [&](std::size_t end, std::uint32_t value) { return pairs[end].second < value; });
      before[i] = at == ends.begin() ? pairs.size() : *(at - 1);
      if (at == ends.end()) {
        ends.push_back(i);
      } else {
        *at = i;
      }
    }
    std::vector<std::pair<std::uint32_t, std::uint32_t>> rising;
    for (std::size_t i = ends.empty() ? pairs.size() : ends.back(); i < pairs.size(); i = before[i])
      rising.push_back(pairs[i]);
    std::reverse(rising.begin(), rising.end());
    return rising;
  }

  int Weight(std::uint32_t t, std::uint32_t g) {
    const Call &a = target_[t], &b = golden_[g];
    if (a.is_module != b.is_module || (a.kind != b.kind && !a.is_module)) return 0;
    int weight = kSameKind;
    if (a.place == b.place) weight += kSamePlace;
    if (a.kind != b.kind) weight = 1;  // a module whose class is spelt differently, at the same point
    if (Signature(t, in_.target_signature, target_signatures_) ==
        Signature(g, in_.golden_signature, golden_signatures_)) {
      return weight + kSameSignature;
    }
    return a.kind != b.kind ? 0 : weight;
  }

  static std::uint64_t Signature(std::uint32_t call, const std::function<std::uint64_t(std::uint32_t)>& ask,
                                 std::unordered_map<std::uint32_t, std::uint64_t>& known) {
    if (!ask) return 0;
    const auto [found, is_new] = known.try_emplace(call);
    if (is_new) found->second = ask(call);
    return found->second;
  }

  // The heaviest common subsequence; then single calls against runs.
  void FillGap(const std::vector<std::uint32_t>& left, const std::vector<std::uint32_t>& right) {
    if (left.empty() || right.empty()) return;
    const std::size_t rows = left.size(), columns = right.size();
    if (rows * columns > kMostCells) return FrontToBack(left, right);
    std::vector<int> best((rows + 1) * (columns + 1));
    const auto at = [&](std::size_t i, std::size_t j) -> int& { return best[i * (columns + 1) + j]; };
    for (std::size_t i = rows; i-- > 0;) {
      for (std::size_t j = columns; j-- > 0;) {
        int value = std::max(at(i + 1, j), at(i, j + 1));
        if (const int weight = Weight(left[i], right[j])) value = std::max(value, at(i + 1, j + 1) + weight);
        at(i, j) = value;
      }
    }
    std::vector<std::uint32_t> only_left, only_right;
    const auto flush = [&] {
      PairFused(only_left, only_right);
      only_left.clear();
      only_right.clear();
    };
    std::size_t i = 0, j = 0;
    while (i < rows && j < columns) {
      const int weight = Weight(left[i], right[j]);
      if (weight > 0 && at(i, j) == at(i + 1, j + 1) + weight) {
        flush();
        Pair(left[i++], right[j++], PairedBy::kOrder);
      } else if (at(i, j) == at(i + 1, j)) {
        only_left.push_back(left[i++]);
      } else {
        only_right.push_back(right[j++]);
      }
    }
    only_left.insert(only_left.end(), left.begin() + static_cast<std::ptrdiff_t>(i), left.end());
    only_right.insert(only_right.end(), right.begin() + static_cast<std::ptrdiff_t>(j), right.end());
    flush();
  }

  void FrontToBack(const std::vector<std::uint32_t>& left, const std::vector<std::uint32_t>& right) {
    std::unordered_map<std::string_view, std::vector<std::uint32_t>> waiting;
    for (auto g = right.rbegin(); g != right.rend(); ++g) waiting[golden_[*g].kind].push_back(*g);
    std::uint32_t last = 0;
    for (const std::uint32_t t : left) {
      auto& queue = waiting[target_[t].kind];
      while (!queue.empty() && queue.back() < last) queue.pop_back();
      if (queue.empty()) continue;
      last = queue.back();
      queue.pop_back();
      Pair(t, last, PairedBy::kOrder);
    }
  }

  // One call against several, all at one place: the results that leave them are held against each other.
  void PairFused(std::vector<std::uint32_t> left, std::vector<std::uint32_t> right) {
    const auto drop_modules = [](const Calls& calls, std::vector<std::uint32_t>& some) {
      std::erase_if(some, [&](std::uint32_t call) { return calls[call].is_module; });
    };
    drop_modules(target_, left);
    drop_modules(golden_, right);
    if (!left.empty() && target_[left[0]].pass != Pass::kForward) return;  // backward calls follow
    if (left.size() == right.size()) return PairReplaced(left, right);
    if (left.empty() || right.empty() || (left.size() > 1) == (right.size() > 1)) return;
    if (left.size() > kMostFused || right.size() > kMostFused) return;
    if (target_[left.back()].place != golden_[right.back()].place) return;
    Pair(left.back(), right.back(), PairedBy::kFused);
    for (const std::uint32_t call : left) result_.is_target_fused[call] = true;
    for (const std::uint32_t call : right) result_.is_golden_fused[call] = true;
    result_.fused.push_back({std::move(left), std::move(right)});
  }

  // As many calls of other kinds, each of which may do the same as the one in its place.
  void PairReplaced(const std::vector<std::uint32_t>& left, const std::vector<std::uint32_t>& right) {
    if (!in_.may_replace || left.size() > kMostFused || num_pairs_ == 0) return;  // or nothing says where
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (target_[left[i]].place != golden_[right[i]].place || !in_.may_replace(left[i], right[i])) return;
    }
    for (std::size_t i = 0; i < left.size(); ++i) {
      Pair(left[i], right[i], PairedBy::kOrder);
      result_.is_replaced[left[i]] = true;
    }
  }

  static void MarkBackwardOfFused(const Calls& calls, std::vector<bool>& is_fused) {
    std::unordered_set<std::string_view> twins;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (is_fused[i] && !calls[i].twin.empty()) twins.insert(calls[i].twin);
    }
    if (twins.empty()) return;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].pass == Pass::kBackward && twins.contains(calls[i].twin)) is_fused[i] = true;
    }
  }

  // Module calls that were paired although their places differ: what would make them agree, the most frequent
  // first. Between points, so that no other name is touched.
  void FindRenames() {
    std::map<std::pair<std::string, std::string>, std::size_t> found;
    const auto count = [&](std::span<const std::string_view> a, std::span<const std::string_view> b) {
      if (a.empty() || b.empty()) return;
      // A number means another module on the other side; exchanging it would move all that bear it.
      if (a.size() == 1 && b.size() == 1 && IsDigits(a[0]) && IsDigits(b[0])) return;
      const auto joined = [](std::span<const std::string_view> parts) {
        std::string text = ".";
        for (const std::string_view part : parts) (text += part) += '.';
        return text;
      };
      ++found[{joined(a), joined(b)}];
    };
    for (std::uint32_t t = 0; t < target_.size(); ++t) {
      const std::uint32_t g = result_.golden_of[t];
      if (g == kNoCall || !target_[t].is_module || target_[t].place == golden_[g].place) continue;
      const std::vector<std::string_view> a = Split(PathOf(target_[t]), '.'),
                                          b = Split(PathOf(golden_[g]), '.');
      if (a.size() == b.size()) {
        for (std::size_t i = 0; i < a.size(); ++i) {
          if (a[i] != b[i]) count(std::span(a).subspan(i, 1), std::span(b).subspan(i, 1));
        }
        continue;
      }
      // What differs of the two paths, between what they begin and end with.
      std::size_t front = 0, back = 0;
      while (front < a.size() && front < b.size() && a[front] == b[front]) ++front;
      while (back + front < a.size() && back + front < b.size() &&
             a[a.size() - 1 - back] == b[b.size() - 1 - back]) {
        ++back;
      }
      count(std::span(a).subspan(front, a.size() - back - front),
            std::span(b).subspan(front, b.size() - back - front));
    }
    std::vector<std::pair<std::size_t, std::pair<std::string, std::string>>> sorted;
    sorted.reserve(found.size());
    for (const auto& [names, times] : found) sorted.emplace_back(times, names);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& x, const auto& y) { return x.first > y.first; });
    std::unordered_set<std::string_view> taken;
    for (const auto& [times, names] : sorted) {
      // Of two for one name the first is right more often.
      if (taken.insert(names.first).second) result_.renames.push_back(names);
    }
  }

  const AlignInputs& in_;
  const Calls &target_, &golden_;
  std::unordered_map<std::uint32_t, std::uint64_t> target_signatures_, golden_signatures_;
  Alignment result_;
  std::size_t num_pairs_ = 0;
};

}  // namespace

std::string_view Name(PairedBy how) {
  constexpr std::string_view kNames[] = {"nothing", "name", "place", "order", "fused"};
  return kNames[static_cast<std::size_t>(how)];
}

Alignment AlignCalls(const AlignInputs& inputs) { return Aligner(inputs).Run(); }

}  // namespace vernier

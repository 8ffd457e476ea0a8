#include "judge/ranks.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <utility>

namespace vernier {
namespace {

constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

struct Attendance {
  std::size_t rank;
  const Meeting* meeting;
};

class Graph {
 public:
  explicit Graph(std::span<const RankTrace> ranks) : ranks_(ranks), meeting_of_(ranks.size()) {
    std::map<std::pair<std::string_view, std::size_t>, std::size_t> known;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      std::map<std::string_view, std::size_t> counts;
      for (const Meeting& meeting : ranks[rank].meetings) {
        const auto [place, is_new] =
            known.try_emplace({meeting.key, counts[meeting.key]++}, meetings_.size());
        if (is_new) meetings_.emplace_back();
        meetings_[place->second].push_back({rank, &meeting});
        meeting_of_[rank].push_back(place->second);
      }
    }
  }

  // For each rank, the first call that a wrong result of one call may have reached.
  std::vector<std::uint32_t> ReachOf(std::size_t rank, std::uint32_t call) const {
    std::vector<std::uint32_t> reach(ranks_.size(), kNever);
    reach[rank] = call;
    std::deque<std::size_t> waiting{rank};
    while (!waiting.empty()) {
      const std::size_t from = waiting.front();
      waiting.pop_front();
      const std::vector<Meeting>& own = ranks_[from].meetings;
      for (std::size_t i = 0; i < own.size(); ++i) {
        if (own[i].call < reach[from] || !own[i].gives) continue;
        for (const Attendance& other : meetings_[meeting_of_[from][i]]) {
          if (!other.meeting->takes || other.meeting->call >= reach[other.rank]) continue;
          reach[other.rank] = other.meeting->call;
          waiting.push_back(other.rank);
        }
      }
    }
    return reach;
  }

 private:
  std::span<const RankTrace> ranks_;
  std::vector<std::vector<Attendance>> meetings_;
  std::vector<std::vector<std::size_t>> meeting_of_;  // of each rank, by its own number
};

}  // namespace

std::vector<std::optional<std::size_t>> FindCauses(std::span<const RankTrace> ranks) {
  const Graph graph(ranks);
  std::vector<std::optional<std::size_t>> causes(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].culprit_call) continue;
    const std::vector<std::uint32_t> reach = graph.ReachOf(rank, *ranks[rank].culprit_call);
    for (std::size_t other = 0; other < ranks.size(); ++other) {
      if (other == rank || !ranks[other].culprit_call || causes[other]) continue;
      if (reach[other] > *ranks[other].culprit_call || causes[rank] == other) continue;
      causes[other] = rank;
    }
  }
  // What follows from a victim follows from its cause. A circle is broken at its first rank.
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<bool> met(ranks.size());
    std::optional<std::size_t> cause = causes[rank];
    while (cause && causes[*cause] && !met[*cause]) {
      met[*cause] = true;
      cause = causes[*cause];
    }
    if (cause == rank) cause.reset();
    causes[rank] = cause;
  }
  return causes;
}

}  // namespace vernier

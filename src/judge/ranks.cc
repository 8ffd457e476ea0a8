#include "judge/ranks.h"

#include <algorithm>
#include <map>
#include <utility>

namespace vernier {
namespace {

using Causes = std::vector<std::optional<std::size_t>>;

struct Attendance {
  std::size_t rank, place;  // which of the rank's own meetings it is
};

struct Gathering {
  std::vector<Attendance> all;
  std::optional<std::size_t> followed_from;  // a rank; see Graph::Follow
};

class Graph {
 public:
  explicit Graph(std::span<const RankTrace> ranks)
      : ranks_(ranks), gathering_of_(ranks.size()), comes_back_(ranks.size()) {
    std::map<std::pair<std::string_view, std::size_t>, std::size_t> known;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      std::map<std::string_view, std::size_t> counts;
      for (const Meeting& meeting : ranks[rank].meetings) {
        const auto [found, is_new] =
            known.try_emplace({meeting.key, counts[meeting.key]++}, gatherings_.size());
        if (is_new) gatherings_.emplace_back();
        gatherings_[found->second].all.push_back({rank, gathering_of_[rank].size()});
        gathering_of_[rank].push_back(found->second);
      }
    }
  }

  // What follows from the culprit of `root` and has no cause yet gets this one. A meeting that was followed
  // from an earlier root leads to nothing new, but to that root itself where its error comes back to its own
  // culprit. So a meeting is looked at about once for all ranks together.
  // REQUIRES: `root` has a culprit and no cause
  void Follow(std::size_t root, Causes& causes) {
    struct Stretch {
      std::size_t rank, begin, end;  // of its meetings
    };
    std::vector<Stretch> waiting;
    std::vector<std::size_t> reached;  // of each rank, its first meeting that may be wrong
    for (const RankTrace& rank : ranks_) reached.push_back(rank.meetings.size());
    const auto reach = [&](std::size_t rank, std::size_t place) {
      if (place < reached[rank]) waiting.push_back({rank, place, std::exchange(reached[rank], place)});
    };
    const std::vector<Meeting>& own = ranks_[root].meetings;
    const auto first = std::partition_point(own.begin(), own.end(), [&](const Meeting& meeting) {
      return meeting.call < *ranks_[root].culprit_call;
    });
    reach(root, static_cast<std::size_t>(first - own.begin()));
    while (!waiting.empty()) {
      const Stretch from = waiting.back();
      waiting.pop_back();
      for (std::size_t place = from.begin; place < from.end; ++place) {
        if (!ranks_[from.rank].meetings[place].gives) continue;
        Gathering& gathering = gatherings_[gathering_of_[from.rank][place]];
        const std::optional<std::size_t>& before = gathering.followed_from;
        if (before && (before == root || !comes_back_[*before])) continue;
        gathering.followed_from = root;
        for (const Attendance& other : gathering.all) {
          const Meeting& meeting = ranks_[other.rank].meetings[other.place];
          if (!meeting.takes) continue;
          reach(other.rank, other.place);
          const std::optional<std::uint32_t>& culprit = ranks_[other.rank].culprit_call;
          if (!culprit || meeting.call > *culprit) continue;
          if (other.rank == root) {
            comes_back_[root] = true;
          } else if (!causes[other.rank]) {
            causes[other.rank] = root;
          }
        }
      }
    }
  }

 private:
  std::span<const RankTrace> ranks_;
  std::vector<Gathering> gatherings_;
  std::vector<std::vector<std::size_t>> gathering_of_;  // of each rank, by its own number
  std::vector<bool> comes_back_;                        // ranks to whose culprit its own result comes back
};

}  // namespace

std::vector<std::optional<std::size_t>> FindCauses(std::span<const RankTrace> ranks) {
  Graph graph(ranks);
  Causes causes(ranks.size());
  // What follows from a victim follows from its cause, so that only those without one are followed.
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].culprit_call && !causes[rank]) graph.Follow(rank, causes);
  }
  // A cause that got one itself got that later than it was followed: there are no circles.
  for (std::optional<std::size_t>& cause : causes) {
    while (cause && causes[*cause]) cause = causes[*cause];
  }
  return causes;
}

}  // namespace vernier

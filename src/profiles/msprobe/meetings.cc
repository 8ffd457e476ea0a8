#include "profiles/msprobe/meetings.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "core/md5.h"
#include "core/text.h"

namespace vernier::msprobe {
namespace {

constexpr std::string_view kSenders[] = {"send", "isend"}, kReceivers[] = {"recv", "irecv"};
constexpr std::string_view kGroup = "torch.ProcessGroup", kInteger = "<class 'int'>";

constexpr std::size_t kLongest = 40;  // text of a group that is kept as it is

enum class Direction : std::uint8_t { kAll, kSends, kReceives };

Direction DirectionOf(std::string_view api) {
  const auto is = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), api) != std::end(names);
  };
  return is(kSenders) ? Direction::kSends : is(kReceivers) ? Direction::kReceives : Direction::kAll;
}

// Member `place` of a group that reads "[4, 5]"; as it is where there is no such member.
std::string MemberOf(std::string_view group, const std::string& place) {
  std::size_t index = 0;
  const char* const end = place.data() + place.size();
  const auto [stop, error] = std::from_chars(place.data(), end, index);
  if (error != std::errc() || stop != end || group.size() < 2) return place;
  const std::vector<std::string_view> members = Split(group.substr(1, group.size() - 2), ',');
  if (index >= members.size()) return place;
  std::string_view member = members[index];
  member.remove_prefix(std::min(member.find_first_not_of(' '), member.size()));
  return std::string(member);
}

// Whom a call names: the group that takes part, and the one it sends to or receives from.
struct Named {
  std::string group, peer;
};

Named NamedBy(const Dump& dump, const Trace& trace, const Record& record) {
  Named named;
  std::string member;  // of the group
  TextArena arena;
  for (std::uint32_t row = record.first_row; row < record.first_row + record.num_rows; ++row) {
    if (dump.rows()[row].bad) continue;
    const Leaf leaf = dump.Read(dump.rows()[row], arena);
    const std::string suffix = trace.SuffixOf(row), text = CellText(leaf.statistics[0]);
    const std::string_view argument = std::string_view(suffix).substr(suffix.rfind('.') + 1);
    if (leaf.dtype == kGroup) {
      named.group = text;
    } else if (argument == "group_src" || argument == "group_dst") {
      member = text;
    } else if (argument == "src" || argument == "dst" || (suffix == ".input.1" && leaf.dtype == kInteger)) {
      named.peer = text;
    }
  }
  if (!member.empty()) named.peer = MemberOf(named.group, member);
  return named;
}

}  // namespace

std::vector<Meeting> MeetingsOf(const Dump& dump, const Trace& trace, int rank) {
  std::vector<Meeting> meetings;
  const std::string own = std::to_string(rank);
  const auto add_message = [&](std::uint32_t call, bool sends, std::string_view peer,
                               std::string_view group) {
    const std::string_view from = sends ? own : peer, to = sends ? peer : own;
    meetings.push_back({call, fmt::format("message {} {} {}", from, to, group), sends, !sends});
  };
  // A group of a thousand ranks is a long text, and each of its meetings would keep it.
  std::map<std::string, std::string, std::less<>> short_of;
  const auto short_name = [&](const std::string& group) -> const std::string& {
    const auto [found, is_new] = short_of.try_emplace(group);
    if (is_new) found->second = group.size() > kLongest ? NameBasedUuid(group) : group;
    return found->second;
  };
  for (std::uint32_t call = 0; call < trace.calls().size(); ++call) {
    const Call& what = trace.calls()[call];
    if (!what.is_collective || what.pass != Pass::kForward) continue;
    const Record& record = dump.records()[call];
    const std::string_view api = what.kind.substr(what.kind.rfind('.') + 1);
    bool is_batch = false;  // of messages, each with its own peer
    for (std::uint32_t row = record.first_row; row < record.first_row + record.num_rows; ++row) {
      TextArena arena;
      if (dump.rows()[row].bad) continue;
      if (static_cast<PortState>(dump.rows()[row].state) == PortState::kOutput) continue;
      const Leaf leaf = dump.Read(dump.rows()[row], arena);
      const Direction direction = DirectionOf(leaf.p2p_op);
      if (direction == Direction::kAll) continue;
      is_batch = true;
      add_message(call, direction == Direction::kSends, leaf.p2p_peer, "");
    }
    if (is_batch) continue;
    const Named named = NamedBy(dump, trace, record);
    const Direction direction = DirectionOf(api);
    if (direction == Direction::kAll) {
      meetings.push_back({call, fmt::format("{} {}", api, short_name(named.group)), true, true});
    } else {
      add_message(call, direction == Direction::kSends, named.peer, short_name(named.group));
    }
  }
  return meetings;
}

}  // namespace vernier::msprobe

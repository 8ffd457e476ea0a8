// Which kind of comparison a command line asks for.
#include "cli/compare.h"

#include <algorithm>
#include <iterator>

#include "cli/msprobe.h"

namespace vernier {
namespace {

bool Always(const Args&) { return true; }

// The first that recognises the words runs. Another profile is another row in front of ours.
constexpr CompareProfile kProfiles[] = {
    {"msprobe", IsMsprobeCompare, RunMsprobeCompare, HelpMsprobeCompare},
    {"native", Always, RunNativeCompare, HelpNativeCompare},
};

}  // namespace

ExitCode RunCompare(const Args& args) {
  const auto* profile = std::find_if(std::begin(kProfiles), std::end(kProfiles),
                                     [&args](const CompareProfile& row) { return row.recognises(args); });
  return profile->run(args);
}

std::string HelpCompare() {
  std::string text;
  for (const CompareProfile& profile : kProfiles) text += (text.empty() ? "" : "\n") + profile.help();
  return text;
}

}  // namespace vernier

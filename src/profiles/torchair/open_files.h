// Which files the processes of this user have open, where the system can tell.
#pragma once

#include <string>
#include <unordered_set>

namespace vernier::torchair {

// Paths, those of this process left out. Empty where there is no /proc.
std::unordered_set<std::string> FilesOpenElsewhere();

}  // namespace vernier::torchair

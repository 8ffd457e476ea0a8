// The help page of a command, from the options it declared.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace vernier {

// Sections in the order in which their options were declared; texts wrapped at 100 columns; the examples
// last.
std::string HelpText(const CLI::App& app);

}  // namespace vernier

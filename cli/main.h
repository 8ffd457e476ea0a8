// The whole command line as one function, for the executable and for the shared library.
#pragma once

namespace vernier {

// Returns the exit status: 0 nothing beyond the thresholds, 1 differences found, 2 could not judge, 130
// interrupted. Prints. Takes over SIGINT and SIGPIPE while it runs.
int VernierMain(int argc, char** argv);

}  // namespace vernier

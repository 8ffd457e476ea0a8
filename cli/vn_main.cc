// The command line, for those who have the library and not the executable.
#include "cli/main.h"
#include "vernier/c_api.h"

int VnMain(int argc, char** argv) { return vernier::VernierMain(argc, argv); }

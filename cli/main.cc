#include "cli/main.h"

int main(int argc, char** argv) { return vernier::VernierMain(argc, argv); }

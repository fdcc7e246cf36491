// The grapevine binary.
#include "peer/cli.hpp"

int main(int argc, char** argv) { return gv::run_command_line(argc, argv); }

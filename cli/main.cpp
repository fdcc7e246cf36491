// The main function of the grapevine binary.
#include "cli/cli.hpp"

int main(int argc, char** argv) { return gv::run_command_line(argc, argv); }

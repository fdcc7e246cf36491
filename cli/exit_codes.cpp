// The sentence, meaning and remedy of every exit code.
#include "cli/exit_codes.hpp"

#include <array>

namespace gv {
namespace {

constexpr std::array exit_code_texts{
    ExitCodeInfo{exit_clean, "the command ended cleanly",
                 "A peer has finished its training or left in order, and has saved its model. The "
                 "others have heard its farewell. Of `launch`: all peers ended so. Of `doctor`: "
                 "nothing is wrong that keeps a peer from training.",
                 ""},
    ExitCodeInfo{exit_failed, "the machine or a peer failed",
                 "The machine did not have the address of --listen yet, a file could not be "
                 "written, or training could not "
                 "go on. "
                 "Of `launch`: at least one peer did not end cleanly. Of `switch`: the swarm has "
                 "not agreed in time. Of `doctor`: at least one line is an error. The other peers "
                 "of a swarm train on.",
                 "Read the last line on standard error and the end of events.jsonl, remove the "
                 "cause, and start the peer again with --resume."},
    ExitCodeInfo{exit_refused, "something has to be corrected first",
                 "An argument, a config, a key, an allow-list or a data file is wrong, a port is "
                 "taken, a folder cannot be written to, or no peer to join was found, or its "
                 "settings differ. Other peers have noticed at most a "
                 "link that they refused.",
                 "Correct what each line on standard error names, and run the command again."},
    ExitCodeInfo{swarm_unsafe, "an invariant was broken in a virtual world",
                 "Only `sim --swarm` and `sim --check` end so: peers did what must never happen, "
                 "which is a fault of the program. No real peer is concerned.",
                 "Report the seed and the commit that were printed; the printed command repeats "
                 "it."},
    ExitCodeInfo{swarm_stuck, "a virtual world did not recover after it was healed",
                 "Only `sim --swarm` and `sim --check` end so: nothing forbidden happened, but "
                 "training did not go on, which is a fault of the program. No real peer is "
                 "concerned.",
                 "Report the seed and the commit that were printed; the printed command repeats "
                 "it."},
    ExitCodeInfo{swarm_crashed, "the program itself failed in a virtual world",
                 "Only `sim --swarm` ends so: an assertion failed, memory was misused, or a world "
                 "took far too long. No real peer is concerned.",
                 "Report the seed and the commit that were printed; the printed command repeats "
                 "it."},
    ExitCodeInfo{
        exit_interrupted, "a peer was stopped at once by a second Ctrl-C or SIGTERM",
        "The peer has neither saved its model nor told the other peers that it leaves. They "
        "find that out after a moment and train on. What it has learned since its last "
        "checkpoint is lost. If `launch` ends so, its peers were "
        "stopped before training began.",
        "Start the peer again with --resume. Press Ctrl-C only once to let it save."},
};

}  // namespace

std::span<const ExitCodeInfo> exit_code_infos() { return exit_code_texts; }

}  // namespace gv

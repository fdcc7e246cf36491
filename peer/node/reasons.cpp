// Every reason's sentence, meaning and remedy.
#include "peer/node/reasons.hpp"

#include <array>

namespace gv {
namespace {

constexpr std::array reason_texts{
    ReasonInfo{Reason::busy, "busy", "the peer is in the middle of something else",
               "A peer takes part in one exchange at a time, and sends its model to only a few "
               "peers at once. The peer that asked trains on, and meets another partner or asks "
               "another source. This is ordinary.",
               "If most offers end like this, raise gossip.period_steps."},
    ReasonInfo{Reason::not_ready, "not_ready", "the peer has no model to give yet",
               "It has only just started, or is downloading a model itself. The peer that asked "
               "goes on with others.",
               ""},
    ReasonInfo{
        Reason::unknown_layout, "unknown_layout", "the two peers have unlike settings",
        "Their models have different shapes or, in `hello_refused`, another setting differs. They "
        "exchange nothing with each other, and each goes on with the peers that agree with it.",
        "Give every peer of a run the same config, and restart those that had another one."},
    ReasonInfo{Reason::unknown_codec, "unknown_codec", "the model would come in another codec",
               "The two peers have different values of gossip.codec. The exchange does not take "
               "place, and both go on with others.",
               "Give every peer of a run the same config."},
    ReasonInfo{
        Reason::quarantined, "quarantined", "the peer has sent too many bad models lately",
        "After three models that are not finite, far too large or damaged, a peer makes no "
        "exchanges with their sender for gossip.quarantine_s. It goes on with all other peers.",
        "Look at the training of the peer that is refused. Its learning rate may be too high, or "
        "its data may be broken."},
    ReasonInfo{
        Reason::stale, "stale", "the message belongs to something that is over",
        "The message came late or twice, or the source of a download has another version than the "
        "one that is wanted. It changes nothing. For a download, the peer asks another source.",
        ""},
    ReasonInfo{
        Reason::unknown_peer, "unknown_peer", "the sender is no live member here",
        "The sender is not on the allow-list, has not been met yet, or is believed dead. Nothing "
        "that it says is believed. A peer that was only believed dead comes back by itself.",
        "If it should take part, add its key to authorized_peers at every peer, and send "
        "each of them SIGHUP."},
    ReasonInfo{Reason::unknown_transfer, "unknown_transfer",
               "the peer does not know that exchange any more",
               "The peer was restarted in the middle of the exchange, so its partner cannot know "
               "whether the earlier process applied its half. The partner leaves its own half out "
               "and counts the exchange as undecided.",
               ""},
    ReasonInfo{Reason::not_finite, "not_finite", "some values are NaN or infinite",
               "The received model is discarded and changes no other model. The third such model "
               "puts its sender into quarantine.",
               "Look at the training of the peer that sent it: lower train.learning_rate, or look "
               "for broken samples in its shard."},
    ReasonInfo{Reason::norm_exceeded, "norm_exceeded", "the model is far larger than ours",
               "Its norm is above gossip.norm_cap times that of our own. It is discarded and "
               "changes no other model. The third such model puts its sender into quarantine.",
               "Look at the training of the peer that sent it. If models may differ that much, "
               "raise gossip.norm_cap at every peer."},
    ReasonInfo{
        Reason::bad_length, "bad_length", "a block does not fit the transfer",
        "The block lies outside of the model, or does not continue where the last one ended. An "
        "exchange is given up without a change. For a download, the peer asks another source.",
        "If it happens again, compare the versions of the two programs."},
    ReasonInfo{
        Reason::timed_out, "timed_out", "nothing came before the deadline",
        "The other peer is stopped, overloaded or behind a slow link. An exchange first resumes "
        "where it stopped, and is given up if that fails too. For a download, the peer asks "
        "another source. A peer that does not answer at all is soon reported dead.",
        "Look at the load of that machine and at the link. On a slow link raise "
        "gossip.answer_deadline_s and gossip.progress_deadline_s."},
    ReasonInfo{Reason::peer_gone, "peer_gone", "the other peer died or left meanwhile",
               "Exchanges and downloads with it are dropped. The others train on without it.",
               "If it was not meant to end, start it again with --resume."},
    ReasonInfo{Reason::unreachable, "unreachable", "there is no lane between the two peers",
               "The lane broke, or neither peer could dial the other. An exchange goes on over a "
               "new lane or is given up, and both peers go on with others.",
               "Give one of the two an address that the other can reach (--listen, --advertise), "
               "and open its two ports in the firewall."},
    ReasonInfo{Reason::impossible, "impossible", "no optimiser can have made the state",
               "For example, it contains squares below zero. The state is discarded, and the peer "
               "asks another one for its state.",
               "Take the key of that peer off the allow-list if you do not trust its machine."},
    ReasonInfo{Reason::resting, "resting", "exchanges with that peer take too long",
               "Exchanges took four times as long as with other peers, or failed. The peer that "
               "refuses rests this partner, for at most 45 s at first and for up to an hour if it "
               "stays slow, so that a slow link does not cost it the exchanges with all others.",
               "Look at the link to that peer, or at its load."},
    ReasonInfo{
        Reason::forged, "forged", "a statement lacks the signature of its peer",
        "Another peer speaks in the name of the peer that the statement is about. The rest of the "
        "message is dropped, and it counts against the peer that passed it on. After the third "
        "such message within a minute, the links of that peer are cut for a minute.",
        "If that peer is yours, look at its version and at who else has its key."},
    ReasonInfo{
        Reason::doubtful, "doubtful", "other peers do not confirm the model",
        "A newcomer asks several peers whether the model that it has downloaded is near or equal "
        "to theirs. This one was not, so the newcomer discards it and asks another source.",
        "If one source is refused again and again, look at the training of that peer, or "
        "take its key off the allow-list."},
};

}  // namespace

std::span<const ReasonInfo> reason_infos() { return reason_texts; }

}  // namespace gv

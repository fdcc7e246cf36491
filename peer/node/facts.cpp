// Every fact's name, sentence, meaning and remedy.
#include "peer/node/facts.hpp"

#include <fmt/format.h>

#include <type_traits>

namespace gv {
namespace {

using Numbers = std::vector<std::pair<std::string_view, double>>;

void add(Numbers&) {}

/// Adds pairs of a name and a number. Leaves out empty optional numbers.
template <class Number, class... Rest>
void add(Numbers& to, std::string_view name, const Number& number, const Rest&... rest) {
  if constexpr (std::is_arithmetic_v<Number>) {
    to.emplace_back(name, static_cast<double>(number));
  } else if (number) {
    to.emplace_back(name, static_cast<double>(*number));
  }
  add(to, rest...);
}

template <class... Pairs>
Numbers numbers(const Pairs&... pairs) {
  Numbers all;
  add(all, pairs...);
  return all;
}

// One function for each type: the texts first, then the values of this fact. `describe` adds the
// fields `peer`, `reason`, `why` and `address`.

FactText text(const MemberJoined& f) {
  return {
      .info = {"member_joined", "{peer} joined at {detail}",
               "This process has met a peer of the allow-list for the first time since it started.",
               ""},
      .numbers = numbers("view", f.view)};
}
FactText text(const MemberSuspected&) {
  return {.info = {"member_suspected", "{peer} is suspected: it has not answered probes",
                   "If it does not answer within a few seconds, it is declared dead.", ""}};
}
FactText text(const MemberRefuted&) {
  return {.info = {"member_refuted", "{peer} is alive after all",
                   "A suspected peer answered in time. It may be slow, or its link lossy.", ""}};
}
FactText text(const MemberDead& f) {
  return {.info = {"member_dead", "{peer} is dead; {view} peers are left",
                   "It was suspected and did not answer in time. The others train on without it.",
                   "Start the peer again with --resume if it was not meant to end."},
          .numbers = numbers("view", f.view)};
}
FactText text(const MemberLeft& f) {
  return {.info = {"member_left", "{peer} has left; {view} peers are left",
                   "It said goodbye to the others before it ended.", ""},
          .numbers = numbers("view", f.view)};
}
FactText text(const MemberReturned& f) {
  return {.info = {"member_returned", "{peer} is back at {detail}",
                   "A peer that was dead or had left takes part again.", ""},
          .numbers = numbers("view", f.view)};
}
FactText text(const MemberRemoved&) {
  return {.info = {"member_removed", "{peer} is no longer on the allow-list",
                   "Its links are closed and its messages refused.", ""}};
}
FactText text(const SelfRefuted& f) {
  return {
      .info = {"self_refuted", "{detail}",
               "This process did not answer for a while: it was stopped, overloaded or cut off.",
               "If it happens often, look at the load of this machine and at its links."},
      .detail = "others held us for " + std::string(to_string(f.held_for)),
      .numbers = numbers("incarnation", f.incarnation)};
}
FactText text(const MessageRefused&) {
  return {.info = {"message_refused", "a message of {peer} is refused: {reason}",
                   "This peer listens only to peers on the allow-list, and believes a statement "
                   "about a peer only if that peer has signed it. The message changes nothing.",
                   ""}};
}
FactText text(const OfferRefused&) {
  return {.info = {"offer_refused", "an exchange that {peer} offered is refused: {reason}",
                   "The other peer trains on and meets another partner. The reason `busy` is "
                   "ordinary, since a peer takes part in one exchange at a time.",
                   ""}};
}
FactText text(const ExchangeRefused&) {
  return {.info = {"exchange_refused", "{peer} refuses an exchange: {reason}",
                   "This peer trains on and meets another partner. The reason `busy` is ordinary, "
                   "since a peer takes part in one exchange at a time.",
                   ""}};
}
FactText text(const ExchangeAborted&) {
  return {.info = {"exchange_aborted", "the exchange with {peer} is given up: {reason}",
                   "Neither side has changed its model. Both train on and meet others.", ""}};
}
FactText text(const ExchangeUndecided&) {
  return {.info = {"exchange_undecided",
                   "the exchange with {peer} is given up without an answer: {reason}",
                   "The partner may have applied its half alone, so the mean of all models may "
                   "have moved a little.",
                   ""},
          .detail = "the partner may have applied its half alone"};
}
FactText text(const ExchangeResumed& f) {
  return {.info = {"exchange_resumed",
                   "the exchange with {peer} goes on at byte {bytes_received}: {reason}",
                   "A lane broke or stalled. Only the missing bytes are sent again.", ""},
          .numbers = numbers("bytes_received", f.bytes_received)};
}
FactText text(const ExchangeCommitted& f) {
  return {.info = {"exchange_committed", "exchange with {peer} done, {distance} apart",
                   "Both models were pulled towards each other, by forces that sum to zero.", ""},
          .numbers = numbers("distance", f.distance, "clip", f.clip, "steps_apart", f.steps_apart,
                             "seconds", f.seconds)};
}
FactText text(const ModelRefused& f) {
  return {.info = {"model_refused", "the model of {peer} is refused: {reason}",
                   "Its values are not finite, far larger than ours, or far from the models of "
                   "other peers, or no optimiser can have made its state.",
                   "Look at the training of that peer; its learning rate may be too high."},
          .numbers = numbers("norm", f.norm)};
}
FactText text(const PeerQuarantined& f) {
  return {.info = {"peer_quarantined", "no exchanges with {peer} for {seconds} s: {reason}",
                   "It has sent several bad models in a row. Other peers decide for themselves.",
                   "Look at the training of that peer."},
          .numbers = numbers("seconds", f.seconds)};
}
FactText text(const FetchAsked&) {
  return {.info = {"fetch_asked", "this peer asks {peer} for a model",
                   "This peer is new or far behind. The other one sends its model, or refuses; if "
                   "it refuses, this peer asks another one.",
                   ""}};
}
FactText text(const FetchResumed& f) {
  return {.info = {"fetch_resumed", "the download goes on from {peer} at byte {bytes_received}",
                   "This source has the same model as the source before it.", ""},
          .numbers = numbers("bytes_received", f.bytes_received)};
}
FactText text(const ModelFetched& f) {
  return {.info = {"model_fetched", "the model of {peer} at step {step} has arrived",
                   "This peer trains on from that model. Its source has only sent a copy.", ""},
          .numbers = numbers("step", f.step, "bytes", f.bytes)};
}
FactText text(const ModelServed& f) {
  return {.info = {"model_served", "our model at step {step} goes to {peer}",
                   "A newcomer, or a peer that fell behind, trains on from a copy of it. Ours does "
                   "not change.",
                   ""},
          .numbers = numbers("step", f.step)};
}
FactText text(const FetchRefused&) {
  return {.info = {"fetch_refused", "{peer} asked for our model and is refused: {reason}",
                   "Its download goes on with another peer.", ""}};
}
FactText text(const FetchSourceLost& f) {
  return {.info = {"fetch_source_lost", "the download from {peer} ended early: {reason}",
                   "This peer asks another source.", ""},
          .numbers = numbers("bytes_received", f.bytes_received)};
}
FactText text(const FetchFailed&) {
  return {
      .info = {"fetch_failed", "no peer had a model to give",
               "This peer trains on from its own model, or the next ballot names a source.", ""},
      .detail = "no peer had a model to give"};
}
FactText text(const TrainingBegan& f) {
  return {.info = {"training_began", "training begins at step {step} with {peers} peers",
                   "Enough peers are there, or run.wait_max_s is over. Peers that come later can "
                   "still join the training.",
                   ""},
          .numbers = numbers("step", f.step, "peers", f.peers)};
}
FactText text(const BudgetDone& f) {
  return {.info = {"budget_done", "training is done at step {step}",
                   "The peer stays for a while to serve others.", ""},
          .numbers = numbers("step", f.step)};
}
FactText text(const TargetMeasured& f) {
  return {
      .info = {"target_measured",
               "this peer's model has {value} on the test data at step {step}: {detail}",
               "The value is the accuracy, or R2 for data with targets. A peer measures if it was "
               "drawn as a judge, if other peers have measured the target accuracy, or if this is "
               "the common model at the end. In a pipeline the peers that carry the last stage "
               "measure, each with all stages together on its part of the test data.",
               ""},
      .detail = f.reached ? "the target is reached" : "below the target",
      .numbers = numbers("value", f.value, "step", f.step)};
}
FactText text(const TargetReached& f) {
  return {.info = {"target_reached",
                   "training ends: {votes} of {peers} peers have measured the target accuracy",
                   "All peers stop, and the mean of their models is the common final model. With "
                   "allreduce all peers have that model already. In a pipeline each peer has its "
                   "stages of it, and the peers counted here are the carriers of the last stage.",
                   ""},
          .numbers = numbers("votes", f.votes, "peers", f.peers)};
}
FactText text(const FinaleBegan& f) {
  return {
      .info = {"finale_began",
               "training ends after {samples} samples of all peers: this peer stops at step {step}",
               "It waits until all live peers have stopped. Then their models are averaged.", ""},
      .numbers = numbers("step", f.step, "samples", f.samples)};
}
FactText text(const FinaleDone& f) {
  return {.info = {"finale_done",
                   "this peer has the common mean, at step {step}; it trained {samples} samples",
                   "All peers that report this end with the same model, bit for bit.", ""},
          .numbers = numbers("step", f.step, "samples", f.samples)};
}
FactText text(const FinaleMissed&) {
  return {.info = {"finale_missed", "this peer came too late for the common mean",
                   "The peers that have the common mean left before this peer could download it.",
                   "Take the model of another peer, or raise run.linger_s."}};
}
FactText text(const CatchingUp& f) {
  return {
      .info = {"catching_up", "this peer is far behind at step {step} and downloads a newer model",
               "This peer was stopped or cut off for a long time. The others train on meanwhile, "
               "and one of them sends its model.",
               ""},
      .numbers = numbers("step", f.step)};
}
FactText text(const TopologyUnfit& f) {
  return {.info = {"topology_unfit", "the topology does not fit {peers} peers",
                   "Until it fits again, partners are drawn from all peers.", ""},
          .numbers = numbers("peers", f.peers)};
}
FactText text(const TopologyFits& f) {
  return {.info = {"topology_fits", "the topology fits {peers} peers",
                   "Partners are neighbours in the topology again.", ""},
          .numbers = numbers("peers", f.peers)};
}
FactText text(const Exploited& f) {
  return {.info = {"exploited", "a copy of the better replica of {peer} replaces ours",
                   "Population-based training has copied the model, optimiser state and "
                   "hyper-parameters, and then varied the hyper-parameters a little.",
                   ""},
          .numbers = numbers("step", f.step, "source_step", f.source_step, "source_learning_rate",
                             f.source_learning_rate, "source_momentum", f.source_momentum,
                             "learning_rate", f.learning_rate, "momentum", f.momentum,
                             "loss_before", f.loss_before, "loss_after", f.loss_after)};
}
FactText text(const GenerationBegan& f) {
  return {.info = {"generation_began", "a generation of {peers} peers begins at step {step}",
                   "All its peers have agreed which peers take part and from which step.", ""},
          .numbers = numbers("ballot", f.ballot, "peers", f.peers, "step", f.step)};
}
FactText text(const GenerationEnded&) {
  return {.info = {"generation_ended", "the generation has ended",
                   "One of its peers was lost or lacks something. A ballot follows.", ""}};
}
FactText text(const PeerSilent& f) {
  return {.info = {"peer_silent", "{peer} has not answered for {seconds} s",
                   "An operation or a ballot waited for it. The others go on without it.",
                   "Look at the load of that machine, and at the link to it."},
          .numbers = numbers("seconds", f.seconds)};
}
FactText text(const CollectiveResumed& f) {
  return {
      .info =
          {"collective_resumed",
           "{peers} peers go on at step {step}, {seconds_lost} s after an interruption",
           "The others of the generation have agreed to go on without the peers that were lost.",
           "Start the lost peers again with --resume if they were not meant to end."},
      .numbers = numbers("seconds_lost", f.seconds_lost, "lost", f.lost, "peers", f.peers, "step",
                         f.step)};
}
FactText text(const StateAdopted& f) {
  return {.info = {"state_adopted", "the state of {peer} at step {step} replaces ours",
                   "This peer was behind the others, or its values differed from those of the "
                   "majority. Now it has the same model as they have.",
                   ""},
          .numbers = numbers("step", f.step)};
}
FactText text(const ModelsDiffer& f) {
  return {
      .info = {"models_differ", "the model of {peer} differs from the majority's at step {step}",
               "The memory of that peer is bad, bytes were corrupted on their way, or a member has "
               "sent it other values than the others. It downloads the majority's model, or the "
               "stages that differ.",
               "Test the memory of that machine if it happens again, and look for a member that "
               "others refuse."},
      .numbers = numbers("step", f.step)};
}
FactText text(const SumRefused&) {
  return {.info = {"sum_refused", "a sum is refused: {detail}",
                   "A contribution is missing from the sum, is in it twice, is not finite or is "
                   "far too large. In the common mean at the end the reason may also be a model "
                   "whose norm is far larger than ours. The step is repeated.",
                   ""}};
}
FactText text(const ModelHeld& f) {
  return {
      .info = {"model_held",
               "step {step}: parameters would be absurdly large and are held at a bound",
               "The bound is a thousand times the largest parameter of the first model, or 1000. "
               "The data need larger ones, training diverges, or a hostile peer sends made-up "
               "values. Reported once, and again only after a change that stays below the bound.",
               "scale inputs or targets far from 1 (data.mean, data.deviation, or the targets); or "
               "lower train.learning_rate; or look for a hostile peer, perhaps the last to join"},
      .numbers = numbers("step", f.step)};
}
FactText text(const ArraysDiffer& f) {
  return {.info = {"arrays_differ", "{peer} has given {detail}, so this peer leaves",
                   "The programs make different calls, so no mean can be right any more.",
                   "make the same calls, with arrays of the same lengths, in the programs of all "
                   "peers"},
          .detail = fmt::format("an array of {} numbers to call {}, and this peer one of {}",
                                f.theirs, f.call, f.ours),
          .numbers = numbers("call", f.call, "theirs", f.theirs, "ours", f.ours)};
}
FactText text(const GradientNotFinite& f) {
  return {.info = {"gradient_not_finite", "step {step}: {detail}; it leaves the others",
                   "The contribution of this peer would have destroyed the model of every peer. "
                   "`detail` names the codec in which it would be sent.",
                   "lower train.learning_rate or, with a lossy codec, the settings that the peer "
                   "prints; or look for broken samples in its shard"},
          .numbers = numbers("step", f.step)};
}
FactText text(const AlgorithmSwitched& f) {
  return {.info = {"algorithm_switched", "from step {step} on all peers use: {detail}",
                   "The peers have agreed on this step, so all of them begin to use the new "
                   "settings at the same step.",
                   ""},
          .detail = f.settings,
          .numbers = numbers("settings_revision", f.settings_revision, "step", f.step)};
}
FactText text(const StageAdopted& f) {
  return {.info = {"stage_adopted", "this peer carries stage {stage} from step {step} on",
                   "The stage had too few carriers, or the work was dealt out again. Other peers "
                   "now send their passes for this stage to this peer.",
                   ""},
          .numbers = numbers("stage", f.stage, "step", f.step)};
}
FactText text(const RolledBack& f) {
  return {
      .info = {"rolled_back", "training goes back from step {from} to step {to}",
               "A stage was lost with all its carriers. Its newest copy is of the earlier step.",
               "If that costs too much, lower pipeline.copy_every or use more replicas."},
      .detail = "a stage was lost with all its carriers",
      .numbers = numbers("from", f.from, "to", f.to)};
}
FactText text(const StageLost&) {
  return {.info = {"stage_lost",
                   "no version of the model has all its stages here, or the peers lack memory for "
                   "all stages",
                   "Training waits until the missing stages are back, or more peers come.",
                   "start the missing peers with --resume, or start more peers"},
          .detail = "peers lack some stage, or memory for it"};
}
FactText text(const LaneOpened& f) {
  return {.info = {"lane_opened", "a lane to {peer} is open ({detail})",
                   "Models and gradients travel over this lane. Its kind is in brackets.", ""},
          .detail = f.kind};
}
FactText text(const LaneClosed&) {
  return {.info = {"lane_closed", "{peer} has closed its lane",
                   "The lane was idle, its place was needed, or the peer has ended. The two open a "
                   "new lane when there is something to send.",
                   ""},
          .detail = "by the partner"};
}
FactText text(const LaneLost&) {
  return {.info = {"lane_lost", "the lane to {peer} is lost: {detail}",
                   "Transfers continue over a new lane.", ""},
          .reason = Reason::unreachable};
}
FactText text(const LaneRefused&) {
  return {
      .info = {"lane_refused", "no lane to {peer}: neither side could dial the other",
               "Without a lane the two peers cannot send each other models. Both go on with other "
               "peers, and try again later.",
               "Give one of the two an address that the other can reach (--listen, --advertise)."},
      .reason = Reason::unreachable,
      .detail = "neither side could dial the other"};
}
FactText text(const LaneListenFailed&) {
  return {.info = {"lane_listen_failed", "no Unix socket for lanes: {detail}",
                   "Peers on this host use TCP instead.", ""}};
}
FactText text(const LinkRefused& f) {
  return {.info = {"link_refused", "a link is refused: {detail}",
                   "The connection came from a stranger, from a peer that is not on the "
                   "allow-list, or with bytes that are no message. This peer reads nothing more "
                   "from it, and training is not affected.",
                   "If that peer should take part, add its key to authorized_peers."},
          .reason = Reason::unknown_peer,
          .numbers = numbers("refused", f.refused)};
}
FactText text(const HelloRefused& f) {
  return {.info = {"hello_refused", "{peer} has other settings: {detail}",
                   "Peers train together only with equal settings. Each of the two goes on with "
                   "the peers that agree with it.",
                   "give every peer of a run the same settings"},
          .reason = Reason::unknown_layout,
          .detail = f.difference};
}
FactText text(const JoinFailed&) {
  return {.info = {"join_failed", "no peer with an authorised key answers at {detail} yet",
                   "The peer does not run or cannot be reached, one of the two lacks the other's "
                   "key, or this peer is revoked. It keeps trying; the others are not affected.",
                   "Check the address, that the peer there runs, and that each allow-list has the "
                   "other's key. If revoked, join with a new ticket and another --folder."}};
}
FactText text(const NotReachable&) {
  return {.info = {"not_reachable", "no peer could dial this peer back at {detail}",
                   "The others answer over the connections that this peer has opened. If another "
                   "peer cannot be dialled either, the two meet through a third one.",
                   "advertise an address the others can reach with --advertise HOST:PORT, or leave "
                   "--listen out to dial out only"},
          .reason = Reason::unreachable};
}
FactText text(const KeyUsedTwice&) {
  return {.info = {"key_used_twice", "two processes take turns with the key of {peer}",
                   "To others, each of the two processes looks like a restart of the other, so "
                   "exchanges with both are cut off again and again.",
                   "stop one of them, or give it a key of its own"}};
}
FactText text(const FrameNotSent&) {
  return {
      .info = {"frame_not_sent", "a message to {peer} was not sent: {detail}",
               "The message was too long or could not be encoded. The link stays open, and the "
               "other peer gets later messages.",
               "Report it with this line of the log. A correct program makes no such message."}};
}
FactText text(const UnsoundMessage& f) {
  return {.info = {"unsound_message", "{peer} sent something that cannot be right: {detail}",
                   "Nothing in the message is believed, and it counts against the sender's key.",
                   "If that peer is yours, look at its version and at who else has its key."},
          .peer = f.peer,
          .detail = f.why};
}
FactText text(const EquivocationProved& f) {
  return {.info = {"equivocation_proved",
                   "{peer} is excluded: it signed two different decisions of ballot {ballot}",
                   "A program that follows the protocol signs one decision of each ballot. Either "
                   "that peer is hostile, or another machine uses its key.",
                   "Take its key off the allow-list, and give that machine a new key if you still "
                   "trust it."},
          .peer = f.peer,
          .numbers = numbers("ballot", f.ballot)};
}
FactText text(const LinkQuarantined& f) {
  return {.info = {"link_quarantined", "no link with {peer} for {seconds} s: {detail}",
                   "It has sent what no sound peer sends: several unsound messages, or values that "
                   "are not finite or far too large. Its links are cut.",
                   "Take its key off the allow-list if you do not trust that machine any more."},
          .peer = f.peer,
          .detail = f.why,
          .numbers = numbers("seconds", f.seconds)};
}
FactText text(const EventsLost& f) {
  return {.info = {"events_lost", "{lines} events before this one could not be written",
                   "The disk was full, or the folder could not be written to.",
                   "Free space on the disk, or make the folder writable."},
          .numbers = numbers("lines", f.lines)};
}
FactText text(const TicketRedeemed& f) {
  return {.info = {"ticket_redeemed", "{detail} has joined by a ticket of this peer",
                   "The new peer has proved that it has the ticket, and has received a "
                   "certificate. The others learn of it and let it take part.",
                   "If you do not know it, take its certificate away with `grapevine revoke`."},
          .detail = f.name};
}
FactText text(const TicketRefused& f) {
  return {
      .info = {"ticket_refused", "a guest is refused: {detail}",
               "Someone has a ticket of this peer that is no longer valid, or asks for something "
               "that a ticket does not give. The guest learns the reason and nothing else.",
               "Make a new ticket with `grapevine invite` if it should take part."},
      .detail = f.why};
}
FactText text(const CertificateRevoked& f) {
  return {.info = {"certificate_revoked", "the certificate of {detail} has been revoked",
                   "A peer that may invite has revoked it permanently. All peers cut their links "
                   "with that key as soon as they learn of it.",
                   "If it should take part again, let it join by a new ticket in a new folder."},
          .detail = f.name};
}
FactText text(const AllowListRead&) {
  return {.info = {"allow_list_read", "the allow-list was read again",
                   "Peers that are new on it may join now. The links of peers that it no longer "
                   "lists are cut.",
                   ""}};
}
FactText text(const AllowListRefused&) {
  return {.info = {"allow_list_refused", "the allow-list was not read: {detail}",
                   "The previous list stays in force.", "Correct the file and send SIGHUP again."}};
}
FactText text(const Resumed& f) {
  return {.info = {"resumed", "the run resumes at step {step} from {detail}",
                   "The peer takes its model and its optimiser's state from that checkpoint. If "
                   "the others are far ahead, it downloads a newer model.",
                   ""},
          .detail = f.from,
          .numbers = numbers("step", f.step, "stages", f.stages)};
}
FactText text(const ResumedFromNothing& f) {
  return {.info = {"resumed_from_nothing", "{detail}",
                   "The peer begins at step 0 or downloads a model.", ""},
          .detail = "no sound checkpoint in " + f.folder};
}
FactText text(const CheckpointRefused&) {
  return {.info = {"checkpoint_refused", "a checkpoint is refused: {detail}",
                   "The previous checkpoint is used.", ""}};
}
FactText text(const SaveFailed& f) {
  const bool is_diverged = f.why.find("not finite") != std::string::npos;
  return {.info = {"save_failed", "checkpoint not written: {detail}",
                   "Training goes on, and older checkpoints stay. A diverged model is not saved.",
                   is_diverged ? "Resume with a smaller train.learning_rate."
                               : "Free space on the disk, or make the folder writable."}};
}
FactText text(const TrainingFailed&) {
  return {.info = {"training_failed", "training cannot go on: {detail}",
                   "The peer ends with exit code 1, and the others go on without it.",
                   "Remove the cause and start the peer again with --resume."}};
}
FactText text(const SettingsRevisionNotWritten&) {
  return {.info = {"settings_revision_not_written", "settings of a switch could not be written",
                   "After a restart the peer would begin with the settings of its config.",
                   "Free space on the disk, or make the folder writable."}};
}
FactText text(const SwitchRefused&) {
  return {.info = {"switch_refused", "a switch of settings is refused: {detail}",
                   "This peer keeps its settings, and so do the others.",
                   "Correct the settings, and switch again."}};
}

template <std::size_t... I>
std::vector<FactInfo> infos(std::index_sequence<I...>) {
  return {text(std::variant_alternative_t<I, FactVariant>{}).info...};
}

}  // namespace

FactText describe(const Fact& fact) {
  return std::visit(
      [](const auto& known) {
        FactText told = text(known);
        if constexpr (requires { known.peer; }) told.peer = known.peer;
        if constexpr (requires { known.reason; }) told.reason = known.reason;
        if constexpr (requires { known.why; }) told.detail = known.why;
        if constexpr (requires { known.remedy; }) told.remedy = known.remedy;
        if (told.remedy.empty()) told.remedy = told.info.remedy;
        if constexpr (requires { known.address; }) told.detail = known.address;
        return told;
      },
      fact);
}

std::string_view name_of(const Fact& fact) {
  static const std::vector<FactInfo> all = fact_infos();
  return all[fact.index()].name;
}

std::string sentence(const FactText& fact, const std::function<std::string(PeerId)>& name_of) {
  const auto value_of = [&](std::string_view key) -> std::string {
    if (key == "peer") return fact.peer ? name_of(*fact.peer) : "a peer";
    if (key == "reason") return std::string(to_string(fact.reason));
    if (key == "detail") return fact.detail;
    for (const auto& [name, value] : fact.numbers) {
      if (name == key) return fmt::format("{:.6g}", value);
    }
    return "?";
  };
  std::string text;
  std::string_view rest = fact.info.sentence;
  while (true) {
    const std::size_t open = rest.find('{');
    text += rest.substr(0, open);
    if (open == std::string_view::npos) return text;
    const std::size_t close = rest.find('}', open);
    text += value_of(rest.substr(open + 1, close - open - 1));
    rest.remove_prefix(close + 1);
  }
}

std::map<std::string, std::uint64_t> FactCounts::by_name() const {
  const std::vector<FactInfo> all = fact_infos();
  std::map<std::string, std::uint64_t> named;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (counts_[i] > 0) named.emplace(all[i].name, counts_[i]);
  }
  return named;
}

std::vector<FactInfo> fact_infos() {
  return infos(std::make_index_sequence<std::variant_size_v<FactVariant>>{});
}

}  // namespace gv

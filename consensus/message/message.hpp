// Every message that travels on a control link. A message without a handler does not compile.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ids.hpp"
#include "consensus/message/snapshot.hpp"

namespace gv {

/// Why something was refused, dropped or given up; travels in messages and in events.
enum class Reason : std::uint8_t {
  none,
  busy,              ///< In the middle of another exchange.
  not_ready,         ///< Has no model to offer yet.
  unknown_layout,    ///< Layout or number of elements differ.
  unknown_codec,     ///< Codec not known or not the one agreed on.
  quarantined,       ///< Too many bad models from this peer lately.
  stale,             ///< Belongs to a round, session or exchange that is over.
  unknown_peer,      ///< Not a live member of the receiver's view.
  unknown_transfer,  ///< No such transfer with this peer.
  not_finite,        ///< NaN or infinity among the values.
  norm_exceeded,     ///< Norm above the cap.
  bad_length,        ///< Block outside the transfer, or a length that does not fit.
  timed_out,         ///< No progress before the deadline.
  peer_gone,         ///< The partner died or left meanwhile.
  unreachable,       ///< No way to open a bulk lane between the two.
  leaving,           ///< Shutting down.
  resting,           ///< Exchanges with this peer take long, and it has had its share of time.
};

std::string_view to_string(Reason reason);

// ---- Membership (SWIM: Das, Gupta, Motivala 2002; Lifeguard: Dadgar, Phillips, Currey 2018) ----

enum class MemberState : std::uint8_t { alive, suspect, dead, left };

std::string_view to_string(MemberState state);

enum class Phase : std::uint8_t { joining, training, done };

std::string_view to_string(Phase phase);

/// What a peer of a population trains with, and what came of it.
struct Trial {
  float learning_rate = 0;  ///< Above 0.
  float momentum = 0;       ///< In [0, 1).
  /// Mean over what the peer keeps back of its own data; less is better. Of a model that is not
  /// finite the largest float.
  float validation_loss = 0;

  friend bool operator==(const Trial&, const Trial&) = default;
};

/// What a peer says of its own training. Rides on every probe and answer; the newest wins by step.
struct Progress {
  std::uint64_t step = 0;
  float steps_per_second = 0;
  Phase phase = Phase::joining;
  std::optional<Trial> trial;  ///< In a population, once it was validated.

  friend bool operator==(const Progress&, const Progress&) = default;
};

/// One peer as others know it.
struct Member {
  PeerId id{};
  std::string name;                    ///< As in the allow-list; at most 64 bytes.
  std::array<std::uint8_t, 32> key{};  ///< Public key; `id` is derived from it.
  std::string address;                 ///< Control link "host:port"; empty: cannot be dialled.
  std::uint64_t incarnation = 0;       ///< Raised only by the peer itself.
  MemberState state = MemberState::alive;
  PeerId accuser{};               ///< Who suspects it, when it is suspected.
  std::uint64_t layout_hash = 0;  ///< Of its model; 0 while unknown.
  Progress progress;

  friend bool operator==(const Member&, const Member&) = default;
};

/// Are you there? Rumours ride along on all four.
struct Ping {
  std::uint64_t sequence = 0;
  Progress progress;
  std::vector<Member> rumors;
};

/// Ask `target` for me: my own probe went unanswered.
struct PingRequest {
  std::uint64_t sequence = 0;
  PeerId target{};
  std::vector<Member> rumors;
};

/// I am here (`about` = the sender), or: I reached `about` for you.
struct Ack {
  std::uint64_t sequence = 0;
  PeerId about{};
  Progress progress;
  std::vector<Member> rumors;
};

/// I am here but could not reach the target you asked for (Lifeguard, section 3).
struct Nack {
  std::uint64_t sequence = 0;
  std::vector<Member> rumors;
};

/// Full state of the sender's table, in several messages when long; `reply` asks for the other's.
struct PushPull {
  bool reply = false;
  std::vector<Member> members;
};

// ---- Pair exchange ----

/// The initiator's proposal to exchange snapshots. Only `id.owner` sends it.
struct Offer {
  TransferId id;
  std::uint64_t round = 0;
  std::uint64_t layout_hash = 0;
  std::uint64_t elements = 0;
  std::uint8_t codec = 0;
  float alpha = 0;         ///< The initiator's, in [0, 1]. The smaller of the two counts.
  float clip_radius = 0;   ///< The initiator's; 0 = no clipping. The smaller of the two counts.
  std::uint64_t step = 0;  ///< Of the snapshot.
  ConservationChecksum checksum{};  ///< Of the snapshot.
};

/// The responder's consent: both start streaming their snapshots.
struct Accept {
  TransferId id;
  float alpha = 0;
  float clip_radius = 0;
  std::uint64_t step = 0;
  ConservationChecksum checksum{};
};

/// No, and why. Also ends a model download that cannot go on.
struct Refuse {
  TransferId id;
  Reason reason = Reason::none;
};

/// The responder holds the initiator's whole snapshot and has judged it sound.
struct Ready {
  TransferId id;
};

/// The commit word: the initiator has added its half; the responder must add the other.
struct Commit {
  TransferId id;
};

/// The responder, holding everything but the word, asks what became of the exchange.
struct Query {
  TransferId id;
};

/// The initiator never committed this exchange and never will; or the responder cannot go on.
struct Abort {
  TransferId id;
  Reason reason = Reason::none;
};

/// The lane broke: send again what starts at `offset` bytes of your payload.
struct Resume {
  TransferId id;
  std::uint64_t offset = 0;
};

// ---- Model download by a newcomer ----

/// May I have your current model? Only `id.owner` sends it.
struct StateRequest {
  TransferId id;
  std::uint64_t layout_hash = 0;
};

/// Yes; `bytes` bytes of float32 parameters follow on the bulk lane.
struct TransferAccepted {
  TransferId id;
  std::uint64_t layout_hash = 0;
  std::uint64_t elements = 0;
  std::uint64_t step = 0;
};

// ---- Lockstep: agreement on a generation, and checks while one runs ----

/// A ballot: counted up from all that its proposer has seen. Ordered.
struct GenerationId {
  std::uint64_t counter = 0;
  PeerId proposer{};

  friend auto operator<=>(const GenerationId&, const GenerationId&) = default;
};

/// One number for it, for the pieces of its operations.
std::uint64_t key_of(const GenerationId& id);

/// How far a replica has come in lockstep: equal versions are equal bits.
struct ModelVersion {
  std::uint64_t step = 0;     ///< Optimiser steps made, which name the collective that is next.
  std::uint64_t samples = 0;  ///< Contributed by everybody to the model as it is.
  std::uint64_t lineage = 0;  ///< Hash of the generations in which the operations finished.

  friend bool operator==(const ModelVersion&, const ModelVersion&) = default;
};

/// The model that has seen more samples wins; among equals any, but everybody the same.
bool is_before(const ModelVersion& a, const ModelVersion& b);

/// The state of one stage of a pipeline that a peer has.
struct StageHolding {
  std::uint32_t stage = 0;
  bool carried = false;  ///< It works with it; or else it keeps a copy.
  ModelVersion version;

  friend bool operator==(const StageHolding&, const StageHolding&) = default;
};

/// No peer claims more, so that its words stay small.
inline constexpr std::size_t stage_holdings_max = 256;

/// A stage that a peer carries, and who sends it the state; itself if it has it.
struct StageAssignment {
  std::uint32_t stage = 0;
  PeerId carrier{};
  PeerId source{};

  friend bool operator==(const StageAssignment&, const StageAssignment&) = default;
};

/// Settings that all go by from a generation on, in place of those they began with.
struct SettingsRevision {
  std::uint64_t number = 0;  ///< The larger one is the newer; 0: none was made.
  std::string settings;      ///< As a config would say it; at most `revision_bytes_max`.

  /// Two of one number, made at the same time at two places, have an order as well.
  friend auto operator<=>(const SettingsRevision&, const SettingsRevision&) = default;
};

/// No settings revision is longer, so that the words which carry it stay small.
inline constexpr std::size_t revision_bytes_max = 1024;

/// Let us agree on a new generation; whatever ran is over. From `ballot.proposer` alone.
struct Propose {
  GenerationId ballot;
};

/// What a peer has measured of a link from it to another.
struct LinkReport {
  PeerId to{};
  float latency_s = 0;         ///< One way.
  float bytes_per_second = 0;  ///< 0: nothing gets through.

  friend bool operator==(const LinkReport&, const LinkReport&) = default;
};

/// No peer reports more links than this, so that its words stay small.
inline constexpr std::size_t link_reports_max = 64;

/// I take part in this ballot and stand still until it is decided.
struct Promise {
  GenerationId ballot;
  ModelVersion version;
  float samples_per_second = 0;
  std::vector<LinkReport> links;       ///< From here, those measured; at most `link_reports_max`.
  std::vector<StageHolding> holdings;  ///< Of a pipeline's stages; at most `stage_holdings_max`.
  bool leaves = false;  ///< It takes no part; others take over what it has, and then it is gone.
  SettingsRevision revision;  ///< The newest it has heard of.
};

/// I have answered a later ballot than yours.
struct Preempted {
  GenerationId ballot;  ///< The later one.
};

/// The ballot is decided. Whoever is not in `order` was heard too late and asks again.
struct Install {
  GenerationId ballot;
  std::vector<PeerId> order;          ///< The place in it is the rank.
  std::vector<PeerId> sources;        ///< Who sends each the model and optimiser; itself: nobody.
  std::vector<std::uint32_t> shares;  ///< Samples of each in an operation.
  ModelVersion version;               ///< All go on from here.
  /// The way to sum, as a number that this message does not know the meaning of.
  std::uint8_t algorithm = 0;
  PeerId slowest_from{};  ///< The link that sums wait for, from here
  LinkReport slowest;     ///< to there; of 0 bytes a second if none was measured.
  std::vector<StageAssignment> assignments;  ///< In a pipeline: sorted by carrier and stage.
  SettingsRevision revision;                 ///< All go by this one.
};

/// The generation is over: a peer is lost, or nothing comes any more.
struct EndGeneration {
  GenerationId ballot;  ///< The generation's, or that of the agreement under way.
  /// Whose connections broke or who are silent, maybe nobody. They are not waited for long.
  std::vector<PeerId> blamed;
};

/// Nothing comes: are you there, and in which generation?
struct StatusRequest {
  GenerationId ballot;
};

/// In answer: the generation I am in, and what I do.
struct StatusReply {
  GenerationId ballot;
  std::uint64_t step = 0;  ///< The one under way.
  bool busy = false;       ///< Computing or receiving a state: others wait for me.
};

/// A probe of the link to me has come: one block of a known length.
struct ProbeAck {
  TransferId id;  ///< Of the probe.
};

/// My part of a pipeline's operation is complete: I can make its update, whatever happens.
struct Complete {
  GenerationId ballot;
  std::uint64_t step = 0;
  bool again = false;  ///< In answer to one that came late: no answer is wanted.
};

/// The parameters that I have before this operation, which ought to be everybody's.
struct Audit {
  GenerationId ballot;
  std::uint64_t step = 0;
  std::uint64_t fingerprint = 0;
};

using Message =
    std::variant<Ping, PingRequest, Ack, Nack, PushPull, Offer, Accept, Refuse, Ready, Commit,
                 Query, Abort, Resume, StateRequest, TransferAccepted, Propose, Promise, Preempted,
                 Install, EndGeneration, StatusRequest, StatusReply, ProbeAck, Complete, Audit>;

}  // namespace gv

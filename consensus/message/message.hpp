// All messages on control links: plain structs, whose fields are listed here and nowhere else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.hpp"
#include "base/one_of.hpp"
#include "consensus/message/certificate.hpp"
#include "consensus/message/signer.hpp"
#include "consensus/message/snapshot.hpp"
#include "consensus/message/transfer_id.hpp"

namespace gv {

// A message's fields travel in the order of their declaration (net/wire), so reordering them
// changes the wire format. Bounds that do not depend on the receiver's state are declared here:
// `last_value` of an enumeration, and `problem()` of a struct, which returns a sentence without a
// full stop, or an empty one if the values are sound. Protocols get only messages within these
// bounds and with finite floats. Reports of work are sent often and have small numbers, so their
// structs have varints (base/fields).

/// Why something was refused, dropped or given up; travels in messages and in facts.
enum class Reason : std::uint8_t {
  none,
  busy,              ///< In the middle of another exchange.
  not_ready,         ///< Has no model to offer yet.
  unknown_layout,    ///< Layout or number of elements differ.
  unknown_codec,     ///< Unknown codec, or not the agreed one.
  quarantined,       ///< Too many unsound models from this peer recently.
  stale,             ///< Belongs to a round, session or exchange that is over.
  unknown_peer,      ///< Not a live member of the receiver's view.
  unknown_transfer,  ///< No such transfer with this peer.
  not_finite,        ///< NaN or infinity among the values.
  norm_exceeded,     ///< Norm above the cap.
  bad_length,        ///< Block outside the transfer, or a length that does not fit.
  timed_out,         ///< No progress before the deadline.
  peer_gone,         ///< The partner died or left meanwhile.
  unreachable,       ///< No way to open a bulk lane between the two.
  impossible,        ///< An optimiser state that no optimiser can have made.
  resting,   ///< Exchanges with this peer take long, and it has used up its share of our time.
  forged,    ///< A statement in a peer's name lacks its signature.
  doubtful,  ///< A model far from those of other peers.
};

constexpr Reason last_value(Reason) { return Reason::doubtful; }
std::string_view to_string(Reason reason);

// ---- Membership (SWIM: Das, Gupta, Motivala 2002; Lifeguard: Dadgar, Phillips, Currey 2018) ----

enum class MemberState : std::uint8_t { alive, suspect, dead, left };

constexpr MemberState last_value(MemberState) { return MemberState::left; }
std::string_view to_string(MemberState state);
/// True for a peer that has not left and is not believed dead.
constexpr bool is_live(MemberState state) {
  return state == MemberState::alive || state == MemberState::suspect;
}

/// `finishing`: training is over, and the peers are about to average their models.
enum class Phase : std::uint8_t { joining, training, finishing, done };

constexpr Phase last_value(Phase) { return Phase::done; }
std::string_view to_string(Phase phase);
/// True for a peer that trains no more.
constexpr bool has_ended(Phase phase) { return phase == Phase::finishing || phase == Phase::done; }

/// The hyper-parameters of one peer in a population, and their validation loss.
struct Trial {
  float learning_rate = 0;  ///< Above 0.
  float momentum = 0;       ///< In [0, 1).
  /// Mean over the part of its data that the peer holds out; lower is better. The largest float if
  /// the model is not finite.
  float validation_loss = 0;

  std::string problem() const;
  friend bool operator==(const Trial&, const Trial&) = default;
};

/// Chunks of the swarm's data, one after another.
struct ChunkRange {
  static constexpr bool has_varints = true;
  std::uint64_t begin = 0;
  std::uint64_t count = 0;  ///< At least 1.

  std::uint64_t end() const { return begin + count; }
  std::string problem() const;
  friend bool operator==(const ChunkRange&, const ChunkRange&) = default;
};

/// Chunks that a peer has taken for training.
struct Lease {
  ChunkRange chunks;
  bool helps = false;  ///< True if it takes them over from a peer that may not get to them soon.

  friend bool operator==(const Lease&, const Lease&) = default;
};

/// The largest number of a chunk.
inline constexpr std::uint64_t chunk_number_max = std::uint64_t{1} << 48;
/// The most ranges of done chunks and the most leases in an entry, so that messages stay small.
inline constexpr std::size_t ledger_ranges_max = 32;
inline constexpr std::size_t ledger_leases_max = 8;
/// The most chunks that a peer has taken or trained and not passed on, including one under way.
inline constexpr std::uint64_t leased_chunks_max = 257;

/// A peer's report about chunks of leased data (see Ledger).
struct LedgerEntry {
  static constexpr bool has_varints = true;
  std::uint64_t whole = 0;  ///< All chunks below this number are done, as far as the peer knows.
  std::vector<ChunkRange> done;  ///< Chunks that it has done and that not all peers know of.
                                 ///< Ascending, disjoint.
  std::vector<Lease> leases;     ///< Chunks that it has taken and not done.

  std::string problem() const;
  friend bool operator==(const LedgerEntry&, const LedgerEntry&) = default;
};

/// The result of a peer's measurement of its model, if the run has a target accuracy.
struct TargetVerdict {
  static constexpr bool has_varints = true;
  std::uint64_t sitting = 0;  ///< The sitting of the measurement; the first is 1.
  bool reached = false;       ///< True if its model had reached the target.

  friend bool operator==(const TargetVerdict&, const TargetVerdict&) = default;
};

/// A peer's part in the swarm's budget of samples.
struct WorkDone {
  static constexpr bool has_varints = true;
  std::uint64_t samples = 0;  ///< Samples that this process of the peer has trained on.
  std::uint64_t data = 0;     ///< Size of its shard.
  std::uint64_t counted = 0;  ///< Samples that all peers have trained on, as far as it knows.
  std::uint64_t ran_ms = 0;   ///< Milliseconds for which the swarm has trained, if time ends the
                              ///< run.
  std::optional<LedgerEntry> ledger;     ///< Set if data are leased.
  std::optional<TargetVerdict> verdict;  ///< The peer's newest verdict.

  friend bool operator==(const WorkDone&, const WorkDone&) = default;
};

/// A peer's report about its own training. It travels on every probe and answer; the report with
/// the most steps is the newest and wins.
struct Progress {
  std::uint64_t step = 0;
  float steps_per_second = 0;
  Phase phase = Phase::joining;
  std::optional<Trial> trial;    ///< Set in a population, once the model was validated.
  std::optional<WorkDone> work;  ///< Set if the budget is the swarm's.

  friend bool operator==(const Progress&, const Progress&) = default;
};

/// One peer, as others know it and pass it on. The peer itself states most fields, which are
/// believed only with its signature (membership/statement). Its state and accuser are claims of
/// other peers. Its name comes from the receiver's allow-list.
struct Member {
  PeerId id{};
  std::string name;               ///< As in the allow-list; at most 64 bytes.
  std::string address;            ///< Stated: control link "host:port"; empty: cannot be dialled.
  std::uint64_t incarnation = 0;  ///< Stated: raised when others believe that the peer is gone.
  MemberState state = MemberState::alive;
  PeerId accuser{};               ///< The peer that suspects it, if any.
  std::uint64_t layout_hash = 0;  ///< Stated: hash of its model's layout; 0 while unknown.
  std::uint64_t version = 0;      ///< Stated: counts its statements.
  Progress progress;              ///< Stated, and renewed every few seconds.
  Signature signature{};          ///< The peer's own signature over the stated fields.

  friend bool operator==(const Member&, const Member&) = default;
};

/// Are you there? Rumours travel on this and the next three messages.
struct Ping {
  std::uint64_t sequence = 0;  ///< 0: only a report of progress, to which there is no answer.
  Progress progress;
  std::vector<Member> rumors;
  /// Set if another peer asks through me: unless 0, answer with a statement later than this
  /// version.
  std::uint64_t newer_than = 0;
};

/// Ask `target` for me: my own probe went unanswered.
struct PingRequest {
  std::uint64_t sequence = 0;
  PeerId target{};
  std::vector<Member> rumors;
  std::uint64_t newer_than = 0;  ///< The version of the target's last statement that I know.
};

/// I am here (`about` = the sender), or: I reached `about` for you; its new statement is among the
/// rumours.
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

/// The sender's whole table, in several messages if long; `reply` asks for the receiver's table.
struct PushPull {
  bool reply = false;
  std::vector<Member> members;
};

// ---- Pair exchange ----

/// The initiator's proposal of an exchange of snapshots. Only `id.owner` sends it.
struct Offer {
  TransferId id;
  std::uint64_t round = 0;
  std::uint64_t layout_hash = 0;
  std::uint64_t elements = 0;
  std::uint8_t codec = 0;
  float alpha = 0;         ///< The initiator's alpha, in [0, 1]. The smaller of the two is used.
  float clip_radius = 0;   ///< The initiator's radius; 0: no clipping. The smaller of the two is
                           ///< used.
  std::uint64_t step = 0;  ///< Step of the snapshot.
  ConservationChecksum checksum{};  ///< Checksum of the snapshot.
};

/// The responder's consent. Both then start to stream their snapshots.
struct Accept {
  TransferId id;
  float alpha = 0;
  float clip_radius = 0;
  std::uint64_t step = 0;
  ConservationChecksum checksum{};
};

/// A refusal with its reason. Also ends a model download that cannot continue.
struct Refuse {
  TransferId id;
  Reason reason = Reason::none;
};

/// The responder holds the initiator's whole snapshot and has judged it sound.
struct Ready {
  TransferId id;
};

/// The initiator has added its half; the responder must add the other.
struct Commit {
  TransferId id;
};

/// The responder has everything but Commit and asks how the exchange ended.
struct Query {
  TransferId id;
};

/// The initiator has not committed this exchange and never will, or the responder cannot go on.
struct Abort {
  TransferId id;
  Reason reason = Reason::none;
};

/// The lane broke: send your payload again from byte `offset` on.
struct Resume {
  TransferId id;
  std::uint64_t offset = 0;
};

// ---- Download of a state, of a whole model or of a stage ----

/// How far a replica has come. Equal versions mean equal bits.
struct ModelVersion {
  std::uint64_t step = 0;     ///< Optimiser steps made; names the next collective.
  std::uint64_t samples = 0;  ///< Samples that all peers have contributed to the model.
  std::uint64_t lineage = 0;  ///< Hash of the generations in which its collectives finished.

  friend bool operator==(const ModelVersion&, const ModelVersion&) = default;
};

/// True if `b` wins over `a`: the model that has seen more samples wins. Ties are broken in a fixed
/// order, so that all peers choose the same model.
bool is_before(const ModelVersion& a, const ModelVersion& b);

/// May I have your current state? Only `id.owner` sends it.
struct StateRequest {
  TransferId id;
  std::uint64_t layout_hash = 0;
  ModelVersion version;      ///< The version that the sender already has in part.
  std::uint64_t offset = 0;  ///< Bytes of that version that the sender has; 0: none.
};

/// Yes; float32 values follow on the bulk lane.
struct TransferAccepted {
  TransferId id;
  std::uint64_t layout_hash = 0;
  std::uint64_t elements = 0;
  ModelVersion version;
  std::uint64_t offset = 0;  ///< First byte: as requested for the same version, otherwise 0.
};

/// Random projections of a model. Projections of two models show how far apart the models are.
using SketchValues = std::array<float, 64>;

/// How far is your model from one that I have downloaded? Only `id.owner` sends it.
struct SketchRequest {
  TransferId id;           ///< Transfer of the download.
  std::uint64_t seed = 0;  ///< Seed of the projections, drawn after the model has arrived.
  std::uint64_t layout_hash = 0;
};

/// The sender's model in the projections that a request asks for.
struct SketchReply {
  TransferId id;
  std::uint64_t step = 0;  ///< Step of that model.
  float spread = 0;        ///< The sender's usual distance from other models; 0: not known.
  SketchValues values{};
};

// ---- Agreement on a generation, and checks while one runs ----

/// The largest number of a ballot. Sound peers count up from 1, so they never come near it.
inline constexpr std::uint64_t ballot_number_max = std::uint64_t{1} << 62;

/// Names a ballot. Ordered: a later ballot is larger.
struct GenerationId {
  std::uint64_t number = 0;  ///< Larger than that of all ballots in which its proposer took part.
  /// Session of the proposer's process, because a restarted one counts from 1 again.
  std::uint32_t session = 0;
  PeerId proposer{};

  std::string problem() const;
  friend auto operator<=>(const GenerationId&, const GenerationId&) = default;
};

/// Hashes an id to one number, which names the generation in the blocks of its collectives.
std::uint64_t key_of(const GenerationId& id);

/// A pipeline stage whose state a peer has.
struct StageHolding {
  std::uint32_t stage = 0;
  bool carried = false;  ///< True if the peer carries the stage; otherwise it only keeps a copy.
  ModelVersion version;

  friend bool operator==(const StageHolding&, const StageHolding&) = default;
};

/// The most stage holdings in a message, so that messages stay small.
inline constexpr std::size_t stage_holdings_max = 1024;

/// A stage, the peer that carries it, and the peer that sends the state (the carrier if it has it).
struct StageAssignment {
  std::uint32_t stage = 0;
  PeerId carrier{};
  PeerId source{};

  friend bool operator==(const StageAssignment&, const StageAssignment&) = default;
};

/// The longest settings revision, so that messages which carry one stay small.
inline constexpr std::size_t revision_bytes_max = 1024;

/// The largest number of a settings revision, which leaves room to switch again.
inline constexpr std::uint64_t revision_number_max = std::uint64_t{1} << 48;

/// Settings that all peers use from a generation on, in place of the ones that they began with.
struct SettingsRevision {
  std::uint64_t number = 0;  ///< A larger number is newer; 0: no revision was made.
  std::string settings;      ///< Config lines; at most `revision_bytes_max`.

  std::string problem() const;
  /// Revisions with the same number, made at the same time in two places, are ordered too.
  friend auto operator<=>(const SettingsRevision&, const SettingsRevision&) = default;
};

/// Proposes a new generation, which ends the running one. Sent only by `ballot.proposer`.
struct Propose {
  GenerationId ballot;
};

/// A peer's measurement of a link from it to another peer.
struct LinkReport {
  PeerId to{};
  float latency_s = 0;         ///< Latency one way.
  float bytes_per_second = 0;  ///< 0: nothing gets through.

  friend bool operator==(const LinkReport&, const LinkReport&) = default;
};

/// The most links in a report, so that messages stay small.
inline constexpr std::size_t link_reports_max = 64;

/// One peer's answer in a ballot, about itself.
struct Answer {
  ModelVersion version;
  float speed = 0;                     ///< Samples a second; 0: not known.
  std::vector<LinkReport> links;       ///< Measured links from it; at most `link_reports_max`.
  std::vector<StageHolding> holdings;  ///< In a pipeline; at most `stage_holdings_max`.
  bool leaves = false;  ///< True if it takes no part and leaves once others have taken over.
  bool ends = false;  ///< True if the peer believes that the time is over or the target is reached.
  std::uint64_t host = 0;     ///< The key of its host; 0: not known, or of no use.
  SettingsRevision revision;  ///< The newest revision that the peer knows.

  std::string problem() const;
  friend bool operator==(const Answer&, const Answer&) = default;
};

/// The sender takes part in this ballot and stands still until it is decided.
struct Promise {
  GenerationId ballot;
  Answer answer;
};

/// The sender has answered a later ballot than the receiver's.
struct Preempted {
  GenerationId ballot;  ///< The later ballot.
};

/// A generation, in the form known to all its peers.
struct Generation {
  GenerationId id;            ///< The ballot that decided it.
  std::vector<PeerId> order;  ///< The participating peers; the position is the rank.
  /// For each rank, the peer that sends it the model and the optimiser's state, or itself.
  std::vector<PeerId> sources;
  std::vector<std::uint32_t> shares;  ///< Samples of each rank in a collective.
  ModelVersion version;               ///< True if training ends with that version.
  bool ends = false;                  ///< Training ends with that version.
  /// The all-reduce algorithm, as a number that only the mode understands.
  std::uint8_t algorithm = 0;
  PeerId slowest_from{};                     ///< The peer at which the slowest used link begins.
  LinkReport slowest;                        ///< The slowest link; 0 bytes a second: none.
  std::vector<StageAssignment> assignments;  ///< In a pipeline: sorted by carrier and stage.
  std::vector<std::uint64_t> hosts;          ///< The host key of each rank, from its answer.
  SettingsRevision revision;                 ///< The settings that all peers use.

  /// Names the generation in blocks and messages.
  std::uint64_t key() const { return key_of(id); }
  bool contains(PeerId peer) const;

  friend bool operator==(const Generation&, const Generation&) = default;
};

/// The ballot `generation.id` is decided. A peer that is not in the generation answered too late
/// and asks again.
struct Install {
  Generation generation;
  Signature signature{};  ///< The proposer's signature over the Decision in this message.
};

/// The decision of a ballot's proposer, in a form that every peer can check.
struct Decision {
  GenerationId ballot;
  Digest digest{};        ///< Digest of the generation.
  Signature signature{};  ///< The proposer's signature over the other two fields.

  friend bool operator==(const Decision&, const Decision&) = default;
};

/// The sender has accepted this decision. Has the receiver got another one?
struct Decided {
  Decision decision;
};

/// The proposer of a ballot has signed two different decisions.
struct Equivocation {
  Decision one;
  Decision other;

  friend bool operator==(const Equivocation&, const Equivocation&) = default;
};

/// The generation is over, because a peer is lost or data no longer arrive.
struct EndGeneration {
  GenerationId ballot;  ///< The generation's ballot, or that of the agreement under way.
  /// Peers that are silent or whose connections broke; may be empty. The next ballot waits for them
  /// only briefly.
  std::vector<PeerId> blamed;
};

/// The peers that the sender refuses to work with, because of offences that it has seen itself.
struct Refusals {
  std::vector<PeerId> peers;
};

/// Data no longer arrive: are you there, and in which generation?
struct StatusRequest {
  GenerationId ballot;
};

/// Answers a StatusRequest: the sender's generation, and its work.
struct StatusReply {
  GenerationId ballot;
  std::uint64_t step = 0;  ///< The collective or pipeline run under way.
  bool busy = false;  ///< True if it is computing or receiving a state, so that others have to wait
                      ///< for it.
};

/// Acknowledges a probe of the link to the sender: one block of a known length.
struct ProbeAck {
  TransferId id;  ///< Transfer of the probe.
};

/// The sender's part of a pipeline run is complete: it has everything that it needs for the update.
struct Complete {
  GenerationId ballot;
  std::uint64_t step = 0;
  bool again = false;  ///< True if this answers a late Complete and needs no answer itself.
};

/// The fingerprint of the sender's parameters before this collective; if arrays are averaged, the
/// length of its array. In a pipeline: that of a part of a stage as the generation begins. It is
/// equal at all sound peers that have this.
struct Audit {
  GenerationId ballot;
  std::uint64_t step = 0;  ///< In a pipeline the number of the part.
  std::uint64_t fingerprint = 0;
};

/// All messages. `Node` does not compile unless each has a handler.
using MessageVariant =
    std::variant<Ping, PingRequest, Ack, Nack, PushPull, Offer, Accept, Refuse, Ready, Commit,
                 Query, Abort, Resume, StateRequest, TransferAccepted, Propose, Promise, Preempted,
                 Install, EndGeneration, Refusals, StatusRequest, StatusReply, ProbeAck, Complete,
                 Audit, SketchRequest, SketchReply, Decided, Equivocation, Certificates>;

/// Any message. Only message.cpp compiles its copying, moving and destruction: otherwise a variant
/// of this many types would cost every file that sends a message a second of compile time.
struct Message : MessageVariant {
  Message();
  template <class M>
  requires(IsOneOf<M, MessageVariant>) Message(M message)
      : Message(OneOf<M, MessageVariant>::index(), &message) {}

  Message(const Message& other);
  Message(Message&& other) noexcept;
  Message& operator=(const Message& other);
  Message& operator=(Message&& other) noexcept;
  ~Message();

 private:
  Message(std::size_t index, void* message);
};

/// The ballot that a message is about; null: none.
const GenerationId* ballot_of(const Message& message);

/// The transfer or exchange that a message is about; null: none.
const TransferId* transfer_of(const Message& message);

}  // namespace gv

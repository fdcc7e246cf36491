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
// full stop, or an empty string if the values are valid. Protocols get only messages within these
// bounds and with finite floats. Reports of work are sent often and contain small numbers, so their
// structs are encoded with varints (base/fields).

/// Why something was refused, dropped or given up. Travels in messages and appears in facts.
enum class Reason : std::uint8_t {
  none,
  busy,              ///< The peer is in another exchange.
  not_ready,         ///< The peer has no model to offer yet.
  unknown_layout,    ///< The layout or the number of elements differs.
  unknown_codec,     ///< The codec is unknown, or differs from ours.
  quarantined,       ///< The peer has sent too many invalid models recently.
  stale,             ///< The message belongs to a round, session or exchange that is over.
  unknown_peer,      ///< The peer is not a live member of the receiver's view.
  unknown_transfer,  ///< There is no such transfer with this peer.
  not_finite,        ///< A value is NaN or infinite.
  norm_exceeded,     ///< The norm is above the cap.
  bad_length,        ///< A block is outside its transfer, or a length is wrong.
  timed_out,         ///< There was no progress before the deadline.
  peer_gone,         ///< The partner died or left meanwhile.
  unreachable,       ///< No bulk lane between the two peers can be opened.
  impossible,        ///< No optimiser could have produced this optimiser state.
  resting,   ///< Exchanges with this peer take long, and it has used up its share of our time.
  forged,    ///< A statement in a peer's name lacks its signature.
  doubtful,  ///< The model is far from those of other peers.
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

/// In the phase `finishing` training is over, and the peers are about to average their models.
enum class Phase : std::uint8_t { joining, training, finishing, done };

constexpr Phase last_value(Phase) { return Phase::done; }
std::string_view to_string(Phase phase);
/// True for a peer that has stopped training.
constexpr bool has_ended(Phase phase) { return phase == Phase::finishing || phase == Phase::done; }

/// The hyper-parameters of one peer in a population, and their validation loss.
struct Trial {
  float learning_rate = 0;  ///< Above 0.
  float momentum = 0;       ///< In [0, 1).
  /// Mean loss over the part of its data that the peer holds out; lower is better. The largest
  /// float if the model is not finite.
  float validation_loss = 0;

  std::string problem() const;
  friend bool operator==(const Trial&, const Trial&) = default;
};

/// Consecutive chunks of the swarm's data.
struct ChunkRange {
  static constexpr bool has_varints = true;
  std::uint64_t begin = 0;
  std::uint64_t count = 0;  ///< The number of chunks, at least 1.

  std::uint64_t end() const { return begin + count; }
  std::string problem() const;
  friend bool operator==(const ChunkRange&, const ChunkRange&) = default;
};

/// Chunks that a peer has taken for training.
struct Lease {
  ChunkRange chunks;
  bool helps = false;  ///< True if the peer took the chunks over from another peer, which might not
                       ///< get to them soon.

  friend bool operator==(const Lease&, const Lease&) = default;
};

/// The largest number that a chunk can have.
inline constexpr std::uint64_t chunk_number_max = std::uint64_t{1} << 48;
/// The most ranges of done chunks and the most leases in an entry, so that messages stay small.
inline constexpr std::size_t ledger_ranges_max = 32;
inline constexpr std::size_t ledger_leases_max = 8;
/// The most chunks that a peer may hold: taken, under way, or trained but not passed on.
inline constexpr std::uint64_t leased_chunks_max = 257;

/// A peer's report about chunks of leased data (see Ledger).
struct LedgerEntry {
  static constexpr bool has_varints = true;
  std::uint64_t whole = 0;  ///< All chunks below this number are done, as far as the peer knows.
  std::vector<ChunkRange> done;  ///< Chunks that the peer has done but that not all peers know to
                                 ///< be done. Ascending and disjoint.
  std::vector<Lease> leases;     ///< Chunks that the peer has taken but not done.

  std::string problem() const;
  friend bool operator==(const LedgerEntry&, const LedgerEntry&) = default;
};

/// The result of measuring a peer's model, if the run has a target accuracy.
struct TargetVerdict {
  static constexpr bool has_varints = true;
  std::uint64_t sitting = 0;  ///< The number of the judges' sitting for which the model was
                              ///< measured, from 1 on (see peer/modes/judges).
  bool reached = false;       ///< True if the peer's model had reached the target.

  friend bool operator==(const TargetVerdict&, const TargetVerdict&) = default;
};

/// A peer's part in the budget of samples that the swarm shares.
struct WorkDone {
  static constexpr bool has_varints = true;
  std::uint64_t samples = 0;  ///< Samples that this process of the peer has trained on.
  std::uint64_t data = 0;     ///< Number of samples in the peer's shard of the data.
  std::uint64_t counted = 0;  ///< Samples that all peers have trained on, as far as this peer
                              ///< knows.
  std::uint64_t ran_ms = 0;   ///< Milliseconds for which the swarm has trained. Used only if the
                              ///< run has a time limit.
  std::optional<LedgerEntry> ledger;     ///< Set if data are leased.
  std::optional<TargetVerdict> verdict;  ///< The peer's newest verdict.

  friend bool operator==(const WorkDone&, const WorkDone&) = default;
};

/// A peer's report about its own training. It travels in every probe and answer. The report with
/// the most steps is the newest, and replaces all others.
struct Progress {
  std::uint64_t step = 0;
  float steps_per_second = 0;
  Phase phase = Phase::joining;
  std::optional<Trial> trial;    ///< Set in a population once the model has been validated.
  std::optional<WorkDone> work;  ///< Set if the swarm shares one budget.

  friend bool operator==(const Progress&, const Progress&) = default;
};

/// One peer, as others know it and pass it on. The peer itself states most fields, which are
/// believed only with its signature (membership/statement). Its state and accuser are claims of
/// other peers. Its name comes from the receiver's allow-list.
struct Member {
  PeerId id{};
  std::string name;     ///< The name in the allow-list; at most 64 bytes.
  std::string address;  ///< Stated by the peer: the "host:port" of its control link. Empty
                        ///< if it cannot be dialled.
  /// Stated by the peer: the wall-clock time, in milliseconds, when its process began. The peer
  /// raises it when others believe that the peer is gone.
  std::uint64_t incarnation = 0;
  MemberState state = MemberState::alive;
  PeerId accuser{};               ///< The peer that suspects this one, if any.
  std::uint64_t layout_hash = 0;  ///< Stated by the peer: the hash of its model layout; 0 while
                                  ///< unknown.
  std::uint64_t version = 0;      ///< Stated by the peer: the number of this statement.
  Progress progress;              ///< Stated by the peer: its progress, renewed every few seconds.
  Signature signature{};          ///< The peer's own signature over the stated fields.

  friend bool operator==(const Member&, const Member&) = default;
};

/// Asks whether the receiver is alive. Ping, PingRequest, Ack and Nack also spread rumours.
struct Ping {
  std::uint64_t sequence = 0;  ///< 0 for a mere report of progress, which gets no answer.
  Progress progress;
  std::vector<Member> rumors;
  /// Not 0 if the sender asks on behalf of another peer. The receiver then answers with a
  /// statement later than this version.
  std::uint64_t newer_than = 0;
};

/// Asks the receiver to probe `target`, because the sender's own probe went unanswered.
struct PingRequest {
  std::uint64_t sequence = 0;
  PeerId target{};
  std::vector<Member> rumors;
  std::uint64_t newer_than = 0;  ///< The version of the target's last statement that the sender
                                 ///< knows.
};

/// Answers a probe. If `about` is the sender, the sender is alive. Otherwise the sender has reached
/// the peer `about` for the receiver, and the rumours include that peer's new statement.
struct Ack {
  std::uint64_t sequence = 0;
  PeerId about{};
  Progress progress;
  std::vector<Member> rumors;
};

/// The sender is alive but could not reach the target of the receiver's request (Lifeguard, section
/// 3).
struct Nack {
  std::uint64_t sequence = 0;
  std::vector<Member> rumors;
};

/// The sender's whole table, split into several messages if it is long. `reply` asks for the
/// receiver's table.
struct PushPull {
  bool reply = false;
  std::vector<Member> members;
};

// ---- Pair exchange ----

/// The initiator proposes an exchange of snapshots. Only `id.owner` sends it.
struct Offer {
  TransferId id;
  std::uint64_t round = 0;
  std::uint64_t layout_hash = 0;
  std::uint64_t elements = 0;
  std::uint8_t codec = 0;
  float alpha = 0;         ///< The initiator's alpha, in [0, 1]. The smaller of the two alphas is
                           ///< used.
  float clip_radius = 0;   ///< The initiator's radius; 0 means no clipping. The smaller of the two
                           ///< radii is used.
  std::uint64_t step = 0;  ///< Step of the snapshot.
  ConservationChecksum checksum{};  ///< Checksum of the snapshot.
};

/// The responder agrees. Both then start to stream their snapshots.
struct Accept {
  TransferId id;
  float alpha = 0;
  float clip_radius = 0;
  std::uint64_t step = 0;
  ConservationChecksum checksum{};
};

/// Refuses an offer or a request, with a reason. Also ends a model download that cannot continue.
struct Refuse {
  TransferId id;
  Reason reason = Reason::none;
};

/// The responder has received the initiator's complete snapshot and has found it acceptable.
struct Ready {
  TransferId id;
};

/// The initiator has added its half of the force; the responder must add the other half.
struct Commit {
  TransferId id;
};

/// The responder has received everything except Commit, and asks how the exchange ended.
struct Query {
  TransferId id;
};

/// The initiator has not committed this exchange and never will, or the responder cannot go on.
struct Abort {
  TransferId id;
  Reason reason = Reason::none;
};

/// The lane broke. The receiver of this message must send its payload again from byte `offset` on.
struct Resume {
  TransferId id;
  std::uint64_t offset = 0;
};

// ---- Downloads of a state: of a whole model or of a stage ----

/// How far a replica has trained. Equal versions mean equal bits.
struct ModelVersion {
  std::uint64_t step = 0;     ///< Number of optimiser steps made. Identifies the next collective.
  std::uint64_t samples = 0;  ///< Samples that all peers have contributed to the model.
  std::uint64_t lineage = 0;  ///< Hash of the generations in which the model's collectives
                              ///< finished.

  friend bool operator==(const ModelVersion&, const ModelVersion&) = default;
};

/// True if `b` wins over `a`: the model that has seen more samples wins. Ties are broken in a fixed
/// order, so that all peers choose the same model.
bool is_before(const ModelVersion& a, const ModelVersion& b);

/// Returns `version` after one more collective of `samples` samples and `steps` optimiser steps, in
/// the generation with the given key. Peers that get equal results have made the same steps from
/// the same model.
ModelVersion after_operation(ModelVersion version, std::uint64_t generation_key,
                             std::uint64_t samples, std::uint64_t steps = 1);

/// Asks for the receiver's current state. Only `id.owner` sends it.
struct StateRequest {
  TransferId id;
  std::uint64_t layout_hash = 0;
  ModelVersion version;      ///< The version of which the sender already has a part.
  std::uint64_t offset = 0;  ///< Number of bytes of that version that the sender already has.
};

/// Accepts a StateRequest. float32 values follow on the bulk lane.
struct TransferAccepted {
  TransferId id;
  std::uint64_t layout_hash = 0;
  std::uint64_t elements = 0;
  ModelVersion version;
  std::uint64_t offset = 0;  ///< The first byte that is sent: as requested if the version is the
                             ///< same, otherwise 0.
};

/// Random projections of a model. Projections of two models show how far apart the models are.
using SketchValues = std::array<float, 64>;

/// Asks how far the receiver's model is from one that the sender has downloaded. Only `id.owner`
/// sends it.
struct SketchRequest {
  TransferId id;           ///< The transfer of the download.
  std::uint64_t seed = 0;  ///< Seed of the projections, drawn after the model has arrived.
  std::uint64_t layout_hash = 0;
};

/// Random projections of the sender's model, in answer to a SketchRequest.
struct SketchReply {
  TransferId id;
  std::uint64_t step = 0;  ///< Step of the sender's model.
  float spread = 0;        ///< The sender's usual distance from other models; 0 means not known.
  SketchValues values{};
};

// ---- Agreement on a generation, and checks while one runs ----

/// The largest number that a ballot can have. Correct peers count up from 1, so they never come
/// near it.
inline constexpr std::uint64_t ballot_number_max = std::uint64_t{1} << 62;

/// Identifies a ballot. A later ballot compares as larger.
struct GenerationId {
  std::uint64_t number = 0;  ///< Larger than the number of any ballot in which the proposer took
                             ///< part.
  /// Session of the proposer's process. Needed because a restarted process counts from 1 again.
  std::uint32_t session = 0;
  PeerId proposer{};

  std::string problem() const;
  friend auto operator<=>(const GenerationId&, const GenerationId&) = default;
};

/// Hashes an id to one number, which identifies the generation in the blocks of its collectives.
std::uint64_t key_of(const GenerationId& id);

/// A pipeline stage whose state a peer has.
struct StageHolding {
  std::uint32_t stage = 0;
  bool carried = false;  ///< True if the peer carries the stage, that is, computes it; otherwise it
                         ///< only keeps a copy.
  ModelVersion version;

  friend bool operator==(const StageHolding&, const StageHolding&) = default;
};

/// The most stage holdings in a message, so that messages stay small.
inline constexpr std::size_t stage_holdings_max = 1024;

/// A part of a pipeline, its carrier (the peer that will compute it), and the source of its state.
/// The source is the carrier itself if the carrier has the state.
struct StageAssignment {
  /// The part: a stage, a slice or, in messages, several consecutive slices (StageParts).
  std::uint32_t stage = 0;
  PeerId carrier{};
  PeerId source{};

  friend bool operator==(const StageAssignment&, const StageAssignment&) = default;
};

/// The most bytes in a settings revision, so that messages with a revision stay small.
inline constexpr std::size_t revision_bytes_max = 1024;

/// The largest number that a settings revision can have. Adding 1 to it cannot overflow.
inline constexpr std::uint64_t revision_number_max = std::uint64_t{1} << 48;

/// Settings that all peers use from a generation on, in place of their initial settings.
struct SettingsRevision {
  std::uint64_t number = 0;  ///< A larger number is newer; 0 means that no revision was made.
  std::string settings;      ///< Lines of a config; at most `revision_bytes_max` bytes.

  std::string problem() const;
  /// Also orders revisions with the same number, which can arise if two are made at the same time.
  friend auto operator<=>(const SettingsRevision&, const SettingsRevision&) = default;
};

/// Proposes a new generation, which ends the running one. Sent only by `ballot.proposer`.
struct Propose {
  GenerationId ballot;
};

/// A peer's measurement of its link to another peer.
struct LinkReport {
  PeerId to{};
  float latency_s = 0;         ///< The latency in one direction.
  float bytes_per_second = 0;  ///< Measured throughput; 0 means that nothing gets through.

  friend bool operator==(const LinkReport&, const LinkReport&) = default;
};

/// The most links in a report, so that messages stay small.
inline constexpr std::size_t link_reports_max = 64;

/// One peer's answer in a ballot, which describes the peer itself.
struct Answer {
  ModelVersion version;
  float speed = 0;                     ///< Samples per second; 0 means not known.
  std::vector<LinkReport> links;       ///< Measured links from the peer; at most
                                       ///< `link_reports_max`.
  std::vector<StageHolding> holdings;  ///< The peer's pipeline stages; at most
                                       ///< `stage_holdings_max`.
  bool leaves = false;  ///< True if the peer will not be in the generation, and leaves once others
                        ///< have taken over its stages.
  bool ends = false;  ///< True if the peer believes that the time is over or the target is reached.
  std::uint64_t host = 0;     ///< The key of the peer's host; 0 means not known or not needed.
  SettingsRevision revision;  ///< The newest revision that the peer knows.

  std::string problem() const;
  friend bool operator==(const Answer&, const Answer&) = default;
};

/// The sender has joined this ballot, and pauses until the ballot is decided.
struct Promise {
  GenerationId ballot;
  Answer answer;
};

/// The sender has answered a later ballot than the receiver's.
struct Preempted {
  GenerationId ballot;  ///< The later ballot.
};

/// A generation, in the form that all its peers know.
struct Generation {
  GenerationId id;            ///< The ballot that decided the generation.
  std::vector<PeerId> order;  ///< The participating peers. The position of a peer is its rank.
  /// For each rank, the peer that sends it the model and the optimiser's state. A rank that needs
  /// none has itself as its source.
  std::vector<PeerId> sources;
  std::vector<std::uint32_t> shares;  ///< Number of samples of each rank in a collective.
  ModelVersion version;               ///< The version with which the generation begins.
  bool ends = false;                  ///< True if training ends with `version`.
  /// The all-reduce algorithm, as a number that only the mode understands.
  std::uint8_t algorithm = 0;
  PeerId slowest_from{};                     ///< The peer at which the slowest link in use begins.
  LinkReport slowest;                        ///< The slowest link in use; 0 bytes per second means
                                             ///< none.
  std::vector<StageAssignment> assignments;  ///< The stages of a pipeline, sorted by carrier and
                                             ///< stage.
  std::vector<std::uint64_t> hosts;          ///< The host key of each rank, from its answer.
  SettingsRevision revision;                 ///< The settings that all peers use.

  /// Identifies the generation in blocks and messages.
  std::uint64_t key() const { return key_of(id); }
  bool contains(PeerId peer) const;

  friend bool operator==(const Generation&, const Generation&) = default;
};

/// The ballot `generation.id` is decided. If the receiver is not in the generation, it answered too
/// late and has to ask again.
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

/// The sender has accepted this decision. If the receiver has a different decision of the same
/// ballot, the proposer has cheated.
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

/// Asks whether the receiver is running, and which generation it is in. Sent, for example, when
/// data no longer arrive.
struct StatusRequest {
  GenerationId ballot;
};

/// Answers a StatusRequest with the sender's generation and its present work.
struct StatusReply {
  GenerationId ballot;
  std::uint64_t step = 0;  ///< The collective or pipeline run under way.
  bool busy = false;  ///< True if the sender is computing or receiving a state, so that others have
                      ///< to wait for it.
};

/// Acknowledges a probe of the link to the sender. A probe is one block of a known length.
struct ProbeAck {
  TransferId id;  ///< The transfer of the probe.
};

/// The sender's part of a pipeline run is complete: it has everything that it needs for the update.
struct Complete {
  GenerationId ballot;
  std::uint64_t step = 0;
  bool again = false;  ///< True if this answers a late Complete, and needs no answer itself.
};

/// The fingerprint of the sender's parameters before this collective. If arrays are averaged, the
/// length of the sender's array takes its place. In a pipeline, the fingerprint is that of a part
/// of a stage at the beginning of the generation. All correct peers that have the same parameters
/// send the same fingerprint.
struct Audit {
  GenerationId ballot;
  std::uint64_t step = 0;  ///< The number of the collective; in a pipeline, the number of the part.
  std::uint64_t fingerprint = 0;
};

/// All messages. `Node` compiles only if each has a handler.
using MessageVariant =
    std::variant<Ping, PingRequest, Ack, Nack, PushPull, Offer, Accept, Refuse, Ready, Commit,
                 Query, Abort, Resume, StateRequest, TransferAccepted, Propose, Promise, Preempted,
                 Install, EndGeneration, Refusals, StatusRequest, StatusReply, ProbeAck, Complete,
                 Audit, SketchRequest, SketchReply, Decided, Equivocation, Certificates>;

/// Any message. Only message.cpp compiles its copying, moving and destruction. Otherwise a variant
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

/// The ballot that a message is about; null if there is none.
const GenerationId* ballot_of(const Message& message);

/// The transfer or exchange that a message is about; null if there is none.
const TransferId* transfer_of(const Message& message);

}  // namespace gv
